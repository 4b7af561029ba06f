"""PostgreSQL behind a pooler in transaction mode, which gives every transaction another server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import psycopg
import pytest
from sqlalchemy import make_url, text

from stores import open_stores
from stores.errors import StoreUnavailable, WriteInDoubt
from stores.options import StoreOptions
from stores.ports import Change
from stores.records import EffectKind, Record, ToolResult, Version
from stores.sql.backend import PoolerInBetween
from tests.conformance.examples import KEY, RESULT, fresh, record, reservation, reserve, saved
from tests.conformance.operations import OPERATIONS, Operation, name_of
from tests.pooler import Pooler, pooler
from tests.stores.cycles import GENERATIONS, cycle, require_cycles

pytestmark = pytest.mark.external_service

WRITERS = 16
CYCLES = 500
LIMITS = ("lock_timeout", "statement_timeout", "idle_in_transaction_session_timeout")


@pytest.fixture
async def front(postgres_database: str) -> AsyncIterator[Pooler]:
    async with pooler(postgres_database) as front:
        yield front


def opened(url: str, *, is_pooled: bool = True, timeout_seconds: float = 10.0) -> Any:
    options = StoreOptions("sql", database_url=url, is_pooled=is_pooled, timeout_seconds=timeout_seconds, pool_size=4)
    return open_stores(options)


@asynccontextmanager
async def direct(url: str) -> AsyncIterator[psycopg.AsyncConnection[Any]]:
    address = make_url(url).set(drivername="postgresql").render_as_string(hide_password=False)
    async with await psycopg.AsyncConnection.connect(address) as connection:
        yield connection


@pytest.mark.parametrize("operation", OPERATIONS, ids=name_of)
async def test_every_operation_works_although_no_transaction_finds_the_server_of_the_last(
    operation: Operation, front: Pooler
) -> None:
    async with opened(front.url) as stores, opened(front.url) as others:
        key = replace(KEY, thread_id=fresh("thread"))
        await operation.prepare(others, key)
        assert operation.is_yours(await operation.call(stores, key))
        await stores.check()
    assert front.switches


async def test_500_cycles_16_at_once_leave_no_statement_and_no_setting_on_the_servers(front: Pooler) -> None:
    async with opened(front.url) as stores, opened(front.url) as others:

        async def write(number: int) -> None:
            key = replace(KEY, thread_id=f"cycles-{number}")
            for n in range(CYCLES // WRITERS):
                await cycle((stores, others)[n % 2], key, n, expected=GENERATIONS * n)
            await require_cycles(stores, key, CYCLES // WRITERS)

        await asyncio.gather(*map(write, range(WRITERS)))
        assert front.switches > CYCLES
        assert set(await front.answers("select count(*) from pg_prepared_statements")) == {b"0"}
        for name in LIMITS:
            assert set(await front.answers(f"show {name}")) == {b"0"}


async def test_a_transaction_has_its_limits_on_whichever_server_it_is(front: Pooler) -> None:
    found: dict[str, str] = {}

    async def call(connection: Any) -> ToolResult:
        for name in LIMITS:
            found[name] = await connection.scalar(text(f"show {name}"))
        return RESULT

    async with opened(front.url) as stores:
        await reserve(stores, "attempt-1", reservation("limited", kind=EffectKind.TRANSACTIONAL))
        tool = {"interrupt_id": "limited", "attempt": "attempt-1", "call": call, "seconds": 7.0}
        assert await stores.effects.transact(KEY, **tool) == RESULT
        assert found == dict.fromkeys(LIMITS, "7s")


async def test_a_call_that_timed_out_does_not_happen_later(front: Pooler, postgres_database: str) -> None:
    key = replace(KEY, thread_id=fresh("thread"))
    waiting = "select count(*) from pg_stat_activity where wait_event_type = 'Lock'"
    async with opened(front.url) as patient, direct(postgres_database) as blocker, direct(postgres_database) as watcher:
        await watcher.set_autocommit(True)
        expected = await saved(patient, record("interrupt-1"), key=key)
        await blocker.execute("select from agui_threads where thread_id = %s for update", [key.thread_id])
        async with opened(front.url, timeout_seconds=1.0) as stores:
            with pytest.raises(WriteInDoubt):
                await stores.threads.save(key, change=Change(expected, "write-2", Record()))
        async with asyncio.timeout(10):
            while (await (await watcher.execute(waiting)).fetchone()) != (0,):
                pass
        await blocker.rollback()
        assert (await patient.threads.load(key)).record.version == expected
    assert front.cancels


@pytest.mark.parametrize("ignores_settings", [False, True])
async def test_a_pooler_that_nobody_spoke_of_is_refused_at_the_start(
    ignores_settings: bool, postgres_database: str
) -> None:
    async with pooler(postgres_database, ignores_settings=ignores_settings) as front:
        with pytest.raises(PoolerInBetween, match="AGUI_DATABASE_POOLED"):
            async with opened(front.url, is_pooled=False):
                raise AssertionError("it must not open")


async def test_a_pooler_that_nobody_spoke_of_and_that_came_later_makes_every_call_fail(postgres_database: str) -> None:
    async with pooler(postgres_database, ignores_settings=True) as front:
        port = front.port
    # Nobody listens: the stores open, and wait for their database.
    url = make_url(postgres_database).set(host="127.0.0.1", port=port).render_as_string(hide_password=False)
    async with opened(url, is_pooled=False) as stores, pooler(postgres_database, ignores_settings=True, port=port):
        with pytest.raises(StoreUnavailable):
            await stores.check()
        with pytest.raises(StoreUnavailable):
            await stores.threads.load(KEY)
        with pytest.raises(StoreUnavailable):
            await stores.threads.save(KEY, change=Change(Version(), fresh(), Record()))
