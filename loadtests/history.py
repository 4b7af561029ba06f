"""What one test did and what came back, in the order a recorder saw it: what `invariants.py` and `checker.py` judge.

Who records it decides what a time is: seconds of one clock, or the numbers of a counter. The words are Jepsen's: an
operation is invoked, and comes back as ok, fail (it did not happen) or info (nobody can say).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from stores.records import EffectKind, Verdict


class Intent(StrEnum):
    """Why a client sent something."""

    ASK = "ask"
    ANSWER = "answer"
    AGAIN = "again"
    """The very same POST, since the one before was cut or asked for it."""
    TWICE = "twice"
    """The same decision in another run, when it was answered already: another tab."""
    ELSEWHERE = "elsewhere"
    """A decision from a second place while the first is on its way: the same one, or another."""
    CONFLICT = "conflict"
    """Another decision about what was decided already."""
    LATE = "late"
    """An answer that is held back until its card has expired."""
    FORGE = "forge"
    """An answer to an id that nobody was ever shown in this scope and thread."""
    INTRUDE = "intrude"
    """Another scope reads or answers this thread's id."""
    LOOK = "look"
    LAST = "last"
    """After the last fault: how does it stand, and what is the answer?"""


class FaultKind(StrEnum):
    """What a nemesis does."""

    KILL = "kill"
    FREEZE = "freeze"
    STOP = "stop"
    """Asked to end in order (SIGTERM); it drains, ends, and comes back."""
    CUT = "cut"
    """One replica and its stores do not reach each other."""
    STORE_RESTART = "store restart"
    """It crashes and recovers all that it had acknowledged."""
    FAILOVER = "failover"
    """Its replica takes its place, and may lack the last acknowledged writes."""
    SLOW_STORE = "slow store"
    BALANCER_RELOAD = "balancer reload"


@dataclass(frozen=True, slots=True)
class Card:
    """One approval as a client was shown it; `arguments` is the canonical JSON of the call's."""

    interrupt_id: str
    call_id: str
    tool: str
    kind: EffectKind
    arguments: str
    expires_at: float


@dataclass(frozen=True, slots=True)
class Answer:
    """What a client decided about one card, by whatever id it named it; `arguments` are those it approved."""

    interrupt_id: str
    verdict: Verdict
    arguments: str = ""


@dataclass(frozen=True, slots=True)
class Result:
    """What a tool returned, as a client was told it."""

    call_id: str
    content: str
    is_error: bool = False


@dataclass(frozen=True, slots=True)
class Sent:
    """One POST. Without answers it is a message, or (`looks`) asks how the thread stands.

    `request` is unique in a history, `run` is the run id it was sent under, `user` who sent it. A question is in these
    `words`, for so many `calls` at once (None: nobody says), and about the invoices `names`, which nobody else asks
    about, nor in another thread.
    """

    at: float
    request: str
    scope: str
    thread: str
    answers: tuple[Answer, ...] = ()
    looks: bool = False
    intent: Intent | None = None
    run: str = ""
    user: str = ""
    calls: int | None = None
    names: tuple[str, ...] = ()
    words: str = ""


@dataclass(frozen=True, slots=True)
class Replied:
    """How the POST of the same `request` ended: with a refusal's `code`, or finished, or cut before its end.

    `cards` are those it shows, `open` the interrupts it says are not at their end; `is_paused`: it says that it waits.
    `status` is HTTP's (0: no reply at all), `replica` who served it ("": nobody said), `first_event_at` when its stream
    began to speak. `page` are the results in the picture of the thread that it ends with, `names` the invoices that
    any of its events speaks of. `has_left`: it was cut by who had sent it.
    """

    at: float
    request: str
    code: str | None = None
    definite: bool = False
    is_cut: bool = False
    is_replay: bool = False
    is_paused: bool = False
    results: tuple[Result, ...] = ()
    text: str = ""
    cards: tuple[Card, ...] = ()
    open: tuple[str, ...] = ()
    status: int = 200
    replica: str = ""
    first_event_at: float | None = None
    page: tuple[Result, ...] = ()
    names: tuple[str, ...] = ()
    has_left: bool = False

    @property
    def outcome(self) -> str:
        """Return `ok`, `fail` (it definitely did not happen) or `info` (it may have)."""
        if self.is_finished:
            return "ok"
        return "fail" if self.definite else "info"

    @property
    def is_finished(self) -> bool:
        """Whether the run came to its end, or to a pause."""
        return not self.is_cut and self.code is None


@dataclass(frozen=True, slots=True)
class Fault:
    """Something failed: only after a fault may a call be in doubt. `replica` is "" where it hit more than one.

    `left_begun` are the calls that a dead one had certainly begun and certainly not settled. A fault that was aimed
    names the `step` and the `thread` whose run it hit there; `elsewhere` are the other resumes that the replica had in
    progress, as (thread, the last step it took).
    """

    at: float
    replica: str
    left_begun: frozenset[str] = frozenset()
    kind: FaultKind | None = None
    step: str = ""
    thread: str = ""
    elsewhere: tuple[tuple[str, str], ...] = ()
    is_resume: bool = False
    """Whether the run that it was aimed at was a resume in progress."""
    done_at: float | None = None
    """By then it had certainly happened; None: at `at`."""


@dataclass(frozen=True, slots=True)
class Mended:
    """The fault of this kind is over: a killed or stopped replica is ready again, a frozen one thawed, a cut healed."""

    at: float
    replica: str
    kind: FaultKind


class Phase(StrEnum):
    """What a chaos run is doing from here on."""

    LOAD = "load"
    """Users work and the nemesis does too."""
    QUIET = "quiet"
    """The last fault is mended; users finish what they began. From here on every approval must come to its end."""
    LAST_LOOK = "last look"
    """The users are gone; every thread is looked at, and what has no answer is sent again."""
    END = "end"


@dataclass(frozen=True, slots=True)
class Began:
    """A phase of the run begins."""

    at: float
    phase: Phase


Event = Sent | Replied | Fault | Mended | Began


@dataclass(frozen=True, slots=True)
class Effect:
    """One effect as the far side counts it, whatever the hosts say of it.

    `key` is None where the far side recognises none; such calls are told apart by their arguments, which no two
    approvals of a history may share. `result` is what the tool must have returned. `at` None: nobody knows when.
    `calls`: so often it was asked for under this key.
    """

    tool: str
    arguments: str
    key: str | None = None
    result: str | None = None
    at: float | None = None
    calls: int = 1


@dataclass(frozen=True, slots=True)
class Exchange:
    """One POST with its reply; a recorder that saw none saw it cut."""

    sent: Sent
    replied: Replied

    def answer_to(self, interrupt_id: str) -> Answer | None:
        """Return what it decides about a card."""
        return next((each for each in self.sent.answers if each.interrupt_id == interrupt_id), None)


def exchanges(history: Sequence[Event]) -> Iterator[Exchange]:
    """Pair every POST with its reply."""
    replies = {event.request: event for event in history if isinstance(event, Replied)}
    for event in history:
        if isinstance(event, Sent):
            yield Exchange(event, replies.get(event.request, Replied(float("inf"), event.request, is_cut=True)))
