"""What the bank counted is told in the words of a history: those that the tools themselves use."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest
from agent_framework import FunctionInvocationContext
from sqlalchemy import text
from sqlalchemy.ext.asyncio import create_async_engine

from app.agents.payments import build_agent
from app.agents.scripted import ScriptedChatClient
from app.answers import canonical
from app.tools import EffectCall, declared_effect, give_effect
from deploy.bank import create_bank
from loadtests.banked import KINDS, effects_of
from loadtests.history import Effect
from tests.host.serving import serving

ORDER = {"invoice": "INV-1", "payee": "ACME"}


@asynccontextmanager
async def open_bank(database_url: str) -> AsyncIterator[httpx.AsyncClient]:
    bank = create_bank(database_url)
    async with (
        bank.router.lifespan_context(bank),
        serving(bank) as (host, port),
        httpx.AsyncClient(base_url=f"http://{host}:{port}", trust_env=False) as client,
    ):
        yield client


@pytest.mark.parametrize(
    ("tool", "arguments", "has_key", "has_time"),
    [
        ("pay_invoice", ORDER, True, True),
        ("wire_transfer", ORDER, False, True),
        ("refund_invoice", {"invoice": "INV-1"}, True, False),
    ],
)
async def test_an_effect_has_the_arguments_and_the_result_of_its_tool(
    tmp_path: Path, tool: str, arguments: dict[str, str], has_key: bool, has_time: bool
) -> None:
    database_url = f"sqlite+aiosqlite:///{tmp_path}/refunds.db"
    engine = create_async_engine(database_url)
    async with open_bank(database_url) as bank:
        async with engine.begin() as connection:
            await connection.execute(
                text("create table demo_refunds (key text primary key, invoice text, created_at real)")
            )
            agent = build_agent(ScriptedChatClient(), bank=bank, transactional=True)
            [called] = [each for each in agent.default_options["tools"] if each.name == tool]
            context = FunctionInvocationContext(function=called, arguments=arguments)
            give_effect(context, EffectCall("af-call-1", connection))
            contents = await called.invoke(arguments=arguments, context=context)
        [effect] = effects_of((await bank.get("/effects")).json())
    await engine.dispose()

    key = "af-call-1" if has_key else None
    assert effect == Effect(tool, canonical(arguments), key, str(contents[0].text), effect.at)
    assert (effect.at is not None) is has_time
    assert KINDS[tool] is declared_effect(called).kind


async def test_a_bank_that_did_nothing_has_no_effects(tmp_path: Path) -> None:
    async with open_bank(f"sqlite+aiosqlite:///{tmp_path}/none.db") as bank:
        assert effects_of((await bank.get("/effects")).json()) == []


async def test_each_call_under_a_key_is_counted_and_is_one_effect(tmp_path: Path) -> None:
    async with open_bank(f"sqlite+aiosqlite:///{tmp_path}/none.db") as bank:
        for key in ("af-call-1", "af-call-1", "af-call-2"):
            await bank.post("/payments", json={"key": key, **ORDER})
        await bank.post("/wires", json=ORDER)
        effects = effects_of((await bank.get("/effects")).json())

    assert {each.key: each.calls for each in effects} == {"af-call-1": 2, "af-call-2": 1, None: 1}
