"""What upstream keeps of approvals in its process: its tests look into it, and put calls in. Here it is a mirror."""

from __future__ import annotations

import copy
import time
from collections.abc import Collection
from dataclasses import replace
from typing import Any
from uuid import uuid4

from agent_framework_ag_ui import AgentFrameworkAgent
from agent_framework_ag_ui._approval_lifecycle import ApprovalOccurrence, ApprovalStatus  # noqa: PLC2701  # its tests look there
from agent_framework_ag_ui._approval_state import _APPROVAL_SCOPE_INPUT_KEY, approval_state_thread_id  # noqa: PLC2701  # its tests look there

from app import upstream
from app.answers import approval_digest, call_digest, canonical
from app.lifecycle import outcome_of
from app.retained import outcome_named
from stores.ports import Change, Loaded, Stores
from stores.records import (
    Bag,
    Decision,
    EffectKind,
    Json,
    Occurrence,
    OccurrenceState,
    Record,
    Run,
    RunState,
    Snapshot,
    ThreadKey,
    Verdict,
)

OPEN_SECONDS = 3600.0
ENDS = {
    OccurrenceState.FINISHED: ApprovalStatus.SETTLED,
    OccurrenceState.REJECTED: ApprovalStatus.REJECTED,
    OccurrenceState.CANCELLED: ApprovalStatus.CANCELLED,
    OccurrenceState.EXPIRED: ApprovalStatus.EXPIRED,
}


class LocalState:
    """The process-local approval state of one thread of one of upstream's agents; this host itself has none."""

    def __init__(self, upstreams: AgentFrameworkAgent, key: ThreadKey, input_data: dict[str, Any]) -> None:
        self._store = upstreams._approval_state_store
        self._key = key
        self._scope: str | None = input_data.get(_APPROVAL_SCOPE_INPUT_KEY)
        self._thread = approval_state_thread_id(scope=self._scope, thread_id=key.thread_id)

    @property
    def is_put_in(self) -> bool:
        """Whether a test has put in calls that wait for a person."""
        return bool(self._pending())

    async def put_in(self, stores: Stores, gated: Collection[str]) -> None:
        """Commit as a pause what a test has put in by itself, as if a run had asked for it.

        `gated` are the agent's own gated tools; a middleware of it asked about any other.
        """
        loaded = await stores.threads.load(self._key)
        found = [each for each in self._pending() if loaded.record.find(each.active_interrupt_id) is None]
        if found and loaded.record.claim is None:
            asked = [self._occurrence(each, loaded.now) for each in found]
            asked = [replace(each, provided=each.tool not in gated) for each in asked]
            settled = [each for each in self._in(ApprovalStatus.SETTLED) if await self._end_of(each, stores) is None]
            runs = tuple(_ended(self._occurrence(each, loaded.now), each) for each in settled)
            change = replace(_pause(loaded, tuple(asked), self._bag()), runs=runs)
            await stores.threads.save(self._key, change=change)

    async def show(self, stores: Stores) -> None:
        """Put there what the record has open now, and how the calls ended that were open there."""
        loaded = await stores.threads.load(self._key)
        lifecycle = self._store.lifecycle
        for gone in self._pending():
            end = await self._end_of(gone, stores)
            if end is None:
                del lifecycle._occurrences[gone.identity]
            else:
                gone.status, gone.terminal_at = ENDS[end], lifecycle._clock()
        for name in [name for name in lifecycle._pending_by_interrupt if name[0] == self._thread]:
            del lifecycle._pending_by_interrupt[name]
        for each in loaded.record.occurrences:
            fields = self._moved(each.upstream, self._thread, self._scope)
            upstream._DeferredLifecycle.restore(lifecycle, upstream._occurrence_from(fields))  # type: ignore[arg-type]
        self._store.set_tool_approval_state(self._thread, (loaded.bag and loaded.bag.state) or {})

    def _pending(self) -> list[ApprovalOccurrence]:
        return [each for each in self._in(ApprovalStatus.PENDING) if each.requires_client_resume]

    def _in(self, status: ApprovalStatus) -> list[ApprovalOccurrence]:
        found = self._store.lifecycle.occurrences_for_thread(thread_id=self._thread)
        return [each for each in found if each.status is status]

    async def _end_of(self, found: ApprovalOccurrence, stores: Stores) -> OccurrenceState | None:
        run = await stores.threads.outcome(self._key, interrupt=found.active_interrupt_id)
        outcome = outcome_named(run, found.active_interrupt_id)
        return None if outcome is None else outcome.state

    def _bag(self) -> Json | None:
        return copy.deepcopy(self._store.get_tool_approval_state(self._thread))

    def _occurrence(self, found: ApprovalOccurrence, now: float) -> Occurrence:
        ours = approval_state_thread_id(scope=self._key.scope, thread_id=self._key.thread_id)
        asked = upstream._asked(found)
        arguments = canonical(asked.arguments)
        return Occurrence(
            interrupt_id=asked.interrupt_id,
            call_id=asked.call_id,
            tool=asked.tool,
            kind=EffectKind.UNSAFE,
            arguments=arguments,
            digest=call_digest(asked.tool, arguments),
            run_id="put-in-by-a-test",
            created_at=now,
            expires_at=now + OPEN_SECONDS,
            aliases=asked.aliases,
            # Upstream's own clock is monotonic, that of this host's runs the time of day.
            upstream={**self._moved(asked.upstream, ours, self._key.scope), "pending_since": time.time()},
        )

    def _moved(self, fields: Json, thread: str, scope: str | None) -> Json:
        identity = [thread, *fields["identity"][1:]]
        return {**copy.deepcopy(fields), "identity": identity, "thread_ids": [thread], "scope": scope}


def _ended(occurrence: Occurrence, found: ApprovalOccurrence) -> Run:
    """Return the run that a call with a result would have left."""
    text = occurrence.arguments
    decision = Decision(Verdict.APPROVE, text, approval_digest(occurrence.tool, text))
    outcome = outcome_of(replace(occurrence, decision=decision), OccurrenceState.FINISHED)
    events: tuple[Json, ...] = tuple(
        {
            "type": "TOOL_CALL_RESULT",
            "messageId": uuid4().hex,
            "toolCallId": occurrence.call_id,
            "content": str(each.content.result),
        }
        for each in found.replayable_results
    )
    return Run(f"put-in-{uuid4().hex}", "", RunState.FINISHED, uuid4().hex, (outcome,), events)


def _pause(loaded: Loaded, occurrences: tuple[Occurrence, ...], bag: Json | None) -> Change:
    pause_id = uuid4().hex
    return Change(
        loaded.record.version,
        uuid4().hex,
        Record(pause_id=pause_id, occurrences=(*loaded.record.occurrences, *occurrences)),
        snapshot=replace(loaded.snapshot or Snapshot(), pause_id=pause_id),
        bag=Bag(pause_id, bag),
    )
