"""What a nemesis can do to a deployment: one small port, with an adapter for each way to deploy (`targets/`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from loadtests.history import FaultKind


@dataclass(frozen=True, slots=True)
class Sample:
    """What a deployment uses at one moment, for the curves of a long run.

    `memory_bytes` is each replica's own resident memory, `connections` how many connections the store has,
    `store_bytes` what it keeps on disk (Redis: in memory).
    """

    at: float
    memory_bytes: dict[str, int]
    connections: int
    store_bytes: int


class Target(Protocol):
    """A deployment that runs. Every method blocks until what it asks for has happened, and raises TimeoutError.

    A replica that was killed or stopped comes back by itself, as whatever deploys it does for real.
    """

    @property
    def url(self) -> str:
        """Where the load balancer listens."""
        ...

    @property
    def bank_url(self) -> str:
        """Where the independent counter of effects listens."""
        ...

    @property
    def replicas(self) -> Sequence[str]:
        """The names of the replicas, as their `x-agui-replica` header gives them."""
        ...

    @property
    def faults(self) -> frozenset[FaultKind]:
        """What can be done to this deployment, with its kind of store, without breaking what the store promises."""
        ...

    def kill(self, replica: str) -> None:
        """End it with SIGKILL."""
        ...

    def stop(self, replica: str) -> None:
        """Ask it to end in order (SIGTERM), and wait until it is gone."""
        ...

    def start(self, replica: str) -> None:
        """Wait until it serves again, after a kill or a stop, whoever did that."""
        ...

    def freeze(self, replica: str) -> None:
        """Let it keep its connections and answer nothing (SIGSTOP)."""
        ...

    def thaw(self, replica: str) -> None:
        """Let a frozen one go on, and wait until it serves. Does nothing to one that is not frozen, or gone."""
        ...

    def cut(self, replica: str) -> None:
        """Let nothing pass between one replica and its stores; connections hang, as when a cable is pulled."""
        ...

    def heal(self, replica: str) -> None:
        """Let everything pass again."""
        ...

    def restart_store(self) -> None:
        """Crash the store that keeps the threads (SIGKILL) and wait until it serves again."""
        ...

    def fail_over(self) -> None:
        """Kill the primary of the store, wait until its replica has taken its place, and give that a replica again."""
        ...

    def slow_store(self, seconds: float) -> None:
        """Let each answer of the store come so much later; 0 ends it."""
        ...

    def reload_balancer(self) -> None:
        """Let the load balancer read its configuration anew, with a change in it; streams in progress go on."""
        ...

    def sample(self) -> Sample:
        """Say what the deployment uses now."""
        ...
