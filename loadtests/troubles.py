"""When something was failing in a history, and what its failing explains."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from operator import itemgetter

from app.steps import Step
from loadtests.history import Event, Exchange, Fault, FaultKind, Mended

AFTERMATH_SECONDS = 15.0
"""A freeze, a cut or a store's fault fails for so long after it is mended: two leases of 6 s, until who was out of
reach is heard again by all."""
UNREPLICATED_SECONDS = 3.0
"""What a Redis acknowledged so long before its failover may be lost: its replica follows asynchronously, on a busy
machine by up to a second or two; whoever promotes it makes sure that it follows at all."""
MAY_LEAVE_DOUBT = frozenset(
    {f"before-{Step.BEGIN}", f"after-{Step.BEGIN}"}
    | {f"{when}-{step}" for step in (Step.EFFECT, Step.SETTLE) for when in ("before", "after")}
)
"""Where a run may have begun a call that is not settled: before the first begin there is none, and the model is asked
when all are settled. At a begin or after a settle, it is another call of the same pause that may be."""
NEVER = float("inf")


@dataclass(frozen=True, slots=True)
class Troubles:
    """Times at which something failed, from a fault until it was mended.

    `begins` are sorted; `ends` are the latest end of all faults that had begun by then; `failovers` have both times.
    """

    begins: tuple[float, ...]
    ends: tuple[float, ...]
    failovers: tuple[tuple[float, float], ...]
    kills: Mapping[str, tuple[tuple[float, str], ...]]
    """Kills at a known step, by the threads whose resumes they hit: when, and the step that each had come to."""

    @classmethod
    def of(cls, history: Sequence[Event]) -> Troubles:
        """Find them. A fault of no kind, as machines have them, is never over."""
        found = sorted(_intervals(history), key=itemgetter(0))
        # A balancer that loads its configuration anew may cut a stream; no replica and no store notices.
        causes = [
            (at, _harmful_until(at, until, kind)) for at, until, kind in found if kind is not FaultKind.BALANCER_RELOAD
        ]
        latest = accumulate((until for _, until in causes), max)
        failovers = tuple((at, until) for at, until, kind in found if kind is FaultKind.FAILOVER)
        return cls(tuple(at for at, _ in causes), tuple(latest), failovers, _kills(history))

    def explain_doubt(self, thread: str, since: float, until: float) -> bool:
        """Whether anything failed between these times, or still failed from before, that may leave a call in doubt.

        Of a kill at a known step it is known which resumes it hit, and how far each was.
        """
        known = bisect_left(self.begins, until)
        if known > 0 and self.ends[known - 1] >= since:
            return True
        return any(since <= at <= until and step in MAY_LEAVE_DOUBT for at, step in self.kills.get(thread, ()))

    def may_have_lost(self, exchanges: Sequence[Exchange]) -> bool:
        """Whether a failover may have lost what one of these exchanges was told."""
        return any(
            each.replied.at >= at - UNREPLICATED_SECONDS and each.sent.at <= until
            for at, until in self.failovers
            for each in exchanges
        )


def _intervals(history: Sequence[Event]) -> Iterator[tuple[float, float, FaultKind | None]]:
    """Return each fault with the time at which it was over, latest first."""
    mended: dict[tuple[str, FaultKind], float] = {}
    for event in reversed(history):
        match event:
            case Mended():
                mended[event.replica, event.kind] = event.at
            case Fault() if _is_known_kill(event):
                pass
            case Fault():
                until = NEVER if event.kind is None else mended.get((event.replica, event.kind), NEVER)
                yield event.at, until, event.kind
            case _:
                pass


def _harmful_until(at: float, until: float, kind: FaultKind | None) -> float:
    """Return until when a fault may leave a call in doubt that was approved no earlier.

    Who was killed has done all harm by then; who was stopped, when it is gone. Others come back, and are late.
    """
    if kind is FaultKind.KILL:
        return at
    return until if kind is FaultKind.STOP else until + AFTERMATH_SECONDS


def _kills(history: Sequence[Event]) -> dict[str, tuple[tuple[float, str], ...]]:
    found: defaultdict[str, list[tuple[float, str]]] = defaultdict(list)
    for event in history:
        if isinstance(event, Fault) and _is_known_kill(event):
            for thread, step in ((event.thread, event.step), *event.elsewhere):
                found[thread].append((event.at, step))
    return {thread: tuple(kills) for thread, kills in found.items()}


def _is_known_kill(fault: Fault) -> bool:
    return fault.kind is FaultKind.KILL and bool(fault.step)
