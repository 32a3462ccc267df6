"""Solvers, one file each, found by name through the entry-point group `mdpdsl.backends`."""
