"""ThreadStore: outcome, list, due and delete, on every adapter."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

import pytest

from stores.ports import Listed, Loaded, Lost, Saved, Stores
from stores.records import OccurrenceState, Record, RunState, Scope, ThreadKey, Version
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
    read,
    record,
    reserve,
    run,
    saved,
    version_of,
)


def thread(name: str) -> ThreadKey:
    return replace(KEY, thread_id=name)


async def due(stores: Stores, *alive: str, limit: int = 100) -> list[str]:
    return [key.thread_id for key in await stores.threads.due(alive=alive, limit=limit)]


async def listed(stores: Stores, *, limit: int = 100, after: str | None = None, key: ThreadKey = KEY) -> list[str]:
    return [each.interrupt_id for each in await stores.threads.list(key.scope, limit=limit, after=after)]


# outcome


async def test_an_outcome_is_found_by_interrupt_by_alias_and_by_run_id(stores: Stores) -> None:
    ended = finished("run-1", "interrupt-1")
    await saved(stores, Record(), runs=[ended])
    assert await stores.threads.outcome(KEY, interrupt="interrupt-1") == ended
    assert await stores.threads.outcome(KEY, interrupt="alias-of-interrupt-1") == ended
    assert await stores.threads.outcome(KEY, run_id="run-1") == ended


@pytest.mark.parametrize("state", [RunState.RUNNING, RunState.FAILED])
async def test_a_run_that_is_not_finished_is_found_by_run_id_only(stores: Stores, state: RunState) -> None:
    await saved(stores, record("interrupt-1"), runs=[run("run-1", state, "interrupt-1")])
    assert await stores.threads.outcome(KEY, interrupt="interrupt-1") is None
    assert await stores.threads.outcome(KEY, run_id="run-1") == run("run-1", state, "interrupt-1")


async def test_what_is_open_or_unheard_of_has_no_outcome(stores: Stores) -> None:
    assert await stores.threads.outcome(KEY, interrupt="interrupt-1") is None
    await saved(stores, record("interrupt-1"))
    assert await stores.threads.outcome(KEY, interrupt="interrupt-1") is None
    assert await stores.threads.outcome(KEY, run_id="run-1") is None


@pytest.mark.parametrize("neighbour", NEIGHBOURS)
async def test_an_outcome_of_another_thread_is_not_found(stores: Stores, neighbour: ThreadKey) -> None:
    await saved(stores, Record(), key=neighbour, runs=[finished("run-1", "interrupt-1")])
    assert await stores.threads.outcome(KEY, interrupt="interrupt-1") is None
    assert await stores.threads.outcome(KEY, run_id="run-1") is None


# list


async def test_the_list_names_every_open_occurrence_with_its_thread(stores: Stores) -> None:
    await saved(stores, Record(occurrences=(occurrence("b"), occurrence("a", tool="refund"))), key=thread("one"))
    decided = occurrence("c", state=OccurrenceState.DECIDED, created_at=1.5, expires_at=2.5)
    doubtful = occurrence("d", state=OccurrenceState.INDETERMINATE)
    await saved(stores, Record(occurrences=(decided, doubtful), claim=claim(until=0.0)), key=thread("two"))
    assert list(await stores.threads.list(KEY.scope, limit=10)) == [
        Listed(thread("one"), "a", "pending", "refund", 1_000.5, 2_000.25),
        Listed(thread("one"), "b", "pending", "pay", 1_000.5, 2_000.25),
        Listed(thread("two"), "c", "decided", "pay", 1.5, 2.5),
        Listed(thread("two"), "d", "indeterminate", "pay", 1_000.5, 2_000.25),
    ]


async def test_the_pages_of_the_list_hold_every_occurrence_once_and_in_order(stores: Stores) -> None:
    names = [f"interrupt-{n:02}" for n in range(11)]
    for start in range(3):
        await saved(stores, record(*reversed(names[start::3])), key=thread(f"thread-{start}"))
    pages, after = [], None
    while page := await listed(stores, limit=4, after=after):
        pages.append(page)
        after = page[-1]
    assert [len(page) for page in pages] == [4, 4, 3]
    assert [name for page in pages for name in page] == names


async def test_the_list_goes_on_after_an_occurrence_that_is_gone(stores: Stores) -> None:
    await saved(stores, record("a", "b", "c"))
    await saved(stores, record("a", "c"))
    assert await listed(stores, after="b") == ["c"]


async def test_what_was_finished_or_deleted_is_listed_no_more(stores: Stores) -> None:
    await saved(stores, record("a", "b"))
    await saved(stores, record("b"), runs=[finished("run-1", "a")])
    assert await listed(stores) == ["b"]
    await stores.threads.delete(KEY, expected=await version_of(stores))
    assert await listed(stores) == []


async def test_the_list_follows_the_state_of_an_occurrence(stores: Stores) -> None:
    await saved(stores, record("a"))
    await saved(stores, Record(occurrences=(occurrence("a", state=OccurrenceState.INDETERMINATE, tool="pay2"),)))
    assert [(each.state, each.tool) for each in await stores.threads.list(KEY.scope, limit=10)] == [
        ("indeterminate", "pay2")
    ]


async def test_the_list_is_of_one_scope_and_of_all_its_agents_and_threads(stores: Stores) -> None:
    other_scope, other_agent, other_thread = NEIGHBOURS
    await saved(stores, record("same"))
    for key in NEIGHBOURS:
        await saved(stores, record("same"), key=key)
    found = await stores.threads.list(KEY.scope, limit=10)
    assert {each.key for each in found} == {KEY, other_agent, other_thread}
    assert [each.key for each in await stores.threads.list(other_scope.scope, limit=10)] == [other_scope]
    assert await stores.threads.list(Scope("tenant"), limit=10) == []


# count_open


async def counted(stores: Stores, *, at_most: int = 100, scope: Scope = KEY.scope) -> int:
    return await stores.threads.count_open(scope, at_most=at_most)


async def test_open_occurrences_are_counted_in_every_state_and_thread_of_a_scope(stores: Stores) -> None:
    assert await counted(stores) == 0
    decided, doubtful = (
        occurrence("c", state=OccurrenceState.DECIDED),
        occurrence("d", state=OccurrenceState.INDETERMINATE),
    )
    await saved(stores, record("a", "b"), key=thread("one"))
    await saved(stores, Record(occurrences=(decided, doubtful), claim=claim(until=0.0)), key=thread("two"))
    await saved(stores, record("a"), key=thread("three"))
    assert await counted(stores) == 5


async def test_a_count_is_of_one_scope_and_of_all_its_agents_and_threads(stores: Stores) -> None:
    for key in (KEY, *NEIGHBOURS):
        await saved(stores, record("same"), key=key)
    assert await counted(stores) == 3
    assert await counted(stores, scope=NEIGHBOURS[0].scope) == 1
    assert await counted(stores, scope=Scope("tenant")) == 0


async def test_what_was_finished_or_deleted_is_counted_no_more(stores: Stores) -> None:
    await saved(stores, record("a", "b"))
    await saved(stores, record("b"), runs=[finished("run-1", "a")])
    assert await counted(stores) == 1
    await saved(stores, record("c", "d", "e"))
    assert await counted(stores) == 3
    await stores.threads.delete(KEY, expected=await version_of(stores))
    assert await counted(stores) == 0


async def test_a_count_goes_no_further_than_it_is_asked_to(stores: Stores) -> None:
    for n in range(7):
        await saved(stores, record(f"a-{n}", f"b-{n}"), key=thread(f"thread-{n}"))
    assert [await counted(stores, at_most=n) for n in (1, 2, 13, 14, 15)] == [1, 2, 13, 14, 14]


async def test_runs_of_the_past_are_not_counted(stores: Stores) -> None:
    for n in range(5):
        await saved(stores, Record(), key=thread(f"thread-{n}"), runs=[finished(f"run-{n}", f"interrupt-{n}")])
    assert await counted(stores) == 0


# due


async def test_a_claim_is_due_when_its_until_has_passed_though_its_holder_lives(stores: Stores) -> None:
    now = await now_of(stores)
    await saved(stores, Record(claim=claim(until=now - DAY, holder="alive")), key=thread("passed"))
    await saved(stores, Record(claim=claim(until=now + DAY, holder="alive")), key=thread("live"))
    assert await due(stores, "alive", "another") == ["passed"]


async def test_a_claim_is_due_when_its_holder_is_not_alive(stores: Stores) -> None:
    until = await now_of(stores) + DAY
    for holder in ("holder-1", "holder-2"):
        await saved(stores, Record(claim=claim(until=until, holder=holder)), key=thread(f"of-{holder}"))
    assert await due(stores, "holder-1", "holder-2") == []
    assert await due(stores, "holder-1") == ["of-holder-2"]
    assert sorted(await due(stores)) == ["of-holder-1", "of-holder-2"]


async def test_a_thread_without_a_claim_is_due_when_its_time_has_passed(stores: Stores) -> None:
    now = await now_of(stores)
    await saved(stores, record("a"), key=thread("passed"), due_at=now - 1.0)
    await saved(stores, record("b"), key=thread("later"), due_at=now + DAY)
    await saved(stores, record("c"), key=thread("never"))
    assert await due(stores) == ["passed"]


async def test_the_time_of_a_thread_counts_for_nothing_while_it_is_claimed(stores: Stores) -> None:
    now = await now_of(stores)
    await saved(stores, Record(claim=claim(until=now + DAY, holder="alive")), due_at=now - DAY)
    assert await due(stores, "alive") == []


async def test_every_change_sets_anew_when_the_thread_is_due(stores: Stores) -> None:
    past = await now_of(stores) - DAY
    await saved(stores, record("a"), due_at=past)
    assert await due(stores) == ["thread-1"]
    await saved(stores, record("a"), due_at=past + 2 * DAY)
    assert await due(stores) == []
    await saved(stores, record("a"), due_at=past)
    await saved(stores, Record())
    assert await due(stores) == []


async def test_a_claim_that_open_took_is_due_like_any_other(stores: Stores) -> None:
    for name, seconds in (("passed", -1.0), ("live", DAY)):
        key = thread(name)
        await stores.threads.open(key, run=run(), holder="alive", claim_seconds=seconds, write_id=f"open-{name}")
    assert await due(stores, "alive") == ["passed"]
    assert sorted(await due(stores)) == ["live", "passed"]


async def test_those_that_wait_longest_come_first_up_to_the_limit(stores: Stores) -> None:
    now = await now_of(stores)
    for seconds in (300, 100, 500):
        await saved(stores, Record(claim=claim(until=now - seconds)), key=thread(f"claimed-{seconds}"))
    for seconds in (200, 400):
        await saved(stores, record("a"), key=thread(f"waiting-{seconds}"), due_at=now - seconds)
    assert await due(stores) == ["claimed-500", "waiting-400", "claimed-300", "waiting-200", "claimed-100"]
    assert await due(stores, limit=3) == ["claimed-500", "waiting-400", "claimed-300"]


async def test_due_gives_whole_keys_of_all_scopes(stores: Stores) -> None:
    now = await now_of(stores)
    for key in (KEY, *NEIGHBOURS):
        await saved(stores, record("a"), key=key, due_at=now - DAY)
    assert set(await stores.threads.due(alive=[], limit=10)) == {KEY, *NEIGHBOURS}


@pytest.mark.parametrize("count", [0, 1, 1_000])
async def test_any_number_of_holders_may_be_alive(stores: Stores, count: int) -> None:
    await saved(stores, Record(claim=claim(until=await now_of(stores) + DAY, holder="dead")))
    alive: Collection[str] = [f"holder-{n}" for n in range(count)]
    assert await due(stores, *alive) == ["thread-1"]


# delete


async def test_a_deleted_thread_leaves_nothing_but_its_ledger(stores: Stores) -> None:
    await reserve(stores, "attempt-1")
    past = await now_of(stores) - DAY
    runs = [finished("run-1", "interrupt-0")]
    version = await saved(stores, record("interrupt-1"), snapshot=SNAPSHOT, bag=BAG, runs=runs, due_at=past)
    assert isinstance(await stores.threads.delete(KEY, expected=version), Saved)
    loaded = await stores.threads.load(KEY, interrupts=["interrupt-0"], run_id="run-1")
    assert loaded == Loaded(Record(), now=loaded.now)
    assert await due(stores) == []
    assert await stores.threads.outcome(KEY, interrupt="interrupt-0") is None
    assert await read(stores) is not None


async def test_a_thread_can_begin_anew_after_it_was_deleted(stores: Stores) -> None:
    version = await saved(stores, record("interrupt-1"), runs=[finished("run-1", "interrupt-0")])
    await stores.threads.delete(KEY, expected=version)
    answer = await stores.threads.open(KEY, run=run(), holder="holder-1", claim_seconds=60.0, write_id="open-1")
    assert answer.claimed
    assert answer.loaded.record.version == Version(1, "open-1")


@pytest.mark.parametrize("wrong", ["number", "write"])
async def test_a_delete_on_another_version_is_lost_and_removes_nothing(stores: Stores, wrong: str) -> None:
    version = await saved(stores, record("interrupt-1"), snapshot=SNAPSHOT, bag=BAG, runs=[finished("run-1", "a")])
    before = replace(await stores.threads.load(KEY, run_id="run-1"), now=0.0)
    changes = {"number": replace(version, generation=2), "write": replace(version, write_id="other")}
    assert await stores.threads.delete(KEY, expected=changes[wrong]) == Lost()
    assert replace(await stores.threads.load(KEY, run_id="run-1"), now=0.0) == before


@pytest.mark.parametrize("until", [DAY, -DAY], ids=["live", "past its until"])
async def test_a_claimed_thread_is_not_deleted(stores: Stores, until: float) -> None:
    held = claim(until=await now_of(stores) + until)
    version = await saved(stores, Record(claim=held), snapshot=SNAPSHOT)
    assert await stores.threads.delete(KEY, expected=version) == Lost()
    loaded = await stores.threads.load(KEY)
    assert loaded == Loaded(Record(version, claim=held), loaded.now, SNAPSHOT)


@pytest.mark.parametrize("neighbour", NEIGHBOURS)
async def test_a_delete_removes_no_other_thread(stores: Stores, neighbour: ThreadKey) -> None:
    runs = [finished("run-1", "interrupt-0")]
    await saved(stores, record("interrupt-1"), key=neighbour, snapshot=SNAPSHOT, bag=BAG, runs=runs)
    before = replace(await stores.threads.load(neighbour, interrupts=["interrupt-0"]), now=0.0)
    await stores.threads.delete(KEY, expected=await saved(stores, record("interrupt-1"), runs=runs))
    assert replace(await stores.threads.load(neighbour, interrupts=["interrupt-0"]), now=0.0) == before
    assert await listed(stores, key=neighbour) == ["interrupt-1"]
