"""Where independent tasks run: in processes on this machine, or on a Dask cluster.

Both are executors of `concurrent.futures`, so a task must be a module-level function.
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

#: How long to wait for a scheduler to answer, in seconds.
CONNECT_SECONDS = 5
#: How many times a task is retried after its worker is lost.
RETRIES = 3


class ClusterError(RunError):
    """A cluster that cannot be used; the message says why and what to do."""


def process_context() -> BaseContext:
    """Return how to start processes: by forking, which is fast, if the system allows it."""
    return multiprocessing.get_context("fork" if os.name == "posix" else "spawn")


def process_pool(
    n_processes: int, initializer: Callable[..., None] | None = None, *arguments: Any
) -> ProcessPoolExecutor:
    """Return a pool of processes on this machine."""
    return ProcessPoolExecutor(
        n_processes, mp_context=process_context(), initializer=initializer, initargs=arguments
    )


@contextmanager
def cluster_workers(address: str) -> Iterator[tuple[Executor, int]]:
    """Connect to a Dask scheduler; yield an executor and the number of its worker processes.

    If a worker is lost, another worker repeats its task. Raise ClusterError if there is no cluster,
    or if its package versions differ, so that its results might too.
    """
    try:
        import distributed
        from distributed.comm.addressing import get_address_host_port
    except ImportError:
        raise ClusterError('`cluster=` needs Dask: pip install "mdpdsl[cluster]"') from None
    try:
        # First, as a client that cannot read its address hangs when the program ends.
        get_address_host_port(address, strict=True)
        connect: Any = distributed.Client  # its methods are untyped
        client = connect(address, timeout=CONNECT_SECONDS, set_as_default=False)
    except (OSError, ValueError, TypeError) as error:  # a timeout is an OSError
        raise ClusterError(
            f"no scheduler answered at `{address}` ({str(error).splitlines()[0]}); use the address "
            "that `dask scheduler` prints, such as tcp://host:8786"
        ) from None
    with client:
        _require_like_workers(client, address)
        yield client.get_executor(pure=False, retries=RETRIES), len(_workers(client))


def _workers(client: Any) -> dict[str, Any]:
    workers: dict[str, Any] = client.scheduler_info(n_workers=-1)["workers"]
    return workers


def _require_like_workers(client: Any, address: str) -> None:
    """Refuse a cluster without workers, or with other package versions: results would differ."""
    if not _workers(client):
        raise ClusterError(
            f"the scheduler at {address} has no workers; start some with `dask worker {address}`"
        )
    try:
        found: dict[str, dict[str, str]] = client.run(current_versions)
    except ImportError:
        raise ClusterError(
            f"the workers at {address} do not have mdpdsl; install this version on each of them"
        ) from None
    here = current_versions()
    for worker, versions in found.items():
        for package, version in here.items():
            if versions.get(package) != version:
                raise ClusterError(
                    f"this machine has {package} {version}, but the worker {worker} has "
                    f"{versions.get(package, 'none')}; results would differ, so install the same "
                    "version on both"
                )
