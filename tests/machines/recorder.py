"""Writes the history of one example down as its clients see it, and what the bank and the database count."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from itertools import count

from deploy.agui_client import Reply
from loadtests.banked import effects_of
from loadtests.history import Answer, Effect, Event, Fault, Replied, Sent
from loadtests.shown import NEVER, replied
from tests.host.answers import Json, read_answer
from tests.host.worlds import World
from tests.machines.far_side import FarSide
from tests.machines.replicas import Living, Pulse

_REFUND = re.compile(r"demo_refunds: \(\d+, '([^']+)', '([^']+)'")


class Recorder:
    """What clients sent and were told, in order; an effect is noted before the next thing is sent or told."""

    def __init__(self, bank: FarSide, world: World, prefix: str) -> None:
        self.events: list[Event] = []
        self._bank = bank
        self._world = world
        self._prefix = prefix
        self._numbers = count()
        self._counted: dict[str, Effect] = {}
        self.expired: dict[str, float] = {}

    def tick(self) -> float:
        return float(next(self._numbers))

    async def send(
        self, living: Living, body: Json, *, scope: str = "alice", answers: Iterable[Answer] = (), looks: bool = False
    ) -> Replied | None:
        """Send a run and note its reply; None if its replica stops before, or has died."""
        await self._count()
        request = f"{len(self.events)}:{body['runId']}"
        self.events.append(Sent(self.tick(), request, scope, body["threadId"], tuple(answers), looks))
        try:
            response = await living.host.post(body, scope=scope)
        finally:
            is_dead = living.pulse in (Pulse.DEAD, Pulse.GONE)
        if is_dead:
            return None
        await self._count()
        reply = replied(request, Reply(response.status_code, "", read_answer(response, body).events), at=self.tick())
        self.events.append(reply)
        return reply

    async def note_fault(self, living: Living, left_begun: frozenset[str] = frozenset()) -> None:
        await self._count()
        self.events.append(Fault(self.tick(), living.name, left_begun))

    def note_expiry(self, interrupts: Iterable[str]) -> None:
        """Their time has passed."""
        self.expired = {**dict.fromkeys(interrupts, self.tick()), **self.expired}

    def history(self) -> list[Event]:
        return [self._with_expiry(event) if isinstance(event, Replied) else event for event in self.events]

    async def effects(self) -> list[Effect]:
        await self._count()
        refunds = [{"key": key, "invoice": invoice} for key, invoice in _REFUND.findall(await self._world.dump())]
        return [*self._counted.values(), *effects_of({"payments": [], "wires": [], "refunds": refunds})]

    async def _count(self) -> None:
        told = await self._bank.effects(self._prefix)
        at = self.tick()
        for effect in effects_of({**told, "refunds": []}):
            self._counted.setdefault(str(effect.result), replace(effect, at=at))

    def _with_expiry(self, reply: Replied) -> Replied:
        cards = (replace(each, expires_at=self.expired.get(each.interrupt_id, NEVER)) for each in reply.cards)
        return replace(reply, cards=tuple(cards))
