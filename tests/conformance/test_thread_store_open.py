"""ThreadStore: open, on every adapter."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

import pytest

from stores.ports import Change, Loaded, Opened, Saved, Stores
from stores.records import Claim, OccurrenceState, Record, Run, RunState, ThreadKey, Version
from tests.conformance.examples import (
    BAG,
    DAY,
    KEY,
    NEIGHBOURS,
    SNAPSHOT,
    claim,
    finished,
    now_of,
    occurrence,
    record,
    run,
    saved,
)


async def view(
    stores: Stores, key: ThreadKey = KEY, *, interrupts: Collection[str] = (), run_id: str | None = None
) -> Loaded:
    """What `load` shows, but for the time."""
    return replace(await stores.threads.load(key, interrupts=interrupts, run_id=run_id), now=0.0)


async def opened(stores: Stores, wanted: Run, *, write_id: str = "open-1", key: ThreadKey = KEY) -> Opened:
    return await stores.threads.open(key, run=wanted, holder="holder-1", claim_seconds=60.0, write_id=write_id)


async def known(stores: Stores, *interrupts: str, run_id: str | None = None, key: ThreadKey = KEY) -> Run | None:
    return (await stores.threads.load(key, interrupts=interrupts, run_id=run_id)).known


async def test_open_claims_a_thread_never_written_and_inserts_the_run(stores: Stores) -> None:
    answer = await opened(stores, run())
    assert answer.claimed
    assert answer.loaded.record.version == Version(1, "open-1")
    assert answer.loaded.record.claim is not None
    assert answer.loaded.record.claim.until == pytest.approx(answer.loaded.now + 60.0, abs=1.0)
    assert answer.loaded.record.claim == Claim("attempt-1", "holder-1", "run-1", answer.loaded.record.claim.until)
    assert (await view(stores, run_id="run-1")) == Loaded(answer.loaded.record, now=0.0, known=run())


async def test_open_claims_a_thread_whose_runs_are_over_and_shows_what_they_left(stores: Stores) -> None:
    before = await saved(stores, Record(), snapshot=SNAPSHOT, bag=BAG, runs=[finished("run-0", "interrupt-0")])
    answer = await opened(stores, run())
    assert answer.claimed
    assert answer.loaded.record.version == Version(before.generation + 1, "open-1")
    assert (answer.loaded.snapshot, answer.loaded.bag) == (SNAPSHOT, BAG)
    after = await view(stores)
    assert (after.snapshot, after.bag) == (SNAPSHOT, BAG)
    assert await known(stores, "interrupt-0") == finished("run-0", "interrupt-0")


async def test_the_version_that_open_answers_is_the_one_to_finish_with(stores: Stores) -> None:
    answer = await opened(stores, run())
    finish = Change(answer.loaded.record.version, "finish-1", Record(), runs=[finished("run-1")])
    assert await stores.threads.save(KEY, change=finish) == Saved(Version(2, "finish-1"))
    assert (await view(stores, run_id="run-1")).known == finished("run-1")


@pytest.mark.parametrize("until", [DAY, -DAY], ids=["live", "past its until"])
async def test_open_refuses_while_there_is_a_claim_whatever_its_time(stores: Stores, until: float) -> None:
    held = claim(until=await now_of(stores) + until)
    await saved(stores, Record(claim=held), snapshot=SNAPSHOT)
    before = await view(stores)
    answer = await opened(stores, run("run-2"))
    assert not answer.claimed
    assert replace(answer.loaded, now=0.0) == before
    assert await view(stores, run_id="run-2") == before


@pytest.mark.parametrize("state", [OccurrenceState.PENDING, OccurrenceState.DECIDED, OccurrenceState.INDETERMINATE])
async def test_open_refuses_while_an_occurrence_is_open(stores: Stores, state: OccurrenceState) -> None:
    await saved(stores, Record(pause_id="pause-1", occurrences=(occurrence(state=state),)), bag=BAG)
    before = await view(stores)
    answer = await opened(stores, run("run-2"))
    assert not answer.claimed
    assert replace(answer.loaded, now=0.0) == before
    assert await view(stores, run_id="run-2") == before


@pytest.mark.parametrize("state", list(RunState))
async def test_open_refuses_a_run_id_that_is_known_and_answers_that_run(stores: Stores, state: RunState) -> None:
    await saved(stores, Record(), runs=[run("run-1", state)])
    before = await view(stores, run_id="run-1")
    answer = await opened(stores, run("run-1", input_digest="other input"))
    assert not answer.claimed
    assert replace(answer.loaded, now=0.0) == before
    assert before.known == run("run-1", state)
    assert await view(stores, run_id="run-1") == before


async def test_open_repeated_after_a_lost_reply_has_the_claim_and_writes_nothing_more(stores: Stores) -> None:
    first = await opened(stores, run())
    again = await opened(stores, run())
    assert again.claimed
    assert again.loaded.record == first.loaded.record
    assert (await view(stores)).record == first.loaded.record


async def test_open_repeated_after_the_claim_is_over_is_refused(stores: Stores) -> None:
    await opened(stores, run())
    await saved(stores, Record(), runs=[finished("run-1")])
    again = await opened(stores, run())
    assert not again.claimed
    assert again.loaded.known == finished("run-1")
    assert (await view(stores)).record.claim is None


@pytest.mark.parametrize("neighbour", NEIGHBOURS)
async def test_open_does_not_see_another_thread(stores: Stores, neighbour: ThreadKey) -> None:
    await saved(stores, record("interrupt-1", claim=claim(until=0.0)), key=neighbour, runs=[run()])
    before = await view(stores, neighbour)
    assert (await opened(stores, run())).claimed
    assert await view(stores, neighbour) == before
