"""Tools that are plain functions and block run in threads: the host goes on serving, and says that it lives."""

from __future__ import annotations

import asyncio
import threading
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Any

import pytest
from agent_framework import Agent, SupportsChatGetResponse

from app.agents.payments import PaymentTools
from app.tools import gated, unsafe
from tests.host.agents import serve
from tests.host.bodies import answers, approve, says
from tests.host.hosts import Hosts
from tests.host.worlds import World, memory_world

CALLS = 40
"""More than asyncio has threads by itself, on any machine with up to 32 cores."""


@pytest.fixture
def _fresh_world() -> AbstractAsyncContextManager[World]:
    """Threads are a process's own: nothing here depends on a store."""
    return memory_world()


@dataclass
class Gate:
    """What every wire of the hosts' agent waits for, in the thread that it blocks; `waiting` are those that came."""

    go: threading.Event = field(default_factory=threading.Event)
    waiting: list[str] = field(default_factory=list)


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Gate:
    """The gate of this test, which it must open in the end."""
    gate = Gate()

    @gated(unsafe())
    def wire_transfer(invoice: str, payee: str) -> str:
        """Wire the amount of an invoice."""
        gate.waiting.append(invoice)
        gate.go.wait()
        return f"Wired {invoice} to {payee}."

    def build(client: SupportsChatGetResponse[Any], tools: PaymentTools) -> Agent[Any]:
        return Agent(client, name="payments", tools=[tools.look_up_invoice, wire_transfer])

    serve(monkeypatch, build)
    return gate


async def test_tools_that_block_stop_neither_other_runs_nor_probes_nor_heartbeats(gate: Gate, hosts: Hosts) -> None:
    host = await hosts.start(lease_seconds=0.2)
    asked = [await hosts.a.send(says(f"t-{n}", f"wire INV-{n} to ACME")) for n in range(CALLS)]
    answering = [asyncio.create_task(host.send(answers(f"t-{n}", approve(*each.ids)))) for n, each in enumerate(asked)]
    try:
        await hosts.until(lambda: are_waiting(gate, CALLS))

        # A look-up of a name takes a thread too.
        await asyncio.get_running_loop().getaddrinfo("localhost", 80)
        assert (await host.send(says("t", "look up INV-1"))).code is None
        assert (await host.client.get("/readyz")).status_code == 200
        for _ in range(2):
            await beats(hosts, host.stores.replicas)
        assert not any(task.done() for task in answering)
    finally:
        gate.go.set()
    assert [(await task).results for task in answering] == [[f"Wired INV-{n} to ACME."] for n in range(CALLS)]


async def are_waiting(gate: Gate, calls: int) -> bool:
    return len(gate.waiting) == calls


async def beats(hosts: Hosts, registry: Any) -> None:
    """Wait until the replica that beats most often has done so again."""
    last = min((await registry.seen()).values())

    async def has_beaten() -> bool:
        nonlocal last
        before, last = last, min((await registry.seen()).values())
        return last < before

    await hosts.until(has_beaten)
