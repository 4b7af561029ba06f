"""The approval rules, held against a naive model that knows no stores, claims or digests: dicts of what must be so."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from dataclasses import dataclass, field
from typing import Any

from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from app.pairing import Replay
from stores.records import EffectKind
from tests.machines.ruled import APPROVAL_SECONDS, CLAIM_SECONDS, Ruled, Ticket, entry_of

HOSTS = ("a", "b", "c")
KINDS = [EffectKind.IDEMPOTENT, EffectKind.UNSAFE]
VERDICTS = ("approve", "edit", "reject", "cancel")
IN_PROGRESS, BUSY, REQUIRED = "APPROVAL_RESUME_IN_PROGRESS", "THREAD_BUSY", "APPROVAL_RESUME_REQUIRED"
CONFLICT, EXPIRED, MISSING = "APPROVAL_RESUME_CONFLICT", "APPROVAL_RESUME_EXPIRED", "APPROVAL_RESUME_MISSING_INTERRUPT"
DOUBT = "APPROVAL_OUTCOME_INDETERMINATE"

places = st.integers(0, 5)
ages = st.sampled_from([0, 0, 0, 1, 2])
"""Which claim, counted from the newest; most often that."""
kinds = st.lists(st.sampled_from(KINDS), min_size=1, max_size=3)
hosts = st.sampled_from(HOSTS)
verdicts = st.lists(st.sampled_from(VERDICTS), min_size=3, max_size=3)


@dataclass(slots=True)
class Card:
    """One call: what was decided about it, and how far it got.

    `owner` is the claim that may begin it, and `is_held` whether it has not let go: it may also while a take-over that
    ended in doubt has taken the thread from it, but not the call.
    """

    kind: EffectKind
    expires_at: float
    verdict: str | None = None
    owner: int | None = None
    is_held: bool = False
    begun_by: set[int] = field(default_factory=set)
    is_settled: bool = False
    is_in_doubt: bool = False

    @property
    def is_approved(self) -> bool:
        return self.verdict in ("approve", "edit")


@dataclass(slots=True)
class Thread:
    """What is open, who works on it until when, and how everything else ended."""

    cards: dict[str, Card] = field(default_factory=dict)
    holder: tuple[int, str, float] | None = None
    ended: dict[str, tuple[str, int]] = field(default_factory=dict)


class RulesMachine(RuleBasedStateMachine):
    """One thread; three holders that may die. Claims are numbered, and kept to be used when they are long over."""

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.dead: set[str] = set()
        self.ruled = Ruled(self.dead)
        self.thread = Thread()
        self.tickets: list[Ticket] = []
        self.names = 0

    def teardown(self) -> None:
        self.runner.close()

    def do(self, work: Coroutine[Any, Any, Any]) -> Any:
        return self.runner.run(work)

    @property
    def is_held(self) -> bool:
        holder = self.thread.holder
        return holder is not None and holder[1] not in self.dead and holder[2] > self.ruled.now

    def take(self, answer: Ticket | str, reasons: set[str], host: str) -> bool:
        """Hold an answer against the reasons there are to refuse; whether it is a claim."""
        if reasons:
            assert answer in tuple(reasons)
            return False
        assert isinstance(answer, Ticket), answer
        self.thread.holder = (len(self.tickets), host, self.ruled.now + CLAIM_SECONDS)
        for card in self.thread.cards.values():
            self.hand_over(card, len(self.tickets))
        self.tickets.append(answer)
        return True

    def hand_over(self, card: Card, ticket: int) -> None:
        if card.is_approved and not card.is_settled:
            card.owner, card.is_held = ticket, True
            if card.kind is EffectKind.IDEMPOTENT:
                card.begun_by.add(ticket)

    def end_doubt(self) -> None:
        for card in self.thread.cards.values():
            card.is_in_doubt = card.is_in_doubt and not card.is_settled

    @initialize(asked=kinds)
    def pause(self, asked: list[EffectKind]) -> None:
        self.start("a")
        self.finish(0, asked)

    @rule(host=hosts)
    def start(self, host: str) -> None:
        answer = self.do(self.ruled.start("t", host))
        self.end_doubt()
        reasons = set[str]()
        if self.is_held:
            reasons.add(BUSY)
        if any(card.is_in_doubt for card in self.thread.cards.values()):
            reasons.add(DOUBT)
        if self.thread.cards:
            reasons.add(REQUIRED)
        self.take(answer, reasons, host)

    @precondition(lambda self: self.thread.cards)
    @rule(host=hosts, decided=verdicts, repeats=st.booleans(), is_whole=st.sampled_from([True, True, True, False]))
    def resume(self, host: str, decided: list[str], repeats: bool, is_whole: bool) -> None:
        """Answer what is open, or all but the last; `repeats`: as it was answered before."""
        given = dict(zip(self.thread.cards, decided, strict=False))
        if repeats:
            given = {name: self.thread.cards[name].verdict or verdict for name, verdict in given.items()}
        if not is_whole and len(given) > 1:
            given.popitem()
        answer = self.do(self.ruled.resume("t", host, [entry_of(*each) for each in given.items()]))
        self.end_doubt()
        reasons = self.reasons_against(given)
        if reasons:
            assert answer in tuple(reasons)
            return
        in_doubt = self.begun_and_left()
        if in_doubt:
            assert answer == DOUBT
            self.thread.holder = None
            for card in in_doubt:
                card.is_in_doubt = True
            return
        for name, verdict in given.items():
            self.thread.cards[name].verdict = self.thread.cards[name].verdict or verdict
        self.take(answer, set(), host)

    def reasons_against(self, given: dict[str, str]) -> set[str]:
        cards, now = self.thread.cards, self.ruled.now
        reasons = set[str]()
        if self.is_held:
            reasons.add(IN_PROGRESS)
        if any(card.is_in_doubt for card in cards.values()):
            reasons.add(DOUBT)
        if any(cards[name].verdict not in (None, verdict) for name, verdict in given.items()):
            reasons.add(CONFLICT)
        waiting = {name: card for name, card in cards.items() if card.verdict is None}
        if any(card.expires_at <= now for card in waiting.values()):
            reasons.add(EXPIRED)
        if waiting.keys() - given.keys():
            reasons.add(MISSING)
        return reasons

    def begun_and_left(self) -> list[Card]:
        """Unsafe calls that began under a claim that is over, and have no result."""
        unsafe = [card for card in self.thread.cards.values() if card.kind is EffectKind.UNSAFE]
        return [card for card in unsafe if card.begun_by and not card.is_settled]

    @precondition(lambda self: self.thread.ended)
    @rule(host=hosts, place=places, verdict=st.sampled_from(VERDICTS))
    def answer_what_ended(self, host: str, place: int, verdict: str) -> None:
        name = list(self.thread.ended)[place % len(self.thread.ended)]
        recorded, ticket = self.thread.ended[name]
        answer = self.do(self.ruled.resume("t", host, [entry_of(name, verdict)]))
        self.end_doubt()
        if verdict != recorded:
            assert answer == CONFLICT
        else:
            assert isinstance(answer, Replay)
            assert answer.run.run_id == self.tickets[ticket].run.run_id

    @precondition(lambda self: self.thread.holder is not None)
    @rule(asked=st.lists(st.sampled_from(KINDS), max_size=3))
    def carry_out(self, asked: list[EffectKind]) -> None:
        """Do all that the newest claim is for, and commit it."""
        for place, card in enumerate(self.thread.cards.values()):
            if card.is_approved and not card.is_settled:
                self.begin(0, place)
                self.settle(0, place)
        self.finish(0, asked)

    @precondition(lambda self: self.tickets and self.thread.cards)
    @rule(at=ages, place=places)
    def begin(self, at: int, place: int) -> None:
        ticket, name, card = self.pick(at, place)
        may = card.owner == ticket and not card.is_settled and (card.is_held or ticket in card.begun_by)
        assert self.do(self.ruled.begin(self.tickets[ticket], name)) == may
        if may:
            card.begun_by.add(ticket)

    @precondition(lambda self: self.tickets and self.thread.cards)
    @rule(at=ages, place=places)
    def settle(self, at: int, place: int) -> None:
        """Also by a holder that is thought dead: what it did is true."""
        ticket, name, card = self.pick(at, place)
        is_first = ticket in card.begun_by and not card.is_settled
        assert self.do(self.ruled.settle(self.tickets[ticket], name)) == is_first
        card.is_settled = card.is_settled or is_first

    def pick(self, at: int, place: int) -> tuple[int, str, Card]:
        """Choose one of the newest claims and a card."""
        ticket = max(0, len(self.tickets) - 1 - at)
        name = list(self.thread.cards)[place % len(self.thread.cards)]
        return ticket, name, self.thread.cards[name]

    def holds(self, ticket: int) -> bool:
        return self.thread.holder is not None and self.thread.holder[0] == ticket

    @precondition(lambda self: self.tickets)
    @rule(at=ages, asked=kinds)
    def finish(self, at: int, asked: list[EffectKind]) -> None:
        ticket = max(0, len(self.tickets) - 1 - at)
        calls = {f"card-{self.names + each}": kind for each, kind in enumerate(asked)}
        self.names += len(asked)
        may = self.holds(ticket) and all(card.is_settled for card in self.thread.cards.values() if card.is_approved)
        assert self.do(self.ruled.finish(self.tickets[ticket], calls)) == may
        if may:
            ended = {name: (str(card.verdict), ticket) for name, card in self.thread.cards.items()}
            expires_at = self.ruled.now + APPROVAL_SECONDS
            cards = {name: Card(kind, expires_at) for name, kind in calls.items()}
            self.thread = Thread(cards, None, {**self.thread.ended, **ended})

    @precondition(lambda self: self.tickets)
    @rule(at=ages)
    def release(self, at: int) -> None:
        ticket = max(0, len(self.tickets) - 1 - at)
        assert self.do(self.ruled.release(self.tickets[ticket])) == self.holds(ticket)
        if self.holds(ticket):
            self.thread.holder = None
            for card in self.thread.cards.values():
                card.is_held = card.is_held and card.owner != ticket

    @precondition(lambda self: len(self.dead) < len(HOSTS) - 1)
    @rule(host=hosts)
    def die(self, host: str) -> None:
        self.dead.add(host)

    @rule(seconds=st.sampled_from([1.0, 1.0, CLAIM_SECONDS + 1, APPROVAL_SECONDS + 1]))
    def let_time_pass(self, seconds: float) -> None:
        self.ruled.now += seconds

    @invariant()
    def shows_what_is_open(self) -> None:
        states = {
            name: "indeterminate" if card.is_in_doubt else "pending" if card.verdict is None else "decided"
            for name, card in self.thread.cards.items()
        }
        assert self.do(self.ruled.states("t")) == states


def test_the_rules_answer_as_a_naive_model_does(machines_seed: int) -> None:
    run_state_machine_as_test(
        seed(machines_seed)(RulesMachine),
        settings=settings(
            max_examples=150,
            stateful_step_count=30,
            deadline=None,
            print_blob=True,
            database=None,
            phases=[Phase.generate, Phase.shrink],
            suppress_health_check=list(HealthCheck),
        ),
    )
