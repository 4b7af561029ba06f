"""A database that leaves a tool in the middle of its transaction: no answer of the tool, and it can be sent again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import create_async_engine

from tests.host.bank import Bank
from tests.host.bodies import answers, approve, says
from tests.host.hosts import Hosts
from tests.host.worlds import postgres_world

pytestmark = pytest.mark.external_service

CUT = """
select count(pg_terminate_backend(pid)) from pg_stat_activity
where datname = current_database() and pid <> pg_backend_pid() and state like 'idle in transaction%'
"""


@pytest.fixture
async def hosts(postgres_database: str, bank: Bank) -> AsyncIterator[Hosts]:
    async with postgres_world(postgres_database) as world, AsyncExitStack() as stack:
        hosts = Hosts(world, bank.url, stack)
        hosts.a, hosts.b = await hosts.start(), await hosts.start()
        hosts.c = await hosts.start(like=hosts.a)
        yield hosts


async def test_a_tool_whose_transaction_is_cut_has_no_effect_and_is_carried_out_by_the_same_answer_again(
    hosts: Hosts, postgres_database: str
) -> None:
    asked = await hosts.a.send(says("t", "refund INV-1"))
    body = answers("t", *map(approve, asked.ids))
    stop = hosts.b.steps.stop_at("before-effect")
    answering = asyncio.create_task(hosts.b.send(body))
    await stop.wait()

    engine = create_async_engine(postgres_database, isolation_level="AUTOCOMMIT")
    async with engine.connect() as connection:
        assert (await connection.execute(text(CUT))).scalar() == 1
    await engine.dispose()
    stop.go.set()

    assert (await answering).code == "RUN_FAILED"
    again = await hosts.answered(hosts.c, body, unless="APPROVAL_RESUME_IN_PROGRESS")
    assert (again.code, again.results) == (None, ["Refunded INV-1."])
    assert (await hosts.b.send(body)).is_replay
