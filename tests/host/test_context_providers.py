"""A context provider may offer gated tools run by run; they are approved, carried out and missed like any other."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from agent_framework import (
    Agent,
    AgentSession,
    ChatContext,
    ChatMiddleware,
    ContextProvider,
    Message,
    SessionContext,
    SupportsAgentRun,
    SupportsChatGetResponse,
)

from app.agents.payments import PaymentTools
from app.tools import gated, unsafe
from stores.records import EffectKind
from tests.host.agents import serve
from tests.host.bank import Bank
from tests.host.bodies import answers, approve, cancel, reject, says
from tests.host.hosts import Hosts

UNAVAILABLE = "APPROVAL_TOOL_UNAVAILABLE"
HINT = "Say nothing of the weather."
MEMORY = "The user likes short answers."


@gated(unsafe())
async def pay_invoice(invoice: str, payee: str) -> str:
    """Pay, as a version of the tool that can not recognise a repeat."""
    return f"Paid {invoice} to {payee}."


@dataclass(slots=True)
class Shelf:
    """What the provider of every host offers at the moment, and what the model was given."""

    names: set[str] = field(default_factory=lambda: {"pay_invoice", "wire_transfer"})
    others: list[Any] = field(default_factory=list)
    seen: list[tuple[str, list[str]]] = field(default_factory=list)


class Provider(ContextProvider):
    """Offers tools from the shelf, an instruction and a message."""

    def __init__(self, shelf: Shelf, tools: PaymentTools) -> None:
        super().__init__("shelf")
        self._shelf = shelf
        self._tools = [tools.pay_invoice, tools.wire_transfer]

    async def before_run(
        self, *, agent: SupportsAgentRun, session: AgentSession, context: SessionContext, state: dict[str, Any]
    ) -> None:
        offered = [tool for tool in self._tools if tool.name in self._shelf.names]
        context.extend_tools(self.source_id, [*offered, *self._shelf.others])
        context.extend_instructions(self.source_id, HINT)
        context.extend_messages(self, [Message("user", [MEMORY])])


class Witness(ChatMiddleware):
    """Notes what reaches the model."""

    def __init__(self, shelf: Shelf) -> None:
        self._shelf = shelf

    async def process(self, context: ChatContext, call_next: Callable[[], Awaitable[None]]) -> None:
        instructions = str((context.options or {}).get("instructions"))
        self._shelf.seen.append((instructions, [message.text for message in context.messages]))
        await call_next()


@pytest.fixture(autouse=True)
def shelf(monkeypatch: pytest.MonkeyPatch) -> Shelf:
    """Serve an agent whose only gated tools come from its provider."""
    shelf = Shelf()

    def build(client: SupportsChatGetResponse, tools: PaymentTools) -> Agent[Any]:
        return Agent(
            client,
            "Settle invoices.",
            name="payments",
            tools=[tools.look_up_invoice],
            context_providers=[Provider(shelf, tools)],
            middleware=[Witness(shelf)],
        )

    serve(monkeypatch, build)
    return shelf


async def test_a_provided_tool_is_asked_on_one_host_and_carried_out_on_another(hosts: Hosts, bank: Bank) -> None:
    asked = await hosts.a.send(says("t", "pay INV-1 to ACME and look up INV-2 and wire INV-3 to ACME"))
    kinds = {each.tool: (each.kind, each.provided) for each in (await hosts.loaded("t")).record.occurrences}
    assert kinds == {"pay_invoice": (EffectKind.IDEMPOTENT, True), "wire_transfer": (EffectKind.UNSAFE, True)}

    body = answers("t", *map(approve, asked.ids))
    answered = await hosts.b.send(body)

    assert (answered.code, len(answered.results)) == (None, 3)
    assert len(await bank.paid()) == 2
    assert (await hosts.c.send(body)).is_replay
    assert len(await bank.paid()) == 2


async def test_a_provided_tool_that_is_gone_refuses_before_anything_of_the_batch_runs(
    hosts: Hosts, bank: Bank, shelf: Shelf
) -> None:
    asked = await hosts.a.send(says("t", "pay INV-1 to ACME and wire INV-2 to ACME"))
    body = answers("t", *map(approve, asked.ids))
    shelf.names = {"pay_invoice"}

    for host in (hosts.b, hosts.c):
        refused = await host.send(body)
        assert (refused.code, "wire_transfer" in refused.message) == (UNAVAILABLE, True)
        assert refused.metadata["definite"] is hosts.is_certain
    assert await bank.paid() == []

    shelf.names = {"pay_invoice", "wire_transfer"}
    assert (await hosts.b.send(body)).code is None
    assert len(await bank.paid()) == 2


async def test_a_thread_whose_provided_tool_is_gone_is_left_by_a_cancel(hosts: Hosts, bank: Bank, shelf: Shelf) -> None:
    asked = await hosts.a.send(says("t", "pay INV-1 to ACME"))
    shelf.names = set()
    assert (await hosts.b.send(answers("t", approve(*asked.ids)))).code == UNAVAILABLE

    left = await hosts.c.send(answers("t", cancel(*asked.ids)))

    assert (left.code, await hosts.is_closed("t")) == (None, True)
    assert (await hosts.a.send(says("t", "hello"))).code is None
    assert await bank.paid() == []


async def test_a_provided_tool_that_is_gone_can_be_rejected(hosts: Hosts, bank: Bank, shelf: Shelf) -> None:
    asked = await hosts.a.send(says("t", "pay INV-1 to ACME"))
    shelf.names = set()

    assert (await hosts.b.send(answers("t", reject(*asked.ids)))).code is None

    assert (await hosts.is_closed("t"), await bank.paid()) == (True, [])


async def test_a_provided_tool_of_another_kind_is_not_the_one_that_was_approved(hosts: Hosts, shelf: Shelf) -> None:
    asked = await hosts.a.send(says("t", "pay INV-1 to ACME"))
    shelf.names, shelf.others = set(), [pay_invoice]

    refused = await hosts.b.send(answers("t", approve(*asked.ids)))

    assert refused.code == UNAVAILABLE


async def test_what_a_provider_says_reaches_the_model_once_per_run_and_is_not_kept(hosts: Hosts, shelf: Shelf) -> None:
    for host, words in ((hosts.a, "hello"), (hosts.b, "look up INV-1"), (hosts.c, "look up INV-2")):
        assert (await host.send(says("t", words))).code is None
    asked = await hosts.a.send(says("t", "pay INV-3 to ACME"))
    assert (await hosts.b.send(answers("t", approve(*asked.ids)))).code is None

    for instructions, texts in shelf.seen:
        assert (instructions.count(HINT), texts.count(MEMORY)) == (1, 1)
        assert all(texts.count(words) <= 1 for words in ("hello", "look up INV-1", "look up INV-2"))
    assert "hello" in shelf.seen[-1][1]
    stored = await hosts.dump_threads()
    assert [MEMORY in stored, HINT in stored, "provided-tools" in stored] == [False, False, False]


async def test_a_provided_tool_that_no_host_can_serve_fails_the_run_before_the_model_is_called(
    hosts: Hosts, shelf: Shelf
) -> None:
    inner = Agent(None, "", name="inner", tools=[pay_invoice])  # type: ignore[arg-type]  # never called
    shelf.others = [inner.as_tool()]

    failed = await hosts.a.send(says("t", "hello"))

    assert (failed.code, shelf.seen) == ("RUN_FAILED", [])
    shelf.others = []
    assert (await hosts.b.send(says("t", "hello"))).code is None


async def test_two_tools_of_one_name_fail_the_run_before_the_model_is_called(hosts: Hosts, shelf: Shelf) -> None:
    shelf.others = [pay_invoice]

    failed = await hosts.a.send(says("t", "hello"))

    assert (failed.code, shelf.seen) == ("RUN_FAILED", [])


async def test_the_reconciler_carries_out_a_provided_tool_with_no_client(hosts: Hosts, bank: Bank) -> None:
    asked = await hosts.a.send(says("t", "pay INV-1 to ACME (outage o)"))
    await bank.break_model("o", times=1)
    body = answers("t", approve(*asked.ids))
    assert (await hosts.b.send(body)).code == "RUN_FAILED"

    await hosts.make_due("t")
    await hosts.start(reconcile_seconds=0.02)
    await hosts.until(lambda: hosts.is_closed("t"))

    assert (await hosts.c.send(body)).is_replay
    assert await bank.paid() == [("INV-1", "ACME")]


async def test_a_provided_tool_that_became_the_agents_own_is_carried_out(
    hosts: Hosts, bank: Bank, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = await hosts.a.send(says("t", "wire INV-1 to ACME"))

    def build(client: SupportsChatGetResponse, tools: PaymentTools) -> Agent[Any]:
        return Agent(client, "", name="payments", tools=[tools.wire_transfer])

    serve(monkeypatch, build)
    later = await hosts.start()

    assert (await later.send(answers("t", approve(*asked.ids)))).code is None
    assert await bank.paid() == [("INV-1", "ACME")]
