"""A pause whose approval record is gone while its snapshot still shows the cards: nothing of it is rebuilt. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from app.answers import CANCELLATION, Entry
from app.errors import Code, Refusal
from app.lifecycle import left_digest
from stores.ports import Loaded
from stores.records import OccurrenceState, Outcome, Run, RunState


@dataclass(frozen=True, slots=True)
class Orphan:
    """A card without a record: no more of its call is known than what the snapshot shows."""

    interrupt_id: str
    call_id: str


def orphans(loaded: Loaded) -> tuple[Orphan, ...]:
    """Return the cards of a pause that the record does not know; none if the thread is not in one, or is whole."""
    snapshot = loaded.snapshot
    if loaded.record.occurrences or snapshot is None or snapshot.pause_id is None:
        return ()
    return tuple(Orphan(str(each.get("id")), str(each.get("toolCallId"))) for each in snapshot.interrupts)


def refusal(loaded: Loaded) -> Refusal | None:
    """Refuse whatever would go on in such a thread, but for a cancel of all its cards."""
    names = tuple(each.interrupt_id for each in orphans(loaded))
    if not names:
        return None
    message = "The pause can not be resumed: its approval record is missing. Cancel it to go on."
    return Refusal(Code.RESUME_STALE, message, names)


def refusal_of(loaded: Loaded, name: str) -> Refusal | None:
    """Refuse an answer to one of its cards; None if `name` is none of them."""
    refused = refusal(loaded)
    return refused if refused is not None and name in refused.interrupts else None


def is_left_by(loaded: Loaded, entries: Sequence[Entry]) -> bool:
    """Say whether the answers cancel every card of such a thread."""
    names = {each.interrupt_id for each in orphans(loaded)}
    are_cancels = all(each.status == "cancelled" for each in entries)
    return bool(names) and are_cancels and names == {each.name for each in entries}


def began(names: Sequence[str]) -> Refusal:
    """Refuse the cancel too: the ledger says that a call began, and nothing tells any more which one it was."""
    message = "Its approval record is missing, and a call of it has begun or ended: an operator must look at it."
    return Refusal(Code.RESUME_STALE, message, tuple(names))


def left_run(cards: Sequence[Orphan], *, run_id: str, attempt: str) -> Run:
    """Return the run that a cancel leaves of such a thread."""
    outcomes = tuple(
        Outcome(each.interrupt_id, each.call_id, "", "{}", OccurrenceState.CANCELLED, CANCELLATION) for each in cards
    )
    return Run(run_id, left_digest(outcomes), RunState.FINISHED, attempt, outcomes)
