"""Editor support for model files: errors, hovers, references, completions and formatting."""
