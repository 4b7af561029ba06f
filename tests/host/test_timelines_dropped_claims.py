"""A holder whose claim was dropped while it was frozen lets its rows go when it thaws: nobody waits for its time."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from stores.errors import StoreUnavailable
from stores.ports import Stores
from tests.host.bank import Bank
from tests.host.bodies import answers, approve, says
from tests.host.frozen import DOUBT, IN_PROGRESS, LEASE_SECONDS
from tests.host.hosts import Hosts


@dataclass
class FrozenBetween:
    """A ledger whose first begin is recorded, and whose second waits, fails, and is not; no settle comes before it."""

    inner: Any
    go: asyncio.Event = field(default_factory=asyncio.Event)
    begins: int = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    async def begin(self, *arguments: Any, **named: Any) -> Any:
        self.begins += 1
        if self.begins == 1:
            return await self.inner.begin(*arguments, **named)
        await self.go.wait()
        raise StoreUnavailable("the store is away")

    async def settle(self, *arguments: Any, **named: Any) -> Any:
        await self.go.wait()
        return await self.inner.settle(*arguments, **named)


@pytest.mark.parametrize("is_shared", [True, False], ids=["one store", "two stores"])
async def test_rows_of_a_claim_that_was_dropped_are_free_once_their_holder_thaws(
    hosts: Hosts, bank: Bank, is_shared: bool
) -> None:
    """Found by chaos: an approval waited for the whole time of a claim that was gone.

    A: claims, wires one, on its way to begin the other ........ settles the one, fails, lets go of both rows
    B:                                  (A's lease ends) doubt: drops the claim, and ends
    C:                                                                                   (A lives) goes on at once
    """
    ledgers: list[FrozenBetween] = []

    def decorate(stores: Stores) -> Stores:
        ledgers.append(FrozenBetween(stores.effects))
        return replace(stores, effects=ledgers[0], shared=stores.shared and is_shared)

    holder = await hosts.start(decorate=decorate)
    asked = await hosts.a.send(says("t", "wire INV-1 to ACME and wire INV-2 to ACME"))
    body = answers("t", *map(approve, asked.ids))
    answering = asyncio.create_task(holder.send(body))
    await hosts.until(lambda: has_wired(bank, "INV-1", "INV-2"))
    async with AsyncExitStack() as stack:
        await hosts.beside(stack).start(lease_seconds=LEASE_SECONDS, reconcile_seconds=0.02)
        await hosts.until(lambda: has_doubt_among(hosts))

    ledgers[0].go.set()
    assert (await answering).code is not None

    answered = await hosts.answered(hosts.c, body, unless=IN_PROGRESS)
    assert answered.code != DOUBT
    assert len(answered.results) == 2
    assert sorted(invoice for invoice, _ in await bank.paid()) == ["INV-1", "INV-2"]


async def has_wired(bank: Bank, *either: str) -> bool:
    return any(invoice in either for invoice, _ in await bank.paid())


async def has_doubt_among(hosts: Hosts) -> bool:
    return "indeterminate" in (await hosts.a.show("t")).states
