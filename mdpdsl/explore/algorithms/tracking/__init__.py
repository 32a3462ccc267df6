"""Tracking: plan the visits of the remaining budget, follow the targets, plan again."""
