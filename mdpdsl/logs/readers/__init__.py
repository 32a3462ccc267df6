"""Readers of logs: one file for each kind of source."""
