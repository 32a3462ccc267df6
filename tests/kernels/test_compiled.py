"""What is compiled, and what is said of it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numba as nb
import numpy as np
import pytest

from mdpdsl.kernels.compiled import noticing_compilation, total

NOTICED = """
import sys
from mdpdsl.kernels.compiled import noticing_compilation
noticed = []
with noticing_compilation(noticed.append):
    import mdpdsl.kernels.counting, numpy as np
    imported = list(noticed)
    table = np.zeros(3, np.int64)
    mdpdsl.kernels.counting.add(np.array([0, 2, 2]), table)
assert table.tolist() == [1, 0, 2]
assert imported == [], "an import compiles nothing"
print(*noticed)
"""


def noticed_by_a_process(cache: Path) -> list[int]:
    """Return what a new process with a cache of kernels notices when it counts three codes."""
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(cache)}
    done = subprocess.run(
        [sys.executable, "-c", NOTICED], env=environment, capture_output=True, text=True, check=True
    )
    return [int(word) for word in done.stdout.split()]


def test_compilation_is_noticed_the_first_time_and_not_when_kernels_are_cached(
    tmp_path: Path,
) -> None:
    assert noticed_by_a_process(tmp_path) == [0, 1]
    assert noticed_by_a_process(tmp_path) == []


def test_kernels_compiled_into_others_are_counted_and_nothing_is_noticed_afterwards() -> None:
    @nb.njit()
    def doubled_total(values: np.ndarray) -> float:
        return 2.0 * float(total(values))

    noticed: list[int] = []
    with noticing_compilation(noticed.append):
        assert doubled_total(np.ones((3, 2))[:, 0]) == 6.0
        assert doubled_total(np.ones((3, 2))[:, 1]) == 6.0
    assert noticed == [0, 1, 2]
    doubled_total(np.ones(3, np.float32))
    assert noticed == [0, 1, 2]


def test_a_call_from_python_of_a_kernel_for_kernels_is_refused() -> None:
    with pytest.raises(TypeError, match="`total` can only be called by compiled code"):
        total(np.ones(3))

    @nb.njit()
    def doubled_total(values: np.ndarray) -> float:
        return 2.0 * float(total(values))

    assert doubled_total(np.ones(3)) == 6.0
    with pytest.raises(TypeError, match="compiled as an `entry`"):
        total(np.ones(3))
