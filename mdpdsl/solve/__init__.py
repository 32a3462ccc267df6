"""Optimal values and policies: dynamic programming with certified bounds, and linear programs."""
