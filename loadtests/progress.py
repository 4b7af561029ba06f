"""How far a chaos run has come, counted as its history grows: when may it stop?"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from loadtests.history import Event, Fault, FaultKind, Replied, Sent


@dataclass(slots=True)
class Progress:
    """Approvals that a client knows the end of, kills that hit a resume in progress, resumes that ended live.

    `crossed` are those of `live` that did on another replica than the one that had shown their cards.
    """

    answered: set[str] = field(default_factory=set)
    hits: int = 0
    faults: int = 0
    live: int = 0
    crossed: int = 0
    kinds: set[FaultKind] = field(default_factory=set)
    _on_their_way: dict[str, Sent] = field(default_factory=dict)
    _shown_by: dict[str, str] = field(default_factory=dict)

    def add(self, events: Iterable[Event]) -> None:
        """Count what is new."""
        for event in events:
            match event:
                case Sent():
                    self._on_their_way[event.request] = event
                case Replied():
                    self._add_reply(event)
                case Fault():
                    self.faults += 1
                    self.kinds |= {event.kind} if event.kind else set()
                    self.hits += event.kind is FaultKind.KILL and event.is_resume
                case _:
                    pass

    def is_enough(self, *, approvals: int, hits: int, kinds: Iterable[FaultKind]) -> bool:
        """Whether so many approvals ended, so many kills hit, and each of these faults was met."""
        return len(self.answered) >= approvals and self.hits >= hits and self.kinds.issuperset(kinds)

    def __str__(self) -> str:
        share = f"{100 * self.crossed / self.live:.0f} %" if self.live else "none"
        return (
            f"{len(self.answered)} approvals ended, {self.faults} faults, {self.hits} kills hit a resume, "
            f"{share} of {self.live} resumes that ended live did on another replica"
        )

    def _add_reply(self, reply: Replied) -> None:
        sent = self._on_their_way.pop(reply.request, None)
        for card in reply.cards:
            self._shown_by.setdefault(card.interrupt_id, reply.replica)
        if sent is None or not sent.answers or not reply.is_finished:
            return
        new = {answer.interrupt_id for answer in sent.answers} - self.answered
        if not new:
            return
        self.answered |= new
        if reply.is_replay:
            return
        self.live += 1
        self.crossed += any(self._shown_by.get(interrupt_id, reply.replica) != reply.replica for interrupt_id in new)
