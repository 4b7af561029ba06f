"""A thread as it is shown: the cards that can still be answered, and how far every other approval got. Pure."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from enum import StrEnum

from app import lost_record
from stores.ports import Loaded
from stores.records import Json, Occurrence, OccurrenceState, Outcome, Verdict


class Shown(StrEnum):
    """How far an approval is shown to be that has not ended; an ended one is shown as its outcome's state.

    `running`: decided, and a replica that is presumed alive carries it out. `decided`: it waits for one. `expired`: its
    time has passed, and its pause has not come to its end yet. `lost`: its record is gone; only a cancel ends it.
    """

    PENDING = "pending"
    EXPIRED = "expired"
    RUNNING = "running"
    DECIDED = "decided"
    INDETERMINATE = "indeterminate"
    LOST = "lost"


@dataclass(frozen=True, slots=True)
class View:
    """A thread read for showing it. `is_running`: its claim is live; `ended` are occurrences that came to their end."""

    loaded: Loaded
    is_running: bool = False
    ended: tuple[Outcome, ...] = ()

    def cards(self, among: Sequence[Json] | None = None) -> list[Json]:
        """Return the interrupts that can be answered now; `among` those of a run, else those of the thread."""
        if among is None:
            among = self.loaded.snapshot.interrupts if self.loaded.snapshot else ()
        states = self._states()
        return [card for card in among if states.get(str(card.get("id"))) is Shown.PENDING]

    def approvals(self, among: Collection[str] | None = None) -> list[Json]:
        """Say of every approval that is not ended, or of all those named, how far it got."""
        shown = [_approval(each, state) for each, state in self._open() if among is None or each.interrupt_id in among]
        if among is not None:
            return [*shown, *(_end(each) for each in self.ended if each.interrupt_id in among)]
        lost = [each.interrupt_id for each in lost_record.orphans(self.loaded)]
        return [*shown, *({"interruptId": each, "state": Shown.LOST.value} for each in lost)]

    def _states(self) -> dict[str, Shown]:
        return {each.interrupt_id: state for each, state in self._open()}

    def _open(self) -> list[tuple[Occurrence, Shown]]:
        return [(each, self._state_of(each)) for each in self.loaded.record.occurrences]

    def _state_of(self, occurrence: Occurrence) -> Shown:
        match occurrence.state:
            case OccurrenceState.PENDING:
                return Shown.PENDING if occurrence.expires_at > self.loaded.now else Shown.EXPIRED
            case OccurrenceState.DECIDED if occurrence.decision and occurrence.decision.verdict is Verdict.EXPIRE:
                return Shown.EXPIRED
            case OccurrenceState.DECIDED:
                return Shown.RUNNING if self.is_running else Shown.DECIDED
            case _:
                return Shown.INDETERMINATE


def _approval(occurrence: Occurrence, state: Shown) -> Json:
    decision: Json = {"decision": occurrence.decision.verdict.value} if occurrence.decision else {}
    if occurrence.decision is not None and occurrence.decision.standing_rule is not None:
        decision["standingRule"] = occurrence.decision.standing_rule.value
    return {"interruptId": occurrence.interrupt_id, "state": state.value, **decision}


def _end(outcome: Outcome) -> Json:
    decision = {"decision": outcome.decision.verdict.value} if outcome.decision else {}
    return {"interruptId": outcome.interrupt_id, "state": outcome.state.value, **decision}
