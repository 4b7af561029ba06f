"""All ports: a call that is cut off anywhere happened whole or not at all, can be repeated, and breaks no pool."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from dataclasses import replace
from functools import partial

import pytest

from stores.ports import AlreadySettled, Began, Change, Saved, Settled, Stores
from stores.records import EffectState, Record, Snapshot
from tests.conformance.adapters import Adapter
from tests.conformance.examples import (
    BAG,
    KEY,
    RESULT,
    batch,
    begin,
    finished,
    read,
    record,
    reservation,
    reserve,
    run,
    saved,
    settle,
    version_of,
)
from tests.conformance.operations import OPERATIONS, Operation, glance, name_of

CUTS = (*range(14), *(round(16 * 1.5**n) for n in range(14)))
"""After how many turns of the event loop a call is cut off. Memory takes 1, PostgreSQL from 7 on, a commit of SQLite,
in a thread of its own, up to some thousand."""
FEWER_CUTS = (0, 1, 2, 4, 7, 10, 16, 64, 256, 1024)
"""The same with larger gaps, where all operations take their turn."""
WRITING = [operation for operation in OPERATIONS if not operation.is_read]


async def cut_off(call: Awaitable[object], turns: int) -> None:
    """Start a call and cancel it after some turns of the event loop."""
    task = asyncio.ensure_future(call)
    for _ in range(turns):
        await asyncio.sleep(0)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_a_save_that_was_cut_off_is_whole_or_absent_and_can_be_repeated(adapter: Adapter, stores: Stores) -> None:
    other = await adapter.open_another()
    for turns in CUTS:
        key = replace(KEY, thread_id=f"thread-{turns}")
        expected = await saved(stores, record("interrupt-1"), key=key)
        wanted = await batch(stores, "attempt-1", reservation()) if stores.shared else None
        runs = [finished("run-1", "interrupt-1")]
        change = Change(expected, "write-2", Record(), Snapshot(pause_id="new"), BAG, runs, batch=wanted)
        await cut_off(stores.threads.save(key, change=change), turns)

        row = await read(other, key=key)
        loaded = await other.threads.load(key, run_id="run-1")
        is_there = loaded.record.version.write_id == "write-2"
        assert (loaded.snapshot, loaded.bag) == ((change.snapshot, BAG) if is_there else (None, None))
        assert loaded.known == (runs[0] if is_there else None)
        assert is_there or (row is None and loaded.record == record("interrupt-1", version=expected))

        again = await stores.threads.save(key, change=change)
        assert isinstance(again, Saved)
        assert again.version.generation == expected.generation + 1
        assert (await read(other, key=key) is not None) == stores.shared


async def test_an_open_that_was_cut_off_can_be_repeated_and_has_the_claim(adapter: Adapter, stores: Stores) -> None:
    for turns in CUTS:
        key = replace(KEY, thread_id=f"thread-{turns}")
        opening = partial(stores.threads.open, key, run=run(), holder="h", claim_seconds=60.0, write_id="open-1")
        await cut_off(opening(), turns)
        assert (await opening()).claimed
        assert (await version_of(stores, key)).generation == 1
        assert await stores.threads.outcome(key, run_id="run-1") == run()


async def test_a_begin_and_a_settle_that_were_cut_off_can_be_repeated(stores: Stores) -> None:
    for turns in CUTS:
        name = f"interrupt-{turns}"
        await cut_off(reserve(stores, "attempt-1", reservation(name)), turns)
        await reserve(stores, "attempt-1", reservation(name))
        await cut_off(begin(stores, "attempt-1", name), turns)
        assert await begin(stores, "attempt-1", name) == Began()
        await cut_off(settle(stores, "attempt-1", interrupt_id=name), turns)
        assert await settle(stores, "attempt-1", interrupt_id=name) in (Settled(RESULT), AlreadySettled(RESULT))
        row = await read(stores, name)
        assert row is not None
        assert (row.state, row.result) == (EffectState.SETTLED, RESULT)


@pytest.mark.parametrize("operation", WRITING, ids=name_of)
async def test_every_call_that_was_cut_off_is_whole_or_absent_and_can_be_repeated(
    adapter: Adapter, stores: Stores, operation: Operation
) -> None:
    operation.skip_unless_possible(stores)
    other = await adapter.open_another()
    whole = replace(KEY, thread_id="not cut off")
    await operation.prepare(stores, whole)
    before = await glance(other, whole)
    await operation.call(stores, whole)
    after = await glance(other, whole)
    assert after != before
    for turns in FEWER_CUTS:
        key = replace(KEY, thread_id=f"thread-{turns}")
        await operation.prepare(stores, key)
        await cut_off(operation.call(stores, key), turns)
        for now, earlier, later in zip(await glance(other, key), before, after, strict=True):
            assert now in (earlier, later)
        assert operation.is_yours(await operation.call(stores, key))
        assert await glance(other, key) == after


async def test_a_heartbeat_and_a_farewell_that_were_cut_off_can_be_repeated(adapter: Adapter, stores: Stores) -> None:
    other = await adapter.open_another()
    for turns in FEWER_CUTS:
        await cut_off(stores.replicas.heartbeat("holder-1", label="a"), turns)
        await stores.replicas.heartbeat("holder-1", label="a")
        assert set(await other.replicas.seen()) == {"holder-1"}
        await cut_off(stores.replicas.forget("holder-1"), turns)
        await stores.replicas.forget("holder-1")
        assert await other.replicas.seen() == {}


async def test_cut_off_calls_use_no_connection_up_and_answer_no_other_call(stores: Stores) -> None:
    keys = [replace(KEY, thread_id=f"thread-{n}") for n in range(4)]
    for key in keys:
        await saved(stores, Record(pause_id=key.thread_id), key=key)
    for turns in CUTS:
        await asyncio.gather(*(cut_off(stores.threads.load(key), turns) for key in keys))
        loaded = await asyncio.gather(*(stores.threads.load(key) for key in keys))
        assert [each.record.pause_id for each in loaded] == [key.thread_id for key in keys]
