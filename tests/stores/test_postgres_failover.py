"""PostgreSQL whose primary is demoted, dies, freezes or changes its schema, under connections that stay open."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import nullcontext
from dataclasses import replace
from typing import Any, TypeVar

import pytest

from stores import open_stores
from stores.errors import StoreUnavailable, WriteInDoubt
from stores.options import StoreOptions
from stores.ports import Batch, Change, Saved, Stores
from stores.records import Record, ThreadKey, Version
from stores.sql.migrate import upgrade
from tests.conformance.examples import BAG, KEY, SNAPSHOT, finished, fresh, record, reservation, run
from tests.postgres_pair import Pair, postgres_pair
from tests.stores.cycles import GENERATIONS, cycle, require_cycles
from tests.stores.pools import checked_out, until

pytestmark = pytest.mark.external_service

POOL_SIZE = 4
FAR = 4_000_000_000.0
OURS = "select count(*) from pg_stat_activity where application_name = 'agui'"

T = TypeVar("T")


@pytest.fixture(scope="module")
def pair() -> Iterator[Pair]:
    with postgres_pair() as pair:
        upgrade(pair.url)
        yield pair


@pytest.fixture
def doomed_pair() -> Iterator[Pair]:
    with postgres_pair() as pair:
        upgrade(pair.url)
        yield pair


def opened(url: str, *, timeout_seconds: float = 5.0, pool_size: int = POOL_SIZE) -> Any:
    return open_stores(StoreOptions("sql", database_url=url, timeout_seconds=timeout_seconds, pool_size=pool_size))


def keys(count: int) -> list[ThreadKey]:
    return [replace(KEY, thread_id=fresh("thread")) for _ in range(count)]


async def is_serving(stores: Stores) -> bool:
    try:
        await stores.check()
    except StoreUnavailable:
        return False
    return True


async def fill_pool(stores: Stores) -> None:
    """Open every connection that the pool may have."""
    await asyncio.gather(*(cycle(stores, key, 0, expected=0) for key in keys(4 * POOL_SIZE)))


async def repeated(call: Callable[[], Awaitable[T]], failures: list[StoreUnavailable]) -> T:
    """Repeat a call, unchanged, until it is answered."""
    while True:
        try:
            return await call()
        except StoreUnavailable as failure:
            failures.append(failure)


def nothing() -> Change:
    return Change(Version(), fresh(), Record())


async def test_a_primary_that_refuses_writes_is_unavailable_until_it_takes_them_again(pair: Pair) -> None:
    async with opened(pair.url) as stores:
        await fill_pool(stores)
        pair.set_read_only(True)
        try:
            # A server process that has not looked yet may take one more.
            async def is_refused() -> bool:
                try:
                    return not isinstance(await stores.threads.save(keys(1)[0], change=nothing()), Saved)
                except StoreUnavailable:
                    return True

            await until(is_refused, "no write was refused")
            with pytest.raises(StoreUnavailable):
                await stores.check()
            # What a demoted primary still reads is stale.
            with pytest.raises(StoreUnavailable):
                await stores.threads.load(KEY)
        finally:
            pair.set_read_only(False)
        await until(lambda: is_serving(stores), "the primary takes writes, the stores do not")
        await cycle(stores, keys(1)[0], 0, expected=0)
        assert checked_out(stores) == 0


async def test_a_frozen_primary_ends_every_call_in_time_and_is_used_again_when_it_thaws(pair: Pair) -> None:
    timeout_seconds = 1.5
    async with opened(pair.url, timeout_seconds=timeout_seconds) as stores:
        await fill_pool(stores)
        await until(lambda: _has(pair, 0, POOL_SIZE), "the pool is larger than it may be")
        with pair.frozen():
            began = time.monotonic()
            wanted = [stores.threads.load(key) for key in keys(8 * POOL_SIZE)]
            wanted += [stores.threads.save(key, change=nothing()) for key in keys(8 * POOL_SIZE)]
            wanted += [stores.effects.read(key, interrupts=["x"]) for key in keys(2)]
            wanted += [stores.check()]
            answers = await asyncio.gather(*wanted, return_exceptions=True)
            # One after another on each connection they would take a time-out each.
            assert time.monotonic() - began < timeout_seconds + 15.0
        assert {type(answer) for answer in answers} <= {StoreUnavailable, WriteInDoubt}
        assert checked_out(stores) == 0
        await until(lambda: is_serving(stores), "the primary answers, the stores do not")
        await asyncio.gather(*(cycle(stores, key, 0, expected=0) for key in keys(2 * POOL_SIZE)))
        assert checked_out(stores) == 0
        await until(lambda: _has(pair, 1, POOL_SIZE), "connections of calls that were cut off are left")
    await until(lambda: _has(pair, 0, 0), "connections are left")


async def _has(pair: Pair, least: int, most: int) -> bool:
    [(count,)] = await asyncio.to_thread(pair.execute, OURS)
    return least <= int(count) <= most


@pytest.mark.parametrize("is_frozen", [False, True], ids=["killed", "frozen"])
async def test_a_standby_that_is_promoted_is_used_without_a_restart_and_has_what_was_acknowledged(
    doomed_pair: Pair, is_frozen: bool
) -> None:
    async with opened(doomed_pair.url) as stores:
        threads = keys(4 * POOL_SIZE)
        await asyncio.gather(*(cycle(stores, key, 0, expected=0) for key in threads))
        with doomed_pair.frozen() if is_frozen else nullcontext(doomed_pair.primary.kill()):
            await asyncio.to_thread(doomed_pair.promote)
            failures: list[StoreUnavailable] = []
            began = time.monotonic()
            reading = (repeated(lambda k=key: stores.threads.load(k), failures) for key in threads)
            loaded = await asyncio.gather(*reading)
            # Connections to a primary that is dead fail at once; one that says nothing takes each waiting call's time,
            # once, and a connection's time for the first host of the two.
            assert time.monotonic() - began < (5 + 2 + 15 if is_frozen else 15)
            assert len(failures) <= (len(threads) if is_frozen else POOL_SIZE)
            assert {each.record.version.generation for each in loaded} == {GENERATIONS}
            for key in threads:
                await require_cycles(stores, key, 1)
                await cycle(stores, key, 1, expected=GENERATIONS)
            await stores.check()
            assert checked_out(stores) == 0


KEY_ANEW = """
alter table agui_{0} drop constraint agui_{0}_pk;
alter table agui_{0} add constraint agui_{0}_pk primary key (scope, agent, thread_id, interrupt_id)
"""
SCHEMA_CHANGES = (
    "alter table agui_threads add column later text; alter table agui_effects add column later text",
    KEY_ANEW.format("occurrences"),
    KEY_ANEW.format("effects"),
    # A result of the statements that are prepared changes its type.
    "alter table agui_runs alter column body type varchar",
)


async def test_a_schema_that_changes_under_traffic_costs_each_connection_one_call_at_most(pair: Pair) -> None:
    is_changing = True
    failures: list[StoreUnavailable] = []
    async with opened(pair.url) as stores:

        async def write(key: ThreadKey) -> int:
            version, count = Version(), 0
            while is_changing or count < 2:
                name = f"interrupt-{count}"
                wanted = Batch(f"attempt-{count}", "holder-1", FAR, (reservation(name),))
                runs = [finished(f"run-{count}", f"ended-{count}"), run(f"running-{count}")]
                change = Change(version, fresh(), record(name), SNAPSHOT, BAG, runs, batch=wanted)
                answer = await repeated(lambda c=change: stores.threads.save(key, change=c), failures)  # type: ignore[misc]  # mypy infers no default of a lambda
                assert isinstance(answer, Saved)
                version, count = answer.version, count + 1
                loaded = await repeated(lambda n=count: stores.threads.load(key, run_id=f"run-{n - 1}"), failures)  # type: ignore[misc]  # mypy infers no default of a lambda
                assert (loaded.record.version, loaded.known) == (version, runs[0])
            return count

        threads = keys(4 * POOL_SIZE)
        writing = [asyncio.create_task(write(key)) for key in threads]
        await fill_pool(stores)
        for change in SCHEMA_CHANGES:
            await asyncio.to_thread(pair.execute, change)
            await fill_pool(stores)
        is_changing = False
        counts = await asyncio.gather(*writing)
        assert len(failures) <= POOL_SIZE
        for key, count in zip(threads, counts, strict=True):
            assert (await stores.threads.load(key)).record.version.generation == count
            assert len(await stores.effects.read(key, interrupts=[f"interrupt-{n}" for n in range(count)])) == count
            listed = [each for each in await stores.threads.list(KEY.scope, limit=9999) if each.key == key]
            assert [each.interrupt_id for each in listed] == [f"interrupt-{count - 1}"]
