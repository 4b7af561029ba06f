"""One thread as a person sees it: ask for calls, see cards, decide about them, and hold on until it is answered."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

from deploy.agui_client import Reply, Run, ask, hydrate, resume
from loadtests.client import Client
from loadtests.decisions import approval, cancellation, decision, edited, rejection
from loadtests.history import Answer, Card, Intent
from loadtests.shown import card
from stores.records import EffectKind, Verdict

CALLS_MAX = 5
PAYEE = "ACME"

WORDS = {
    EffectKind.IDEMPOTENT: f"pay {{invoice}} to {PAYEE}",
    EffectKind.UNSAFE: f"wire {{invoice}} to {PAYEE}",
    EffectKind.TRANSACTIONAL: "refund {invoice}",
}

Answers = tuple[Answer, ...]


class Conversation:
    """A thread, the cards that wait in it, and what was last decided about them."""

    def __init__(
        self, client: Client, thread: str, rng: random.Random, kinds: Sequence[EffectKind], invoices: Iterator[str]
    ) -> None:
        self.client = client
        self.thread = thread
        self.rng = rng
        self.cards: tuple[Card, ...] = ()
        self._kinds = kinds
        self._invoices = invoices

    def ask(self, calls: int | None = None, *, is_followed: bool = False) -> bool:
        """Ask for some calls, each for an invoice of its own, and say whether cards wait now.

        `is_followed`: for one more, later, when these are done.
        """
        words = " and ".join(self._words() for _ in range(calls or self.rng.randint(1, CALLS_MAX)))
        if is_followed:
            words += f" then {self._words()}"
        return self.see(self.client.send(ask(self.thread, words), Intent.ASK))

    def answer(self, answers: Answers) -> Reply:
        """Send decisions until they are answered; the cards of a pause that follows wait then."""
        reply = self.client.send(self.decided(answers), Intent.ANSWER, answers)
        self.see(reply)
        return reply

    def repeat(self, answers: Answers, intent: Intent, device: Client | None = None) -> Reply:
        """Send decisions in a run of their own, until they are answered, and change nothing of what waits here."""
        return (device or self.client).send(self.decided(answers), intent, answers)

    def decided(self, answers: Answers) -> Run:
        """Return a run that carries these decisions."""
        return resume(self.thread, *map(decision, answers))

    def look(self) -> Reply:
        """Load the page."""
        return self.client.send(hydrate(self.thread), Intent.LOOK)

    def approved(self) -> Answers:
        """Approve all that waits, as shown."""
        return tuple(approval(each) for each in self.cards)

    def mixed(self) -> Answers:
        """Decide about each card by itself: approve it, as shown or edited, reject it, or withdraw the question."""
        return tuple(self.rng.choice((approval, edited, rejection, cancellation))(each) for each in self.cards)

    def all(self, verdict: Verdict) -> Answers:
        """Decide the same about every card."""
        return tuple(Answer(each.interrupt_id, verdict) for each in self.cards)

    def see(self, reply: Reply) -> bool:
        """See the cards of a reply, whichever device got it; say whether any waits."""
        self.cards = tuple(card(each) for each in reply.interrupts)
        return bool(self.cards)

    def _words(self) -> str:
        return WORDS[self.rng.choice(self._kinds)].format(invoice=next(self._invoices))
