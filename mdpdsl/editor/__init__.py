"""What editors ask of a model file: mistakes, meanings, places of names, completions, layout."""
