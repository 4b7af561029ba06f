"""Carries out one claimed run: drives upstream's stream under the guard and returns what the run leaves."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any
from uuid import uuid4

from ag_ui.core import BaseEvent, CustomEvent, EventType, RunErrorEvent
from agent_framework import Agent
from agent_framework_ag_ui._agent import AgentConfig

from app import upstream
from app.answers import call_digest, canonical
from app.effects import RunEffects
from app.errors import Code, Refusal, RunRefused
from app.pipe import Pipe
from app.prepared import prepared
from app.snapshot_buffer import SnapshotBuffer
from app.steps import OnStep, Step
from app.tickets import Ending, Ticket
from app.tools import EffectDeclaration
from app.transcript import Transcript, close_calls, open_interrupts
from app.upkeep import CANCELLED_TEXT
from stores.records import Bag, EffectKind, Json, Occurrence, Snapshot, Verdict


@dataclass(frozen=True, slots=True)
class RunInput:
    """What a run is given besides its claim: the AG-UI input without its answers, and what tools are handed."""

    data: Json
    function_invocation_kwargs: Mapping[str, Any] | None = None


class CarryOut:
    """Builds a new agent for every run, so that nothing of one run reaches another."""

    def __init__(
        self,
        build: Callable[[], Agent],
        config: AgentConfig,
        *,
        effects: Mapping[str, EffectDeclaration],
        approval_seconds: float,
        on_step: OnStep,
    ) -> None:
        self._build = build
        self._config = config
        self._effects = effects
        self._approval_seconds = approval_seconds
        self._on_step = on_step

    async def run(
        self, ticket: Ticket, run_input: RunInput, effects: RunEffects, pipe: Pipe
    ) -> tuple[Ending, list[BaseEvent]]:
        """Drive the run to its end. Answers what it leaves and the events held back until that is committed.

        Raises RunRefused where upstream or an approved call ends the run, and whatever the model raises.
        """
        if ticket.record.occurrences and all(_is_cancelled(each) for each in ticket.record.occurrences):
            return _cancelled(ticket), []
        approvals = upstream.RunApprovals(ticket.key, ticket.record.occurrences, ticket.loaded.bag)
        buffer = SnapshotBuffer(ticket.loaded.snapshot)
        agent = prepared(self._build(), effects, ticket.record.occurrences)
        transcript = Transcript()
        held: list[BaseEvent] = []
        is_held = has_result = False
        stream = upstream.stream_run(
            ticket.key,
            {**run_input.data, "run_id": ticket.run.run_id},
            agent=agent,
            config=self._config,
            snapshots=buffer,
            approvals=approvals,
            resume=upstream.resume_of(ticket.record.occurrences),
            function_invocation_kwargs=run_input.function_invocation_kwargs,
        )
        async for event in stream:
            if event.type in (EventType.RUN_STARTED, EventType.RUN_FINISHED):
                continue
            if isinstance(event, RunErrorEvent):
                raise RunRefused(_refusal_of(event))
            if event.type is EventType.TOOL_CALL_RESULT and not has_result:
                has_result = True
                await self._on_step(f"before-{Step.MODEL}", ticket.key)
            transcript.add(event)
            is_held = is_held or _asks_for_approval(event)
            if is_held:
                held.append(event)
            else:
                pipe.put(event)
        await self._on_step(f"after-{Step.MODEL}", ticket.key)
        return self._ending(ticket, approvals, buffer, effects, transcript), held

    def _ending(
        self,
        ticket: Ticket,
        approvals: upstream.RunApprovals,
        buffer: SnapshotBuffer,
        effects: RunEffects,
        transcript: Transcript,
    ) -> Ending:
        now = ticket.now()
        pending = tuple(self._occurrence(ticket.run.run_id, asked, now) for asked in approvals.asked())
        pause_id = uuid4().hex if pending else None
        snapshot = replace(buffer.snapshot(), pause_id=pause_id)
        expiries = {each.interrupt_id: each.expires_at for each in pending}
        interrupts = open_interrupts(snapshot.interrupts, pause_id=pause_id or "", expires_at=expiries)
        return Ending(
            snapshot=replace(snapshot, interrupts=interrupts),
            bag=Bag(pause_id, approvals.bag_state()),
            pending=pending,
            pause_id=pause_id,
            ended=frozenset(effects.results),
            events=transcript.events(),
        )

    def _occurrence(self, run_id: str, asked: upstream.Asked, now: float) -> Occurrence:
        declared = self._effects.get(asked.tool, EffectDeclaration(EffectKind.UNSAFE))
        arguments = canonical(asked.arguments)
        return Occurrence(
            interrupt_id=asked.interrupt_id,
            call_id=asked.call_id,
            tool=asked.tool,
            kind=declared.kind,
            arguments=arguments,
            digest=call_digest(asked.tool, arguments),
            run_id=run_id,
            created_at=now,
            expires_at=now + self._approval_seconds,
            key_lifetime_seconds=declared.key_lifetime_seconds,
            aliases=asked.aliases,
            upstream=asked.upstream,
        )


def _is_cancelled(occurrence: Occurrence) -> bool:
    return occurrence.decision is not None and occurrence.decision.verdict is Verdict.CANCEL


def _cancelled(ticket: Ticket) -> Ending:
    """End a pause that was cancelled whole: no model call; the transcript says that the calls did not run."""
    calls = {each.call_id: CANCELLED_TEXT for each in ticket.record.occurrences}
    snapshot = close_calls(ticket.loaded.snapshot or Snapshot(), calls)
    return Ending(snapshot, Bag(), (), None, frozenset(), ())


def _asks_for_approval(event: BaseEvent) -> bool:
    return isinstance(event, CustomEvent) and event.name == "function_approval_request"


def _refusal_of(event: RunErrorEvent) -> Refusal:
    """Translate an error that upstream ended the run with; its text may carry internals and is not passed on."""
    code = Code(event.code) if event.code in set(Code) else Code.RUN_FAILED
    return Refusal(code, "The run ended with an error of the agent; send the same again.")
