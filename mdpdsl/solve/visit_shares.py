"""Shares of visits as a result: their policy, a table, and files."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from mdpdsl.compile.model import Model
from mdpdsl.diagnostics import FormatError
from mdpdsl.files import require_absent, write_arrays, write_text
from mdpdsl.formats.policy_files import save_policy
from mdpdsl.graph.policy import Policy
from mdpdsl.graph.space import FloatArray
from mdpdsl.graph.tables import Tabular, pair_csv, pair_table
from mdpdsl.programs.occupancy import stationary_policy
from mdpdsl.programs.program import Status

if TYPE_CHECKING:
    import pyarrow as pa

SUFFIXES = (".npz", ".csv")


class VisitShares(Tabular):
    """Shares of the visits to the pairs of a model, found by an optimisation."""

    model: Model
    status: Status
    occupancy: FloatArray  # [n_pairs]

    @property
    def is_optimal(self) -> bool:
        """Whether the gap is within the tolerance."""
        return self.status is Status.OPTIMAL

    @cached_property
    def policy(self) -> Policy:
        """The policy whose visits have these shares."""
        graph = self.model.graph
        return Policy(self.model.name, graph.hash, stationary_policy(graph, self.occupancy))

    def table(self) -> pa.Table:
        """Return one row for each pair: its share of all visits, and of the visits of its state."""
        columns = {"occupancy": self.occupancy, "probability": self.policy.probability}
        return pair_table(self.model.graph, columns)

    def save(self, path: str | Path, *, overwrite: bool = False) -> Path:
        """Write the shares: `.npz` or `.csv`."""
        path = Path(path)
        if path.suffix not in SUFFIXES:
            raise FormatError(f"{path}: takes a file ending in {' or '.join(SUFFIXES)}")
        require_absent(path, overwrite)
        graph, shares = self.model.graph, {"occupancy": self.occupancy}
        if path.suffix == ".csv":
            write_text(path, pair_csv(graph, shares))
        else:
            kind = {"kind": np.array("occupancy"), "hash": np.array(graph.hash)}
            write_arrays(path, kind | shares)
        return path

    def save_policy(self, path: str | Path, *, overwrite: bool = False) -> Path:
        """Write the policy: `.npz`, `.csv` or `.json`."""
        save_policy(self.policy, self.model.graph, Path(path), overwrite=overwrite)
        return Path(path)
