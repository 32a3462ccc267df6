"""Runs on disk: the one owner of their folders, file names, records and locks."""
