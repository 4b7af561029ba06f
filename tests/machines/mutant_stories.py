"""The shortest story in which each deliberate bug shows: what clients and replicas do, with nothing left to chance."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from functools import partial

from loadtests.cases import cases
from loadtests.in_time import IN_TIME, late
from loadtests.invariants import Violation
from loadtests.threads import NEVER
from stores.ports import Stores
from tests.host.hosts import WAIT_SECONDS_MAX
from tests.host.worlds import World
from tests.machines.example import Example
from tests.machines.far_side import FarSide
from tests.machines.replicas import Living, Pulse, Replicas

THREAD, SECOND_THREAD = "t", "u"


class Directed(Example):
    """An example over two worlds that are one: `broken` is how its replicas see it, and nobody else."""

    def __init__(self, world: World, broken: World, bank: FarSide, prefix: str, stack: AsyncExitStack) -> None:
        super().__init__(world, bank, prefix, stack, is_apart=False)
        self._broken = broken

    async def open(self) -> None:
        raw: Stores = await self._stack.enter_async_context(self._world.open_another())
        self.replicas = Replicas(self._broken, raw, self._bank.url, self._stack, self._note_fault)
        for _ in range(2):
            await self._looked_for_due(await self.start())

    async def asked(self, verb: str, directions: str = "", *, thread: str = THREAD) -> tuple[Living, Living]:
        """Ask for a call, and return both replicas."""
        one, other = self.replicas.all
        await self.ask(one, thread, [verb], directions)
        assert len(self.open_cards(thread)) == 1, "asked, and not shown"
        return one, other

    async def answer(self, living: Living, verdict: str, *, thread: str = THREAD) -> None:
        """Let one replica have an answer to the card that was shown last."""
        await self.deliver([(living, *self.decision(thread, [verdict], by_alias=False))])

    async def answer_again(self, living: Living) -> None:
        """Let one replica have the answer that was sent last."""
        await self.deliver([(living, *self.sent[-1])])

    async def judged(self) -> list[Violation]:
        """Judge also what machines do not: who answers is told an end. How soon is nobody's promise here."""
        found = await super().judged()
        history = self.recorder.history()
        known, _ = cases(history, await self.recorder.effects())
        return [*found, *(Violation(name, IN_TIME, what) for name, what in late(history, known, NEVER))]

    async def _looked_for_due(self, living: Living) -> None:
        """Wait until a new replica has looked for what is due, as each does once: none shall amid a story."""
        async with asyncio.timeout(WAIT_SECONDS_MAX):
            while "due" not in living.lost:
                await asyncio.sleep(0)


Story = Callable[[Directed], Awaitable[None]]


async def _answered(example: Directed, *, verb: str, verdict: str) -> None:
    one, _ = await example.asked(verb)
    await example.answer(one, verdict)


async def _answered_twice(example: Directed) -> None:
    one, other = await example.asked("wire")
    await example.answer(one, "approve")
    await example.answer_again(other)


async def _thought_better_of(example: Directed) -> None:
    one, other = await example.asked("pay")
    body = example.decision(THREAD, ["reject"], by_alias=False)
    await example.answer(one, "approve")
    await example.deliver([(other, *body)])


async def _died(example: Directed, *, step: str, verb: str = "wire") -> None:
    one, other = await example.asked(verb)
    one.trouble = (step, Pulse.DEAD)
    await example.answer(one, "approve")
    await example.replicas.let_lease_pass()
    await example.answer_again(other)


async def _taken_over_alive(example: Directed, *, step: str) -> None:
    one, other = await example.asked("wire")
    one.trouble = (step, Pulse.FROZEN)
    await example.answer(one, "approve")
    await example.replicas.let_lease_pass()
    await example.answer_again(other)
    await example.thaw(one)


async def _slow(example: Directed, *, step: str) -> None:
    """It takes its time and has not failed, so no fault is noted and no lease passes."""
    one, other = await example.asked("wire")
    one.trouble, one.on_death = (step, Pulse.FROZEN), _nothing_failed
    await example.answer(one, "approve")
    await example.answer_again(other)
    await example.thaw(one)


async def _overtaken(example: Directed) -> None:
    """One was slow to claim: another is done with the same answer, and in a second thread with a different one."""
    await _slow(example, step="before-claim")
    one, other = await example.asked("wire", thread=SECOND_THREAD)
    one.trouble, one.on_death = ("before-claim", Pulse.FROZEN), _nothing_failed
    body = example.decision(SECOND_THREAD, ["cancel"], by_alias=False)
    await example.answer(one, "reject", thread=SECOND_THREAD)
    await example.deliver([(other, *body)])
    await example.thaw(one)


async def _model_failed(example: Directed) -> None:
    one, other = await example.asked("wire", "outage")
    await example.answer(one, "approve")
    await example.answer_again(other)


async def _looked_at(example: Directed, *, scope: str = "alice") -> None:
    _, other = await example.asked("pay")
    await example.look(other, THREAD, scope=scope)


async def _looked_at_and_answered(example: Directed) -> None:
    one, other = await example.asked("pay")
    await example.look(other, THREAD)
    await example.answer(one, "approve")


async def _late(example: Directed) -> None:
    one, _ = await example.asked("pay")
    await example.expire(THREAD)
    await example.answer(one, "approve")


async def _nothing_failed(_living: Living) -> None:
    pass


STORIES: dict[str, Story] = {
    "claim-without-compare": _overtaken,
    "interrupt-wiped-on-hydrate": _looked_at_and_answered,
    "decision-spent-by-the-claim": partial(_died, step="after-claim"),
    "card-shown-before-it-is-stored": _looked_at,
    "expired-approval-taken": _late,
    "scope-missing-in-a-key": partial(_looked_at, scope="bob"),
    "begin-after-the-effect": partial(_died, step="after-effect"),
    "settle-dropped": _model_failed,
    "attempt-ignored": partial(_taken_over_alive, step="before-begin"),
    "ledger-off": partial(_died, step="after-effect"),
    "unsafe-call-repeated": partial(_died, step="after-effect"),
    "replay-runs-again": _answered_twice,
    "lease-ignored": partial(_slow, step="after-effect"),
    "key-new-per-attempt": partial(_died, step="after-effect", verb="pay"),
    "rejection-executed": partial(_answered, verb="pay", verdict="reject"),
    "edited-arguments-ignored": partial(_answered, verb="pay", verdict="edit"),
    "refusal-that-lies": _thought_better_of,
}
