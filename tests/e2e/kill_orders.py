"""Orders to kill or freeze a replica at a named step of a thread, and the log of those that were carried out."""

from __future__ import annotations

import json
import os
import signal
import time
from collections import defaultdict
from dataclasses import asdict, dataclass
from pathlib import Path

HITS = "hits.log"


@dataclass(frozen=True, slots=True)
class Hit:
    """A replica that was killed or frozen. `elsewhere` are the steps, in order, it had seen of every other thread."""

    at: float
    thread_id: str
    step: str
    replica: str
    elsewhere: dict[str, list[str]]


class KillOrders:
    """One file per order in `folder`, named by its thread: a test places it, the replica that gets there takes it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._steps: defaultdict[str, list[str]] = defaultdict(list)

    def place(self, thread_id: str, step: str, number: signal.Signals = signal.SIGKILL) -> None:
        """Order that the replica which takes this step of this thread next gets this signal there."""
        partial = self._folder / f".{thread_id}"
        partial.write_text(f"{number.name} {step}")
        partial.rename(self._folder / thread_id)

    def carry_out(self, thread_id: str, step: str) -> None:
        """Send this very process the signal that was ordered; each order is carried out once, by one process."""
        self._steps[thread_id].append(step)
        order = self._folder / thread_id
        try:
            name, at = order.read_text().split(" ")
            if at != step:
                return
            order.unlink()
        except FileNotFoundError:
            return
        elsewhere = {name: steps for name, steps in self._steps.items() if name != thread_id}
        self._log(Hit(time.time(), thread_id, step, os.environ["AGUI_REPLICA_NAME"], elsewhere))
        os.kill(os.getpid(), signal.Signals[name])

    def hits(self) -> list[Hit]:
        """Return the orders that were carried out, oldest first."""
        log = self._folder / HITS
        lines = log.read_text().splitlines() if log.exists() else []
        return [Hit(**json.loads(line)) for line in lines]

    def _log(self, hit: Hit) -> None:
        with (self._folder / HITS).open("a") as log:
            log.write(json.dumps(asdict(hit)) + "\n")
            log.flush()
            os.fsync(log.fileno())
