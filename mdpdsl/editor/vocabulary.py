"""The words of the language in a line each, as hovers and completions tell them."""

from __future__ import annotations

STATEMENTS = {
    "mdp": ('mdp NAME "title"', "the model's name; first, and once"),
    "param": ("param NAME = value", "a constant that `--set NAME=value` overrides"),
    "state": ("state NAME in DOMAIN", "a state variable; several make a product"),
    "action": ("action a, b | action NAME in DOMAIN", "actions by name, or with values"),
    "noise": ("noise NAME ~ DISTRIBUTION", "a number drawn afresh each step"),
    "let": ("let NAME = expression", "a name for an expression"),
    "init": ("init x = 0, v ~ DISTRIBUTION | init any [when GUARD]", "where a run starts"),
    "on": ("on ACTIONS [when GUARD | otherwise] -> BRANCH | BRANCH", "what actions do"),
    "reward": ("reward [on ACTIONS] [when GUARD] : expression", "lines that apply add up"),
    "label": ("label NAME when GUARD", "a named set of states"),
    "restart": ("restart when GUARD", "there the next state is drawn from `init`"),
    "states": ("states all", "keep the whole product, not only what can be reached"),
    "discretize": (
        "discretize center | uniform points K | sample N seed K",
        "how a cell becomes points",
    ),
    "explore": ("explore { kappa = 10  steps = 100_000 }", "settings of a run"),
    "log": ("log { x = column }", "the columns of a log; also the natural logarithm, `log(x)`"),
    "table": ("table ACTIONS { … }", "rows of a transition matrix, for one enumerated variable"),
}

WORDS = {
    "in": "before the domain of a variable",
    "any": "all actions; with `init`, all states",
    "all": "with `states`: the whole product",
    "when": "before a condition",
    "otherwise": "the states that the earlier lines of the action left",
    "stay": "no variable changes",
    "bool": "the domain of the truth values",
    "wrap": "beyond one end a value comes in at the other; `wrap(x, lo, hi)` does so by hand",
    "clip": "beyond an end a value is that end; `clip(x, lo, hi)` does so by hand",
    "bins": "so many cells of equal width",
    "edges": "cells between these numbers",
    "center": "a cell is its middle",
    "uniform": "equally spaced points of a cell; `uniform(low, high)` is a distribution",
    "points": "so many for each real variable",
    "sample": "points of a cell drawn at random",
    "seed": "what the draws start from",
    "if": "if CONDITION then VALUE else VALUE",
    "then": "if CONDITION then VALUE else VALUE",
    "else": "if CONDITION then VALUE else VALUE",
    "and": "both hold; the right counts only where the left holds",
    "or": "one of both holds; the right counts only where the left does not",
    "not": "does not hold",
    "true": "the truth value",
    "false": "the truth value",
}

FUNCTIONS = {
    "abs": ("abs(x)", "the absolute value"),
    "sign": ("sign(x)", "-1, 0 or 1"),
    "min": ("min(x, …)", "the least"),
    "max": ("max(x, …)", "the largest"),
    "floor": ("floor(x)", "the integer below"),
    "ceil": ("ceil(x)", "the integer above"),
    "round": ("round(x)", "the nearest integer, halves to the even neighbour"),
    "sqrt": ("sqrt(x)", "the square root"),
    "exp": ("exp(x)", "e to the power of x"),
    "log": ("log(x)", "the natural logarithm"),
    "sin": ("sin(x)", "the sine of an angle in radians"),
    "cos": ("cos(x)", "the cosine of an angle in radians"),
    "tan": ("tan(x)", "the tangent of an angle in radians"),
    "asin": ("asin(x)", "the angle of a sine"),
    "acos": ("acos(x)", "the angle of a cosine"),
    "atan": ("atan(x)", "the angle of a tangent"),
    "atan2": ("atan2(y, x)", "the angle of the point (x, y)"),
    "tanh": ("tanh(x)", "the hyperbolic tangent"),
    "clip": ("clip(x, lo, hi)", "x, or the end of [lo, hi] that it is beyond"),
    "wrap": ("wrap(x, lo, hi)", "x moved by multiples of hi - lo into [lo, hi)"),
    "mod": ("mod(x, y)", "the remainder, with the sign of y; also `x % y`"),
}

DISTRIBUTIONS = {
    "normal": ("normal(mean, sd)", "the normal distribution"),
    "uniform": ("uniform(low, high)", "the uniform distribution"),
}

CONSTANTS = {"pi": "3.14159…", "e": "2.71828…", "inf": "infinity"}

LOG_KEYS = {
    "episode": "which rows belong together",
    "time": "the order of the rows of an episode",
}

SETTINGS = {
    "kappa": "curvature of the objective: 1 favours the average, more the worst pair",
    "steps": "how many transitions to make",
    "gamma": "discount of planning",
    "delta": "risk of the confidence sets",
    "trials": "how many runs",
    "seed": "what all draws start from",
    "power": "of tracking: 1 for the average, more for the worst pair",
    "algorithm": "which explorer",
    "horizon": "depth of planning, or `inf`",
    "bonus": "what UCB(c) adds to c: paper, bernstein or none",
    "radius": "of the confidence sets: paper or weissman",
    "eta": "half of the least share of a pair in a plan, or `auto`",
    "simulate": "model, or the continuous system behind it",
}
