"""Figures of runs: one set of numbers, drawn for pages and as pictures."""
