"""One run for one (scope, thread): who may run, run it, commit it, say how it ended. Runs outlive their clients."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Mapping
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from ag_ui.core import BaseEvent, RunStartedEvent
from agent_framework import Agent
from agent_framework_ag_ui import AgentFrameworkAgent

from app import upstream, wire
from app.admission import Replay
from app.answers import Entry, canonical, digest
from app.authority import ApprovalAuthority
from app.carry_out import CarryOut, RunInput
from app.drain import Drain
from app.effects import EffectLimits, RunEffects
from app.errors import Code, Refusal, RunRefused
from app.failures import refusal_for
from app.pipe import Pipe
from app.registration import check_agent, declared_effects
from app.roads import take_answers
from app.steps import OnStep, Step
from app.tickets import LetGo, Ticket
from app.upkeep import Upkeep
from stores.errors import StoreError
from stores.ports import EffectLedger, Stores
from stores.records import Json, Scope, ThreadKey

_log = logging.getLogger(__name__)

_TOO_SLOW = Refusal(
    Code.LIMIT_EXCEEDED,
    "The stream was read too slowly (AGUI_STREAM_EVENTS_MAX); the run goes on: send the same again to get its answer.",
)


@dataclass(frozen=True, slots=True)
class RunLimits:
    """Seconds a run may take and an approval stays open, limits of its calls, ids, and events for a slow reader."""

    run_seconds: float
    approval_seconds: float
    effects: EffectLimits
    id_length_max: int
    stream_events_max: int


@dataclass(frozen=True, slots=True)
class _Request:
    key: ThreadKey
    run_id: str
    answers: list[Entry] | Refusal | None
    input: RunInput


class HostAgent(AgentFrameworkAgent):
    """Upstream's agent runner, with approvals in durable stores: every replica answers alike."""

    def __init__(
        self,
        name: str,
        build: Callable[[], Agent],
        *,
        authority: ApprovalAuthority,
        upkeep: Upkeep,
        stores: Stores,
        limits: RunLimits,
        drain: Drain,
        on_step: OnStep,
    ) -> None:
        agent = build()
        check_agent(agent, is_transactional=stores.transactional)
        super().__init__(agent, name=name, require_confirmation=False)
        self.host_name = name
        effects = declared_effects(agent)
        self._tools = {tool: declared.kind for tool, declared in effects.items()}
        self._carry_out = CarryOut(
            build, self.config, effects=effects, approval_seconds=limits.approval_seconds, on_step=on_step
        )
        self._authority = authority
        self._upkeep = upkeep
        self._ledger: EffectLedger = stores.effects
        self._limits = limits
        self._drain = drain
        self._on_step = on_step

    async def run(
        self, input_data: dict[str, Any], *, function_invocation_kwargs: Mapping[str, Any] | None = None
    ) -> AsyncGenerator[BaseEvent, None]:
        """Run in a task of its own and yield its events; a reader that leaves does not end the run."""
        request = self._read(input_data, function_invocation_kwargs)
        pipe = Pipe(self._limits.stream_events_max, if_cut_off=wire.run_error(_TOO_SLOW, is_definite=False))
        self._drain.start(self._serve(request, pipe))
        async for event in pipe.events():
            yield event

    async def take_over(self, key: ThreadKey) -> None:
        """Bring a due thread on, with no client connected; failures are logged and tried again later."""
        try:
            ticket = await self._authority.take_over(key, tools=self._tools)
            if ticket is not None:
                await self._go_on(ticket, RunInput({"thread_id": key.thread_id, "messages": []}), Pipe(0))
        except (RunRefused, StoreError) as error:
            _log.info("Take-over of a thread did not finish: %s", type(error).__name__)
        except Exception:
            _log.exception("Take-over of a thread failed")

    def _read(self, input_data: dict[str, Any], kwargs: Mapping[str, Any] | None) -> _Request:
        data: Json = dict(input_data)
        scope = upstream.scope_of(data)
        if scope is None:
            raise ValueError("A run needs an authorization scope; register the agent with a scope resolver.")
        thread_id = str(data.get("thread_id") or data.get("threadId") or uuid4())
        run_id = str(data.get("run_id") or data.get("runId") or uuid4())
        data.update(thread_id=thread_id, run_id=run_id)
        answers = self._too_long(thread_id, run_id) or take_answers(data)
        return _Request(ThreadKey(Scope(scope), self.host_name, thread_id), run_id, answers, RunInput(data, kwargs))

    def _too_long(self, *ids: str) -> Refusal | None:
        if all(len(each) <= self._limits.id_length_max for each in ids):
            return None
        message = f"A thread or run id is longer than {self._limits.id_length_max} characters (AGUI_ID_LENGTH_MAX)."
        return Refusal(Code.LIMIT_EXCEEDED, message)

    async def _serve(self, request: _Request, pipe: Pipe) -> None:
        """Answer one request; whatever happens, the stream ends with RUN_FINISHED or RUN_ERROR."""
        pipe.put(RunStartedEvent(thread_id=request.key.thread_id, run_id=request.run_id))
        try:
            await self._answer(request, pipe)
        except BaseException as error:
            refusal = refusal_for(error, request.run_id)
            is_definite = await self._authority.is_definite(request.key, refusal)
            pipe.put(wire.run_error(refusal, is_definite=is_definite))
            if isinstance(error, asyncio.CancelledError):
                raise
        finally:
            pipe.close()

    async def _answer(self, request: _Request, pipe: Pipe) -> None:
        key, run_id = request.key, request.run_id
        if request.answers is None and not request.input.data.get("messages"):
            for event in await wire.hydration(await self._authority.view(key), key, run_id):
                pipe.put(event)
            return
        admitted = await self._admit(request)
        match admitted:
            case Refusal():
                raise RunRefused(admitted)
            case Replay(run, is_repeat):
                for event in wire.replay(run, key, run_id, is_repeat=is_repeat):
                    pipe.put(event)
            case Ticket():
                await self._go_on(admitted, request.input, pipe)

    async def _admit(self, request: _Request) -> Ticket | Replay | Refusal:
        answers = request.answers
        if isinstance(answers, Refusal):
            return answers
        if answers is None:
            input_digest = _input_digest(request.input.data)
            return await self._authority.start(request.key, run_id=request.run_id, input_digest=input_digest)
        return await self._authority.resume(request.key, run_id=request.run_id, entries=answers, tools=self._tools)

    async def _go_on(self, ticket: Ticket, run_input: RunInput, pipe: Pipe) -> None:
        """Carry the run out and commit it, or let go of the thread; its end is sent after its commit only."""
        effects = RunEffects(
            self._ledger,
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
        await self._upkeep.release(ticket, LetGo(frozenset(effects.in_doubt), frozenset(effects.unstarted)))


def _input_digest(data: Json) -> str:
    """Digest what is new in a plain run: the user's messages since the last answer, and the state."""
    new: list[Json] = []
    for message in reversed(data.get("messages") or []):
        if not isinstance(message, dict) or message.get("role") != "user":
            break
        new.append({"role": "user", "content": message.get("content")})
    return digest("input", canonical(new), canonical(data.get("state")))
