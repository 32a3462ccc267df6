"""Columns in which some numbers have a percent sign and others have none.

45 % is read as 45. That is no mistake in a column of percentages, and one in a column of fractions.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from mdpdsl.diagnostics import LogProblem
from mdpdsl.logs.values import Numbers


@dataclass(eq=False)
class PercentSigns:
    """The columns of a log that have numbers with a percent sign, and without."""

    _with: set[str] = field(default_factory=set)
    _without: set[str] = field(default_factory=set)

    def note(self, columns: Mapping[str, Numbers]) -> None:
        """Look at the columns of a batch."""
        for name, numbers in columns.items():
            if numbers.is_percent is not None:
                self._with.add(name)
            if name not in self._without:
                values = numbers.values
                others = values if numbers.is_percent is None else values[~numbers.is_percent]
                if np.isfinite(others).any():
                    self._without.add(name)

    def problems(self, path: str) -> list[LogProblem]:
        """Return a problem for each column that has both."""
        return [
            LogProblem(
                f"{path}: some numbers in the column `{name}` have a percent sign, and others have "
                "none; 45 % is read as 45",
                "write all numbers of a column in the same way",
            )
            for name in sorted(self._with & self._without)
        ]
