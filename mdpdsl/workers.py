"""Where independent pieces of work run: processes of this machine, or a Dask cluster.

Both are executors of `concurrent.futures`; what is submitted must be a function of a module.
"""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing.context import BaseContext
from typing import Any

from mdpdsl.diagnostics import RunError
from mdpdsl.versions import current_versions

#: Seconds to wait for a scheduler's answer.
CONNECT_SECONDS = 5
#: How often a piece of work is tried again when the worker that has it is lost.
RETRIES = 3


class ClusterError(RunError):
    """A cluster that cannot be used; the message says why and what to do."""


def process_context() -> BaseContext:
    """Return how processes are started: forked where that is possible, which is fast."""
    return multiprocessing.get_context("fork" if os.name == "posix" else "spawn")


def process_pool(
    n_processes: int, initializer: Callable[..., None] | None = None, *arguments: Any
) -> ProcessPoolExecutor:
    """Return processes of this machine."""
    return ProcessPoolExecutor(
        n_processes, mp_context=process_context(), initializer=initializer, initargs=arguments
    )


@contextmanager
def cluster_workers(address: str) -> Iterator[tuple[Executor, int]]:
    """Connect to a Dask scheduler; give an executor and the number of its worker processes.

    A piece of work whose worker is lost is done again by another. Raise ClusterError where there is
    no cluster, or one that would compute something else.
    """
    try:
        import distributed
        from distributed.comm.addressing import get_address_host_port
    except ImportError:
        raise ClusterError('--cluster needs Dask: pip install "mdpdsl[cluster]"') from None
    try:
        # First, as a client that cannot read its address hangs when the program ends.
        get_address_host_port(address, strict=True)
        connect: Any = distributed.Client  # whose methods have no types
        client = connect(address, timeout=CONNECT_SECONDS, set_as_default=False)
    except (OSError, ValueError, TypeError) as error:  # a timeout is an OSError
        raise ClusterError(
            f"no scheduler answers at `{address}` ({str(error).splitlines()[0]}); the address has "
            "the form tcp://host:8786, as `dask scheduler` prints it"
        ) from None
    with client:
        _require_like_workers(client, address)
        yield client.get_executor(pure=False, retries=RETRIES), len(_workers(client))


def _workers(client: Any) -> dict[str, Any]:
    workers: dict[str, Any] = client.scheduler_info(n_workers=-1)["workers"]
    return workers


def _require_like_workers(client: Any, address: str) -> None:
    """Refuse a cluster without workers, and workers with other versions: the bytes would differ."""
    if not _workers(client):
        raise ClusterError(
            f"the scheduler at {address} has no workers; start some with `dask worker {address}`"
        )
    try:
        found: dict[str, dict[str, str]] = client.run(current_versions)
    except ImportError:
        raise ClusterError(
            f"the workers of {address} do not have mdpdsl; install the same version on each"
        ) from None
    here = current_versions()
    for worker, versions in found.items():
        for package, version in here.items():
            if versions.get(package) != version:
                raise ClusterError(
                    f"the worker {worker} has {package} {versions.get(package, 'not installed')}, "
                    f"this machine {version}; results would differ, so install the same"
                )
