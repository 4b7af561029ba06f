"""One thread as its clients saw it: what was sent there, what was shown, and when an end was first known."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from loadtests.history import Answer, Card, Exchange
from stores.records import Verdict

NOT_FOUND = "APPROVAL_RESUME_NOT_FOUND"
EXPIRED = "APPROVAL_RESUME_EXPIRED"
IN_DOUBT = "APPROVAL_OUTCOME_INDETERMINATE"
IN_PROGRESS = "APPROVAL_RESUME_IN_PROGRESS"
CONFLICT = "APPROVAL_RESUME_CONFLICT"
RUN_FAILED = "RUN_FAILED"
STORE_UNAVAILABLE = "STORE_UNAVAILABLE"
REQUIRED = "APPROVAL_RESUME_REQUIRED"

NEVER = float("inf")

Answered = tuple[Answer, Exchange]
Found = Iterator[tuple[str, str]]
"""What breaks a rule about replies: the approval, or "", and what is wrong."""


@dataclass(slots=True)
class Thread:
    """One thread of one scope: what was sent there, what was shown, and when a client first knew of an end."""

    exchanges: list[Exchange] = field(default_factory=list)
    cards: dict[str, Card] = field(default_factory=dict)
    pauses: dict[str, frozenset[str]] = field(default_factory=dict)
    """For each card those of its pause: that it was shown with, itself included."""
    answers: defaultdict[str, list[Answered]] = field(default_factory=lambda: defaultdict(list))
    taken_at: dict[str, float] = field(default_factory=dict)
    expired_at: dict[str, float] = field(default_factory=dict)

    def add(self, each: Exchange) -> None:
        """Note one exchange; they come in the order in which they were sent."""
        self.exchanges.append(each)
        reply = each.replied
        for answer in each.sent.answers:
            self.answers[answer.interrupt_id].append((answer, each))
            if reply.is_finished:
                _note_first(self.taken_at, answer.interrupt_id, reply.at)
            if reply.code == EXPIRED:
                _note_first(self.expired_at, answer.interrupt_id, reply.at)
        if reply.cards:
            names = frozenset(card.interrupt_id for card in reply.cards)
            self.cards |= {card.interrupt_id: card for card in reply.cards}
            for name in names:
                self.pauses[name] = self.pauses.get(name, frozenset()) | names

    def is_ended(self, name: str, before: float) -> bool:
        """Whether a client of the thread knew by then how an approval ended."""
        return min(self.taken_at.get(name, NEVER), self.expired_at.get(name, NEVER)) < before

    def has_nothing_open(self, each: Exchange) -> bool:
        """Whether every call had ended, as a client knew, when this was sent.

        A run whose end nobody was told may have asked for more. Where runs have no ids, none has.
        """
        if not all(self.is_ended(name, each.sent.at) for name in self.cards):
            return False
        told = {other.sent.run for other in self.exchanges if other.replied.is_finished}
        return not any(
            other.sent.at < each.replied.at and other.sent.run not in told and not _has_asked_nothing(other)
            for other in self.exchanges
        )

    def approvals(self, names: Iterable[str]) -> Iterator[Answered]:
        """Return the answers that approve one of these."""
        for name in names:
            yield from (each for each in self.answers.get(name, ()) if each[0].verdict is Verdict.APPROVE)


def threads_of(all_of_them: Sequence[Exchange]) -> dict[tuple[str, str], Thread]:
    """Sort exchanges by scope and thread."""
    threads: defaultdict[tuple[str, str], Thread] = defaultdict(Thread)
    for each in all_of_them:
        threads[each.sent.scope, each.sent.thread].add(each)
    return dict(threads)


def _has_asked_nothing(each: Exchange) -> bool:
    return each.sent.looks or each.replied.definite or each.replied.code in {REQUIRED, CONFLICT, EXPIRED, NOT_FOUND}


def _note_first(times: dict[str, float], name: str, at: float) -> None:
    times[name] = min(at, times.get(name, at))
