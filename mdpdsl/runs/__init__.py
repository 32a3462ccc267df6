"""Runs on disk: only this package knows their folders, file names, records and locks."""
