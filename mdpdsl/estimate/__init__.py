"""What is known of a system: counts, confidence, complexity."""
