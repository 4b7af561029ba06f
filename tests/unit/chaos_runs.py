"""Forged chaos runs, judged by the checker itself: what the tests of reports write reports of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from loadtests.history import (
    Answer,
    Began,
    Card,
    Effect,
    Event,
    Fault,
    FaultKind,
    Intent,
    Mended,
    Phase,
    Replied,
    Result,
    Sent,
)
from stores.records import EffectKind, Verdict

BEGAN_AT = 1_790_000_000.0
ABOUT: Mapping[str, str] = {"stores": "sqlite", "plan": "kill-one", "seed": "7", "replicas": "3"}


@dataclass(slots=True)
class Forged:
    """A history that a test writes event by event; times are seconds since it began."""

    events: list[Event] = field(default_factory=lambda: [Began(BEGAN_AT, Phase.LOAD)])
    effects: list[Effect] = field(default_factory=list)
    _requests: int = 0

    def exchange(
        self,
        at: float,
        thread: str,
        answers: Sequence[Answer] = (),
        *,
        scope: str = "alice",
        intent: Intent = Intent.ASK,
        takes: float = 0.5,
        **reply: object,
    ) -> None:
        """Send something that is answered after `takes` seconds, with these fields of a reply."""
        self._requests += 1
        request = f"user-1:{self._requests}"
        sent_at = BEGAN_AT + at
        looks = intent in {Intent.LOOK, Intent.LAST} and not answers
        self.events.append(Sent(sent_at, request, scope, thread, tuple(answers), looks, intent, request, "user-1"))
        replied = Replied(sent_at + takes, request, first_event_at=sent_at + takes / 2)
        self.events.append(replace(replied, **reply))  # type: ignore[arg-type]  # fields of Replied

    def approved(self, at: float, number: int, *, paused_on: str = "host-1", ended_on: str = "host-2") -> None:
        """Let somebody ask for a payment, approve it, and see it done."""
        shown, answer = card(number), approval(number)
        thread = f"thread-{number}"
        result = f"Paid INV-{number}."
        self.exchange(at, thread, is_paused=True, cards=(shown,), open=(shown.interrupt_id,), replica=paused_on)
        done = {"results": (Result(shown.call_id, result),), "replica": ended_on, "text": "done"}
        self.exchange(at + 1, thread, [answer], intent=Intent.ANSWER, **done)
        self.exchange(at + 2, thread, [answer], intent=Intent.TWICE, is_replay=True, **done)
        self.effects.append(Effect(shown.tool, shown.arguments, shown.interrupt_id, result, BEGAN_AT + at + 1.2))

    def happen_again(self, number: int) -> None:
        """Let the bank count another effect of an approval."""
        first = next(each for each in self.effects if each.key == card(number).interrupt_id)
        self.effects.append(replace(first, at=(first.at or 0) + 0.1))

    def fault(
        self, at: float, kind: FaultKind, replica: str = "host-1", *, lasts: float = 2.0, **fields: object
    ) -> None:
        """Let something fail, and be mended."""
        fault = Fault(BEGAN_AT + at, replica, kind=kind)
        self.events.append(replace(fault, **fields))  # type: ignore[arg-type]  # fields of Fault
        self.events.append(Mended(BEGAN_AT + at + lasts, replica, kind))

    @property
    def history(self) -> list[Event]:
        """The events in the order of their times."""
        return sorted(self.events, key=lambda event: event.at)


def card(number: int) -> Card:
    arguments = f'{{"invoice":"INV-{number}","payee":"ACME"}}'
    return Card(
        f"af-call-{number}", f"call-{number}", "pay_invoice", EffectKind.IDEMPOTENT, arguments, BEGAN_AT + 10_000
    )


def approval(number: int) -> Answer:
    return Answer(card(number).interrupt_id, Verdict.APPROVE, card(number).arguments)
