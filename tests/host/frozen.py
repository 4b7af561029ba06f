"""A holder that freezes in one call of a port while it carries an approval out, and thaws when it is told to.

Its heart is still all the while, so an observer takes it for dead. Its call is on the way to the store when it
freezes, or was answered and it has not seen the reply.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from typing import Any

import pytest

from stores.ports import Stores
from tests.host.answers import Answer
from tests.host.back_doors import HeldUp, apart
from tests.host.bank import Bank
from tests.host.bodies import Json, answers, approve, reject, says
from tests.host.hosts import Host, Hosts

LEASE_SECONDS = 0.3
"""The observer's lease: the frozen holder said once that it lives, and is dead to it when this has passed."""
IN_PROGRESS = "APPROVAL_RESUME_IN_PROGRESS"
DOUBT = "APPROVAL_OUTCOME_INDETERMINATE"
WORDS = {"idempotent": "pay INV-1 to ACME", "unsafe": "wire INV-1 to ACME", "transactional": "refund INV-1"}
RESULTS = {
    "idempotent": "Paid INV-1 to ACME, receipt payment-1.",
    "unsafe": "Wired INV-1 to ACME, receipt wire-1.",
    "transactional": "Refunded INV-1.",
}


@dataclass(frozen=True, slots=True)
class Frozen:
    """A holder that stopped in one call of a port, and what it was carrying out."""

    held: HeldUp
    body: Json
    interrupt: str
    answering: asyncio.Task[Answer]

    async def thaw(self) -> Answer:
        self.held.go.set()
        return await self.answering


async def freeze(hosts: Hosts, kind: str, port: str, call: str, *, is_sent: bool) -> Frozen:
    """Let a holder stop in a call that was sent, its reply unseen, or that reaches the store after the thaw only."""
    if kind == "transactional" and not hosts.is_transactional:
        pytest.skip("these stores offer no transactions to tools")
    made: list[HeldUp] = []

    def decorate(stores: Stores) -> Stores:
        made.append(HeldUp(getattr(stores, port), call, is_sent))
        # The begin of an idempotent call is a step of its own only where the ledger is a store of its own.
        changed: dict[str, Any] = {port: made[0]}
        return apart(replace(stores, **changed))

    holder = await hosts.start(decorate=decorate)
    asked = await hosts.a.send(says("t", WORDS[kind]))
    body = answers("t", approve(*asked.ids))
    answering = asyncio.create_task(holder.send(body))
    await made[0].is_reached()
    return Frozen(made[0], body, asked.ids[0], answering)


async def start_observer(hosts: Hosts, **changes: Any) -> Host:
    return await hosts.start(decorate=apart, lease_seconds=LEASE_SECONDS, **changes)


async def take_over(hosts: Hosts) -> None:
    """Let an observer carry the thread on to its end."""
    await start_observer(hosts, reconcile_seconds=0.02)
    await hosts.until(lambda: hosts.is_closed("t"))


async def has_doubt(hosts: Hosts) -> bool:
    return (await hosts.a.show("t")).states == ["indeterminate"]


async def effects(hosts: Hosts, bank: Bank) -> int:
    """Return how many payments, wires and refunds there are."""
    return len(await bank.paid()) + (await hosts.dump()).count("demo_refunds: ")


async def assert_replayed(hosts: Hosts, bank: Bank, frozen: Frozen, kind: str) -> None:
    """A duplicate gets the one recorded result, other decisions are refused, and nothing more happens."""
    before = await bank.calls()
    replayed = await hosts.c.send(frozen.body)
    assert (replayed.is_replay, replayed.results) == (True, [RESULTS[kind]])
    assert (await hosts.b.send(answers("t", reject(frozen.interrupt)))).code == "APPROVAL_RESUME_CONFLICT"
    assert (await effects(hosts, bank), await bank.calls()) == (1, before)
