"""Retention: what is old is found at the cost of a look, and removed without a thread or an answer that is in use."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from dataclasses import replace

import pytest

from stores.ports import Change, Lost, OldRun, OldRuns, Purged, Reserved, Saved, Settled, Stores
from stores.records import EffectState, Record, Run, RunState, ThreadKey, Version
from tests.conformance.examples import (
    BAG,
    DAY,
    KEY,
    NEIGHBOURS,
    RESULT,
    SNAPSHOT,
    begun,
    claim,
    finished,
    fresh,
    now_of,
    read,
    record,
    reservation,
    reserve,
    run,
    saved,
    settled,
    tick,
)

PURGERS = 8
PURGE_ROUNDS = 30
SEED = 7


def thread(name: object) -> ThreadKey:
    return replace(KEY, thread_id=f"thread-{name}")


async def old_runs(stores: Stores, *, limit: int = 100, age_seconds: float = 0.0) -> list[OldRun]:
    """Return all runs that may be purged, looked at in steps of `limit`."""
    found, after, is_over = [], None, False
    while not is_over:
        page = await stores.threads.old(age_seconds=age_seconds, limit=limit, after=after)
        found += page.runs
        after, is_over = page.after, page.after is None
    return found


async def runs_left(stores: Stores, *run_ids: str, key: ThreadKey = KEY) -> list[str]:
    return [run_id for run_id in run_ids if await stores.threads.outcome(key, run_id=run_id) is not None]


# old


async def test_runs_are_old_in_the_order_in_which_they_were_last_written(stores: Stores) -> None:
    for name in ("b", "c", "a"):
        await saved(stores, Record(), key=thread(name), runs=[finished(f"run-{name}")])
        await tick(stores)
    assert await old_runs(stores) == [OldRun(thread(name), f"run-{name}") for name in ("b", "c", "a")]
    await saved(stores, Record(), key=thread("b"), runs=[finished("run-b", input_digest="again")])
    await tick(stores)
    assert [each.run_id for each in await old_runs(stores)] == ["run-c", "run-a", "run-b"]


async def test_nothing_is_old_before_its_time(stores: Stores) -> None:
    runs = [finished("run-1", "interrupt-1"), run("run-2", RunState.FAILED)]
    await saved(stores, Record(), runs=runs)
    await tick(stores)
    assert await stores.threads.old(age_seconds=DAY, limit=10) == OldRuns(())
    assert await stores.threads.outcome(KEY, interrupt="interrupt-1") == runs[0]
    assert len(await old_runs(stores)) == 2


async def test_an_old_run_names_the_interrupts_that_it_ended_and_no_alias(stores: Stores) -> None:
    await saved(stores, Record(), runs=[finished("run-1", "interrupt-b", "interrupt-a", "taken")])
    await saved(stores, Record(), runs=[finished("run-2", "taken"), run("run-3", RunState.FAILED, "interrupt-c")])
    await tick(stores)
    assert {each.run_id: each.interrupts for each in await old_runs(stores)} == {
        "run-1": ("interrupt-a", "interrupt-b"),
        "run-2": ("taken",),
        "run-3": (),
    }


async def test_a_run_that_was_opened_and_given_up_is_old_too(stores: Stores) -> None:
    opened = await stores.threads.open(KEY, run=run(), holder="h", claim_seconds=DAY, write_id="open-1")
    await tick(stores)
    assert await old_runs(stores) == []
    await stores.threads.save(KEY, change=Change(opened.loaded.record.version, "write-2", Record()))
    assert await old_runs(stores) == [OldRun(KEY, "run-1")]


@pytest.mark.parametrize("until", [DAY, -DAY], ids=["live", "past its until"])
async def test_the_runs_of_a_claimed_thread_are_left_out(stores: Stores, until: float) -> None:
    held = claim(until=await now_of(stores) + until)
    await saved(stores, Record(claim=held), runs=[finished("run-0"), run()])
    await tick(stores)
    assert await stores.threads.old(age_seconds=0.0, limit=10) == OldRuns(())


async def test_the_runs_of_a_thread_with_an_open_occurrence_are_left_out(stores: Stores) -> None:
    await saved(stores, record("interrupt-1"), runs=[finished("run-1")])
    await saved(stores, Record(), key=thread("done"), runs=[finished("run-1")])
    await tick(stores)
    assert await old_runs(stores) == [OldRun(thread("done"), "run-1")]
    await saved(stores, Record())
    assert [each.key for each in await old_runs(stores)] == [KEY, thread("done")]


@pytest.mark.parametrize("limit", [1, 3, 4, 12, 13])
async def test_the_pages_hold_every_old_run_once(stores: Stores, limit: int) -> None:
    for n in range(4):
        await saved(stores, Record(), key=thread(n), runs=[finished(f"run-{n}-{m}") for m in range(3)])
    await tick(stores)
    found = [each.run_id for each in await old_runs(stores, limit=limit)]
    assert found == [each.run_id for each in await old_runs(stores)]
    assert sorted(found) == [f"run-{n}-{m}" for n in range(4) for m in range(3)]


async def test_a_look_is_bounded_and_goes_on_behind_what_is_protected(stores: Stores) -> None:
    for n in range(6):
        await saved(stores, record("interrupt-1"), key=thread(n), runs=[finished("run-1")])
    await saved(stores, Record(), key=thread("free"), runs=[finished("run-1")])
    await tick(stores)
    first = await stores.threads.old(age_seconds=0.0, limit=3)
    second = await stores.threads.old(age_seconds=0.0, limit=3, after=first.after)
    third = await stores.threads.old(age_seconds=0.0, limit=3, after=second.after)
    assert [page.runs for page in (first, second, third)] == [(), (), (OldRun(thread("free"), "run-1"),)]
    assert [page.after is None for page in (first, second, third)] == [False, False, True]


async def test_a_look_goes_on_where_it_left_off_though_that_run_is_gone(stores: Stores) -> None:
    for name in "abc":
        await saved(stores, Record(), key=thread(name), runs=[finished("run-1")])
        await tick(stores)
    first = await stores.threads.old(age_seconds=0.0, limit=1)
    assert [each.key for each in first.runs] == [thread("a")]
    await stores.threads.purge(thread("a"), run_ids=["run-1"])
    second = await stores.threads.old(age_seconds=0.0, limit=2, after=first.after)
    assert [each.key for each in second.runs] == [thread("b"), thread("c")]


async def test_a_store_in_which_nothing_is_kept_has_nothing_old(stores: Stores) -> None:
    await saved(stores, Record(), snapshot=SNAPSHOT)
    await tick(stores)
    assert await stores.threads.old(age_seconds=0.0, limit=10) == OldRuns(())


# purge


async def test_a_purged_run_answers_no_duplicate_and_the_others_still_do(stores: Stores) -> None:
    kept = finished("run-2", "interrupt-2")
    version = await saved(stores, Record(), snapshot=SNAPSHOT, bag=BAG, runs=[finished("run-1", "interrupt-1"), kept])
    await tick(stores)
    assert await stores.threads.purge(KEY, run_ids=["run-1"]) == Purged(1)
    for name in ("interrupt-1", "alias-of-interrupt-1"):
        assert await stores.threads.outcome(KEY, interrupt=name) is None
    assert await stores.threads.outcome(KEY, interrupt="alias-of-interrupt-2") == kept
    assert await runs_left(stores, "run-1", "run-2") == ["run-2"]
    assert [each.run_id for each in await old_runs(stores)] == ["run-2"]
    loaded = await stores.threads.load(KEY)
    assert (loaded.record, loaded.snapshot, loaded.bag) == (Record(version), SNAPSHOT, BAG)


async def test_a_purge_is_no_change_that_a_writer_would_lose_to(stores: Stores) -> None:
    expected = await saved(stores, Record(), runs=[finished("run-1"), finished("run-2")])
    await stores.threads.purge(KEY, run_ids=["run-1"])
    change = Change(expected, "write-2", Record(), runs=[finished("run-3")])
    assert await stores.threads.save(KEY, change=change) == Saved(Version(2, "write-2"))
    assert await runs_left(stores, "run-1", "run-2", "run-3") == ["run-2", "run-3"]


async def test_a_thread_goes_with_its_last_run(stores: Stores) -> None:
    runs = [finished("run-1", "interrupt-1"), run("run-2", RunState.FAILED)]
    past = await now_of(stores) - DAY
    await saved(stores, Record(), snapshot=SNAPSHOT, bag=BAG, runs=runs, due_at=past)
    assert await stores.threads.purge(KEY, run_ids=["run-2", "run-1", "unheard of"]) == Purged(2, is_whole=True)
    loaded = await stores.threads.load(KEY, interrupts=["interrupt-1"], run_id="run-2")
    assert (loaded.record, loaded.snapshot, loaded.bag, loaded.known) == (Record(), None, None, None)
    assert list(await stores.threads.due(alive=[], limit=10)) == []
    assert await old_runs(stores) == []
    opened = await stores.threads.open(KEY, run=run(), holder="h", claim_seconds=DAY, write_id="open-1")
    assert (opened.claimed, opened.loaded.record.version) == (True, Version(1, "open-1"))


@pytest.mark.parametrize("is_whole", [True, False])
async def test_a_purge_sent_again_removes_nothing_more(stores: Stores, is_whole: bool) -> None:
    runs = [finished("run-1"), *([] if is_whole else [finished("run-2")])]
    await saved(stores, Record(), snapshot=SNAPSHOT, runs=runs)
    assert await stores.threads.purge(KEY, run_ids=["run-1", "run-1"]) == Purged(1, is_whole=is_whole)
    assert await stores.threads.purge(KEY, run_ids=["run-1"]) == Purged(0)
    assert await runs_left(stores, "run-2") == [each.run_id for each in runs[1:]]


async def test_a_run_that_was_written_again_since_it_was_listed_is_not_purged(stores: Stores) -> None:
    await saved(stores, Record(), snapshot=SNAPSHOT, runs=[finished("run-1", "interrupt-1")])
    assert await stores.threads.purge(KEY, run_ids=["run-1"], age_seconds=DAY) == Purged(0)
    assert await runs_left(stores, "run-1") == ["run-1"]
    assert await stores.threads.purge(KEY, run_ids=["run-1"], age_seconds=0.0) == Purged(1, is_whole=True)


@pytest.mark.parametrize("run_ids", [[], ["unheard of", "\0"]], ids=["none", "unheard of"])
async def test_a_purge_that_finds_no_run_leaves_the_thread(stores: Stores, run_ids: list[str]) -> None:
    assert await stores.threads.purge(KEY, run_ids=run_ids) == Purged(0)
    version = await saved(stores, Record(), snapshot=SNAPSHOT)
    assert await stores.threads.purge(KEY, run_ids=run_ids) == Purged(0)
    loaded = await stores.threads.load(KEY)
    assert (loaded.record, loaded.snapshot) == (Record(version), SNAPSHOT)


@pytest.mark.parametrize("protects", ["live claim", "claim past its until", "open occurrence"])
async def test_nothing_is_purged_of_a_thread_that_is_in_use(stores: Stores, protects: str) -> None:
    now = await now_of(stores)
    records = {
        "live claim": Record(claim=claim(until=now + DAY)),
        "claim past its until": Record(claim=claim(until=now - DAY)),
        "open occurrence": record("interrupt-1"),
    }
    runs = [finished("run-1", "interrupt-0"), run("run-2")]
    await saved(stores, records[protects], snapshot=SNAPSHOT, bag=BAG, runs=runs)
    before = await stores.threads.load(KEY, interrupts=["interrupt-0"])
    for run_ids in (["run-1"], ["run-1", "run-2"]):
        assert await stores.threads.purge(KEY, run_ids=run_ids) == Purged(0)
    after = await stores.threads.load(KEY, interrupts=["interrupt-0"])
    assert replace(after, now=before.now) == before
    assert await runs_left(stores, "run-1", "run-2") == ["run-1", "run-2"]


@pytest.mark.parametrize("neighbour", NEIGHBOURS)
async def test_a_purge_removes_no_run_of_another_thread(stores: Stores, neighbour: ThreadKey) -> None:
    runs = [finished("run-1", "interrupt-1")]
    for key in (KEY, neighbour):
        await saved(stores, Record(), key=key, snapshot=SNAPSHOT, runs=runs)
    before = await stores.threads.load(neighbour, interrupts=["interrupt-1"])
    assert await stores.threads.purge(KEY, run_ids=["run-1"]) == Purged(1, is_whole=True)
    after = await stores.threads.load(neighbour, interrupts=["interrupt-1"])
    assert replace(after, now=before.now) == before
    await tick(stores)
    assert await old_runs(stores) == [OldRun(neighbour, "run-1", ("interrupt-1",))]


async def test_a_purge_leaves_the_ledger_to_forget(stores: Stores) -> None:
    await settled(stores, "attempt-1")
    await saved(stores, Record(), runs=[finished("run-1", "interrupt-1")])
    await stores.threads.purge(KEY, run_ids=["run-1"])
    assert await read(stores) is not None


# forget


async def test_rows_that_ended_are_forgotten_and_those_that_did_not_stay(stores: Stores) -> None:
    await settled(stores, "attempt-1", "settled")
    await stores.effects.close(KEY, interrupts={"closed": "rejected"})
    await begun(stores, "attempt-1", reservation("begun"))
    await reserve(stores, "attempt-1", reservation("reserved"))
    await reserve(stores, "attempt-2", reservation("free"))
    await stores.effects.free(KEY, attempt="attempt-2")
    names = ["settled", "closed", "begun", "reserved", "free", "unheard of"]
    assert await stores.effects.forget(KEY, interrupts=names) == 2
    rows = await stores.effects.read(KEY, interrupts=names)
    assert {name: row.state for name, row in rows.items()} == {
        "begun": EffectState.BEGUN,
        "reserved": EffectState.RESERVED,
        "free": EffectState.RESERVED,
    }
    assert await stores.effects.forget(KEY, interrupts=names) == 0
    assert await stores.effects.forget(KEY, interrupts=[]) == 0


async def test_only_the_rows_that_are_named_are_forgotten(stores: Stores) -> None:
    for name in ("one", "other"):
        await stores.effects.close(KEY, interrupts={name: "rejected"})
        await stores.effects.close(NEIGHBOURS[0], interrupts={name: "rejected"})
    assert await stores.effects.forget(KEY, interrupts=["one", "one"]) == 1
    assert list(await stores.effects.read(KEY, interrupts=["one", "other"])) == ["other"]
    assert len(await stores.effects.read(NEIGHBOURS[0], interrupts=["one", "other"])) == 2


async def test_a_forgotten_row_is_one_that_never_was(stores: Stores) -> None:
    await settled(stores, "attempt-1")
    await stores.effects.forget(KEY, interrupts=["interrupt-1"])
    assert await read(stores) is None
    assert await reserve(stores, "attempt-2") == Reserved()


async def test_all_checkpoints_of_a_thread_are_forgotten_and_of_no_other(stores: Stores) -> None:
    for key in (KEY, *NEIGHBOURS):
        for name, workflow in (("c1", "refunds"), ("c2", "refunds"), ("c3", "payouts")):
            await stores.checkpoints.save(key, checkpoint_id=name, workflow=workflow, blob=b"blob", created_at=1.0)
    assert await stores.checkpoints.forget(KEY) == 3
    assert await stores.checkpoints.forget(KEY) == 0
    assert await stores.checkpoints.load(KEY, checkpoint_id="c1") is None
    assert list(await stores.checkpoints.list(KEY, workflow="payouts")) == []
    for key in NEIGHBOURS:
        assert list(await stores.checkpoints.list(key, workflow="refunds")) == ["c1", "c2"]


# Races


async def test_of_eight_purgers_each_run_and_each_thread_is_removed_by_one(openings: Sequence[Stores]) -> None:
    stores, *purgers = openings[: PURGERS + 1]
    for n in range(12):
        await saved(stores, Record(), key=thread(n), snapshot=SNAPSHOT, runs=[finished(f"run-{m}") for m in range(3)])
    await saved(stores, record("interrupt-1"), key=thread("open"), runs=[finished("run-0")])
    await tick(stores)
    found = await old_runs(stores)

    async def purge_all(purger: Stores, seed: int) -> list[Purged]:
        shuffled = random.Random(SEED + seed).sample(found, len(found))
        return [await purger.threads.purge(each.key, run_ids=[each.run_id]) for each in shuffled]

    answers = await asyncio.gather(*(purge_all(each, n) for n, each in enumerate(purgers)))
    purged = [answer for each in answers for answer in each]
    assert sum(answer.runs for answer in purged) == len(found) == 36
    assert sum(answer.is_whole for answer in purged) == 12
    assert await old_runs(stores) == []
    assert await runs_left(stores, "run-0", key=thread("open")) == ["run-0"]


async def test_an_open_that_races_a_purge_has_its_thread_and_its_run(openings: Sequence[Stores]) -> None:
    one, other = openings[:2]
    for n in range(PURGE_ROUNDS):
        key = thread(n)
        await saved(one, Record(), key=key, snapshot=SNAPSHOT, runs=[finished("run-old")])
        wanted = run("run-new", attempt="attempt-new")
        purged, opened = await asyncio.gather(
            one.threads.purge(key, run_ids=["run-old"]),
            other.threads.open(key, run=wanted, holder="h", claim_seconds=DAY, write_id="open-1"),
        )
        assert opened.claimed
        loaded = await one.threads.load(key, run_id="run-new")
        assert (loaded.record, loaded.known) == (opened.loaded.record, wanted)
        # Either the purge was first, then the claim is on a new thread; or the claim was, and then nothing is gone.
        assert purged in (Purged(1, is_whole=True), Purged(0))
        assert (loaded.record.version.generation, loaded.snapshot) == ((1, None) if purged.runs else (2, SNAPSHOT))
        assert opened.loaded.snapshot == loaded.snapshot
        assert await runs_left(one, "run-old", key=key) == ([] if purged.runs else ["run-old"])


async def test_a_claim_by_save_and_a_purge_of_the_whole_thread_never_both_win(openings: Sequence[Stores]) -> None:
    one, other = openings[:2]
    for n in range(PURGE_ROUNDS):
        key = thread(n)
        expected = await saved(one, Record(), key=key, runs=[finished("run-old")])
        change = Change(expected, "write-2", Record(claim=claim(until=0.0)), runs=[run("run-new")])
        purged, answer = await asyncio.gather(
            one.threads.purge(key, run_ids=["run-old"]), other.threads.save(key, change=change)
        )
        assert (purged, answer) in (
            (Purged(1, is_whole=True), Lost()),
            (Purged(0), Saved(Version(2, "write-2"))),
        )
        left = await runs_left(one, "run-old", "run-new", key=key)
        assert left == ([] if answer == Lost() else ["run-old", "run-new"])


async def test_runs_that_come_while_others_are_purged_keep_their_answers(openings: Sequence[Stores]) -> None:
    # Whole runs come and go between the moment a purge looks at the thread and the moment it gets to it.
    stores, purger, *hosts = openings[:6]
    is_over = asyncio.Event()

    async def purge_often() -> None:
        while not is_over.is_set():
            # An old run is there again; all others are the hosts', and must stay.
            loaded = await purger.threads.load(KEY)
            if loaded.record.claim is None:
                change = Change(loaded.record.version, fresh("write"), Record(), runs=[finished("run-old")])
                await purger.threads.save(KEY, change=change)
            await purger.threads.purge(KEY, run_ids=["run-old"])
            await asyncio.sleep(0)

    async def run_all() -> list[Run]:
        written = await asyncio.gather(*(runs_of_host(each, str(n)) for n, each in enumerate(hosts)))
        is_over.set()
        return [run for each in written for run in each]

    written, _ = await asyncio.gather(run_all(), purge_often())
    assert written
    for ended in written:
        assert await stores.threads.outcome(KEY, run_id=ended.run_id) == ended


async def runs_of_host(host: Stores, name: str) -> list[Run]:
    """Run again and again in one thread, whenever it is free; answers the runs that were finished."""
    written = []
    for n in range(PURGE_ROUNDS):
        begun = run(f"run-{name}-{n}", attempt=f"attempt-{name}-{n}")
        opened = await host.threads.open(KEY, run=begun, holder="h", claim_seconds=DAY, write_id=fresh("open"))
        if opened.claimed:
            ended = replace(begun, state=RunState.FINISHED)
            change = Change(opened.loaded.record.version, fresh("write"), Record(), SNAPSHOT, runs=[ended])
            assert isinstance(await host.threads.save(KEY, change=change), Saved)
            written.append(ended)
    return written


async def test_of_eight_that_forget_the_same_rows_each_row_is_counted_by_one(openings: Sequence[Stores]) -> None:
    stores, *forgetting = openings[: PURGERS + 1]
    names = [f"interrupt-{n:02}" for n in range(20)]
    for n in range(4):
        await stores.effects.close(thread(n), interrupts=dict.fromkeys(names, "rejected"))
        await reserve(stores, "attempt-1", reservation("held"), key=thread(n))

    async def forget_all(each: Stores, seed: int) -> int:
        shuffled = random.Random(SEED + seed).sample([*names, "held"], len(names) + 1)
        return sum([await each.effects.forget(thread(n), interrupts=shuffled) for n in range(4)])

    counts = await asyncio.gather(*(forget_all(each, n) for n, each in enumerate(forgetting)))
    assert sum(counts) == 4 * len(names)
    for n in range(4):
        assert list(await stores.effects.read(thread(n), interrupts=[*names, "held"])) == ["held"]


async def test_a_forget_that_races_a_settle_loses_no_result_unseen(openings: Sequence[Stores]) -> None:
    one, other = openings[:2]
    for n in range(PURGE_ROUNDS):
        name = f"interrupt-{n}"
        await begun(one, "attempt-1", reservation(name))
        forgotten, answer = await asyncio.gather(
            one.effects.forget(KEY, interrupts=[name]),
            other.effects.settle(KEY, interrupt_id=name, attempt="attempt-1", result=RESULT),
        )
        assert answer == Settled(RESULT)
        row = await read(one, name)
        assert (row is None) == (forgotten == 1)


async def test_checkpoints_are_forgotten_and_pruned_by_many_at_once(openings: Sequence[Stores]) -> None:
    stores, *others = openings[: PURGERS + 1]
    for n in range(30):
        await stores.checkpoints.save(KEY, checkpoint_id=f"c{n}", workflow="w", blob=b"blob", created_at=float(n))
    counts = await asyncio.gather(
        *(
            each.checkpoints.forget(KEY) if n % 2 else each.checkpoints.prune(KEY, workflow="w", keep=5)
            for n, each in enumerate(others)
        )
    )
    assert sum(counts) == 30
    assert list(await stores.checkpoints.list(KEY, workflow="w")) == []


async def test_a_purge_leaves_what_a_later_run_ended_under_the_same_name(stores: Stores) -> None:
    await saved(stores, Record(), runs=[finished("run-1", "interrupt-1")])
    await saved(stores, Record(), runs=[finished("run-2", "interrupt-1")])
    await stores.threads.purge(KEY, run_ids=["run-1"])
    for name in ("interrupt-1", "alias-of-interrupt-1"):
        assert (await stores.threads.load(KEY, interrupts=[name])).known == finished("run-2", "interrupt-1")
