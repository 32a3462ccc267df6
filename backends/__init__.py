"""Solvers, one per file, found by name through the entry-point group `mdpdsl.backends`."""
