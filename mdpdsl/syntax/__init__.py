"""From text to a syntax tree with spans, and back to canonical text."""
