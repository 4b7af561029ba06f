"""How many approvals may be open, in a thread and in a scope: looked at when a run would pause, and only then.

A run that began with words is then refused whole: its thread is as it was. A run that answered approvals has carried
them out, so that is recorded; the calls it asked for in addition are closed as not made.

The scope is counted before the pause is committed, not with it: as many pauses as are committed at the same time may
go beyond its limit.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from app.errors import Code, Refusal
from app.tickets import Ending, Ticket
from app.transcript import close_calls
from stores.ports import ThreadStore
from stores.records import Bag

NOT_ASKED_TEXT = "Too many approvals are open, so nobody was asked for this one; the call was not run."


@dataclass(frozen=True, slots=True)
class OpenLimits:
    """Approvals that may be open at once in one thread, and in one scope."""

    per_thread_max: int
    per_scope_max: int


async def too_many(threads: ThreadStore, ticket: Ticket, ending: Ending, limits: OpenLimits) -> Refusal | None:
    """Refuse a pause that would leave too many approvals open. Raises StoreUnavailable.

    The scope is counted only where the pause opens more than its run answered: no other makes it fuller.
    """
    asked, added = len(ending.pending), len(ending.pending) - len(ticket.record.occurrences)
    if asked > limits.per_thread_max:
        limit = f"more than {limits.per_thread_max} open in this thread (AGUI_OPEN_APPROVALS_PER_THREAD_MAX)"
        return _refusal(ticket, asked, limit)
    room = limits.per_scope_max - added
    if added > 0 and (room < 0 or await threads.count_open(ticket.key.scope, at_most=room + 1) > room):
        limit = f"more than {limits.per_scope_max} open in all (AGUI_OPEN_APPROVALS_PER_SCOPE_MAX)"
        return _refusal(ticket, asked, limit)
    return None


def without_pause(ending: Ending, text: str = NOT_ASKED_TEXT) -> Ending:
    """Return what a run leaves that answered approvals and may open none: the calls it asked for were not made."""
    texts = {each.call_id: text for each in ending.asked}
    return replace(ending, snapshot=close_calls(ending.snapshot, texts), bag=Bag(), asked=(), pause_id=None)


def _refusal(ticket: Ticket, asked: int, limit: str) -> Refusal:
    kept = "What you answered is recorded. " if ticket.record.occurrences else ""
    message = f"{kept}The agent asked for {asked} approvals; there would be {limit}, so none of them was made."
    return Refusal(Code.LIMIT_EXCEEDED, message, tuple(each.interrupt_id for each in ticket.record.occurrences))
