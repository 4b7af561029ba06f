"""What an agent's own middleware decides beside a person: its refusal, its questions, its answers, its bundles."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import pytest
from agent_framework import (
    Agent,
    Content,
    FunctionInvocationContext,
    FunctionMiddleware,
    MiddlewareBundle,
    MiddlewareFailure,
    MiddlewareTermination,
    SupportsChatGetResponse,
    ToolApprovalMiddleware,
)

from app.agents.payments import PaymentTools
from tests.host.agents import serve
from tests.host.bank import Bank
from tests.host.bodies import answers, approve, cancel, reject, says
from tests.host.hosts import Hosts
from tests.host.ruled import give_rule

CallNext = Callable[[], Awaitable[None]]


class Desk:
    """Serves the demo's tools behind a middleware that does what it says here."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.says: Callable[[FunctionInvocationContext, CallNext], Awaitable[None]] = self.lets_through
        self.is_bundled = False
        self.is_enabled = True
        self.may_call = asyncio.Event()
        self.calling: asyncio.Future[None] | None = None
        serve(monkeypatch, self.build)

    def build(self, client: SupportsChatGetResponse, tools: PaymentTools) -> Agent[Any]:
        configuration: Any = client.function_invocation_configuration  # type: ignore[attr-defined]  # every function-invoking client has it
        configuration["enabled"] = self.is_enabled
        middleware = [MiddlewareBundle([ToolApprovalMiddleware()])] if self.is_bundled else [Policy(self)]
        offered = [tools.look_up_invoice, tools.pay_invoice, tools.wire_transfer]
        return Agent(client, name="payments", tools=offered, middleware=middleware)

    async def lets_through(self, context: FunctionInvocationContext, call_next: CallNext) -> None:
        await call_next()

    async def refuses(self, context: FunctionInvocationContext, call_next: CallNext) -> None:
        raise MiddlewareFailure("alice may not")

    async def refuses_afterwards(self, context: FunctionInvocationContext, call_next: CallNext) -> None:
        await call_next()
        raise MiddlewareFailure("alice may not see it")

    async def answers(self, context: FunctionInvocationContext, call_next: CallNext) -> None:
        context.result = "It is paid already."
        raise MiddlewareTermination("known")

    async def answers_in_what_it_raises(self, context: FunctionInvocationContext, call_next: CallNext) -> None:
        raise MiddlewareTermination("known", result="It is paid already.")

    async def refuses_while_it_calls(self, context: FunctionInvocationContext, call_next: CallNext) -> None:
        self.calling = asyncio.ensure_future(self._call_later(call_next))
        raise MiddlewareFailure("alice may not")

    async def _call_later(self, call_next: CallNext) -> None:
        await self.may_call.wait()
        await call_next()

    async def refuses_and_hides_the_call(self, context: FunctionInvocationContext, call_next: CallNext) -> None:
        await call_next()
        context.metadata.clear()
        raise MiddlewareFailure("alice may not see it")

    async def calls_twice(self, context: FunctionInvocationContext, call_next: CallNext) -> None:
        await call_next()
        with suppress(Exception):
            await call_next()

    async def asks(self, context: FunctionInvocationContext, call_next: CallNext) -> None:
        if context.metadata.get("approval_response") is not None:
            await call_next()
            return
        call = Content.from_function_call(
            context.metadata["call_id"],
            context.function.name,
            arguments=dict(context.arguments),  # type: ignore[arg-type]  # core has parsed them by here
            id=context.metadata["function_call_occurrence_id"],
        )
        context.result = Content.from_function_approval_request(id=call.id or "", function_call=call)
        raise MiddlewareTermination("a person must look at it")


class Policy(FunctionMiddleware):
    """Asks the desk what to do with a call."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    async def process(self, context: FunctionInvocationContext, call_next: CallNext) -> None:
        await self._desk.says(context, call_next)


@pytest.fixture
def desk(monkeypatch: pytest.MonkeyPatch) -> Desk:
    """Return the desk of all hosts that start from now on."""
    return Desk(monkeypatch)


async def test_a_refusal_of_middleware_has_upstreams_code_and_leaves_no_doubt_where_the_tool_was_not_called(
    hosts: Hosts, bank: Bank, desk: Desk
) -> None:
    one, another = await hosts.start(), await hosts.start()
    asked = await one.send(says("t", "wire INV-1 to ACME"))
    body = answers("t", *map(approve, asked.ids))

    desk.says = desk.refuses
    refused, again = await one.send(body), await another.send(body)

    assert (refused.code, again.code) == ("MiddlewareFailure", "MiddlewareFailure")
    assert "alice" not in refused.message
    assert await bank.paid() == []
    desk.says = desk.lets_through
    answered = await another.send(body)
    assert (answered.code, answered.results) == (None, ["Wired INV-1 to ACME, receipt wire-1."])
    assert await bank.paid() == [("INV-1", "ACME")]


async def test_a_refusal_of_middleware_after_the_call_leaves_a_doubt(hosts: Hosts, bank: Bank, desk: Desk) -> None:
    host = await hosts.start()
    asked = await host.send(says("t", "wire INV-1 to ACME"))
    body = answers("t", *map(approve, asked.ids))
    desk.says = desk.refuses_afterwards

    refused, again = await host.send(body), await host.send(body)

    assert (refused.code, again.code) == ("MiddlewareFailure", "APPROVAL_OUTCOME_INDETERMINATE")
    assert await bank.paid() == [("INV-1", "ACME")]


async def test_a_call_that_middleware_gave_up_is_not_made_any_more(hosts: Hosts, bank: Bank, desk: Desk) -> None:
    host = await hosts.start()
    asked = await host.send(says("t", "wire INV-1 to ACME"))
    body = answers("t", *map(approve, asked.ids))
    desk.says = desk.refuses_while_it_calls

    refused = await host.send(body)

    assert refused.code == "MiddlewareFailure"
    assert desk.calling is not None
    desk.may_call.set()
    with pytest.raises(MiddlewareFailure):
        await desk.calling
    assert await bank.paid() == []
    desk.says = desk.lets_through
    assert (await host.send(body)).code is None
    assert await bank.paid() == [("INV-1", "ACME")]


@pytest.mark.parametrize("deed", ["refuses_and_hides_the_call", "calls_twice"])
async def test_what_middleware_does_behind_a_call_leaves_a_doubt_and_no_second_effect(
    hosts: Hosts, bank: Bank, desk: Desk, deed: str
) -> None:
    host = await hosts.start()
    asked = await host.send(says("t", "wire INV-1 to ACME"))
    body = answers("t", *map(approve, asked.ids))
    desk.says = getattr(desk, deed)

    first = await host.send(body)
    desk.says = desk.lets_through
    again = await host.send(body)

    assert first.code in {"MiddlewareFailure", "APPROVAL_OUTCOME_INDETERMINATE"}
    assert again.code == "APPROVAL_OUTCOME_INDETERMINATE"
    assert await bank.paid() == [("INV-1", "ACME")]


async def test_a_plain_run_may_be_refused_by_middleware_too(hosts: Hosts, bank: Bank, desk: Desk) -> None:
    host = await hosts.start()
    desk.says = desk.refuses

    refused = await host.send(says("t", "look up INV-9"))

    assert (refused.code, refused.metadata["definite"]) == ("MiddlewareFailure", False)
    assert (await host.send(says("t", "hello"))).code is None


@pytest.mark.parametrize("deed", ["answers", "answers_in_what_it_raises"])
async def test_an_answer_of_middleware_stands_for_the_call(hosts: Hosts, bank: Bank, desk: Desk, deed: str) -> None:
    host = await hosts.start()
    asked = await host.send(says("t", "wire INV-1 to ACME"))
    body = answers("t", *map(approve, asked.ids))
    desk.says = getattr(desk, deed)

    answered, repeated = await host.send(body), await host.send(body)

    assert (answered.code, answered.results) == (None, ["It is paid already."])
    assert (repeated.is_replay, repeated.results) == (True, answered.results)
    assert await bank.paid() == []


async def test_a_call_that_middleware_asked_about_runs_once_after_its_approval(
    hosts: Hosts, bank: Bank, desk: Desk
) -> None:
    one, another = await hosts.start(), await hosts.start()
    desk.says = desk.asks
    asked = await one.send(says("t", "look up INV-9"))
    assert [card["toolCallId"] for card in asked.interrupts] == [asked.of("TOOL_CALL_START")[0]["toolCallId"]]
    body = answers("t", *map(approve, asked.ids))

    answered, repeated = await another.send(body), await one.send(body)

    assert answered.code is None
    assert [result.startswith("Invoice INV-9: ") for result in answered.results] == [True]
    assert (repeated.is_replay, repeated.results) == (True, answered.results)


@pytest.mark.parametrize("leave", [reject, cancel])
async def test_a_call_that_middleware_asked_about_does_not_run_without_its_approval(
    hosts: Hosts, bank: Bank, desk: Desk, leave: Callable[[str], dict[str, Any]]
) -> None:
    host = await hosts.start()
    desk.says = desk.asks
    asked = await host.send(says("t", "look up INV-9"))

    left = await host.send(answers("t", *map(leave, asked.ids)))

    assert left.code is None
    assert "Invoice INV-9: " not in f"{left.text}{left.results}{left.messages}"
    desk.says = desk.lets_through
    assert (await host.send(says("t", "hello"))).code is None


async def test_standing_rules_are_taken_from_a_bundle(hosts: Hosts, bank: Bank, desk: Desk) -> None:
    desk.is_bundled = True
    hosts.a, hosts.b = await hosts.start(), await hosts.start()

    await give_rule(hosts, "wire INV-1 to ACME")
    answered = await hosts.b.send(says("t", "wire INV-2 to Bolt"))

    assert (answered.code, answered.ids) == (None, [])
    assert await bank.paid() == [("INV-1", "ACME"), ("INV-2", "Bolt")]


async def test_an_approval_waits_while_the_agents_calls_are_switched_off(hosts: Hosts, bank: Bank, desk: Desk) -> None:
    host = await hosts.start()
    asked = await host.send(says("t", "wire INV-1 to ACME"))
    body = answers("t", *map(approve, asked.ids))
    desk.is_enabled = False

    refused, again = await host.send(body), await host.send(body)

    assert (refused.code, again.code) == ("APPROVAL_INVOCATION_DISABLED", "APPROVAL_INVOCATION_DISABLED")
    assert refused.metadata["definite"] is hosts.is_certain
    desk.is_enabled = True
    assert (await host.send(body)).code is None
    assert await bank.paid() == [("INV-1", "ACME")]
