"""The steps that are measured: each script takes some in a row and leaves a place as large as it was."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from uuid import uuid4

from loadtests.bench import example
from loadtests.bench.measuring import Meter
from loadtests.bench.places import CROWDED, QUIET, Place
from loadtests.bench.worlds import AGE_SECONDS
from stores.ports import Change
from stores.records import Record, RunState

PAGE = 10
"""How many a list, or a pass of the reconciler or of retention, takes at once."""

FULL = 1_000
"""From so many on a page is full wherever it is looked for: on Redis in 64 buckets at once."""

ANSWERS_ALL = frozenset({"load", "open"})
"""Steps that answer with all that was said in a thread."""

READS_CLAIMS = frozenset({"due, many claimed", "due, their holder is dead"})
"""The contract lets `due` cost what is claimed."""


async def read(place: Place, meter: Meter, random: Random) -> None:
    """Load a thread, and once more as a duplicate of what it has ended."""
    key = place.next_key(random)
    with meter.time("load"):
        await place.stores.threads.load(key)
    with meter.time("load a duplicate"):
        loaded = await place.stores.threads.load(key, interrupts=[example.ended_interrupt(key)])
    assert loaded.known is not None


async def resume(place: Place, meter: Meter, random: Random) -> None:
    """Claim with a batch, finish, purge that run."""
    stores, key, run_id = place.stores, place.next_key(random), f"run-{uuid4().hex}"
    interrupt_id = f"interrupt-of-{run_id}"
    loaded = await stores.threads.load(key)
    change, batch = example.claiming(loaded, run_id=run_id, interrupt_id=interrupt_id, write_id=uuid4().hex)
    with meter.time("claim"):
        version = await example.claim(stores, key, change, batch)
    await example.settle(stores, key, run_id=run_id, interrupt_id=interrupt_id)
    ended = example.run(run_id, RunState.FINISHED, interrupt_id, attempt=batch.attempt)
    snapshot = None if loaded.snapshot is None else example.talked(loaded.snapshot, ())
    finish = Change(version, uuid4().hex, Record(), snapshot, loaded.bag, (ended,))
    with meter.time("finish"):
        await example.save(stores, key, finish)
    with meter.time("purge a run"):
        purged = await stores.threads.purge(key, run_ids=[run_id])
    assert purged.runs == 1
    with meter.time("forget its row"):
        assert await stores.effects.forget(key, interrupts=[interrupt_id]) == 1


async def let_go(place: Place, meter: Meter, random: Random) -> None:
    """Open a plain run, and release it."""
    stores, key = place.stores, place.next_key(random)
    run = example.run(f"run-{uuid4().hex}", RunState.RUNNING, attempt=uuid4().hex)
    write_id = uuid4().hex
    with meter.time("open"):
        opened = await stores.threads.open(
            key, run=run, holder=example.HOLDER, claim_seconds=example.CLAIM_SECONDS, write_id=write_id
        )
    assert opened.claimed, opened
    record = replace(opened.loaded.record, claim=None)
    release = Change(record.version, uuid4().hex, record, free=run.attempt if stores.shared else None)
    with meter.time("release"):
        if not stores.shared:
            await stores.effects.free(key, attempt=run.attempt)
        await example.save(stores, key, release)
    await stores.threads.purge(key, run_ids=[run.run_id])


async def look(place: Place, meter: Meter, random: Random) -> None:
    """List a small scope, and look for what is due."""
    with meter.time("list"):
        listed = await place.stores.threads.list(QUIET, limit=PAGE)
    with meter.time("due"):
        due = await place.stores.threads.due(alive=[example.HOLDER], limit=PAGE)
    assert listed
    assert due


async def look_in_crowd(place: Place, meter: Meter, random: Random) -> None:
    """List a small scope and a large one, and count what is open in each."""
    with meter.time("list, open in other scopes"):
        await place.stores.threads.list(QUIET, limit=PAGE)
    with meter.time("list, open in this scope"):
        listed = await place.stores.threads.list(CROWDED, limit=PAGE)
    assert listed
    with meter.time("count, open in other scopes"):
        few = await place.stores.threads.count_open(QUIET, at_most=PAGE)
    with meter.time("count, open in this scope"):
        many = await place.stores.threads.count_open(CROWDED, at_most=PAGE)
    assert few
    assert many


async def look_for_dead(place: Place, meter: Meter, random: Random) -> None:
    """Look for what is due while holders live, and once they are dead."""
    with meter.time("due, many claimed"):
        await place.stores.threads.due(alive=[example.HOLDER], limit=PAGE)
    with meter.time("due, their holder is dead"):
        due = await place.stores.threads.due(alive=[], limit=PAGE)
    assert due


async def retain(place: Place, meter: Meter, random: Random) -> None:
    """Look for old runs, at the first page and in the middle of all, and purge a whole thread."""
    stores, key = place.stores, place.next_key(random)
    with meter.time("old, first page"):
        first = await stores.threads.old(age_seconds=AGE_SECONDS / 2, limit=PAGE)
    assert first.runs
    with meter.time("old, in the middle"):
        await stores.threads.old(age_seconds=AGE_SECONDS / 2, limit=PAGE, after=place.middle)
    runs = [f"{step}-{key.thread_id}" for step in ("pausing", "resuming")]
    with meter.time("purge a thread"):
        purged = await stores.threads.purge(key, run_ids=runs)
    assert purged.is_whole, purged
    await stores.effects.forget(key, interrupts=[example.ended_interrupt(key)])
    await example.put(stores, key)


async def talk(place: Place, meter: Meter, random: Random) -> None:
    """Load a conversation, open a plain run in it, and finish with two more messages."""
    stores, key = place.stores, place.next_key(random)
    with meter.time("load"):
        await stores.threads.load(key)
    run = example.run(f"run-{uuid4().hex}", RunState.RUNNING, attempt=uuid4().hex)
    with meter.time("open"):
        opened = await stores.threads.open(
            key, run=run, holder=example.HOLDER, claim_seconds=example.CLAIM_SECONDS, write_id=uuid4().hex
        )
    assert opened.claimed, opened
    added = [example.message(next(place.said), random) for _ in range(2)]
    snapshot = example.talked(opened.loaded.snapshot, added)
    ended = replace(run, state=RunState.FINISHED)
    finish = Change(opened.loaded.record.version, uuid4().hex, Record(), snapshot, runs=(ended,))
    written = await place.world.counting(key)
    with meter.time("finish"):
        await example.save(stores, key, finish)
    meter.bytes["finish, bytes written"].append(await written())
