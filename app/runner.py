"""One run for one (scope, thread): who may run, run it, commit it, say how it ended. Runs outlive their clients."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from ag_ui.core import BaseEvent, RunStartedEvent
from agent_framework import Agent
from agent_framework_ag_ui import AgentFrameworkAgent

from app import wire
from app.authority import ApprovalAuthority
from app.carry_out import CarryOut, RunInput
from app.concurrency import requests_slot
from app.definite import is_definite
from app.drain import Drain
from app.effects import EffectLimits
from app.errors import SHOWING_CARDS, Code, Refusal, RunRefused
from app.failures import refusal_for
from app.metrics import Metrics
from app.pairing import Replay
from app.pipe import Pipe
from app.registration import Registration
from app.releases import Releases
from app.rounds import Rounds
from app.run_request import RequestLimits, RunRequest, named, read_request
from app.standing_request import revoked_by
from app.steps import OnStep
from app.tickets import Ticket
from stores.errors import StoreError
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
        metrics: Metrics | None = None,
    ) -> None:
        registration = Registration(stores, claim_seconds=limits.claim_seconds, is_development=is_development)
        agent = registration.built_by(build)
        # Who lets the model's provider store its conversations means them to go on there, on whatever replica.
        is_stored = agent.default_options.get("store") is True
        super().__init__(agent, name=name, require_confirmation=False, use_service_session=is_stored)
        self.host_name = name
        self._metrics = metrics or Metrics()
        self._tools = registration.check(agent)
        carry_out = CarryOut(
            build,
            self.config,
            tools=self._tools,
            registration=registration,
            approval_seconds=limits.approval_seconds,
            on_step=on_step,
        )
        self._rounds = Rounds(
            carry_out, authority, releases, stores, drain, limits.run_seconds, limits.effects, on_step, self._metrics
        )
        self._authority = authority
        self._stores = stores
        self._limits = limits
        self._drain = drain

    async def run(
        self, input_data: dict[str, Any], *, function_invocation_kwargs: Mapping[str, Any] | None = None
    ) -> AsyncGenerator[BaseEvent, None]:
        """Run in a task of its own and yield its events; a reader that leaves does not end the run."""
        key, run_id = named(input_data, self.host_name)
        pipe = Pipe(self._limits.stream_events_max, if_cut_off=wire.run_error(_TOO_SLOW, is_definite=False))
        serving = self._drain.start(self._serve(key, run_id, RunInput(input_data, function_invocation_kwargs), pipe))
        slot = requests_slot()
        if slot is not None:
            slot.hold(serving)
        try:
            async for event in pipe.events():
                yield event
        finally:
            pipe.leave()

    async def take_over(self, key: ThreadKey) -> bool:
        """Bring a due thread on, with no client connected; False if that failed: it is tried again later."""
        try:
            ticket = await self._authority.take_over(key, tools=self._tools)
            if ticket is not None:
                said = {"thread_id": key.thread_id, "messages": list(ticket.record.resume_messages)}
                await self._rounds.run(ticket, RunInput(said), Pipe(0), run_id=ticket.run.run_id)
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
            for event in await self._refused(key, run_id, refusal_for(error, run_id), names):
                pipe.put(event)
            if isinstance(error, asyncio.CancelledError):
                raise
        finally:
            pipe.close()

    async def _refused(
        self, key: ThreadKey, run_id: str, refusal: Refusal, names: list[str] | None
    ) -> Sequence[BaseEvent]:
        self._metrics.refused(refusal.code)
        certain = await is_definite(self._stores, key, refusal, run_id=run_id, names=names)
        error = wire.run_error(refusal, is_definite=certain)
        if refusal.code in SHOWING_CARDS:
            with suppress(StoreError):
                return wire.with_cards(error, await self._authority.views.thread(key), key)
        return [error]

    async def _answer(self, key: ThreadKey, run_id: str, request: RunRequest, run_input: RunInput, pipe: Pipe) -> None:
        await self._revoke(key, request)
        if request.is_hydration:
            for event in await wire.hydration(await self._authority.views.thread(key), key, run_id):
                pipe.put(event)
            return
        admitted = await self._admit(key, run_id, request)
        match admitted:
            case Refusal():
                raise RunRefused(admitted)
            case Replay(run, is_repeat, before, loaded):
                view = await self._authority.views.run(run, key, loaded)
                for event in await wire.replay(run, view, key, run_id, is_repeat=is_repeat, before=before):
                    pipe.put(event)
            case Ticket():
                await self._rounds.run(admitted, run_input, pipe, run_id=run_id)

    async def _revoke(self, key: ThreadKey, request: RunRequest) -> None:
        revoked = revoked_by(request.data)
        refusal = revoked if isinstance(revoked, Refusal) or not revoked else await self._authority.revoke(key, revoked)
        if isinstance(refusal, Refusal):
            raise RunRefused(refusal)

    async def _admit(self, key: ThreadKey, run_id: str, request: RunRequest) -> Ticket | Replay | Refusal:
        answers = request.answers
        if isinstance(answers, Refusal):
            return answers
        if answers is None:
            return await self._authority.start(key, run_id=run_id, input_digest=request.input_digest, tools=self._tools)
        return await self._authority.resume(
            key, run_id=run_id, entries=answers, messages=request.new_messages, tools=self._tools
        )
