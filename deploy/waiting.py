"""Wait for a condition, with a limit."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import psutil

_POLL_SECONDS = 0.02


def wait_until(condition: Callable[[], object], what: str, seconds: float = 30.0) -> None:
    """Ask until `condition` holds; raises TimeoutError that says `what` did not come true in time."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"after {seconds:g} s it is still not so that {what}")
        time.sleep(_POLL_SECONDS)


def wait_gone(processes: Sequence[psutil.Process], seconds: float = 60.0) -> None:
    """Wait until all these processes have ended; raises TimeoutError."""
    wait_until(lambda: all(map(_is_gone, processes)), f"all of {processes} are gone", seconds)


def _is_gone(process: psutil.Process) -> bool:
    try:
        # A zombie has ended, whoever is to collect it and whenever.
        return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True
