"""What a history says of faults and of their ends, for the tests of the nemesis."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from loadtests.history import Event, Fault, FaultKind, Mended


def faults(history: Sequence[Event], kind: FaultKind | None = None) -> list[Fault]:
    return [event for event in history if isinstance(event, Fault) and kind in (None, event.kind)]


def broken_at_once_max(history: Sequence[Event]) -> int:
    """Return how many replicas were dead, starting or frozen at the worst moment."""
    broken: Counter[str] = Counter()
    worst = 0
    for event in history:
        if isinstance(event, Fault | Mended):
            broken[event.replica] += 1 if isinstance(event, Fault) else -1
            worst = max(worst, len(+broken))
    return worst


def ended(history: Sequence[Event]) -> bool:
    """Whether every fault is followed by its end."""
    mended = Counter((event.kind, event.replica) for event in history if isinstance(event, Mended))
    return mended == Counter((fault.kind, fault.replica) for fault in faults(history))


def mended_before_done(history: Sequence[Event]) -> list[Mended]:
    """Return the ends that are in the midst of a fault of their kind that is still being done."""
    spans = [(fault, fault.done_at) for fault in faults(history) if fault.done_at is not None]
    return [
        event
        for event in history
        if isinstance(event, Mended)
        for fault, done_at in spans
        if (event.kind, event.replica) == (fault.kind, fault.replica) and fault.at <= event.at < done_at
    ]
