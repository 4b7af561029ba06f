"""The values the authority and the runner exchange: a claim that was granted, and what the run leaves behind."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from stores.ports import Loaded, ReserveAnswer
from stores.records import Bag, Claim, Json, Occurrence, OccurrenceState, Record, Run, Snapshot, ThreadKey


@dataclass(frozen=True, slots=True)
class Ticket:
    """A committed claim: what the run was granted, and what it needs to carry it out, finish or release it.

    `deadline` is this process's monotonic time of the claim's `until`: no call starts after it. `rounds` is how often
    the run has gone on by standing rules in this claim. `before` are results that earlier runs kept of other calls that
    the request names.
    """

    key: ThreadKey
    run: Run
    record: Record
    loaded: Loaded
    deadline: float
    answers: Mapping[str, ReserveAnswer] = field(default_factory=dict)
    rounds: int = 0
    before: tuple[Json, ...] = ()

    @property
    def claim(self) -> Claim:
        """The claim this ticket stands for."""
        assert self.record.claim is not None, "a ticket is made from a claimed record"
        return self.record.claim

    def now(self) -> float:
        """The store's time, as far as this process can tell without asking."""
        return self.claim.until - (self.deadline - time.monotonic())


@dataclass(frozen=True, slots=True)
class Ending:
    """What a run leaves: the picture of the thread, what it asked for, what it answered, and what it says.

    `asked` are pending, or decided by a standing rule already. If none is pending, the run goes on with them. The
    snapshot has an interrupt for each: upstream begins a resume from the thread's messages only where there is one.
    """

    snapshot: Snapshot
    bag: Bag
    asked: tuple[Occurrence, ...]
    pause_id: str | None
    ended: frozenset[str]
    events: tuple[Json, ...]

    @property
    def pending(self) -> tuple[Occurrence, ...]:
        """The calls that wait for a person."""
        return tuple(each for each in self.asked if each.state is OccurrenceState.PENDING)

    @property
    def cards(self) -> tuple[Json, ...]:
        """The interrupts a person is shown."""
        waiting = {each.interrupt_id for each in self.pending}
        return tuple(each for each in self.snapshot.interrupts if each.get("id") in waiting)

    @property
    def decided(self) -> tuple[Occurrence, ...]:
        """The calls that need no person any more."""
        return tuple(each for each in self.asked if each.state is OccurrenceState.DECIDED)

    @property
    def goes_on(self) -> bool:
        """Whether the run is not over: it asked for calls, and no person need answer any of them."""
        return bool(self.asked) and not self.pending


@dataclass(frozen=True, slots=True)
class LetGo:
    """What the holder knows of the calls of a claim it lets go.

    `in_doubt` may have happened. `unstarted` were never started, though their begin, unanswered, may be recorded.
    """

    in_doubt: frozenset[str] = frozenset()
    unstarted: frozenset[str] = frozenset()
