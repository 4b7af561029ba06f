"""What upstream keeps of approvals in its process: its tests look into it, and put calls in. Here it is a mirror."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any
from uuid import uuid4

from agent_framework_ag_ui import AgentFrameworkAgent
from agent_framework_ag_ui._approval_lifecycle import ApprovalOccurrence, ApprovalStatus  # noqa: PLC2701
from agent_framework_ag_ui._approval_state import _APPROVAL_SCOPE_INPUT_KEY, approval_state_thread_id  # noqa: PLC2701

from app import upstream
from app.answers import call_digest, canonical
from stores.ports import Change, Loaded, Stores
from stores.records import Bag, EffectKind, Json, Occurrence, Record, Snapshot, ThreadKey

OPEN_SECONDS = 3600.0


class LocalState:
    """The process-local approval state of one thread of one of upstream's agents; this host itself has none."""

    def __init__(self, upstreams: AgentFrameworkAgent, key: ThreadKey, input_data: dict[str, Any]) -> None:
        self._store = upstreams._approval_state_store
        self._key = key
        self._scope: str | None = input_data.get(_APPROVAL_SCOPE_INPUT_KEY)
        self._thread = approval_state_thread_id(scope=self._scope, thread_id=key.thread_id)

    async def put_in(self, stores: Stores) -> None:
        """Commit as a pause what a test has put in by itself, as if a run had asked for it."""
        loaded = await stores.threads.load(self._key)
        found = [each for each in self._pending() if loaded.record.find(each.active_interrupt_id) is None]
        if found and loaded.record.claim is None:
            change = _pause(loaded, tuple(self._occurrence(each, loaded.now) for each in found), self._bag())
            await stores.threads.save(self._key, change=change)

    async def show(self, stores: Stores) -> None:
        """Put there what the record has open now, and nothing else."""
        loaded = await stores.threads.load(self._key)
        lifecycle = self._store.lifecycle
        for gone in self._pending():
            del lifecycle._occurrences[gone.identity]
        for name in [name for name in lifecycle._pending_by_interrupt if name[0] == self._thread]:
            del lifecycle._pending_by_interrupt[name]
        for each in loaded.record.occurrences:
            fields = self._moved(each.upstream, self._thread, self._scope)
            upstream._DeferredLifecycle.restore(lifecycle, upstream._occurrence_from(fields))  # type: ignore[arg-type]
        self._store.set_tool_approval_state(self._thread, (loaded.bag and loaded.bag.state) or {})

    def _pending(self) -> list[ApprovalOccurrence]:
        return [
            each
            for each in self._store.lifecycle.occurrences_for_thread(thread_id=self._thread)
            if each.status is ApprovalStatus.PENDING and each.requires_client_resume
        ]

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
            upstream=self._moved(asked.upstream, ours, self._key.scope),
        )

    def _moved(self, fields: Json, thread: str, scope: str | None) -> Json:
        identity = [thread, *fields["identity"][1:]]
        return {**copy.deepcopy(fields), "identity": identity, "thread_ids": [thread], "scope": scope}


def _pause(loaded: Loaded, occurrences: tuple[Occurrence, ...], bag: Json | None) -> Change:
    pause_id = uuid4().hex
    return Change(
        loaded.record.version,
        uuid4().hex,
        Record(pause_id=pause_id, occurrences=(*loaded.record.occurrences, *occurrences)),
        snapshot=replace(loaded.snapshot or Snapshot(), pause_id=pause_id),
        bag=Bag(pause_id, bag),
    )
