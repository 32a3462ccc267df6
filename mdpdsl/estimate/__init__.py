"""Estimates from data: transition probabilities, confidence sets, complexity."""
