"""When something was failing in a history, and where: what that explains of what clients were told, and what not."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto

from app.steps import Step
from loadtests.history import Event, Exchange, Fault, FaultKind, Mended
from loadtests.threads import IN_DOUBT, RUN_FAILED, STORE_UNAVAILABLE
from stores.records import Verdict

AFTERMATH_SECONDS = 15.0
"""Who was frozen or cut off is late for so long after it is mended: two leases of 6 s, until all others hear it."""
STORE_AFTERMATH_SECONDS = 5.0
"""After a store's fault: connections are made anew, and every heartbeat of a third of a lease is written again."""
KILL_AFTERMATH_SECONDS = 2.0
"""A kill cuts streams, which clients and balancer notice at once; on a busy machine, a little later."""
UNREPLICATED_SECONDS = 3.0
"""What a Redis acknowledged so long before its failover may be lost: its replica follows asynchronously, on a busy
machine by up to a second or two; whoever promotes it makes sure that it follows at all."""
MAY_LEAVE_DOUBT = frozenset(
    {f"before-{Step.BEGIN}", f"after-{Step.BEGIN}"}
    | {f"{when}-{step}" for step in (Step.EFFECT, Step.SETTLE) for when in ("before", "after")}
)
"""Where a run may have begun a call that is not settled: before the first begin there is none, and the model is asked
when all are settled. At a begin or after a settle, it is another call of the same pause that may be."""
OF_ANOTHER_CALL = frozenset({f"before-{Step.BEGIN}", f"after-{Step.SETTLE}"})
"""Those of them at which a run that makes one call alone has begun none, or settled it."""
BEFORE_THE_CLAIM = frozenset(f"{when}-{step}" for step in (Step.LOAD, Step.RESERVE) for when in ("before", "after")) | {
    f"before-{Step.CLAIM}"
}
NEVER = float("inf")

_AFTERMATHS = {
    FaultKind.FREEZE: AFTERMATH_SECONDS,
    FaultKind.CUT: AFTERMATH_SECONDS,
    FaultKind.STORE_RESTART: STORE_AFTERMATH_SECONDS,
    FaultKind.FAILOVER: STORE_AFTERMATH_SECONDS,
    FaultKind.SLOW_STORE: STORE_AFTERMATH_SECONDS,
}
_MAY_HAVE_RUN = frozenset({IN_DOUBT, RUN_FAILED, STORE_UNAVAILABLE})
"""Refusals by a replica that may still carry the run out. All others say that it does not, or not any more."""


class Cause(Enum):
    """How well a failure explains a doubt."""

    HIT = auto()
    """It hit a resume of this very thread: at a known step, or its stream was cut by the kill of its replica."""
    NEAR = auto()
    """It struck a replica, or the store, that the thread's requests had met."""


@dataclass(frozen=True, slots=True)
class Trouble:
    """One fault and for how long it may show: `until` it was mended, and its aftermath.

    `done_at`: by then it had certainly begun. A kill has done all harm to what ran by then.
    """

    fault: Fault
    done_at: float
    mended_at: float

    @property
    def until(self) -> float:
        """Until when those notice it that it hit, or that came while it went on."""
        kind = self.fault.kind
        if kind is FaultKind.KILL:
            return self.done_at + KILL_AFTERMATH_SECONDS
        return self.mended_at + _AFTERMATHS.get(kind, 0.0) if kind is not None else NEVER

    @property
    def is_known_kill(self) -> bool:
        """Whether it is known which resumes it hit: those and no others."""
        return self.fault.kind is FaultKind.KILL and bool(self.fault.step)

    def strikes(self, replica: str) -> bool:
        """Whether it struck this replica, alone or among all; "" is one that nobody named."""
        return self.fault.replica in {"", replica} or not replica


@dataclass(frozen=True, slots=True)
class Troubles:
    """All faults of a history, and by thread those that hit a resume of it, with the step it had come to."""

    all: tuple[Trouble, ...]
    hits: Mapping[str, tuple[tuple[Trouble, str], ...]]

    @classmethod
    def of(cls, history: Sequence[Event]) -> Troubles:
        """Find them. A fault of no kind, as machines have them, is never over, and strikes all."""
        found = tuple(_troubles(history))
        hits: defaultdict[str, list[tuple[Trouble, str]]] = defaultdict(list)
        for each in found:
            if each.fault.step:
                for thread, step in ((each.fault.thread, each.fault.step), *each.fault.elsewhere):
                    hits[thread].append((each, step))
        return cls(found, {thread: tuple(those) for thread, those in hits.items()})

    def cause_of_doubt(self, asked: Sequence[Exchange], since: float, until: float) -> Cause | None:
        """Return what may have left a call in doubt that was approved at `since`, and was told to be so at `until`.

        `asked` are the requests of its thread that may have begun it. One alone is enough that met a failing replica;
        after a first hit others take the thread over, and nobody knows who.
        """
        hits = self._hits(asked, since, until)
        is_single = all(_approves(other) <= 1 for other in asked)
        if any(_may_leave_doubt(each, step, asked, is_single=is_single) for each, step in hits):
            return Cause.HIT
        if any(_has_cut(each, other, since) for each in self.all for other in asked if other.sent.at <= until):
            return Cause.HIT
        first_hit_at = min((each.fault.at for each, _ in hits), default=NEVER)
        for each in self.all:
            if each.is_known_kill or each.fault.kind is FaultKind.BALANCER_RELOAD or each.fault.at > until:
                continue
            ends_at = each.done_at if each.fault.kind is FaultKind.KILL else each.until
            follows_a_hit = bool(hits) and ends_at >= first_hit_at
            if follows_a_hit or any(_may_have_met(each, other, ends_at, since, until) for other in asked):
                return Cause.NEAR
        return None

    def have_met(self, asked: Sequence[Exchange], since: float, until: float) -> bool:
        """Whether anything at all struck what these requests of a thread had met, so that something was done again."""
        return bool(self._hits(asked, since, until)) or any(
            _may_have_met(each, other, each.until, since, until) for each in self.all for other in asked
        )

    def had_claimed(self, asked: Sequence[Exchange], since: float, until: float) -> bool:
        """Whether a resume of this thread was hit when it had its claim, and with it the decisions were recorded."""
        return any(step not in BEFORE_THE_CLAIM for _, step in self._hits(asked, since, until))

    def explain_failure(self, each: Exchange) -> bool:
        """Whether a failure explains that a request was cut, or was told of one."""
        return any(
            trouble.strikes(each.replied.replica)
            and trouble.fault.at <= each.replied.at
            and max(trouble.until, trouble.mended_at if not each.replied.replica else 0.0) >= each.sent.at
            for trouble in self.all
        )

    def may_have_lost(self, exchanges: Sequence[Exchange]) -> bool:
        """Whether a failover may have lost what one of these exchanges was told."""
        return any(
            each.replied.at >= trouble.fault.at - UNREPLICATED_SECONDS and each.sent.at <= trouble.mended_at
            for trouble in self.all
            if trouble.fault.kind is FaultKind.FAILOVER
            for each in exchanges
        )

    def _hits(self, asked: Sequence[Exchange], since: float, until: float) -> list[tuple[Trouble, str]]:
        threads = {each.sent.thread for each in asked}
        return [
            (each, step)
            for thread in threads
            for each, step in self.hits.get(thread, ())
            if since <= each.done_at and each.fault.at <= until
        ]


def _approves(each: Exchange) -> int:
    return sum(answer.verdict is Verdict.APPROVE for answer in each.sent.answers)


def _may_leave_doubt(trouble: Trouble, step: str, asked: Sequence[Exchange], *, is_single: bool) -> bool:
    """Whether a resume may have begun a call, and not settled it, that was at this step when it was hit.

    Where one alone was approved there is no other: right before its begin, and after its settle, nothing is begun. Of
    who was hit elsewhere no more is known than the last step, and its begin may have arrived since.
    """
    is_aimed_at = any(each.sent.thread == trouble.fault.thread for each in asked)
    if trouble.fault.kind is not FaultKind.KILL:
        return True  # It goes on, and is late.
    return step in MAY_LEAVE_DOUBT and not (is_single and is_aimed_at and step in OF_ANOTHER_CALL)


def _has_cut(trouble: Trouble, each: Exchange, since: float) -> bool:
    """Whether a kill at random, of the very replica that served a request, ended its stream."""
    fault, reply = trouble.fault, each.replied
    is_kill = fault.kind is FaultKind.KILL and not fault.step and fault.replica == reply.replica
    was_on = max(since, each.sent.at) <= trouble.done_at and fault.at <= reply.at <= trouble.until
    return is_kill and reply.is_cut and not reply.has_left and was_on


def _may_have_met(trouble: Trouble, each: Exchange, ends_at: float, since: float, until: float) -> bool:
    reply = each.replied
    if reply.is_replay or not trouble.strikes(reply.replica):
        return False
    # Who refused may have failed before that: a run that was frozen is told, when it goes on, that another has it.
    may_have_run = reply.code is None or reply.code in _MAY_HAVE_RUN
    was_there_until = until if may_have_run else min(until, reply.at)
    begins_at = max(since, each.sent.at)
    return each.sent.at <= until and trouble.fault.at <= was_there_until and ends_at >= begins_at


def _troubles(history: Sequence[Event]) -> Iterator[Trouble]:
    """Return each fault with the time at which it was over: the first mending that came when it was done."""
    mended: defaultdict[tuple[str, FaultKind], list[float]] = defaultdict(list)
    for event in history:
        if isinstance(event, Mended):
            mended[event.replica, event.kind].append(event.at)
    for event in history:
        match event:
            case Fault(kind=None):
                # Nobody says when it is over, nor how far it reaches.
                yield Trouble(Fault(event.at, ""), event.at, NEVER)
            case Fault(kind=FaultKind() as kind):
                done_at = event.done_at if event.done_at is not None else event.at
                ends = (at for at in mended[event.replica, kind] if at >= done_at)
                yield Trouble(event, done_at, min(ends, default=NEVER))
            case _:
                pass
