"""Writes the history of one example down as its clients see it, and what the bank and the database count."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import replace
from itertools import count

from app.answers import canonical
from loadtests.history import Answer, Card, Effect, Event, Fault, Replied, Result, Sent
from stores.records import EffectKind
from tests.host.answers import Answer as Stream
from tests.host.answers import Json, read_answer
from tests.host.worlds import World
from tests.machines.far_side import FarSide
from tests.machines.replicas import Living, Pulse

KINDS = {
    "pay_invoice": EffectKind.IDEMPOTENT,
    "wire_transfer": EffectKind.UNSAFE,
    "refund_invoice": EffectKind.TRANSACTIONAL,
}
NEVER = float("inf")
_REFUND = re.compile(r"demo_refunds: \(\d+, '([^']+)', '([^']+)'")


class Recorder:
    """What clients sent and were told, in order; an effect is noted before the next thing is sent."""

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
        reply = self._replied(request, read_answer(response, body))
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
        refunds = [
            Effect("refund_invoice", canonical({"invoice": invoice}), key, f"Refunded {invoice}.")
            for key, invoice in _REFUND.findall(await self._world.dump())
        ]
        return [*self._counted.values(), *refunds]

    async def _count(self) -> None:
        told = await self._bank.effects(self._prefix)
        at = self.tick()
        for tool, verb, each in [
            *(("pay_invoice", "Paid", each) for each in told["payments"]),
            *(("wire_transfer", "Wired", each) for each in told["wires"]),
        ]:
            arguments = canonical({"invoice": each["invoice"], "payee": each["payee"]})
            result = f"{verb} {each['invoice']} to {each['payee']}, receipt {each['receipt']}."
            self._counted.setdefault(each["receipt"], Effect(tool, arguments, each.get("key"), result, at))

    def _replied(self, request: str, told: Stream) -> Replied:
        outcome = told.events[-1].get("outcome") or {}
        return Replied(
            self.tick(),
            request,
            code=told.code,
            definite=told.metadata.get("definite") is True,
            is_replay=told.is_replay,
            is_paused=outcome.get("type") == "interrupt",
            results=tuple(
                Result(each["toolCallId"], each["content"], each["content"].startswith("Error"))
                for each in told.of("TOOL_CALL_RESULT")
            ),
            text=told.text,
            cards=tuple(_card(each) for each in told.interrupts),
            open=tuple(each["interruptId"] for each in told.metadata.get("approvals", [])),
        )

    def _with_expiry(self, reply: Replied) -> Replied:
        cards = (replace(each, expires_at=self.expired.get(each.interrupt_id, NEVER)) for each in reply.cards)
        return replace(reply, cards=tuple(cards))


def _card(told: Json) -> Card:
    call = told["metadata"]["agent_framework"]["function_call"]
    arguments = call["arguments"]
    arguments = canonical(json.loads(arguments) if isinstance(arguments, str) else arguments)
    return Card(told["id"], told["toolCallId"], call["name"], KINDS[call["name"]], arguments, NEVER)
