"""The grammars of the language, as package data."""
