"""One thread as a person sees it: ask for calls, see cards, decide about them, and hold on until it is answered."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from copy import copy
from dataclasses import replace

from deploy.agui_client import Json, Reply, Run, ask, hydrate, resume
from loadtests.client import Client
from loadtests.decisions import THEN, approval, cancellation, decision, edited, in_short, rejection
from loadtests.history import Answer, Card, Intent
from loadtests.shown import card
from stores.records import EffectKind, Verdict

CALLS_MAX = 5
PAYEE = "ACME"
LEAVE_SECONDS_MAX = 0.6
"""Who leaves does so before anything came back, or somewhere in the middle of it."""
SPELLED_OUT_SHARE = 0.3

WORDS = {
    EffectKind.IDEMPOTENT: f"pay {{invoice}} to {PAYEE}",
    EffectKind.UNSAFE: f"wire {{invoice}} to {PAYEE}",
    EffectKind.TRANSACTIONAL: "refund {invoice}",
}

Answers = tuple[Answer, ...]


class Conversation:
    """A thread, the cards that wait in it, and what was last said there."""

    def __init__(
        self, client: Client, thread: str, rng: random.Random, kinds: Sequence[EffectKind], invoices: Iterator[str]
    ) -> None:
        self.client = client
        self.thread = thread
        self.rng = rng
        self.cards: tuple[Card, ...] = ()
        self._kinds = kinds
        self._invoices = invoices
        self._shown: dict[str, Card] = {}
        self._last: tuple[Run, Answers] = (hydrate(thread), ())

    def on_another_device(self) -> Conversation:
        """Return the same thread on another device of the same person."""
        other = copy(self)
        other.client = replace(self.client, user=f"{self.client.user}/phone")
        return other

    def ask(self, calls: int | None = None, *, is_followed: bool = False, leaves: bool = False) -> Reply:
        """Ask for some calls, each for an invoice of its own; the cards of the reply wait then.

        `is_followed`: for one more, later, when these are done. Who leaves does not see the reply.
        """
        words = " and ".join(self._words() for _ in range(calls or self.rng.randint(1, CALLS_MAX)))
        if is_followed:
            words += f"{THEN}{self._words()}"
        return self._say(ask(self.thread, words), Intent.ASK, (), leaves=leaves)

    def answer(self, answers: Answers, *, leaves: bool = False) -> Reply:
        """Send decisions until they are answered; the cards of a pause that follows wait then."""
        return self._say(self.decided(answers), Intent.ANSWER, answers, leaves=leaves)

    def again(self) -> Reply:
        """Send what was said last once more, the very same, until it is answered."""
        run, answers = self._last
        return self.see(self.client.send(run, Intent.AGAIN, answers))

    def repeat(self, answers: Answers, intent: Intent, device: Client | None = None) -> Reply:
        """Send decisions in a run of their own, until they are answered, and change nothing of what waits here."""
        return (device or self.client).send(self.decided(answers), intent, answers)

    def decided(self, answers: Answers) -> Run:
        """Return a run that carries these decisions, in one of the ways to say them."""
        return resume(self.thread, *map(self._worded, answers))

    def look(self) -> Reply:
        """Load the page."""
        return self.client.send(hydrate(self.thread), Intent.LOOK)

    def see(self, reply: Reply) -> Reply:
        """Have the cards of a reply wait here, whoever it was sent to, and return it."""
        self.cards = tuple(card(each) for each in reply.interrupts)
        self._shown |= {each.interrupt_id: each for each in self.cards}
        return reply

    def approved(self) -> Answers:
        """Approve all that waits, as shown."""
        return tuple(approval(each) for each in self.cards)

    def mixed(self) -> Answers:
        """Decide about each card by itself: approve it, as shown or edited, reject it, or withdraw the question."""
        return tuple(self.rng.choice((approval, edited, rejection, cancellation))(each) for each in self.cards)

    def all(self, verdict: Verdict) -> Answers:
        """Decide the same about every card."""
        return tuple(Answer(each.interrupt_id, verdict) for each in self.cards)

    def _say(self, run: Run, intent: Intent, answers: Answers, *, leaves: bool) -> Reply:
        self._last = (run, answers)
        if leaves:
            leave_after_seconds = self.rng.uniform(0.0, LEAVE_SECONDS_MAX)
            return self.client.post(run, intent, answers, leave_after_seconds=leave_after_seconds)
        return self.see(self.client.send(run, intent, answers))

    def _words(self) -> str:
        return WORDS[self.rng.choice(self._kinds)].format(invoice=next(self._invoices))

    def _worded(self, answer: Answer) -> Json:
        shown = self._shown.get(answer.interrupt_id)
        if shown is None or self.rng.random() < SPELLED_OUT_SHARE:
            return decision(answer)
        return in_short(answer, shown)
