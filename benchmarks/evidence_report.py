"""The page of the evidence, and its picture."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from evidence_models import GROUPS, EvidenceModel

PICTURE = "images/evidence.png"
OURS = "tracking"
#: Smaller differences count as equal.
LEAST = 0.01
#: The settings of the picture.
COLUMNS = 4


@dataclass(frozen=True)
class Cell:
    """The trials of one explorer on one model with one budget; lists have one entry per trial."""

    model: str
    steps: int
    algorithm: str
    settings: dict[str, Any]
    seed: int
    worst: list[float]  # ratios to the optimum; an unvisited pair counts as half a visit
    average: list[float]
    failed: list[bool]
    seconds: float

    @property
    def words(self) -> str:
        """Return the figures as text for a table."""
        failed = sum(self.failed)
        failures = f" ({100 * failed / len(self.failed):.0f} %)" if failed else ""
        return f"{_mean(self.worst)} / {_mean(self.average)}{failures}"


@dataclass(frozen=True)
class Evidence:
    """All results."""

    models: list[EvidenceModel]
    cells: list[Cell]
    details: list[Cell]
    close: list[Cell]
    tuning: list[tuple[str, dict[str, Any], float]]  # explorer, settings, score

    @property
    def explorers(self) -> list[str]:
        """The names of the explorers, in the order of their runs."""
        return list(dict.fromkeys(cell.algorithm for cell in self.cells))

    def of(self, explorer: str) -> list[Cell]:
        """Return the cells of an explorer."""
        return [cell for cell in self.cells if cell.algorithm == explorer]


def write_report(folder: Path, evidence: Evidence) -> None:
    """Write the tables between the marks of the page, and draw the picture."""
    page = folder / "evidence.md"
    text = page.read_text("utf-8")
    for name, lines in _tables(evidence).items():
        begin, end = f"<!-- {name} -->\n", f"<!-- end of {name} -->\n"
        before, rest = text.split(begin)
        text = before + begin + "\n" + "\n".join(lines) + "\n\n" + end + rest.split(end)[1]
    page.write_text(text, "utf-8")
    _draw(folder / PICTURE, evidence)


def _tables(evidence: Evidence) -> dict[str, list[str]]:
    return {
        "models": _models(evidence.models),
        "paper models": _details(evidence.details),
        "more trials": _details(evidence.close),
        "summary": _summary(evidence),
        "losses": _losses(evidence),
        "tuning": _tuning(evidence),
        "all": _all(evidence),
    }


def _models(models: Iterable[EvidenceModel]) -> list[str]:
    rows = [
        (
            model.name,
            f"{model.graph.n_states:,}",
            f"{model.graph.n_pairs:,}",
            f"{int(np.count_nonzero(model.counted)):,}",
            f"{model.worst:,.1f}",
            f"{model.average:,.1f}",
            ", ".join(f"{steps:,}" for steps in model.budgets),
        )
        for model in models
    ]
    titles = ("model", "states", "pairs", "pairs that count", "least L_Worst", "least L_Avg")
    return _table((*titles, "steps n"), rows)


def _details(cells: Sequence[Cell]) -> list[str]:
    models = list(dict.fromkeys((cell.model, cell.steps) for cell in cells))
    settings = list(dict.fromkeys((cell.algorithm, _words(cell.settings)) for cell in cells))
    rows = []
    for algorithm, words in settings:
        found = {
            cell.model: cell
            for cell in cells
            if (cell.algorithm, _words(cell.settings)) == (algorithm, words)
        }
        speeds = [
            f"{steps * len(found[model].worst) / found[model].seconds / 1000:,.0f}k"
            for model, steps in models
        ]
        rows.append((algorithm, words, *(found[model].words for model, _ in models), *speeds))
    names = [f"{model}, n = {steps:,}" for model, steps in models]
    speeds = [f"{model}, steps/s" for model, _ in models]
    return _table(("explorer", "settings", *names, *speeds), rows)


def _summary(evidence: Evidence) -> list[str]:
    groups = {model.name: model.group for model in evidence.models}
    rows = []
    for explorer in evidence.explorers:
        cells = evidence.of(explorer)
        row = [explorer, _words(cells[0].settings)]
        for group in GROUPS:
            chosen = [cell for cell in cells if groups[cell.model] == group]
            failed = np.mean([np.mean(cell.failed) for cell in chosen])
            worst = _geometric([float(np.mean(cell.worst)) for cell in chosen])
            average = _geometric([float(np.mean(cell.average)) for cell in chosen])
            row += [f"{worst:.2f} / {average:.2f}", f"{100 * failed:.0f} %"]
        rows.append(row)
    titles = [title for group in GROUPS for title in (group, "failed")]
    return _table(("explorer", "settings", *titles), rows)


def _losses(evidence: Evidence) -> list[str]:
    """Return where the best other explorer beats tracking by more than a standard error."""
    rows = []
    for own in evidence.of(OURS):
        others = [
            cell
            for cell in evidence.cells
            if (cell.model, cell.steps) == (own.model, own.steps) and cell is not own
        ]
        losses = []
        for name in ("worst", "average"):
            mine = getattr(own, name)
            best = min(others, key=lambda cell: float(np.mean(getattr(cell, name))))
            theirs = getattr(best, name)
            error = max(LEAST, math.hypot(_error(mine), _error(theirs)))
            is_better = np.mean(theirs) < np.mean(mine) - error
            losses.append(f"{_mean(mine)}, {best.algorithm} {_mean(theirs)}" if is_better else "")
        if any(losses):
            rows.append((own.model, f"{own.steps:,}", *losses))
    return _table(("model", "n", "L_Worst", "L_Avg"), rows)


def _tuning(evidence: Evidence) -> list[str]:
    rows = [(name, _words(settings), f"{score:.2f}") for name, settings, score in evidence.tuning]
    return _table(("explorer", "settings", "L_Worst, ratio"), rows)


def _all(evidence: Evidence) -> list[str]:
    rows = []
    for model in evidence.models:
        for steps in model.budgets:
            found = {
                cell.algorithm: cell.words
                for cell in evidence.cells
                if (cell.model, cell.steps) == (model.name, steps)
            }
            words = [found[name] for name in evidence.explorers]
            rows.append((model.name, f"{steps:,}", *words))
    return _table(("model", "n", *evidence.explorers), rows)


def _draw(path: Path, evidence: Evidence) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    from PIL import Image

    rows = -(-len(evidence.models) // COLUMNS)
    figure, axes = plt.subplots(rows, COLUMNS, figsize=(13, 2.8 * rows), layout="constrained")
    styles = ["o-", "s-", "x--", "^--", "v--", "<--", ">:", "d:"]
    for panel in axes.flat[len(evidence.models) :]:
        panel.set_axis_off()
    for panel, model in zip(axes.flat, evidence.models, strict=False):
        for explorer, style in zip(evidence.explorers, styles, strict=False):
            cells = [cell for cell in evidence.of(explorer) if cell.model == model.name]
            means = [float(np.mean(cell.worst)) for cell in cells]
            errors = [_error(cell.worst) for cell in cells]
            width = 2.2 if explorer == OURS else 1.0
            steps = [cell.steps for cell in cells]
            panel.errorbar(
                steps, means, yerr=errors, fmt=style, lw=width, ms=4, capsize=2, label=explorer
            )
        panel.axhline(1.0, color="black", lw=0.8)
        panel.set(xscale="log", yscale="log", title=model.name)
        panel.set_xticks(model.budgets, [f"{n / 1000:g}k" for n in model.budgets])
        panel.minorticks_off()
    for panel in axes[:, 0]:
        panel.set_ylabel("L_Worst / least possible")
    for panel in axes.flat[len(evidence.models) - COLUMNS :]:
        panel.set_xlabel("steps")
    handles, labels = axes.flat[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels))
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=90)
    # With a palette, the file has a third of the size.
    with Image.open(path) as picture:
        picture.convert("RGB").quantize(64).save(path, optimize=True)


def _words(settings: dict[str, Any]) -> str:
    return ", ".join(
        f"{name} {value:g}" if isinstance(value, float) else f"{name} {value}"
        for name, value in settings.items()
    )


def _mean(values: Sequence[float]) -> str:
    return f"{np.mean(values):.2f} ± {_error(values):.2f}"


def _error(values: Sequence[float]) -> float:
    """Return the standard error of the mean."""
    return float(np.std(values, ddof=1)) / math.sqrt(len(values)) if len(values) > 1 else 0.0


def _geometric(values: Sequence[float]) -> float:
    return math.exp(math.fsum(map(math.log, values)) / len(values))


def _table(titles: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    lines = ["| " + " | ".join(titles) + " |", "|" + "---|" * len(titles)]
    return lines + ["| " + " | ".join(row) + " |" for row in rows]
