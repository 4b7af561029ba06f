"""Orders to kill or freeze a replica exactly at a named step, and the log of those that were carried out."""

from __future__ import annotations

import json
import os
import signal
import time
from dataclasses import asdict, dataclass
from hashlib import blake2b
from pathlib import Path

from loadtests.resumes import Resumes

HITS = "hits.log"
SPARED_VARIABLE = "CHAOS_SPARED"
"""The name of a replica that carries out no orders."""
_ANY = "any"


@dataclass(frozen=True, slots=True)
class Hit:
    """A replica that was killed or frozen, when a run of this thread took this step; `is_resume`: that run is one.

    `elsewhere` are the other resumes that it had in progress: the thread of each, and the step it took last. `pid` is
    the process that it was.
    """

    at: float
    thread_id: str
    step: str
    replica: str
    is_resume: bool
    elsewhere: tuple[tuple[str, str], ...]
    pid: int


class Orders:
    """One file per order in a folder that all replicas share: whoever places it, whoever gets there takes it.

    An order is taken by moving its file, so one process alone carries it out.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        # `carry_out` is called at every step of every run: it joins strings, and makes no paths.
        self._prefix = f"{folder}{os.sep}"
        self._resumes = Resumes()
        self._hits: list[Hit] = []
        self._offset = 0

    def place(self, thread_id: str, step: str, number: signal.Signals = signal.SIGKILL) -> Path:
        """Order that the replica which takes this step of this thread next gets this signal there."""
        return self._place(_of_thread(thread_id, step), number)

    def place_any(self, step: str, number: signal.Signals = signal.SIGKILL) -> Path:
        """Order that the replica gets this signal whose resume, of whatever thread, takes this step first."""
        return self._place(_of_any(step), number)

    def withdraw(self, order: Path) -> bool:
        """Take an order back; False if a replica was faster: then its hit is logged, or will be at once."""
        try:
            order.unlink()
        except FileNotFoundError:
            return False
        return True

    def carry_out(self, thread_id: str, step: str) -> None:
        """Note a step; if there is an order for it, send this very process the signal that was ordered."""
        run = self._resumes.step(thread_id, step)
        is_resume = run is not None and run.is_resume
        number = self._take(_of_thread(thread_id, step))
        if number is None and is_resume:
            number = self._take(_of_any(step))
        if number is None:
            return
        replica = os.environ["AGUI_REPLICA_NAME"]
        pid = os.getpid()
        self._log(Hit(time.time(), thread_id, step, replica, is_resume, self._resumes.others(run), pid))
        os.kill(pid, number)

    def hits(self) -> list[Hit]:
        """Return the orders that were carried out, oldest first."""
        log = self._folder / HITS
        if log.exists():
            with log.open("rb") as file:
                file.seek(self._offset)
                for line in file:
                    if not line.endswith(b"\n"):
                        break
                    self._offset += len(line)
                    self._hits.append(_hit(line))
        return list(self._hits)

    def _place(self, name: str, number: signal.Signals) -> Path:
        order, partial = self._folder / name, self._folder / f".{name}"
        partial.write_text(number.name)
        return partial.rename(order)

    def _take(self, name: str) -> signal.Signals | None:
        taken = f"{self._prefix}.{os.getpid()}"
        try:
            # os.rename and not a path's: it is called thousands of times for every order that is there.
            os.rename(f"{self._prefix}{name}", taken)  # noqa: PTH104
        except FileNotFoundError:
            return None
        order = Path(taken)
        number = signal.Signals[order.read_text()]
        order.unlink()
        return number

    def _log(self, hit: Hit) -> None:
        # One write to a file that is opened for appending: lines of several replicas do not mix.
        descriptor = os.open(self._folder / HITS, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.write(descriptor, json.dumps(asdict(hit)).encode() + b"\n")
        os.close(descriptor)


def _of_thread(thread_id: str, step: str) -> str:
    # A digest, since a client may choose a thread id that no file can be named by.
    return f"{step}.{blake2b(thread_id.encode(), digest_size=16).hexdigest()}"


def _of_any(step: str) -> str:
    return f"{step}.{_ANY}"


def _hit(line: bytes) -> Hit:
    fields = json.loads(line)
    return Hit(**{**fields, "elsewhere": tuple((thread_id, step) for thread_id, step in fields["elsewhere"])})
