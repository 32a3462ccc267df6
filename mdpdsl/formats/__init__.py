"""Foreign formats: one file per format, with reading and writing side by side."""
