"""A deployment of tiny processes that take the steps of resumes and nothing else, for the tests of the nemesis."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil

from deploy.waiting import wait_until
from loadtests.history import FaultKind
from loadtests.target import Sample

REPLICA = """
import asyncio, itertools, os, sys
from pathlib import Path
from loadtests.orders import Orders

STEPS = ["load", "claim", "begin", "effect", "settle", "model", "finish", "answer"]

async def resume(thread_id):
    for step in STEPS:
        for when in ("before", "after"):
            orders.carry_out(thread_id, f"{when}-{step}")
            await asyncio.sleep(0.001)

async def main():
    for number in itertools.count():
        await asyncio.create_task(resume(f"thread-{os.getpid()}-{number}"))
        served.write_text(f"{os.getpid()} {number}")

orders, served = Orders(Path(sys.argv[1])), Path(sys.argv[2])
asyncio.run(main())
"""


@dataclass(frozen=True, slots=True)
class Done:
    """A fault as the target itself did it, and the times between which it did."""

    kind: FaultKind
    replica: str
    from_at: float
    until_at: float


class SmallTarget:
    """Keeps one process per replica; who waits for one that has ended starts it again. Its store never restarts."""

    url = bank_url = ""
    faults = frozenset({FaultKind.KILL, FaultKind.FREEZE, FaultKind.STOP, FaultKind.STORE_RESTART})

    def __init__(self, folder: Path, replicas: Sequence[str]) -> None:
        self._folder = folder
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._locks = {replica: threading.Lock() for replica in replicas}
        self.replicas = replicas
        self.done: list[Done] = []

    def kill(self, replica: str) -> None:
        with self._noted(FaultKind.KILL, replica):
            self._processes[replica].kill()
            self._processes[replica].wait()

    def stop(self, replica: str) -> None:
        with self._noted(FaultKind.STOP, replica):
            self._processes[replica].terminate()
            self._processes[replica].wait()

    def start(self, replica: str) -> None:
        """Wait until it carries out a resume, anew: one that is about to die of an order does not."""
        before = self._served(replica)
        wait_until(lambda: self._is_alive(replica) and self._served(replica) != before, f"{replica} serves", 60)

    def freeze(self, replica: str) -> None:
        with self._noted(FaultKind.FREEZE, replica):
            self._processes[replica].send_signal(signal.SIGSTOP)
            wait_until(lambda: self.state(replica) == psutil.STATUS_STOPPED, f"{replica} is frozen")

    def thaw(self, replica: str) -> None:
        self._processes[replica].send_signal(signal.SIGCONT)

    def cut(self, replica: str) -> None:
        raise NotImplementedError

    def heal(self, replica: str) -> None:
        raise NotImplementedError

    def restart_store(self) -> None:
        raise TimeoutError("The store does not start.")

    def fail_over(self) -> None:
        raise NotImplementedError

    def slow_store(self, seconds: float) -> None:
        raise NotImplementedError

    def reload_balancer(self) -> None:
        raise NotImplementedError

    def sample(self) -> Sample:
        return Sample(time.time(), {}, 0, 0)

    @contextmanager
    def _noted(self, kind: FaultKind, replica: str) -> Iterator[None]:
        from_at = time.time()
        yield
        self.done.append(Done(kind, replica, from_at, time.time()))

    def _is_alive(self, replica: str) -> bool:
        """Start it, if it has ended."""
        with self._locks[replica]:
            process = self._processes.get(replica)
            if process is not None and process.poll() is None:
                return True
            self._processes[replica] = subprocess.Popen(
                [sys.executable, "-c", REPLICA, self._folder / "orders", self._folder / replica],
                env={**os.environ, "AGUI_REPLICA_NAME": replica},
            )
            return False

    def _served(self, replica: str) -> str:
        file = self._folder / replica
        return file.read_text() if file.exists() else ""

    def state(self, replica: str) -> str:
        """Return what the kernel says of its process."""
        return str(psutil.Process(self._processes[replica].pid).status())

    def end(self) -> None:
        """End all processes."""
        for process in self._processes.values():
            process.kill()
            process.wait()


@contextmanager
def small_target(folder: Path, replicas: int = 3) -> Iterator[SmallTarget]:
    """Run it with its orders in a folder in `folder`; on leaving, no process is left."""
    target = SmallTarget(folder, [f"host-{number}" for number in range(1, replicas + 1)])
    try:
        for replica in target.replicas:
            target.start(replica)
        yield target
    finally:
        target.end()
