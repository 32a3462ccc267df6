"""One-line explanations of the words of the language, for hovers and completions."""

from __future__ import annotations

STATEMENTS = {
    "mdp": ('mdp NAME "title"', "the name of the model; the first statement"),
    "param": ("param NAME = value", "a constant, which `--set NAME=value` overrides"),
    "unknown": (
        "unknown NAME in [LOW, HIGH] [= VALUE]",
        "a number that data will show; the value is only for simulation",
    ),
    "state": ("state NAME in DOMAIN", "a state variable; several form a product"),
    "action": ("action a, b | action NAME in DOMAIN", "actions by name, or with values"),
    "noise": ("noise NAME ~ DISTRIBUTION", "a random number, drawn anew at each step"),
    "let": ("let NAME = expression", "a name for an expression"),
    "init": ("init x = 0, v ~ DISTRIBUTION | init any [when GUARD]", "where a run starts"),
    "on": ("on ACTIONS [when GUARD | otherwise] -> BRANCH | BRANCH", "what actions do"),
    "reward": (
        "reward [NAME] [on ACTIONS] [when GUARD] : expression",
        "a reward; all lines of one name that apply add up",
    ),
    "label": ("label NAME when GUARD", "a named set of states"),
    "property": (
        'property NAME = Pmax=? [ F "goal" ]',
        "a question about the model, in PRISM's syntax; `solve` answers it",
    ),
    "restart": (
        "restart when GUARD",
        "in these states, every action leads to a state drawn from `init`",
    ),
    "end": (
        "end when GUARD",
        "in these states the episode is over: no action, no reward; the next one starts at `init`",
    ),
    "states": ("states all", "keep all states of the product, not only reachable ones"),
    "discretize": (
        "discretize center | uniform points K | sample N seed K",
        "the points at which a cell is evaluated",
    ),
    "explore": ("explore { kappa = 10  steps = 100_000 }", "settings for exploring"),
    "log": (
        "log { x = column }",
        "how to read variables from the columns of a log; `log(x)` is the natural logarithm",
    ),
    "table": ("table ACTIONS { … }", "rows of a transition matrix, for one enumerated variable"),
}

WORDS = {
    "in": "introduces the domain of a variable, or the range of an unknown number",
    "any": "all actions; with `init`, all states",
    "all": "with `states`: the whole product",
    "when": "introduces a condition",
    "otherwise": "all states to which no earlier line of the action applies",
    "stay": "no variable changes",
    "bool": "the domain `true` and `false`",
    "wrap": "a value beyond one end re-enters at the other; also a function, `wrap(x, lo, hi)`",
    "clip": "a value beyond an end is moved to that end; also a function, `clip(x, lo, hi)`",
    "bins": "the number of cells, of equal width",
    "edges": "the edges of the cells",
    "center": "evaluate a cell at its centre",
    "uniform": "evaluate a cell at equally spaced points; `uniform(low, high)` is a distribution",
    "points": "the number of points for each real variable",
    "sample": "evaluate a cell at random points",
    "seed": "the seed of the random draws",
    "if": "if CONDITION then VALUE else VALUE",
    "then": "if CONDITION then VALUE else VALUE",
    "else": "if CONDITION then VALUE else VALUE",
    "and": "both hold; the right side is evaluated only if the left holds",
    "or": "at least one holds; the right side is evaluated only if the left does not hold",
    "not": "negation",
    "true": "a Boolean value",
    "false": "a Boolean value",
}

#: How a property begins, and the operators between its brackets.
QUERIES = {
    "Pmax=?": "the largest probability of a path formula",
    "Pmin=?": "the least probability of a path formula",
    "P>=": "whether the probability is so large under every policy",
    "Rmax=?": "the largest expected reward",
    "Rmin=?": "the least expected reward",
}
PATH_OPERATORS = {
    "F": "at some time; `F<=k` within k steps",
    "G": "always",
    "X": "after one step",
    "U": "the left condition until the right one; `U<=k` within k steps",
    "W": "the left condition until the right one, or for ever",
    "R": "the right condition up to and including the first time of the left one, or for ever",
}
REWARD_FORMULAS = {
    "F": "the sum of the rewards until a condition holds",
    "C<=": "the sum of the rewards of the next steps",
    "Cdiscount=": "the discounted sum of all rewards",
    "S": "the long-run average of the rewards",
}

FUNCTIONS = {
    "abs": ("abs(x)", "the absolute value"),
    "sign": ("sign(x)", "-1, 0 or 1"),
    "min": ("min(x, …)", "the smallest argument"),
    "max": ("max(x, …)", "the largest argument"),
    "floor": ("floor(x)", "the largest integer not above x"),
    "ceil": ("ceil(x)", "the smallest integer not below x"),
    "round": ("round(x)", "the nearest integer; halves are rounded to even"),
    "sqrt": ("sqrt(x)", "the square root"),
    "exp": ("exp(x)", "e to the power x"),
    "log": ("log(x)", "the natural logarithm"),
    "sin": ("sin(x)", "the sine of an angle in radians"),
    "cos": ("cos(x)", "the cosine of an angle in radians"),
    "tan": ("tan(x)", "the tangent of an angle in radians"),
    "asin": ("asin(x)", "the arcsine, in radians"),
    "acos": ("acos(x)", "the arccosine, in radians"),
    "atan": ("atan(x)", "the arctangent, in radians"),
    "atan2": ("atan2(y, x)", "the angle of the point (x, y), in radians"),
    "tanh": ("tanh(x)", "the hyperbolic tangent"),
    "clip": ("clip(x, lo, hi)", "x, limited to [lo, hi]"),
    "wrap": ("wrap(x, lo, hi)", "x shifted into [lo, hi) by multiples of hi - lo"),
    "mod": ("mod(x, y)", "the remainder of x / y, with the sign of y; also `x % y`"),
}

DISTRIBUTIONS = {
    "normal": ("normal(mean, sd)", "the normal distribution"),
    "uniform": ("uniform(low, high)", "the uniform distribution"),
}

CONSTANTS = {"pi": "3.14159…", "e": "2.71828…", "inf": "infinity"}

LOG_KEYS = {
    "episode": "identifies the rows of one episode",
    "time": "orders the rows of an episode",
    "ended": "whether the episode is over in the next state: the state is an end",
    "cut": "whether the episode was stopped there: the state is no end",
}

SETTINGS = {
    "kappa": "curvature of the objective: 1 favours the average pair, larger values the worst",
    "steps": "the number of transitions",
    "gamma": "the discount factor for planning",
    "delta": "the risk of the confidence sets",
    "trials": "the number of independent runs",
    "seed": "the seed of all random draws",
    "power": "exponent of `tracking`: 1 favours the average pair, larger values the worst",
    "algorithm": "the explorer",
    "horizon": "the planning horizon in steps, or `inf`",
    "bonus": "the bonus added to the estimate of c: paper, bernstein or none",
    "radius": "the radius of the confidence sets: paper or weissman",
    "eta": "half the smallest share of a pair in a plan, or `auto`",
    "simulate": "`model`, or `continuous` for the system behind it",
}
