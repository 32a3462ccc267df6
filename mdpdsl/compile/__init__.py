"""From syntax tree to transition graph: names, types, expressions, expansion."""
