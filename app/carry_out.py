"""Carries out one claimed run: drives upstream's stream under the guard and returns what the run leaves."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from uuid import uuid4

from ag_ui.core import BaseEvent, EventType, RunErrorEvent
from agent_framework import Agent
from agent_framework_ag_ui._agent import AgentConfig

from app import upstream
from app.answers import call_digest, canonical
from app.effects import RunEffects
from app.end_texts import EndTexts
from app.errors import Code, Refusal, RunRefused
from app.gated_tools import UNKNOWN, GatedTool, hosted_name, name_of
from app.lifecycle import EXPIRY
from app.pipe import Pipe
from app.prepared import prepared
from app.provided_tools import ProvidedTools
from app.registration import Registration
from app.snapshot_buffer import SnapshotBuffer
from app.standing import Standing, decided, offered, rules_after, standing_of
from app.steps import OnStep, Step
from app.tickets import Ending, Ticket
from app.transcript import Transcript, close_calls, open_interrupts
from app.upkeep import CANCELLED_TEXT, EXPIRED_TEXT
from stores.records import Bag, Json, Occurrence, Snapshot, Verdict

INVOCATION_DISABLED_TEXT = "Function invocation is disabled; the approved tool remains pending for an explicit retry."
"""Upstream's words."""


@dataclass(frozen=True, slots=True)
class RunInput:
    """What a run is given besides its claim: the AG-UI input without its answers, and what tools are handed."""

    data: Json
    function_invocation_kwargs: Mapping[str, Any] | None = None

    def continued(self) -> RunInput:
        """What the run goes on with once it was committed: its words and its state are in the thread by then."""
        kept = {name: value for name, value in self.data.items() if name not in ("messages", "state")}
        return replace(self, data={**kept, "messages": []})


class CarryOut:
    """Builds a new agent for every run, so that nothing of one run reaches another."""

    def __init__(
        self,
        build: Callable[[], Agent],
        config: AgentConfig,
        *,
        tools: Mapping[str, GatedTool],
        registration: Registration,
        approval_seconds: float,
        on_step: OnStep,
    ) -> None:
        self._build = build
        self._config = config
        self._tools = tools
        self._registration = registration
        self._approval_seconds = approval_seconds
        self._on_step = on_step

    async def run(
        self, ticket: Ticket, run_input: RunInput, effects: RunEffects, pipe: Pipe
    ) -> tuple[Ending, list[BaseEvent]]:
        """Drive the run to its end. Answers what it leaves and the events held back until that is committed.

        Raises RunRefused where upstream or an approved call ends the run, and whatever the model raises.
        """
        if ticket.record.occurrences and all(_is_given_up(each) for each in ticket.record.occurrences):
            ending = _cancelled(ticket)
            return ending, await upstream.picture(ticket.key, ending.snapshot, ticket.run.run_id)
        approvals = upstream.RunApprovals(ticket.key, ticket.record.occurrences, ticket.loaded.bag)
        buffer = SnapshotBuffer(ticket.loaded.snapshot)
        provided = ProvidedTools(self._registration, self._tools, ticket.record.occurrences)
        built = self._build()
        standing = standing_of(built)
        ends = EndTexts(ticket.record.occurrences)
        agent = prepared(built, effects, ticket.record.occurrences, provided, ends)
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
        async for said in stream:
            event = ends.in_event(buffer.as_shown(said))
            if event.type in (EventType.RUN_STARTED, EventType.RUN_FINISHED):
                continue
            if isinstance(event, RunErrorEvent):
                raise RunRefused(_refusal_of(event))
            if event.type is EventType.TOOL_CALL_RESULT and not has_result:
                has_result = True
                await self._on_step(f"before-{Step.MODEL}", ticket.key)
            transcript.add(event)
            is_held = is_held or upstream.asked_by(event) is not None
            if is_held:
                held.append(event)
            else:
                pipe.put(event)
        await self._on_step(f"after-{Step.MODEL}", ticket.key)
        waiting = await _waiting(approvals, effects)
        asked = await self._asked(ticket, waiting, provided.gated, standing)
        snapshot = buffer.snapshot()
        snapshot = replace(snapshot, messages=ends.in_messages(snapshot.messages))
        ending = self._ending(asked, approvals, snapshot, effects, transcript)
        ruled = {each.interrupt_id for each in ending.decided}
        return ending, [event for event in held if upstream.asked_by(event) not in ruled]

    async def _asked(
        self,
        ticket: Ticket,
        waiting: Sequence[upstream.Asked],
        provided: Mapping[str, GatedTool],
        standing: Standing | None,
    ) -> tuple[Occurrence, ...]:
        """Return the calls that the run asked for; those that a rule approves are decided, as they would be shown."""
        now = ticket.now()
        asked = [self._occurrence(ticket.run.run_id, each, now, provided) for each in waiting]
        if standing is None:
            return tuple(asked)
        in_force = rules_after(ticket.record, now)
        ruled = [replace(each, tool_digest=standing.tool_digests.get(name_of(each))) for each in asked]
        return tuple(
            [each if each.hosted_by is not None else await decided(each, in_force, standing) for each in ruled]
        )

    def _ending(
        self,
        asked: tuple[Occurrence, ...],
        approvals: upstream.RunApprovals,
        picture: Snapshot,
        effects: RunEffects,
        transcript: Transcript,
    ) -> Ending:
        pause_id = uuid4().hex if asked else None
        snapshot = replace(picture, pause_id=pause_id)
        expiries = {each.interrupt_id: each.expires_at for each in asked}
        interrupts = open_interrupts(snapshot.interrupts, pause_id=pause_id or "", expires_at=expiries)
        takes_rules = {each.interrupt_id for each in asked if each.tool_digest is not None}
        cards = tuple(offered(each) if each.get("id") in takes_rules else each for each in interrupts)
        return Ending(
            snapshot=replace(snapshot, interrupts=cards),
            bag=Bag(pause_id, approvals.bag_state()),
            asked=asked,
            pause_id=pause_id,
            ended=frozenset(effects.results),
            events=transcript.events(),
        )

    def _hosted(self, label: str) -> GatedTool:
        """Return what a hosted tool is taken for that nobody but the model's provider knew of before it asked."""
        try:
            return self._registration.hosted(label)
        except ValueError as error:
            message = f"The hosted tool of '{label}' needs an approval, which this host's effect ledger can not keep."
            raise RunRefused(Refusal(Code.RUN_FAILED, message)) from error

    def _occurrence(
        self, run_id: str, asked: upstream.Asked, now: float, provided: Mapping[str, GatedTool]
    ) -> Occurrence:
        hosted_by = asked.server_label if asked.is_hosted else None
        name = asked.tool if hosted_by is None else hosted_name(hosted_by)
        own = self._tools.get(name)
        tool = own or provided.get(name) or (UNKNOWN if hosted_by is None else self._hosted(hosted_by))
        arguments = canonical(asked.arguments)
        return Occurrence(
            interrupt_id=asked.interrupt_id,
            call_id=asked.call_id,
            tool=asked.tool,
            kind=tool.kind,
            arguments=arguments,
            digest=call_digest(asked.tool, arguments),
            run_id=run_id,
            created_at=now,
            expires_at=now + (tool.expires_seconds or self._approval_seconds),
            key_lifetime_seconds=tool.key_lifetime_seconds,
            aliases=asked.aliases,
            upstream=asked.upstream,
            provided=own is None,
            is_valid=not tool.misfits(asked.arguments),
            hosted_by=hosted_by,
        )


async def _waiting(approvals: upstream.RunApprovals, effects: RunEffects) -> Sequence[upstream.Asked]:
    """Return the calls that upstream takes for waiting, without those of a recorded response: it did not see them sent.

    Raises RunRefused for a hosted call that can not be told from others by the id that its provider gave it.
    """
    waiting = [each for each in approvals.asked() if each.interrupt_id not in effects.results]
    hosted = [each for each in waiting if each.is_hosted]
    unlabelled = next((each for each in hosted if not each.server_label), None)
    if unlabelled is not None:
        message = f"The tool '{unlabelled.tool}' runs at the model's provider, which does not say by which server."
        raise RunRefused(Refusal(Code.RUN_FAILED, message))
    if hosted and await effects.is_known([each.interrupt_id for each in hosted]):
        message = "The model's provider asked for an approval under an id that it gave another one before."
        raise RunRefused(Refusal(Code.RUN_FAILED, message))
    return waiting


def _is_given_up(occurrence: Occurrence) -> bool:
    return occurrence.decision is not None and occurrence.decision.verdict in (Verdict.CANCEL, Verdict.EXPIRE)


def _cancelled(ticket: Ticket) -> Ending:
    """End a pause that was cancelled whole: no model call; the transcript says that the calls did not run."""
    calls = {
        each.call_id: EXPIRED_TEXT if each.decision == EXPIRY else CANCELLED_TEXT for each in ticket.record.occurrences
    }
    snapshot = close_calls(ticket.loaded.snapshot or Snapshot(), calls)
    return Ending(snapshot, Bag(), (), None, frozenset(), ())


def _refusal_of(event: RunErrorEvent) -> Refusal:
    """Translate an error that upstream ended the run with; its text may carry internals and is not passed on."""
    code = Code(event.code) if event.code in set(Code) else Code.RUN_FAILED
    if code is Code.INVOCATION_DISABLED:
        return Refusal(code, INVOCATION_DISABLED_TEXT)
    return Refusal(code, "The run ended with an error of the agent; send the same again.")
