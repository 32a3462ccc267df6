"""The verbs `report` and `plot`: runs as one HTML page, or as a single picture."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mdpdsl.diagnostics import FormatError, RunError, SettingsError
from mdpdsl.estimate.run_result import RunResult
from mdpdsl.explore.comparison import Comparison
from mdpdsl.files import require_absent, staged, write_text
from mdpdsl.load import Runs, open_runs
from mdpdsl.progress import Progress, shown
from mdpdsl.report.figures.plots import FIGURES, draw_figure, save_figure
from mdpdsl.report.page.page import report_page
from mdpdsl.runs.directory import REPORT

PICTURES = (".png", ".svg", ".pdf")

Reported = RunResult | Comparison | Runs | str | Path | Sequence[Any]


@dataclass(frozen=True)
class Report:
    """A page that was written."""

    path: Path
    n_bytes: int
    n_runs: int
    runs: tuple[str, ...]  # their folders, or their labels if they are not saved

    def record(self) -> dict[str, Any]:
        """Return what was written as `--json` prints it."""
        return {"path": str(self.path), "bytes": self.n_bytes, "runs": list(self.runs)}


def report(
    runs: Reported,
    path: str | Path | None = None,
    *,
    axes: str | None = None,
    overwrite: bool = False,
    progress: bool | Progress | None = None,
) -> Report:
    """Write runs to one HTML page that needs no network: results, figures, maps, pairs.

    `runs` is an estimate, a run, a comparison, the folder of one of these, or a list of several,
    which are shown side by side. `axes` names two variables for the maps, as in `x,v`. Without a
    path the page is `report.html`, in the folder of the run if there is one. A page that is there
    is replaced only if you `overwrite` it.

    >>> import mdpdsl
    >>> run = mdpdsl.explore(mdpdsl.load("riverswim"), steps=200)
    >>> mdpdsl.report(run, "page.html").n_runs
    1
    """
    found = _opened(runs)
    target = Path(path) if path is not None else _default(runs, found)
    if target.suffix not in (".html", ".htm"):
        raise FormatError(f"a report is a file ending in .html, not `{target.name}`")
    require_absent(target, overwrite)
    with shown(progress, "drawing", "runs") as update:
        show = None if update is None else lambda done, total: update(done, total, "runs")
        page = report_page(found, axes, show)
    write_text(target, page)
    names = tuple(str(run.path or run.label) for run in found)
    return Report(target, len(page.encode("utf-8")), len(found), names)


def plot(
    runs: Reported,
    figure: str,
    path: str | Path | None = None,
    *,
    axes: str | None = None,
    action: str | None = None,
    overwrite: bool = False,
) -> Path:
    """Draw one figure of runs into a `.png`, `.svg` or `.pdf` file; return its path.

    A file that is there is replaced only if you `overwrite` it.
    `mdpdsl.figures()` lists the figures: measures over time, maps over two variables, the graph.

    >>> import mdpdsl
    >>> run = mdpdsl.explore(mdpdsl.load("riverswim"), steps=200)
    >>> mdpdsl.plot(run, "worst", "worst.svg").name
    'worst.svg'
    """
    target = Path(path) if path is not None else Path(f"{figure}.png")
    if target.suffix.lower() not in PICTURES:
        raise FormatError(f"a picture is a file ending in {', '.join(PICTURES)}")
    with staged(target, overwrite) as place:
        save_figure(draw_figure(_opened(runs), figure, axes, action), place)
    return target


def figures() -> dict[str, str]:
    """Return the names of the figures that `plot` draws, with a description of each.

    >>> import mdpdsl
    >>> "worst" in mdpdsl.figures()
    True
    """
    return dict(FIGURES)


def _opened(runs: Reported) -> list[RunResult]:
    """Return the results; read folders."""
    if isinstance(runs, RunResult):
        return [runs]
    if isinstance(runs, Comparison):
        if not runs.runs:
            raise RunError("the comparison has no finished row")
        return list(runs.runs)
    if isinstance(runs, str | Path):
        return list(open_runs(runs))
    found: list[RunResult] = []
    for each in runs:
        found += _opened(each)
    if not found:
        raise SettingsError("name at least one run")
    return found


def _default(runs: Reported, found: Sequence[RunResult]) -> Path:
    """Return the path of the page: in the folder of the runs, if they are all in one."""
    if isinstance(runs, list | tuple) and len(runs) == 1:
        runs = runs[0]
    if isinstance(runs, str | Path) and Path(runs).is_dir():
        return Path(runs) / REPORT
    if isinstance(runs, RunResult) and runs.path is not None:
        return runs.path / REPORT
    return Path(REPORT)
