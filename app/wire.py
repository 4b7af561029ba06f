"""What goes out without a run: errors, replays and hydration, as AG-UI events."""

from __future__ import annotations

from collections.abc import Sequence

from ag_ui.core import BaseEvent, Event, RunErrorEvent, RunFinishedEvent
from pydantic import TypeAdapter

from app import standing, upstream
from app.errors import Refusal
from app.view import View
from stores.records import Json, Run, StandingRule, ThreadKey

_EVENT: TypeAdapter[BaseEvent] = TypeAdapter(Event)


def run_error(refusal: Refusal, *, is_definite: bool) -> RunErrorEvent:
    """Return RUN_ERROR; its metadata says whether no effect of what was asked has begun, and when to retry."""
    metadata: Json = {"definite": is_definite}
    if refusal.retry_after_seconds is not None:
        metadata["retryAfterSeconds"] = refusal.retry_after_seconds
    return RunErrorEvent(code=refusal.code.value, message=refusal.message, metadata=metadata)


def with_cards(error: RunErrorEvent, view: View, key: ThreadKey) -> Sequence[BaseEvent]:
    """Return RUN_ERROR with what a client needs to show a pause that it may not know of, where answers are missing.

    Before it comes what a live pause sends for each call that waits. Its metadata has the interrupts that can be
    answered now, as RUN_FINISHED carries them, and how far every approval of the thread got.
    """
    cards = view.cards()
    finished = upstream.run_finished(key, "", cards).model_dump(mode="json", by_alias=True, exclude_none=True)
    shown = {"interrupts": (finished.get("outcome") or {}).get("interrupts", []), "approvals": view.approvals()}
    waiting = [view.loaded.record.find(str(card["id"])) for card in cards]
    asking = [upstream.approval_request(each) for each in waiting if each is not None]
    return [*asking, error.model_copy(update={"metadata": {**(error.metadata or {}), **shown}})]


async def replay(
    run: Run, view: View, key: ThreadKey, run_id: str, *, is_repeat: bool, before: Sequence[Json] = ()
) -> Sequence[BaseEvent]:
    """Return the retained end of a run, marked if it is a repeat: tool results, final messages, RUN_FINISHED.

    A client that has them already would append them again, so the thread's messages follow, as they do in a live run.
    `before` are results that other runs kept. Of a paused run only the interrupts are sent that are still open; the
    metadata says what became of the others.
    """
    names = [str(each.get("id")) for each in run.interrupts]
    finished = upstream.run_finished(key, run_id, view.cards(run.interrupts))
    metadata: Json = {"replay": True} if is_repeat else {}
    if names:
        metadata["approvals"] = view.approvals(names)
    finished.metadata = {**(finished.metadata or {}), **metadata} or None
    with_rules(finished, view.loaded.record.standing_rules)
    picture = await upstream.picture(key, view.loaded.snapshot, run_id)
    return [*events((*before, *run.events)), *picture, finished]


def events(kept: Sequence[Json]) -> list[BaseEvent]:
    """Return events that were kept as they were sent."""
    return [_EVENT.validate_python(event) for event in kept]


def with_rules(finished: RunFinishedEvent, rules: Sequence[StandingRule]) -> RunFinishedEvent:
    """Return RUN_FINISHED with the standing rules of its thread: each can be taken back by its interrupt id."""
    if rules:
        finished.metadata = {**(finished.metadata or {}), "standingRules": standing.shown(rules)}
    return finished


async def hydration(view: View, key: ThreadKey, run_id: str) -> Sequence[BaseEvent]:
    """Return the thread as it stands: state, messages, the cards that wait, and how far each approval got."""
    finished = upstream.run_finished(key, run_id, view.cards())
    if view.loaded.record.occurrences:
        finished.metadata = {**(finished.metadata or {}), "approvals": view.approvals()}
    with_rules(finished, view.loaded.record.standing_rules)
    return [*await upstream.picture(key, view.loaded.snapshot, run_id), finished]
