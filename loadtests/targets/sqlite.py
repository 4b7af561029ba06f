"""A target's approvals in one SQLite file: it can be slow, and has no server that could be restarted or cut off."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from loadtests.targets.backing import EVERYWHERE, Backing, Usage
from stores.sql.sqlite import BUSY_SHARE

_TOLD_SECONDS_MAX = 30.0


@contextmanager
def sqlite_backing(directory: Path, *, store_timeout_seconds: float) -> Iterator[Backing]:
    """Keep everything in a file of this directory.

    `slow` lets someone else hold its write lock for so long, again and again; ValueError if a writer would give up.
    """
    file = directory / "agui.db"
    other = _OtherWriter(file, seconds_max=store_timeout_seconds * BUSY_SHARE / 2)
    try:
        yield Backing(
            faults=EVERYWHERE,
            slow=other.hold,
            measure=lambda: Usage(0, _bytes_of(file)),
            database_url=f"sqlite+aiosqlite:///{file}",
        )
    finally:
        other.hold(0)


class _OtherWriter:
    """Someone who holds the write lock, for `seconds_max` at most at a time, and leaves it to others in between."""

    def __init__(self, file: Path, *, seconds_max: float) -> None:
        self._file = file
        self._seconds_max = seconds_max
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def hold(self, seconds: float) -> None:
        if seconds > self._seconds_max:
            raise ValueError(f"Writers would give up: the lock can be held for {self._seconds_max:g} s at most.")
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        if seconds <= 0:
            return
        self._stop, is_held = threading.Event(), threading.Event()
        arguments = (self._file, seconds, self._stop, is_held)
        self._thread = threading.Thread(target=_hold_again_and_again, args=arguments, daemon=True)
        self._thread.start()
        if not is_held.wait(_TOLD_SECONDS_MAX):
            raise TimeoutError("The write lock was never free.")


def _hold_again_and_again(file: Path, seconds: float, stop: threading.Event, is_held: threading.Event) -> None:
    with closing(sqlite3.connect(file, isolation_level=None)) as connection:
        while not stop.is_set():
            with suppress(sqlite3.OperationalError):  # others held it for longer than we wait
                connection.execute("BEGIN IMMEDIATE")
                is_held.set()
                stop.wait(seconds)
                connection.execute("ROLLBACK")
            # Others ask for the lock every 100 ms at the most seldom: each has its turn.
            stop.wait(max(seconds, 0.2))


def _bytes_of(file: Path) -> int:
    sizes = 0
    for each in (file, file.with_name(f"{file.name}-wal")):
        with suppress(FileNotFoundError):
            sizes += each.stat().st_size
    return sizes
