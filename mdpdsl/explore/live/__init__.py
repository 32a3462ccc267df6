"""A live system: a rig, a simulator of one's own, a Gymnasium environment."""
