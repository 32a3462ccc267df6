"""Tracking: plan the visits of the remaining budget, follow the targets, plan again.

`rule` states the algorithm: what plans minimise, how targets are followed and steered for, and the
settings of each. `stages` decides when to plan and for how long. `targets` makes a plan, on the
model of `tracked_model` with the bounds of c of `tracked_complexity`.
"""
