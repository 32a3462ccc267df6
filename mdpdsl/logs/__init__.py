"""Logs: rows of files and tables, sorted and counted as transitions."""
