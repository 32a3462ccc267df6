"""Exploring live systems: a rig, your own simulator, a Gymnasium environment."""
