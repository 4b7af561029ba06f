"""What one crash is judged by: its own thread and invoice, the hosts that are left, and what really happened."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from deploy.agui_client import RETRYABLE_CODES
from stores.records import EffectState
from tests.crash_points.mortal import Mortal, mortal
from tests.crash_points.points import Journey
from tests.host.answers import Answer, Json
from tests.host.bank import Bank
from tests.host.bodies import answers, approve, says
from tests.host.hosts import Host, Hosts, key_of

LEASE_SECONDS = 0.2
"""The survivor's lease: who died is dead to it when this has passed since it last said that it lives. A survivor
that is starved for longer trusts nobody's silence for another one; that costs time, and changes nothing else."""
DOUBT = "APPROVAL_OUTCOME_INDETERMINATE"

MIXED_WORLD = "redis and postgres"
"""Threads in the one, the ledger in the other."""
SHARED_WORLDS = ("memory", "sqlite", "postgres", "redis")
TRANSACTIONAL_WORLDS = ("sqlite", "postgres", MIXED_WORLD)

WORDS = {
    Journey.IDEMPOTENT: "pay {invoice} to ACME",
    Journey.TRANSACTIONAL: "refund {invoice}",
    Journey.UNSAFE: "wire {invoice} to ACME",
}
RESULTS = {
    Journey.IDEMPOTENT: "Paid {invoice} to ACME, receipt ",
    Journey.TRANSACTIONAL: "Refunded {invoice}.",
    Journey.UNSAFE: "Wired {invoice} to ACME, receipt ",
}


@dataclass(frozen=True, slots=True)
class Crash:
    """One thread in which a replica dies. `survivor` answers what is sent again, `witness` what is sent twice."""

    hosts: Hosts
    bank: Bank
    name: str

    @property
    def survivor(self) -> Host:
        return self.hosts.a

    @property
    def witness(self) -> Host:
        return self.hosts.b

    def says(self, words: str) -> Json:
        """Return a message about the invoice of this crash."""
        return says(self.name, words.format(invoice=self.name))

    async def ask(self, words: str) -> Json:
        """Let the survivor ask for an approval; answers the resume that gives it."""
        asked = await self.survivor.send(self.says(words))
        assert len(asked.ids) == 1, asked.events
        return answers(self.name, approve(*asked.ids))

    @asynccontextmanager
    async def mortal(self, point: str, **changes: Any) -> AsyncIterator[Mortal]:
        """Start a host that dies at this point; on leaving, what is left of it is put away."""
        async with mortal(self.hosts, point, **changes) as host:
            yield host

    async def dies(self, point: str, body: Json, **changes: Any) -> None:
        """Let a host die at this point while it answers this, and become silent for long enough."""
        since = time.monotonic()
        async with self.mortal(point, **changes) as host:
            await host.dies_of(body)
        await self.is_silent(since)

    async def is_silent(self, since: float) -> None:
        """Wait for the lease of whoever claims the thread, if anybody does."""
        if (await self.hosts.loaded(self.name)).record.claim is not None:
            await self.hosts.until(lambda: _has_passed(since + LEASE_SECONDS))

    async def states(self) -> list[str]:
        """Return how far the approvals of the thread got by its record."""
        return [str(each.state) for each in (await self.hosts.loaded(self.name)).record.occurrences]

    async def answered(self, body: Json) -> Answer:
        """Send the same again as a client does, until it is answered or refused for good."""
        found: list[Answer] = []

        async def is_answered() -> bool:
            found.append(await self.survivor.send(body))
            return found[-1].code not in RETRYABLE_CODES

        await self.hosts.until(is_answered)
        return found[-1]

    async def counted(self, journey: Journey) -> tuple[int, int]:
        """Return how many effects there are on the invoice, and how many calls the bank received for it."""
        payments, all_wires, refunds = await asyncio.gather(
            self.bank.payments(), self.bank.wires(), self._refunds(journey)
        )
        paid = [each for each in payments if each["invoice"] == self.name]
        wires = [each for each in all_wires if each["invoice"] == self.name]
        return len(paid) + len(wires) + len(refunds), sum(each["calls"] for each in paid) + len(wires) + len(refunds)

    async def rows(self, body: Json) -> list[tuple[EffectState, str | None]]:
        """Return state and reason of the ledger's rows of what is answered."""
        names = [entry["interruptId"] for entry in body["resume"]]
        rows = await self.survivor.stores.effects.read(key_of(self.name), interrupts=names)
        return [(row.state, row.why) for row in rows.values()]

    async def _refunds(self, journey: Journey) -> list[str]:
        """Read what only the tool that writes in the hosts' database can have done."""
        rows = (await self.hosts.dump()).splitlines() if journey is Journey.TRANSACTIONAL else []
        return [row for row in rows if row.startswith("demo_refunds: ") and repr(self.name) in row]


def new_crash(hosts: Hosts, bank: Bank) -> Crash:
    """Return a crash in a thread that nobody has used."""
    return Crash(hosts, bank, f"INV-{uuid4().hex}")


async def _has_passed(moment: float) -> bool:
    return time.monotonic() > moment
