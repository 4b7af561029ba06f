"""Every private seam of agent-framework-ag-ui, in one place, each with what would remove it.

- `run_agent_stream`, the approval state store and lifecycle: a pluggable store (microsoft/agent-framework#7082).
- forced deferred owners: a batch that mixes approve and reject, which wedges native agents (same issue).
- the scope keys of the input and the shape of a resume: a public run API that takes both.
- the event that asks for an approval: a public builder of it.
- the error that arguments changed after their approval: a public name for it.
- the members of a middleware bundle: a public name for them.
- the encoding of checkpoints: public names for it, which every storage but upstream's own needs.
- the histograms of agents and clients: one for all of a process.
"""

from __future__ import annotations

import copy
import json
import time
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, cast

from ag_ui.core import BaseEvent, CustomEvent, EventType, RunFinishedEvent
from agent_framework import Agent, Content, MiddlewareBundle, observability
from agent_framework._serialization import make_json_safe
from agent_framework._tools import _FunctionArgumentsChangedAfterApproval
from agent_framework._workflows._checkpoint_encoding import decode_checkpoint_value, encode_checkpoint_value
from agent_framework_ag_ui import AGUIThreadSnapshotStore
from agent_framework_ag_ui._agent import AgentConfig
from agent_framework_ag_ui._agent_run import run_agent_stream
from agent_framework_ag_ui._approval_lifecycle import (
    ApprovalExecutionOwner,
    ApprovalLifecycle,
    ApprovalOccurrence,
    ApprovalOccurrenceIdentity,
    ApprovalOutcome,
    ApprovalStatus,
    AuthorizedExecution,
)
from agent_framework_ag_ui._approval_state import (
    _APPROVAL_SCOPE_INPUT_KEY,
    InMemoryAGUIApprovalStateStore,
    approval_state_thread_id,
)
from agent_framework_ag_ui._run_common import (
    FlowState,
    _build_run_finished_event,
    _emit_approval_request,
    _strict_resume_entries,
)
from agent_framework_ag_ui._snapshot_session import ThreadSnapshotSession
from agent_framework_ag_ui._snapshots import _SNAPSHOT_SCOPE_INPUT_KEY

from stores.records import Bag, Json, Occurrence, Snapshot, ThreadKey, Verdict
from stores.snapshots import to_upstream

_FOREVER_SECONDS = 10.0**9
"""Expiry and retention are ours, judged by the store's clock; upstream's own must never act."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A call that waits for a person, as upstream registered it in this run."""

    interrupt_id: str
    call_id: str
    tool: str
    arguments: Json
    aliases: tuple[str, ...]
    is_hosted: bool
    server_label: str | None
    upstream: Json


def share_histograms() -> None:
    """Let all agents and clients of this process use the same two histograms. May be called again.

    agent-framework-core 1.23.0 asks for a meter and its instruments with each agent, and hosts build an agent for each
    request. Until a provider is set, the OpenTelemetry API keeps every one of them for good: some 2 kB a request.
    """
    for name in ("_get_duration_histogram", "_get_token_usage_histogram"):
        made = getattr(observability, name)
        if not hasattr(made, "cache_info"):
            setattr(observability, name, cache(made))


def scope_of(input_data: Mapping[str, Any]) -> str | None:
    """Return the scope the endpoint's resolver found; a client can not set it (the request model drops the key)."""
    scope = input_data.get(_SNAPSHOT_SCOPE_INPUT_KEY)
    return scope if isinstance(scope, str) and scope else None


def strict_entries(payload: Any) -> tuple[list[Json], str | None]:
    """Return the entries of one resume payload, or what is wrong with its shape, in upstream's words."""
    return _strict_resume_entries(payload)


class _DeferredLifecycle(ApprovalLifecycle):
    """Registers every local approval as deferred, so that a batch may mix approvals and rejections."""

    def register(self, *, owner: ApprovalExecutionOwner, **fields: Any) -> ApprovalOccurrence:
        is_local = owner is ApprovalExecutionOwner.LOCAL
        return super().register(owner=ApprovalExecutionOwner.DEFERRED if is_local else owner, **fields)

    def begin_execution(self, intent: AuthorizedExecution, *, owner: ApprovalExecutionOwner) -> None:
        """Let a call begin whatever became of its run: whether it may start or be repeated is for our ledger to say.

        It has begun there by now. One whose run has failed meanwhile, with upstream's claims, still runs to its result.
        """
        if self.get(intent.identity).status is ApprovalStatus.CLAIMED:
            super().begin_execution(intent, owner=owner)

    def defer(
        self,
        intent: AuthorizedExecution,
        results: list[Content],
        *,
        owner: ApprovalExecutionOwner = ApprovalExecutionOwner.LOCAL,
    ) -> ApprovalOutcome:
        """Do not ask again for a call whose tool asked for more input: it has a result, see `app/more_input.py`."""
        outcome = super().defer(intent, results, owner=owner)
        self._occurrences[intent.identity].status = ApprovalStatus.EXECUTING
        return outcome

    def restore(self, occurrence: ApprovalOccurrence) -> None:
        """Put back a pending occurrence as it was when its pause was committed."""
        self._occurrences[occurrence.identity] = occurrence
        self._lock_for_identity(occurrence.identity)
        for thread_id in occurrence.thread_ids:
            for alias in occurrence.aliases:
                self._pending_by_interrupt[(thread_id, alias)] = occurrence.identity


class RunApprovals:
    """Upstream's approval state for one run, rebuilt from the record and gone with the run."""

    def __init__(self, key: ThreadKey, occurrences: Sequence[Occurrence], bag: Bag | None) -> None:
        self._thread_id = approval_state_thread_id(scope=key.scope, thread_id=key.thread_id)
        self._lifecycle = _DeferredLifecycle(
            pending_retention_seconds=_FOREVER_SECONDS,
            terminal_retention_seconds=_FOREVER_SECONDS,
            indeterminate_retention_seconds=_FOREVER_SECONDS,
            clock=time.time,
        )
        self.store = InMemoryAGUIApprovalStateStore()
        self.store.lifecycle = self._lifecycle
        for occurrence in occurrences:
            self._lifecycle.restore(_occurrence_from(occurrence.upstream))
        if bag is not None and bag.state is not None:
            self.store.set_tool_approval_state(self._thread_id, bag.state)

    def asked(self) -> list[Asked]:
        """Return the calls that wait for a person now."""
        return [
            _asked(occurrence)
            for occurrence in self._lifecycle.occurrences_for_thread(thread_id=self._thread_id)
            if occurrence.status is ApprovalStatus.PENDING and occurrence.requires_client_resume
        ]

    def bag_state(self) -> Json | None:
        """Return core's `tool_approval` session state as it is now, JSON-safe."""
        return cast("Json | None", make_json_safe(self.store.get_tool_approval_state(self._thread_id)))


def _asked(occurrence: ApprovalOccurrence) -> Asked:
    interrupt_id = occurrence.active_interrupt_id
    names = (occurrence.identity.call_id, occurrence.function_call_id, occurrence.response_id, *occurrence.aliases)
    aliases = tuple(dict.fromkeys(name for name in names if name and name != interrupt_id))
    arguments = cast(Json, json.loads(occurrence.arguments))
    return Asked(
        interrupt_id,
        occurrence.identity.call_id,
        occurrence.name,
        arguments,
        aliases,
        occurrence.owner is ApprovalExecutionOwner.HOSTED,
        occurrence.server_label,
        _occurrence_to(occurrence),
    )


def _occurrence_to(occurrence: ApprovalOccurrence) -> Json:
    identity = occurrence.identity
    return {
        "identity": [identity.thread_id, identity.occurrence_id, identity.interrupt_id, identity.call_id],
        "thread_ids": list(occurrence.thread_ids),
        "name": occurrence.name,
        "arguments": occurrence.arguments,
        "owner": occurrence.owner.value,
        "function_call_id": occurrence.function_call_id,
        "active_interrupt_id": occurrence.active_interrupt_id,
        "scope": occurrence.scope,
        "aliases": list(occurrence.aliases),
        "response_id": occurrence.response_id,
        "already_approved_requests": make_json_safe(list(occurrence.already_approved_requests)),
        "server_label": occurrence.server_label,
        "pending_since": occurrence.pending_since,
    }


def _occurrence_from(fields: Json) -> ApprovalOccurrence:
    fields = copy.deepcopy(fields)
    return ApprovalOccurrence(
        identity=ApprovalOccurrenceIdentity(*fields.pop("identity")),
        owner=ApprovalExecutionOwner(fields.pop("owner")),
        thread_ids=tuple(fields.pop("thread_ids")),
        aliases=tuple(fields.pop("aliases")),
        already_approved_requests=tuple(fields.pop("already_approved_requests")),
        **fields,
    )


def resume_of(occurrences: Sequence[Occurrence]) -> list[Json] | None:
    """Return the resume upstream is given, made from the committed decisions alone; None for a plain run.

    Cancelled entries of a mixed batch are turned into rejections: upstream wedges on approve and cancel together.
    """
    entries: list[Json] = []
    for occurrence in occurrences:
        assert occurrence.decision is not None, "only decided occurrences are resumed"
        is_approved = occurrence.decision.verdict is Verdict.APPROVE
        payload: Json = {"approved": is_approved}
        if is_approved and occurrence.hosted_by is None:
            payload["editedArgs"] = json.loads(occurrence.decision.arguments)
        entries.append({"interruptId": occurrence.interrupt_id, "status": "resolved", "payload": payload})
    return entries or None


async def stream_run(
    key: ThreadKey,
    input_data: Json,
    *,
    agent: Agent,
    config: AgentConfig,
    snapshots: AGUIThreadSnapshotStore,
    approvals: RunApprovals,
    resume: list[Json] | None,
    function_invocation_kwargs: Mapping[str, Any] | None = None,
) -> AsyncGenerator[BaseEvent]:
    """Run the agent through upstream's own stream, on this run's approval state and snapshot buffer."""
    run_config = copy.copy(config)
    run_config.snapshot_store = snapshots
    run_input = {**input_data, _SNAPSHOT_SCOPE_INPUT_KEY: key.scope, _APPROVAL_SCOPE_INPUT_KEY: key.scope}
    if resume is not None:
        run_input["resume"] = resume
    stream = run_agent_stream(
        run_input,
        agent,
        run_config,
        approval_state_store=approvals.store,
        function_invocation_kwargs=function_invocation_kwargs,
    )
    try:
        async for event in stream:
            yield event
    finally:
        await stream.aclose()


def run_finished(key: ThreadKey, run_id: str, interrupts: Sequence[Json]) -> RunFinishedEvent:
    """Return RUN_FINISHED as upstream builds it, with the interrupts that are open."""
    return _build_run_finished_event(run_id=run_id, thread_id=key.thread_id, interrupts=list(interrupts) or None)


def approval_request(occurrence: Occurrence) -> BaseEvent:
    """Return the event by which a live pause asks for one call."""
    arguments = cast(Json, json.loads(occurrence.arguments))
    call = Content.from_function_call(
        occurrence.call_id, occurrence.tool, arguments=arguments, id=occurrence.interrupt_id
    )
    asked = Content.from_function_approval_request(id=occurrence.interrupt_id, function_call=call)
    events = _emit_approval_request(asked, FlowState(), require_confirmation=False)
    return next(event for event in events if event.type is EventType.CUSTOM)


def changed_arguments(error: BaseException) -> Json | None:
    """Return the arguments that a call was changed to after its approval, if that is what ended it."""
    if not isinstance(error, _FunctionArgumentsChangedAfterApproval):
        return None
    return cast(Json, make_json_safe(dict(error.arguments)))


def asked_by(event: BaseEvent) -> str | None:
    """Return the interrupt that an event of a run asks for; None if it asks for no approval."""
    if not isinstance(event, CustomEvent) or event.name != "function_approval_request":
        return None
    return str(event.value.get("id"))


async def picture(key: ThreadKey, snapshot: Snapshot | None, run_id: str) -> list[BaseEvent]:
    """Return the state and messages of a snapshot as upstream's hydration sends them."""
    stored = None if snapshot is None else to_upstream(snapshot)
    session = ThreadSnapshotSession(store=None, scope=key.scope, thread_id=key.thread_id, stored=stored)
    events = [event async for event in session.hydrate_events(run_id=run_id)]
    return [event for event in events if event.type not in (EventType.RUN_STARTED, EventType.RUN_FINISHED)]


def middleware_of(agent: Agent) -> list[Any]:
    """Return an agent's middleware, that of a bundle each by itself, in its order."""
    found: list[Any] = []
    for each in agent.middleware or ():
        found += each._middleware if isinstance(each, MiddlewareBundle) else [each]
    return found


def encode_checkpoint(value: Any) -> Any:
    """Return a checkpoint's fields in upstream's form for JSON."""
    return encode_checkpoint_value(value)


def decode_checkpoint(value: Any, allowed_types: frozenset[str]) -> Any:
    """Return what `encode_checkpoint` was given. The types are not optional here: upstream allows all without them."""
    return decode_checkpoint_value(value, allowed_types=allowed_types)
