"""Optimisation problems as plain data, and the way back from their solutions."""
