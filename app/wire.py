"""What goes out without a run: errors, replays and hydration, as AG-UI events."""

from __future__ import annotations

from collections.abc import Sequence

from ag_ui.core import BaseEvent, Event, RunErrorEvent, RunStartedEvent
from pydantic import TypeAdapter

from app import upstream
from app.errors import Refusal
from stores.ports import Loaded
from stores.records import Json, OccurrenceState, Run, ThreadKey

_EVENT: TypeAdapter[BaseEvent] = TypeAdapter(Event)


def run_error(refusal: Refusal, *, is_definite: bool) -> RunErrorEvent:
    """Return RUN_ERROR; its metadata says whether no effect of what was asked has begun, and when to retry."""
    metadata: Json = {"definite": is_definite}
    if refusal.retry_after_seconds is not None:
        metadata["retryAfterSeconds"] = refusal.retry_after_seconds
    return RunErrorEvent(code=refusal.code.value, message=refusal.message, metadata=metadata)


def replay(run: Run, key: ThreadKey, run_id: str, *, is_repeat: bool) -> Sequence[BaseEvent]:
    """Return the retained end of a run: tool results, final messages, RUN_FINISHED, marked if it is a replay."""
    finished = upstream.run_finished(key, run_id, run.interrupts)
    if is_repeat:
        finished.metadata = {**(finished.metadata or {}), "replay": True}
    return [*(_EVENT.validate_python(event) for event in run.events), finished]


async def hydration(loaded: Loaded, key: ThreadKey, run_id: str) -> Sequence[BaseEvent]:
    """Return the thread as it stands: state, messages, the cards that wait, and how far each approval got."""
    record = loaded.record
    waiting = {
        each.interrupt_id
        for each in record.occurrences
        if each.state is OccurrenceState.PENDING and each.expires_at > loaded.now
    }
    stored = loaded.snapshot.interrupts if loaded.snapshot else ()
    interrupts = [each for each in stored if each.get("id") in waiting]
    finished = upstream.run_finished(key, run_id, interrupts)
    if record.occurrences:
        finished.metadata = {
            **(finished.metadata or {}),
            "approvals": [{"interruptId": each.interrupt_id, "state": each.state.value} for each in record.occurrences],
        }
    events = await upstream.picture(key, loaded.snapshot, run_id)
    return [*(event for event in events if not isinstance(event, RunStartedEvent)), finished]
