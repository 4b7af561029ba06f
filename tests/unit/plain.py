"""Histories in which one request comes after another, for the judges: one in which every promise was kept."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from loadtests.history import Answer, Effect, Event, Fault, Replied, Result, Sent, exchanges
from loadtests.threads import CONFLICT, EXPIRED, IN_DOUBT, NOT_FOUND, REQUIRED
from stores.records import EffectKind, Verdict
from tests.unit.forged import approval, card, result, results_of


@dataclass(slots=True)
class Forged:
    """A history in which every promise was kept, until a test breaks one."""

    events: list[Event] = field(default_factory=list)
    effects: list[Effect] = field(default_factory=list)

    @property
    def at(self) -> float:
        return float(len(self.events))

    def send(self, thread: str, *answers: Answer, scope: str = "alice", looks: bool = False, **reply: object) -> None:
        """Send something and get this reply."""
        request = f"request-{len(self.events)}"
        page = self._told(scope, thread) if looks else ()
        self.events.append(Sent(self.at, request, scope, thread, answers, looks))
        replied = Replied(self.at, request, page=page)
        self.events.append(replace(replied, **reply))  # type: ignore[arg-type]  # fields of Replied

    def show(self, thread: str, *names: str) -> None:
        self.send(thread, is_paused=True, cards=tuple(map(card, names)))

    def look(self, thread: str, *names: str) -> None:
        self.send(thread, looks=True, is_paused=bool(names), cards=tuple(map(card, names)), open=names)

    def happen(self, name: str, **changes: object) -> None:
        """Let the far side count an effect."""
        key = name if card(name).kind is EffectKind.IDEMPOTENT else None
        effect = Effect(card(name).tool, card(name).arguments, key, result(name).content, self.at)
        self.effects.append(replace(effect, **changes))  # type: ignore[arg-type]  # fields of Effect

    def answer(self, thread: str, *answers: Answer, is_replay: bool = False) -> None:
        """Get the answer of a run that these decisions ended."""
        approved = [each.interrupt_id for each in answers if each.verdict is Verdict.APPROVE]
        told = results_of(answers)
        self.send(thread, *answers, is_replay=is_replay, results=told, text=f"done {approved}")

    def _told(self, scope: str, thread: str) -> tuple[Result, ...]:
        """Return every result that was told in a thread by now."""
        told = (each for each in exchanges(self.events) if (each.sent.scope, each.sent.thread) == (scope, thread))
        return tuple(dict.fromkeys(result for each in told for result in each.replied.results))

    def die(self, *left_begun: str) -> None:
        self.events.append(Fault(self.at, "a", frozenset(left_begun)))


def plain_history() -> Forged:
    """Two calls carried out past a dead replica, one in doubt, one rejected, one expired, one open, a bystander."""
    forged = Forged()
    forged.show("both", "pay-1", "refund-1")
    forged.send("both", approval("pay-1"), approval("refund-1"), is_cut=True)
    forged.happen("pay-1")
    forged.happen("refund-1")
    forged.answer("both", approval("pay-1"), approval("refund-1"))
    forged.answer("both", approval("pay-1"), approval("refund-1"), is_replay=True)
    forged.send("both", Answer("pay-1", Verdict.REJECT), code=CONFLICT)
    forged.show("doubt", "wire-1")
    forged.send("doubt", approval("wire-1"), is_cut=True)
    forged.die("wire-1")
    forged.send("doubt", approval("wire-1"), code=IN_DOUBT)
    forged.show("no", "wire-2")
    forged.send("no", approval("wire-2"), code="APPROVAL_RESUME_INVALID", definite=True)
    forged.answer("no", Answer("wire-2", Verdict.REJECT))
    forged.show("late", "wire-3")
    forged.events.append(Fault(1000.0, "b"))
    forged.events.append(Sent(1001.0, "late", "alice", "late", (approval("wire-3"),)))
    forged.events.append(Replied(1002.0, "late", code=EXPIRED, definite=True))
    forged.show("open", "pay-2")
    forged.send("open", code=REQUIRED)
    forged.look("open", "pay-2")
    forged.show("over", "pay-3")
    forged.events.append(Sent(1003.0, "over", "alice", "over", looks=True))
    forged.events.append(Replied(1004.0, "over"))
    forged.send("both", approval("pay-1"), scope="bob", code=NOT_FOUND)
    forged.send("both", scope="bob", looks=True)
    return forged
