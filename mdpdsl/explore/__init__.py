"""Exploring a system step by step: explorers, experience, the loop, and how well it went."""
