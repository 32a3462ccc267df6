"""Trajectories of a model under a policy, and the logs of them."""
