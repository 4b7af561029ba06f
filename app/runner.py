"""One run for one (scope, thread): who may run, run it, commit it, say how it ended. Runs outlive their clients."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from ag_ui.core import BaseEvent, RunStartedEvent
from agent_framework import Agent
from agent_framework_ag_ui import AgentFrameworkAgent

from app import upstream, wire
from app.admission import Replay
from app.authority import ApprovalAuthority
from app.carry_out import CarryOut, RunInput
from app.definite import is_definite
from app.drain import Drain
from app.effects import EffectLimits, RunEffects
from app.errors import Code, Refusal, RunRefused
from app.failures import refusal_for
from app.pipe import Pipe
from app.registration import check_agent, declared_effects
from app.releases import Releases
from app.run_request import RequestLimits, RunRequest, named, read_request
from app.steps import OnStep, Step
from app.tickets import LetGo, Ticket
from app.tools import EffectDeclaration
from stores.ports import Stores
from stores.records import ThreadKey

_log = logging.getLogger(__name__)

_TOO_SLOW = Refusal(
    Code.LIMIT_EXCEEDED,
    "The stream was read too slowly (AGUI_STREAM_EVENTS_MAX); the run goes on: send the same again to get its answer.",
)


@dataclass(frozen=True, slots=True)
class RunLimits:
    """Seconds a run and its claim may take and an approval stays open, limits of its calls and request.

    `stream_events_max` are the events kept for a slow reader.
    """

    run_seconds: float
    claim_seconds: float
    approval_seconds: float
    effects: EffectLimits
    request: RequestLimits
    stream_events_max: int


class HostAgent(AgentFrameworkAgent):
    """Upstream's agent runner, with approvals in durable stores: every replica answers alike."""

    def __init__(
        self,
        name: str,
        build: Callable[[], Agent],
        *,
        authority: ApprovalAuthority,
        releases: Releases,
        stores: Stores,
        limits: RunLimits,
        drain: Drain,
        on_step: OnStep,
        is_development: bool,
    ) -> None:
        agent = build()
        check_agent(agent, stores, claim_seconds=limits.claim_seconds, is_development=is_development)
        super().__init__(agent, name=name, require_confirmation=False)
        self.host_name = name
        effects = {name: _repeatable(declared, limits) for name, declared in declared_effects(agent).items()}
        self._tools = {tool: declared.kind for tool, declared in effects.items()}
        self._carry_out = CarryOut(
            build, self.config, effects=effects, approval_seconds=limits.approval_seconds, on_step=on_step
        )
        self._authority = authority
        self._releases = releases
        self._stores = stores
        self._limits = limits
        self._drain = drain
        self._on_step = on_step

    async def run(
        self, input_data: dict[str, Any], *, function_invocation_kwargs: Mapping[str, Any] | None = None
    ) -> AsyncGenerator[BaseEvent, None]:
        """Run in a task of its own and yield its events; a reader that leaves does not end the run."""
        key, run_id = named(input_data, self.host_name)
        pipe = Pipe(self._limits.stream_events_max, if_cut_off=wire.run_error(_TOO_SLOW, is_definite=False))
        self._drain.start(self._serve(key, run_id, RunInput(input_data, function_invocation_kwargs), pipe))
        async for event in pipe.events():
            yield event

    async def take_over(self, key: ThreadKey) -> bool:
        """Bring a due thread on, with no client connected; False if that failed: it is tried again later."""
        try:
            ticket = await self._authority.take_over(key, tools=self._tools)
            if ticket is not None:
                said = {"thread_id": key.thread_id, "messages": list(ticket.record.resume_messages)}
                await self._go_on(ticket, RunInput(said), Pipe(0))
        except Exception as error:
            refusal = refusal_for(error, "of a take-over")
            _log.info("A take-over did not finish: %s", refusal.code)
            return False
        return True

    async def _serve(self, key: ThreadKey, run_id: str, run_input: RunInput, pipe: Pipe) -> None:
        """Answer one request; whatever happens, the stream ends with RUN_FINISHED or RUN_ERROR."""
        pipe.put(RunStartedEvent(thread_id=key.thread_id, run_id=run_id))
        names: list[str] | None = None
        try:
            request = read_request(run_input.data, key, run_id, self._limits.request)
            names = request.names
            await self._answer(key, run_id, request, replace(run_input, data=request.data), pipe)
        except BaseException as error:
            refusal = refusal_for(error, run_id)
            certain = await is_definite(self._stores, key, refusal, run_id=run_id, names=names)
            pipe.put(wire.run_error(refusal, is_definite=certain))
            if isinstance(error, asyncio.CancelledError):
                raise
        finally:
            pipe.close()

    async def _answer(self, key: ThreadKey, run_id: str, request: RunRequest, run_input: RunInput, pipe: Pipe) -> None:
        if request.is_hydration:
            for event in await wire.hydration(await self._authority.view(key), key, run_id):
                pipe.put(event)
            return
        admitted = await self._admit(key, run_id, request)
        match admitted:
            case Refusal():
                raise RunRefused(admitted)
            case Replay(run, is_repeat):
                for event in wire.replay(run, key, run_id, is_repeat=is_repeat):
                    pipe.put(event)
            case Ticket():
                await self._go_on(admitted, run_input, pipe)

    async def _admit(self, key: ThreadKey, run_id: str, request: RunRequest) -> Ticket | Replay | Refusal:
        answers = request.answers
        if isinstance(answers, Refusal):
            return answers
        if answers is None:
            return await self._authority.start(key, run_id=run_id, input_digest=request.input_digest)
        return await self._authority.resume(
            key, run_id=run_id, entries=answers, messages=request.new_messages, tools=self._tools
        )

    async def _go_on(self, ticket: Ticket, run_input: RunInput, pipe: Pipe) -> None:
        """Carry the run out and commit it, or let go of the thread; its end is sent after its commit only."""
        effects = RunEffects(
            self._stores.effects,
            ticket.key,
            attempt=ticket.claim.attempt,
            deadline=ticket.deadline,
            granted={each.interrupt_id: each for each in ticket.record.occurrences},
            answers=ticket.answers,
            limits=self._limits.effects,
            drain=self._drain.tasks,
            on_step=self._on_step,
        )
        try:
            async with asyncio.timeout(self._limits.run_seconds):
                ending, held = await self._carry_out.run(ticket, run_input, effects, pipe)
                await self._authority.finish(ticket, ending)
        except BaseException as error:
            await asyncio.shield(self._drain.start(self._let_go(ticket, effects)))
            if effects.refusal is not None and not isinstance(error, asyncio.CancelledError):
                raise RunRefused(effects.refusal) from error
            raise
        await self._on_step(f"before-{Step.ANSWER}", ticket.key)
        for event in held:
            pipe.put(event)
        pipe.put(upstream.run_finished(ticket.key, ticket.run.run_id, ending.snapshot.interrupts))
        await self._on_step(f"after-{Step.ANSWER}", ticket.key)

    async def _let_go(self, ticket: Ticket, effects: RunEffects) -> None:
        await effects.ended()
        await self._releases.release(ticket, LetGo(frozenset(effects.in_doubt), frozenset(effects.unstarted)))


def _repeatable(declared: EffectDeclaration, limits: RunLimits) -> EffectDeclaration:
    """Shorten a key's lifetime by a claim: the ledger judges it when a claim is made, the call may start at its end."""
    if declared.key_lifetime_seconds is None:
        return declared
    return replace(declared, key_lifetime_seconds=declared.key_lifetime_seconds - limits.claim_seconds)
