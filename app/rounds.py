"""Carries a claimed run to its end, in as many rounds as standing rules give it, and commits it or lets go of it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from app import standing, upstream, wire
from app.authority import ApprovalAuthority
from app.carry_out import CarryOut, RunInput
from app.drain import Drain
from app.effects import EffectLimits, RunEffects
from app.errors import RunRefused
from app.metrics import Metrics
from app.pipe import Pipe
from app.releases import Releases
from app.steps import OnStep, Step
from app.tickets import Ending, LetGo, Ticket
from stores.ports import Stores


@dataclass(frozen=True, slots=True)
class Rounds:
    """What a claimed run of one agent needs. `run_seconds` are for all its rounds together."""

    carry_out: CarryOut
    authority: ApprovalAuthority
    releases: Releases
    stores: Stores
    drain: Drain
    run_seconds: float
    effects: EffectLimits
    on_step: OnStep
    metrics: Metrics

    async def run(self, ticket: Ticket, run_input: RunInput, pipe: Pipe, *, run_id: str) -> None:
        """Carry the run out and commit it, or let go of the thread; its end is sent after its commit only.

        `run_id` is the one it was asked for under; a run that goes on keeps the one it began with.

        Where it pauses and standing rules leave no question to a person, it goes on: one claim, one run, one stream.
        """
        for event in wire.events(ticket.before):
            pipe.put(event)
        until = asyncio.get_running_loop().time() + self.run_seconds
        if ticket.record.goes_on:
            # Its words were said and committed before: sent again, perhaps under other ids, they are not said anew.
            run_input = run_input.continued()
        while True:
            ending, next_round = await self._round(ticket, run_input, pipe, until)
            if next_round is None:
                break
            ticket, run_input = next_round, run_input.continued()
        finished = upstream.run_finished(ticket.key, run_id, ending.cards)
        pipe.put(wire.with_rules(finished, standing.rules_after(ticket.record, ticket.now())))
        await self.on_step(f"after-{Step.ANSWER}", ticket.key)

    async def _round(
        self, ticket: Ticket, run_input: RunInput, pipe: Pipe, until: float
    ) -> tuple[Ending, Ticket | None]:
        effects = RunEffects(
            self.stores.effects,
            ticket.key,
            attempt=ticket.claim.attempt,
            deadline=ticket.deadline,
            granted={each.interrupt_id: each for each in ticket.record.occurrences},
            answers=ticket.answers,
            limits=self.effects,
            drain=self.drain.tasks,
            on_step=self.on_step,
            metrics=self.metrics,
        )
        try:
            async with asyncio.timeout_at(until):
                ending, held = await self.carry_out.run(ticket, run_input, effects, pipe)
                next_round = await self.authority.finish(ticket, ending)
        except BaseException as error:
            await asyncio.shield(self.drain.start(self._let_go(ticket, effects)))
            if effects.refusal is not None and not isinstance(error, asyncio.CancelledError):
                raise RunRefused(effects.refusal) from error
            raise
        if next_round is None:
            await self.on_step(f"before-{Step.ANSWER}", ticket.key)
        for event in held:
            pipe.put(event)
        return ending, next_round

    async def _let_go(self, ticket: Ticket, effects: RunEffects) -> None:
        await effects.ended()
        await self.releases.release(ticket, LetGo(frozenset(effects.in_doubt), frozenset(effects.unstarted)))
