"""ThreadStore: every "exactly one" of it, raced over separate connections."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from stores.ports import (
    Change,
    Lost,
    NotReserved,
    Saved,
    Stores,
)
from stores.records import Bag, Record, Snapshot, Version
from tests.conformance.examples import (
    CLAIMANTS,
    DAY,
    KEY,
    ROUNDS,
    batch,
    claim,
    finished,
    kinds,
    now_of,
    record,
    reservation,
    run,
    saved,
    version_of,
)


@pytest.mark.parametrize("is_new", [True, False], ids=["new thread", "known thread"])
async def test_of_sixteen_claimants_one_is_saved(openings: Sequence[Stores], is_new: bool) -> None:
    stores = openings[0]
    until = await now_of(stores) + DAY
    expected = Version() if is_new else await saved(stores, record("interrupt-1"))
    changes = [
        Change(expected, f"write-{n}", Record(claim=claim(until=until, attempt=f"attempt-{n}")), runs=[run(f"run-{n}")])
        for n in range(CLAIMANTS)
    ]
    answers = await asyncio.gather(
        *(each.threads.save(KEY, change=change) for each, change in zip(openings, changes, strict=True))
    )
    assert kinds(answers) == {Saved: 1, Lost: CLAIMANTS - 1}
    winner = next(n for n, answer in enumerate(answers) if isinstance(answer, Saved))
    loaded = await stores.threads.load(KEY)
    assert loaded.record.version == Version(expected.generation + 1, f"write-{winner}")
    assert loaded.record.claim == claim(until=until, attempt=f"attempt-{winner}")
    runs = [n for n in range(CLAIMANTS) if await stores.threads.outcome(KEY, run_id=f"run-{n}") is not None]
    assert runs == [winner]


async def test_a_chain_of_saves_under_contention_loses_no_write(openings: Sequence[Stores]) -> None:
    # Every claimant saves once, reloading as often as it loses: the generation must count them all.
    async def save_once(stores: Stores, n: int) -> None:
        while True:
            loaded = await stores.threads.load(KEY)
            change = Change(
                loaded.record.version, f"write-{n}", replace(loaded.record, retries=loaded.record.retries + 1)
            )
            if isinstance(await stores.threads.save(KEY, change=change), Saved):
                return

    await asyncio.gather(*(save_once(each, n) for n, each in enumerate(openings)))
    loaded = await openings[0].threads.load(KEY)
    assert (loaded.record.retries, loaded.record.version.generation) == (CLAIMANTS, CLAIMANTS)


async def test_one_save_sent_sixteen_times_is_written_once_and_everybody_is_told_yours(
    openings: Sequence[Stores],
) -> None:
    change = Change(Version(), "write-1", record("interrupt-1"), runs=[run()])
    answers = await asyncio.gather(*(each.threads.save(KEY, change=change) for each in openings))
    assert answers == [Saved(Version(1, "write-1"))] * CLAIMANTS


@pytest.mark.parametrize("is_new", [True, False], ids=["new thread", "known thread"])
async def test_of_sixteen_runs_one_opens_the_thread(openings: Sequence[Stores], is_new: bool) -> None:
    if not is_new:
        await saved(openings[0], Record(), runs=[finished("run-before")])
    answers = await asyncio.gather(
        *(
            each.threads.open(
                KEY, run=run(f"run-{n}", attempt=f"attempt-{n}"), holder="h", claim_seconds=DAY, write_id=f"open-{n}"
            )
            for n, each in enumerate(openings)
        )
    )
    winners = [n for n, answer in enumerate(answers) if answer.claimed]
    assert len(winners) == 1
    for answer in answers:
        assert answer.loaded.record.claim is not None
        assert answer.loaded.record.claim.run_id == f"run-{winners[0]}"
    loaded = await openings[0].threads.load(KEY)
    assert loaded.record == answers[winners[0]].loaded.record
    runs = [n for n in range(CLAIMANTS) if await openings[0].threads.outcome(KEY, run_id=f"run-{n}") is not None]
    assert runs == winners


async def test_an_open_and_a_save_never_both_win(openings: Sequence[Stores]) -> None:
    one, other = openings[:2]
    for n in range(ROUNDS):
        key = replace(KEY, thread_id=f"thread-{n}")
        expected = await saved(one, Record(), key=key)
        change = Change(expected, "write-2", record("interrupt-1"))
        opened, answer = await asyncio.gather(
            one.threads.open(key, run=run(), holder="h", claim_seconds=DAY, write_id="open-1"),
            other.threads.save(key, change=change),
        )
        assert opened.claimed == isinstance(answer, Lost)
        assert (await version_of(one, key)).write_id == ("open-1" if opened.claimed else "write-2")


async def test_a_delete_and_a_claim_never_both_win(openings: Sequence[Stores]) -> None:
    one, other = openings[:2]
    for n in range(ROUNDS):
        key = replace(KEY, thread_id=f"thread-{n}")
        expected = await saved(one, record("interrupt-1"), key=key)
        change = Change(expected, "write-2", Record(claim=claim(until=0.0)))
        deleted, answer = await asyncio.gather(
            one.threads.delete(key, expected=expected), other.threads.save(key, change=change)
        )
        assert kinds([deleted, answer]) == {Saved: 1, Lost: 1}
        loaded = await one.threads.load(key)
        assert (loaded.record.claim is None) == isinstance(deleted, Saved)


async def test_a_load_never_mixes_two_saves(openings: Sequence[Stores]) -> None:
    writer, *readers = openings[:5]
    is_over = asyncio.Event()

    def parts(n: int) -> dict[str, Any]:
        return {
            "snapshot": Snapshot(pause_id=str(n)),
            "bag": Bag(pause_id=str(n)),
            "runs": [finished("run-1", input_digest=str(n))],
        }

    async def write() -> None:
        for n in range(1, 31):
            await saved(writer, Record(pause_id=str(n)), **parts(n))
        is_over.set()

    async def look(reader: Stores) -> None:
        while not is_over.is_set():
            loaded = await reader.threads.load(KEY, run_id="run-1")
            n = loaded.record.version.generation
            if n:
                found = {"snapshot": loaded.snapshot, "bag": loaded.bag, "runs": [loaded.known]}
                assert (loaded.record.pause_id, found) == (str(n), parts(n))
            # Memory stores never wait: without this the writer would not get its turn.
            await asyncio.sleep(0)

    await asyncio.gather(write(), *map(look, readers))


async def test_of_sixteen_claims_with_a_batch_one_has_both_the_thread_and_the_rows(openings: Sequence[Stores]) -> None:
    stores = openings[0]
    if not stores.shared:
        pytest.skip("these stores keep threads and effects apart")
    expected = await saved(stores, record("interrupt-1", "interrupt-2"))
    batches = [
        await batch(stores, f"attempt-{n}", reservation("interrupt-1"), reservation("interrupt-2"))
        for n in range(CLAIMANTS)
    ]
    changes = [Change(expected, f"write-{n}", Record(), batch=each) for n, each in enumerate(batches)]
    answers = await asyncio.gather(
        *(each.threads.save(KEY, change=change) for each, change in zip(openings, changes, strict=True))
    )
    # A loser may see the winner's rows before it sees the winner's record.
    assert kinds(answers)[Saved] == 1
    assert kinds(answers)[Lost] + kinds(answers)[NotReserved] == CLAIMANTS - 1
    winner = next(n for n, answer in enumerate(answers) if isinstance(answer, Saved))
    assert (await version_of(stores)).write_id == f"write-{winner}"
    rows = await stores.effects.read(KEY, interrupts=["interrupt-1", "interrupt-2"])
    assert [row.attempt for row in rows.values()] == [f"attempt-{winner}"] * 2
