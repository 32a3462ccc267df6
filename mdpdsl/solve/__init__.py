"""Policies for the rewards of a model: dynamic programming with certified bounds, and the LP."""
