"""ThreadStore: load and save, on every adapter. The other operations are in the files beside."""

from __future__ import annotations

import time
from collections.abc import Collection
from dataclasses import replace

import pytest

from stores.ports import Change, Loaded, Lost, Saved, Stores
from stores.records import Bag, Record, Run, RunState, Snapshot, ThreadKey, Version
from tests.conformance.adapters import Adapter
from tests.conformance.examples import (
    BAG,
    DAY,
    KEY,
    NEIGHBOURS,
    SNAPSHOT,
    claim,
    finished,
    full_record,
    record,
    run,
    saved,
    version_of,
)


async def view(
    stores: Stores, key: ThreadKey = KEY, *, interrupts: Collection[str] = (), run_id: str | None = None
) -> Loaded:
    """What `load` shows, but for the time."""
    return replace(await stores.threads.load(key, interrupts=interrupts, run_id=run_id), now=0.0)


async def known(stores: Stores, *interrupts: str, run_id: str | None = None, key: ThreadKey = KEY) -> Run | None:
    return (await stores.threads.load(key, interrupts=interrupts, run_id=run_id)).known


async def test_a_thread_never_written_is_empty_and_shows_the_time_of_the_store(stores: Stores) -> None:
    loaded = await stores.threads.load(KEY, interrupts=["interrupt-1"], run_id="run-1")
    assert loaded == Loaded(Record(), now=loaded.now)
    assert abs(loaded.now - time.time()) < DAY


async def test_everything_saved_is_loaded_by_another_connection(adapter: Adapter, stores: Stores) -> None:
    held = claim(until=123_456.789)
    version = await saved(stores, replace(full_record(), claim=held), snapshot=SNAPSHOT, bag=BAG)
    loaded = await view(await adapter.open_another())
    assert loaded == Loaded(replace(full_record(), version=version, claim=held), 0.0, SNAPSHOT, BAG)


async def test_a_finished_run_is_known_by_the_interrupts_it_ended_and_their_aliases(stores: Stores) -> None:
    ended = finished("run-1", "interrupt-1", "interrupt-2", events=({"type": "RUN_FINISHED"},))
    await saved(stores, Record(), runs=[ended, finished("run-2", "interrupt-3")])
    for name in ("interrupt-1", "alias-of-interrupt-1", "interrupt-2", "alias-of-interrupt-2"):
        assert await known(stores, name) == ended
    assert await known(stores, "unheard-of", "interrupt-2") == ended
    assert await known(stores, "unheard-of") is None


async def test_the_run_that_ended_an_interrupt_comes_before_the_run_with_the_run_id(stores: Stores) -> None:
    await saved(stores, Record(), runs=[finished("run-1", "interrupt-1"), finished("run-2")])
    assert await known(stores, "interrupt-1", run_id="run-2") == finished("run-1", "interrupt-1")
    assert await known(stores, "alias-of-interrupt-1", run_id="run-2") == finished("run-1", "interrupt-1")
    assert await known(stores, "unheard-of", run_id="run-2") == finished("run-2")


async def test_an_interrupt_id_comes_before_the_same_name_as_an_alias(stores: Stores) -> None:
    other = finished("run-1", "interrupt-1")
    namesake = replace(other, outcomes=(replace(other.outcomes[0], aliases=("interrupt-2",)),))
    await saved(stores, Record(), runs=[finished("run-2", "interrupt-2")])
    await saved(stores, Record(), runs=[namesake])
    assert await known(stores, "interrupt-2") == finished("run-2", "interrupt-2")


async def test_an_alias_that_a_provider_gave_twice_takes_no_interrupt_away(stores: Stores) -> None:
    runs = [finished(f"run-{n}", f"interrupt-{n}") for n in (1, 2)]
    twins = [replace(each, outcomes=(replace(each.outcomes[0], aliases=("call_1",)),)) for each in runs]
    for twin in twins:
        await saved(stores, Record(), runs=[twin])
    assert [await known(stores, "interrupt-1"), await known(stores, "interrupt-2")] == twins
    assert await known(stores, "call_1") in twins


@pytest.mark.parametrize("state", [RunState.RUNNING, RunState.FAILED])
async def test_only_a_finished_run_is_found_by_interrupt(stores: Stores, state: RunState) -> None:
    unfinished = run("run-1", state, "interrupt-1")
    await saved(stores, Record(), runs=[unfinished])
    assert await known(stores, "interrupt-1", "alias-of-interrupt-1") is None
    assert await known(stores, run_id="run-1") == unfinished


@pytest.mark.parametrize("neighbour", NEIGHBOURS)
async def test_runs_of_another_thread_are_not_known(stores: Stores, neighbour: ThreadKey) -> None:
    await saved(stores, Record(), key=neighbour, runs=[finished("run-1", "interrupt-1")])
    assert await known(stores, "interrupt-1", "alias-of-interrupt-1", run_id="run-1") is None


async def test_what_was_loaded_can_be_changed_without_changing_what_is_stored(stores: Stores) -> None:
    await saved(stores, Record(), snapshot=SNAPSHOT)
    loaded = await view(stores)
    assert loaded.snapshot is not None
    loaded.snapshot.messages[0]["content"] = "scribbled over"
    assert (await view(stores)).snapshot == SNAPSHOT


async def test_a_save_counts_on_and_carries_its_write_id(stores: Stores) -> None:
    first = Change(Version(), "write-1", record("interrupt-1"))
    assert await stores.threads.save(KEY, change=first) == Saved(Version(1, "write-1"))
    # The record's own version decides nothing, however it got there.
    second = Change(Version(1, "write-1"), "write-2", Record(version=Version(7, "write-7")))
    assert await stores.threads.save(KEY, change=second) == Saved(Version(2, "write-2"))
    assert (await view(stores)).record == Record(version=Version(2, "write-2"))


@pytest.mark.parametrize(
    "expected",
    [
        Version(),
        Version(1, "write-1"),
        Version(3, "write-2"),
        Version(2, "another"),
        Version(2, ""),
        Version(2, "WRITE-2"),
    ],
    ids=["new", "older", "newer", "same number, other write", "same number, no write", "same number, other case"],
)
async def test_a_save_on_another_version_is_lost_and_writes_nothing(stores: Stores, expected: Version) -> None:
    await saved(stores, record("interrupt-0"))
    current = Change(await version_of(stores), "write-2", record("interrupt-1"), SNAPSHOT, BAG, [run()])
    await stores.threads.save(KEY, change=current)
    before = await view(stores, run_id="run-1")
    change = Change(
        expected, "write-3", full_record(), Snapshot(), Bag("other"), [finished("run-1"), run("run-2")], due_at=1.0
    )
    assert await stores.threads.save(KEY, change=change) == Lost()
    assert await view(stores, run_id="run-1") == before
    assert await known(stores, run_id="run-2") is None
    assert await stores.threads.due(alive=[], limit=10) == []


@pytest.mark.parametrize("expected", [Version(1, "write-1"), Version(0, "write-1"), Version(1, "")])
async def test_a_save_that_expects_a_thread_is_lost_where_there_is_none(stores: Stores, expected: Version) -> None:
    change = Change(expected, "write-2", record("interrupt-1"), SNAPSHOT)
    assert await stores.threads.save(KEY, change=change) == Lost()
    assert await view(stores) == Loaded(Record(), now=0.0)


async def test_a_save_repeated_after_a_lost_reply_is_told_yours_and_is_written_once(stores: Stores) -> None:
    change = Change(await saved(stores, Record()), "write-2", record("interrupt-1"), SNAPSHOT, runs=[run()])
    first = await stores.threads.save(KEY, change=change)
    assert await stores.threads.save(KEY, change=change) == first == Saved(Version(2, "write-2"))
    assert (await view(stores)).record.version == Version(2, "write-2")


async def test_a_save_repeated_after_another_write_is_lost(stores: Stores) -> None:
    change = Change(Version(), "write-1", record("interrupt-1"))
    await stores.threads.save(KEY, change=change)
    await saved(stores, record("interrupt-2"))
    before = await view(stores)
    assert await stores.threads.save(KEY, change=change) == Lost()
    assert await view(stores) == before


async def test_the_number_reached_again_by_another_write_is_not_the_version_that_was_loaded(stores: Stores) -> None:
    # A loads generation 1; the store loses that write (here: deletes it) and B brings it to generation 1 again.
    loaded = await saved(stores, record("interrupt-1"))
    await stores.threads.delete(KEY, expected=loaded)
    again = await saved(stores, record("interrupt-2"))
    assert again.generation == loaded.generation
    assert await stores.threads.save(KEY, change=Change(loaded, "write-A", Record())) == Lost()
    assert (await view(stores)).record == record("interrupt-2", version=again)


async def test_snapshot_and_bag_stay_unless_they_are_replaced(stores: Stores) -> None:
    await saved(stores, Record(), snapshot=SNAPSHOT, bag=BAG)
    await saved(stores, Record())
    kept = await view(stores)
    assert (kept.snapshot, kept.bag) == (SNAPSHOT, BAG)
    await saved(stores, Record(), snapshot=Snapshot(pause_id="pause-2"))
    await saved(stores, Record(), bag=Bag())
    replaced = await view(stores)
    assert (replaced.snapshot, replaced.bag) == (Snapshot(pause_id="pause-2"), Bag())


async def test_record_and_claim_are_replaced_whole(stores: Stores) -> None:
    await saved(stores, replace(full_record(), claim=claim(until=5.0)))
    version = await saved(stores, Record())
    assert (await view(stores)).record == Record(version=version)


async def test_runs_are_replaced_by_run_id_and_the_others_stay(stores: Stores) -> None:
    await saved(stores, Record(), runs=[run("run-1"), finished("run-2", "interrupt-2")])
    await saved(stores, Record(), runs=[finished("run-1", "interrupt-1"), run("run-3")])
    assert await known(stores, run_id="run-1") == finished("run-1", "interrupt-1")
    assert await known(stores, "interrupt-1") == finished("run-1", "interrupt-1")
    assert await known(stores, "interrupt-2") == finished("run-2", "interrupt-2")
    assert await known(stores, run_id="run-3") == run("run-3")


@pytest.mark.parametrize("neighbour", NEIGHBOURS)
async def test_a_save_changes_no_other_thread(stores: Stores, neighbour: ThreadKey) -> None:
    await saved(stores, record("interrupt-1"), key=neighbour, snapshot=SNAPSHOT, bag=BAG, runs=[run()])
    before = await view(stores, neighbour, run_id="run-1")
    await saved(stores, Record(), snapshot=Snapshot(), bag=Bag(), runs=[finished("run-1", "interrupt-1")])
    assert await view(stores, neighbour, run_id="run-1") == before
