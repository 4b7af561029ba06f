"""What is broken now, and the work that mends it: in threads of its own, so that more can be broken meanwhile."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

from loadtests.history import FaultKind, Mended
from loadtests.journal import Journal

AT_ONCE_MAX = 64
"""A thread for each fault that is not over: more than a run of any plan has."""


class Mending:
    """Mends faults, and writes down when each is over."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._is_ending = threading.Event()
        self._broken: Counter[tuple[FaultKind, str]] = Counter()
        self._unwritten: Counter[tuple[FaultKind, str]] = Counter()
        self._lock = threading.Lock()
        self._workers = ThreadPoolExecutor(AT_ONCE_MAX, "mending")
        self._work: list[Future[None]] = []

    def note(self, kind: FaultKind, replica: str) -> None:
        """Have a fault count as not over from now on: call it right before the fault happens."""
        with self._lock:
            self._broken[kind, replica] += 1

    def begin(self, kind: FaultKind, replica: str, mend: Callable[[], object], *, after_seconds: float = 0.0) -> None:
        """Mend a fault that was noted, after so many seconds, or as soon as all has to be mended.

        `mend` blocks until it is over.
        """
        self._work.append(self._workers.submit(self._mend, kind, replica, mend, after_seconds))

    def write_end(self, kind: FaultKind, replica: str) -> None:
        """Write down that a fault that was noted is over; if it happened again meanwhile, not before that is over too.

        Else a replica that was seen ready, and was killed again at once, would be written down as mended after that.
        """
        with self._lock:
            self._unwritten[kind, replica] += 1
            self._broken[kind, replica] -= 1
            if self._broken[kind, replica]:
                return
            del self._broken[kind, replica]
            at = time.time()
            for _ in range(self._unwritten.pop((kind, replica))):
                self._journal.append(Mended(at, replica, kind))

    def is_broken(self, kind: FaultKind) -> bool:
        """Whether a fault of this kind is not over."""
        with self._lock:
            return any(each is kind for each, _ in self._broken)

    def is_whole(self, replica: str) -> bool:
        """Whether no fault of this replica is left: it is neither dead nor starting, frozen or cut off."""
        with self._lock:
            return not any(each == replica for _, each in self._broken)

    @property
    def has_failed(self) -> bool:
        """Whether something could not be mended, which makes a run worthless."""
        return any(work.done() and work.exception() for work in self._work)

    def finish(self) -> None:
        """Mend all at once, and wait until it is. Raises what mending raised first."""
        self._is_ending.set()
        self._workers.shutdown()
        for work in self._work:
            work.result()

    def _mend(self, kind: FaultKind, replica: str, mend: Callable[[], object], after_seconds: float) -> None:
        self._is_ending.wait(after_seconds)
        mend()
        self.write_end(kind, replica)
