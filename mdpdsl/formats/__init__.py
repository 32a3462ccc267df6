"""Models of other tools: one file for each format, reading and writing side by side."""
