"""The demo's tools against a real bank: what each kind of effect promises, and what each failure says."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from agent_framework import Agent, FunctionInvocationContext, FunctionMiddleware, FunctionTool
from agent_framework_ag_ui import AgentFrameworkAgent, InMemoryAGUIThreadSnapshotStore
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from app.agents.payments import build_agent
from app.agents.scripted import ScriptedChatClient
from app.tools import DidNotHappen, EffectCall, OutsideApprovedCall, declared_effect, give_effect
from stores.records import EffectKind
from tests.bank_server import running_bank

ORDER = {"invoice": "INV-1", "payee": "ACME"}
SHORT_SECONDS = 0.2


@pytest.fixture
async def bank() -> AsyncIterator[httpx.AsyncClient]:
    async with running_bank() as url, httpx.AsyncClient(base_url=url, timeout=10) as client:
        yield client


@pytest.fixture
async def database(tmp_path: Path) -> AsyncIterator[AsyncEngine]:
    engine = create_async_engine(f"sqlite+aiosqlite:///{tmp_path}/refunds.db")
    async with engine.begin() as connection:
        await connection.execute(
            text("create table demo_refunds (key text primary key, invoice text, created_at real)")
        )
    yield engine
    await engine.dispose()


@asynccontextmanager
async def bank_that_answers(raw: bytes) -> AsyncIterator[httpx.AsyncClient]:
    """A bank that takes the order, says exactly this (nothing: it hangs up), and closes."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(raw)
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server, httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}") as client:
        yield client


@asynccontextmanager
async def no_bank() -> AsyncIterator[httpx.AsyncClient]:
    """A port that refuses, because whoever listened there is gone."""
    server = await asyncio.start_server(lambda reader, writer: None, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    server.close()
    await server.wait_closed()
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}") as client:
        yield client


def tools_of(agent: Agent) -> dict[str, FunctionTool]:
    return {tool.name: tool for tool in agent.default_options["tools"]}


async def call(bank: httpx.AsyncClient, name: str, effect: EffectCall | None = None, **arguments: str) -> str:
    """Call a tool as an approved call does."""
    tool = tools_of(build_agent(ScriptedChatClient(), bank=bank, transactional=True))[name]
    context = FunctionInvocationContext(function=tool, arguments=arguments)
    if effect is not None:
        give_effect(context, effect)
    contents = await tool.invoke(arguments=arguments, context=context)
    return str(contents[0].text)


async def counts(bank: httpx.AsyncClient) -> tuple[int, int]:
    found = (await bank.get("/effects")).json()["counts"]
    return found["payments"], found["wires"]


async def test_a_payment_repeated_with_its_key_is_one_effect_and_the_same_receipt(bank: httpx.AsyncClient) -> None:
    first = await call(bank, "pay_invoice", EffectCall("key-1"), **ORDER)
    second = await call(bank, "pay_invoice", EffectCall("key-1"), **ORDER)

    assert first == second == "Paid INV-1 to ACME, receipt payment-1."
    assert await counts(bank) == (1, 0)
    assert (await bank.get("/effects")).json()["payments"][0]["key"] == "key-1"


async def test_a_wire_repeated_is_a_second_effect_which_is_why_it_is_unsafe(bank: httpx.AsyncClient) -> None:
    assert await call(bank, "wire_transfer", EffectCall("key-1"), **ORDER) == "Wired INV-1 to ACME, receipt wire-1."
    assert await call(bank, "wire_transfer", EffectCall("key-1"), **ORDER) == "Wired INV-1 to ACME, receipt wire-2."
    assert await counts(bank) == (0, 2)


async def test_a_refund_is_a_row_of_the_given_transaction_and_nothing_else(
    bank: httpx.AsyncClient, database: AsyncEngine
) -> None:
    async with database.connect() as connection:
        await call(bank, "refund_invoice", EffectCall("key-0", connection), invoice="INV-0")
        await connection.rollback()
    async with database.begin() as connection:
        assert await call(bank, "refund_invoice", EffectCall("key-1", connection), invoice="INV-1") == "Refunded INV-1."

    async with database.connect() as connection:
        rows = (await connection.execute(text("select key, invoice, created_at > 0 from demo_refunds"))).all()
    assert [tuple(row) for row in rows] == [("key-1", "INV-1", 1)]
    assert await counts(bank) == (0, 0)


async def test_a_look_up_needs_no_approval_and_has_no_effect(bank: httpx.AsyncClient) -> None:
    assert await call(bank, "look_up_invoice", invoice="INV-9") == await call(bank, "look_up_invoice", invoice="INV-9")
    assert await counts(bank) == (0, 0)


async def test_each_tool_declares_its_kind_and_only_the_look_up_is_ungated(bank: httpx.AsyncClient) -> None:
    tools = tools_of(build_agent(ScriptedChatClient(), bank=bank, transactional=True))

    assert {name: declared_effect(tool).kind for name, tool in tools.items()} == {
        "look_up_invoice": EffectKind.NONE,
        "pay_invoice": EffectKind.IDEMPOTENT,
        "refund_invoice": EffectKind.TRANSACTIONAL,
        "wire_transfer": EffectKind.UNSAFE,
    }
    assert [name for name, tool in tools.items() if tool.approval_mode != "always_require"] == ["look_up_invoice"]
    assert declared_effect(tools["pay_invoice"]).key_lifetime_seconds == 30 * 24 * 3600


async def test_refunds_are_not_offered_where_the_ledger_has_no_transaction_for_them(bank: httpx.AsyncClient) -> None:
    assert "refund_invoice" not in tools_of(build_agent(ScriptedChatClient(), bank=bank, transactional=False))


@pytest.mark.parametrize("name", ["pay_invoice", "refund_invoice", "wire_transfer"])
async def test_a_gated_tool_outside_an_approved_call_does_nothing(bank: httpx.AsyncClient, name: str) -> None:
    arguments = {"invoice": "INV-1"} if name == "refund_invoice" else ORDER

    with pytest.raises(OutsideApprovedCall):
        await call(bank, name, None, **arguments)
    assert await counts(bank) == (0, 0)


async def test_a_refused_payment_says_that_it_did_not_happen(bank: httpx.AsyncClient) -> None:
    await call(bank, "pay_invoice", EffectCall("key-1"), **ORDER)

    with pytest.raises(DidNotHappen, match="refused"):
        await call(bank, "pay_invoice", EffectCall("key-1"), invoice="INV-2", payee="ACME")
    assert await counts(bank) == (1, 0)


async def test_a_wire_to_a_bank_that_refuses_connections_did_not_happen() -> None:
    async with no_bank() as bank:
        with pytest.raises(DidNotHappen, match="nothing was wired"):
            await call(bank, "wire_transfer", EffectCall("key-1"), **ORDER)


async def test_a_payment_to_a_bank_that_refuses_connections_stays_open() -> None:
    """An earlier attempt with the same key may have arrived, so "did not happen" would be a guess."""
    async with no_bank() as bank:
        with pytest.raises(ConnectionError):
            await call(bank, "pay_invoice", EffectCall("key-1"), **ORDER)


@pytest.mark.parametrize(("name", "effects"), [("pay_invoice", (1, 0)), ("wire_transfer", (0, 1))])
async def test_a_bank_that_is_too_slow_leaves_the_outcome_open_and_did_pay(
    bank: httpx.AsyncClient, name: str, effects: tuple[int, int]
) -> None:
    await bank.put("/delays/INV-1", json={"seconds": 3 * SHORT_SECONDS})
    async with httpx.AsyncClient(base_url=bank.base_url, timeout=httpx.Timeout(10, read=SHORT_SECONDS)) as impatient:
        with pytest.raises(TimeoutError):
            await call(impatient, name, EffectCall("key-1"), **ORDER)

    assert await counts(bank) == effects


@pytest.mark.parametrize("name", ["pay_invoice", "wire_transfer"])
@pytest.mark.parametrize(
    "raw",
    [
        pytest.param(b"", id="hangs up"),
        pytest.param(b"HTTP/1.1 200 OK\r\ncontent-length: 20\r\n\r\n{", id="cut answer"),
        pytest.param(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}", id="no receipt"),
        pytest.param(b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\noops", id="not json"),
        pytest.param(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n", id="not found"),
        pytest.param(b"HTTP/1.1 503 Unavailable\r\ncontent-length: 0\r\n\r\n", id="unavailable"),
        pytest.param(b'HTTP/1.1 500 Oops\r\ncontent-length: 16\r\n\r\n{"receipt": "r"}', id="failed with a receipt"),
    ],
)
async def test_an_answer_that_does_not_say_what_happened_leaves_the_outcome_open(name: str, raw: bytes) -> None:
    async with bank_that_answers(raw) as bank:
        with pytest.raises(ConnectionError):
            await call(bank, name, EffectCall("key-1"), **ORDER)


async def test_agents_share_nothing_that_a_request_could_change(bank: httpx.AsyncClient) -> None:
    async with no_bank() as other:
        one = build_agent(ScriptedChatClient(), bank=bank, transactional=True)
        two = build_agent(ScriptedChatClient(), bank=other, transactional=True)

        assert one.context_providers is not two.context_providers
        assert not {id(tool) for tool in tools_of(one).values()} & {id(tool) for tool in tools_of(two).values()}
        tool = tools_of(one)["pay_invoice"]
        context = FunctionInvocationContext(function=tool, arguments=ORDER)
        give_effect(context, EffectCall("key-1"))
        await tool.invoke(arguments=ORDER, context=context)
    assert await counts(bank) == (1, 0)


async def test_arguments_are_not_logged(bank: httpx.AsyncClient, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        await call(bank, "pay_invoice", EffectCall("secret-key"), invoice="SECRET-1", payee="Confidential")

    assert caplog.records
    assert not [line for line in caplog.messages if "SECRET" in line or "Confidential" in line or "secret-key" in line]


class GiveKey(FunctionMiddleware):
    """Gives each approved call the id of its interrupt as its key, as the host does."""

    async def process(self, context: FunctionInvocationContext, call_next: Callable[[], Awaitable[None]]) -> None:
        give_effect(context, EffectCall(str(context.metadata["function_call_occurrence_id"])))
        await call_next()


async def test_the_agent_pauses_for_a_payment_and_goes_on_with_the_edited_one(bank: httpx.AsyncClient) -> None:
    agent = build_agent(ScriptedChatClient(), bank=bank, transactional=False)
    agent.middleware = [GiveKey()]
    host = AgentFrameworkAgent(agent, require_confirmation=False, snapshot_store=InMemoryAGUIThreadSnapshotStore())
    thread = {"threadId": "t", "__ag_ui_snapshot_scope": "s", "__ag_ui_approval_scope": "s"}

    async def run(**body: Any) -> list[dict[str, Any]]:
        events = host.run({"messages": [], **thread, **body})
        return [event.model_dump(mode="json", by_alias=True, exclude_none=True) async for event in events]

    words = [{"id": "m1", "role": "user", "content": "look up INV-9 and pay INV-1 to ACME"}]
    [interrupt] = (await run(runId="r1", messages=words))[-1]["outcome"]["interrupts"]
    assert await counts(bank) == (0, 0)

    answer = {"interruptId": interrupt["id"], "status": "resolved", "payload": {"approved": True, "invoice": "INV-2"}}
    events = await run(runId="r2", resume=[answer])

    assert events[-1]["type"] == "RUN_FINISHED"
    assert "Paid INV-2 to ACME" in "".join(event.get("delta", "") for event in events)
    [payment] = (await bank.get("/effects")).json()["payments"]
    assert (payment["invoice"], payment["key"]) == ("INV-2", interrupt["id"])
