"""What a local target keeps its approvals in, whatever the technology: how it is reached, and what can befall it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from loadtests.history import FaultKind

EVERYWHERE = frozenset(
    {FaultKind.KILL, FaultKind.FREEZE, FaultKind.STOP, FaultKind.SLOW_STORE, FaultKind.BALANCER_RELOAD}
)
"""What no kind of store stands in the way of."""


@dataclass(frozen=True, slots=True)
class Usage:
    """What the stores use: connections of others, and bytes (on disk; Redis: in memory)."""

    connections: int
    store_bytes: int

    def __add__(self, other: Usage) -> Usage:
        """Take both together."""
        return Usage(self.connections + other.connections, self.store_bytes + other.store_bytes)


def _nothing_of_this_kind() -> None:
    raise ValueError("This kind of store has no such fault.")


@dataclass(frozen=True, slots=True)
class Backing:
    """The stores of one target, running. No `database_url`: nothing is kept in SQL."""

    faults: frozenset[FaultKind]
    slow: Callable[[float], None]
    measure: Callable[[], Usage]
    database_url: str = ""
    settings: Mapping[str, str] = field(default_factory=dict)
    restart: Callable[[], None] = _nothing_of_this_kind
    fail_over: Callable[[], None] = _nothing_of_this_kind
