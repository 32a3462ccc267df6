"""Logs: rows of files and tables, put in order and counted as transitions."""
