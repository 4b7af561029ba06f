"""What one test did and what came back, in the order a recorder saw it: what `invariants.py` judges.

Who records it decides what a time is: seconds of one clock, or the numbers of a counter.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from stores.records import EffectKind, Verdict


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
    """One POST. Without answers it is a message, or (`looks`) asks how the thread stands."""

    at: float
    request: str
    scope: str
    thread: str
    answers: tuple[Answer, ...] = ()
    looks: bool = False


@dataclass(frozen=True, slots=True)
class Replied:
    """How the POST of the same `request` ended: with a refusal's `code`, or finished, or cut before its end.

    `cards` are those it shows, `open` the interrupts it says are not at their end; `is_paused`: it says that it waits.
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

    @property
    def is_finished(self) -> bool:
        """Whether the run came to its end, or to a pause."""
        return not self.is_cut and self.code is None


@dataclass(frozen=True, slots=True)
class Fault:
    """A replica died, or froze, or was cut off from a tool: only after one may a call be in doubt.

    `left_begun` are the calls that a dead one had certainly begun and certainly not settled.
    """

    at: float
    replica: str
    left_begun: frozenset[str] = frozenset()


Event = Sent | Replied | Fault


@dataclass(frozen=True, slots=True)
class Effect:
    """One effect as the far side counts it, whatever the hosts say of it.

    `key` is None where the far side recognises none; such calls are told apart by their arguments, which no two
    approvals of a history may share. `result` is what the tool must have returned. `at` None: nobody knows when.
    """

    tool: str
    arguments: str
    key: str | None = None
    result: str | None = None
    at: float | None = None


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
