"""Forged chaos runs, judged by the checker itself: what the tests of reports write reports of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from loadtests.checker import Expected, Verdict, check
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
from loadtests.target import Sample
from stores.records import EffectKind
from stores.records import Verdict as Decision

BEGAN_AT = 1_790_000_000.0
QUIET, BOUND_SECONDS, LAST_LOOK, END = 100.0, 30.0, 150.0, 200.0
"""Of a run that tried enough: when its last fault is over, the bound that holds from there, its last look, its end; in
seconds since it began."""
EXPECTED = Expected(
    approvals_min=3,
    hits_min=1,
    approvals_per_minute_min=1.0,
    bound_seconds=BOUND_SECONDS,
    faults=frozenset({FaultKind.KILL, FaultKind.FAILOVER}),
    intents=frozenset({Intent.ASK, Intent.ANSWER, Intent.TWICE}),
    kinds=frozenset({EffectKind.IDEMPOTENT}),
)
SPARED = "host-4"
"""The replica of a soak that nothing strikes."""
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

    def approved(
        self, at: float, number: int, *, paused_on: str = "host-1", ended_on: str = "host-2", is_live: bool = True
    ) -> None:
        """Let somebody ask for a payment, approve it, and see it done, live or when asking once more."""
        shown, answer = card(number), approval(number)
        thread = f"thread-{number}"
        result = f"Paid INV-{number}."
        self.exchange(at, thread, is_paused=True, cards=(shown,), open=(shown.interrupt_id,), replica=paused_on)
        done: dict[str, Any] = {"results": (Result(shown.call_id, result),), "replica": ended_on, "text": "done"}
        self.exchange(at + 1, thread, [answer], intent=Intent.ANSWER, **(done if is_live else {"is_cut": True}))
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
    return Answer(card(number).interrupt_id, Decision.APPROVE, card(number).arguments)


def tried_enough() -> Forged:
    """Three approvals that moved to another replica, a kill that hit a resume, a failover that hit no thread."""
    made = Forged()
    for number in (1, 2, 3):
        made.approved(10.0 * number, number)
    made.fault(11.2, FaultKind.KILL, "host-1", is_resume=True, thread="thread-1", step="before-effect")
    made.fault(50, FaultKind.FAILOVER, "", lasts=2)
    for at, phase in ((QUIET, Phase.QUIET), (LAST_LOOK, Phase.LAST_LOOK), (END, Phase.END)):
        made.events.append(Began(BEGAN_AT + at, phase))
    return made


def judge(
    run: Forged, expected: Expected = EXPECTED, *, is_bank_reached: bool = True, samples: Sequence[Sample] = ()
) -> Verdict:
    return check(run.history, run.effects, expected, is_bank_reached=is_bank_reached, samples=samples)


def rules(verdict: Verdict) -> set[tuple[str, str]]:
    """Return what was broken, by approval and rule."""
    return {(each.approval, each.rule) for each in verdict.violations}


def show(run: Forged, at: float, *cards: Card) -> None:
    """Show cards in thread-9, which host-1 does."""
    names = tuple(each.interrupt_id for each in cards)
    run.exchange(at, "thread-9", is_paused=True, cards=cards, open=names, replica="host-1")


def look(run: Forged, at: float, *cards: Card) -> None:
    """Look at that thread: these wait."""
    names = tuple(each.interrupt_id for each in cards)
    run.exchange(at, "thread-9", intent=Intent.LAST, is_paused=bool(cards), cards=cards, open=names)


def answer(run: Forged, at: float, *answers: Answer, takes: float = 0.5, **reply: object) -> None:
    """Send decisions about that thread, about card 9 if nothing else is said, and get this reply from host-2."""
    sent = answers or (approval(9),)
    told: dict[str, Any] = {"replica": "host-2", **reply}
    run.exchange(at, "thread-9", sent, intent=Intent.ANSWER, takes=takes, **told)


def pay(run: Forged, at: float) -> dict[str, Any]:
    """Let the bank count the payment of card 9, and return the reply that tells of it."""
    first = next(each for each in run.effects if each.key == card(1).interrupt_id)
    told = "Paid INV-9."
    run.effects.append(
        replace(first, key=card(9).interrupt_id, arguments=card(9).arguments, result=told, at=BEGAN_AT + at)
    )
    return {"results": (Result(card(9).call_id, told),), "text": "done"}


def soaked(*, bytes_a_second: int = 0) -> list[Sample]:
    """Return what a soak of ten minutes uses whose spared replica leaks so much."""
    return [
        Sample(BEGAN_AT + at, {SPARED: 110_000_000 + bytes_a_second * at}, 30, 20_000_000) for at in range(0, 601, 5)
    ]
