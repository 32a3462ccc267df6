"""The keywords of the language."""

# fmt: off
#: Words that start a statement.
STATEMENT_KEYWORDS = (
    "mdp", "param", "unknown", "state", "action", "noise", "let", "init", "on", "reward", "label",
    "property", "restart", "end", "states", "discretize", "explore", "log", "table",
)

#: All keywords.
KEYWORDS = frozenset(STATEMENT_KEYWORDS) | {
    "in", "any", "all", "when", "otherwise", "stay", "bool", "wrap", "clip", "bins", "edges",
    "center", "uniform", "points", "sample", "seed", "if", "then", "else", "and", "or", "not",
    "true", "false",
}
# fmt: on

#: Keywords that are names as well: only their place, or what follows, makes them keywords.
CONTEXTUAL_KEYWORDS = frozenset({"end", "property", "unknown"})
