"""ThreadStore: a change that carries a batch for a ledger in the same database, on every adapter that shares one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from stores.ports import (
    AlreadySettled,
    Began,
    Begun,
    Change,
    Closed,
    DigestMismatch,
    Fenced,
    Held,
    Lost,
    NotReserved,
    ReserveAnswer,
    Reserved,
    Saved,
    Settled,
    Stores,
)
from stores.records import EffectKind, EffectState, Record, ThreadKey
from tests.conformance.examples import (
    DAY,
    DIGEST,
    KEY,
    NEIGHBOURS,
    OTHER_RESULT,
    RESULT,
    SNAPSHOT,
    batch,
    begin,
    begun,
    fresh,
    idempotent,
    read,
    record,
    reservation,
    reserve,
    rows_of,
    run,
    saved,
    settle,
    settled,
    version_of,
)


@pytest.fixture
async def shared(stores: Stores) -> Stores:
    """The stores, where threads and effects are one database."""
    if not stores.shared:
        pytest.skip("these stores keep threads and effects apart")
    await saved(stores, record("interrupt-1", "interrupt-2"))
    return stores


async def test_a_batch_is_reserved_and_closed_with_the_change(shared: Stores) -> None:
    wanted = await batch(shared, "attempt-1", reservation("interrupt-1"), close={"interrupt-2": "rejected"})
    change = Change(await version_of(shared), "write-2", record("interrupt-1", "interrupt-2"), batch=wanted)
    assert isinstance(await shared.threads.save(KEY, change=change), Saved)
    reserved, closed = await read(shared, "interrupt-1"), await read(shared, "interrupt-2")
    assert reserved is not None
    assert (reserved.state, reserved.attempt, reserved.holder) == (
        EffectState.RESERVED,
        "attempt-1",
        "holder-of-attempt-1",
    )
    assert reserved.digest == DIGEST
    assert reserved.until == pytest.approx(wanted.until, abs=0.001)
    assert closed is not None
    assert (closed.state, closed.why) == (EffectState.CLOSED, "rejected")
    assert await begin(shared, "attempt-1", "interrupt-1") == Began()


async def test_an_idempotent_row_can_be_begun_with_the_change(shared: Stores) -> None:
    wanted = await batch(shared, "attempt-1", idempotent(begin=True), reservation("interrupt-2"))
    await saved(shared, record("interrupt-1", "interrupt-2"), batch=wanted)
    rows = await shared.effects.read(KEY, interrupts=["interrupt-1", "interrupt-2"])
    assert {name: row.state for name, row in rows.items()} == {
        "interrupt-1": EffectState.BEGUN,
        "interrupt-2": EffectState.RESERVED,
    }


async def test_a_refused_batch_writes_nothing_in_either(shared: Stores) -> None:
    await begun(shared, "attempt-0", reservation("interrupt-2"))
    before = await shared.threads.load(KEY, run_id="run-9")
    wanted = await batch(shared, "attempt-1", reservation("interrupt-1"), reservation("interrupt-2", digest="other"))
    change = Change(before.record.version, "write-2", Record(), SNAPSHOT, runs=[run("run-9")], due_at=1.0, batch=wanted)
    answer = await shared.threads.save(KEY, change=change)
    assert isinstance(answer, NotReserved)
    assert answer.answers["interrupt-2"] == Held(same=False)
    after = await shared.threads.load(KEY, run_id="run-9")
    assert replace(after, now=before.now) == before
    assert await read(shared, "interrupt-1") is None
    assert await shared.threads.due(alive=[], limit=10) == []


async def test_a_batch_refused_by_one_row_says_which_and_writes_none(shared: Stores) -> None:
    await begun(shared, "attempt-0", reservation("in doubt"), lasts=-DAY)
    await begun(shared, "attempt-0", reservation("other arguments", digest="other"), lasts=-DAY)
    await shared.effects.close(KEY, interrupts={"expired": "expired"})
    expected = {"in doubt": Begun, "other arguments": DigestMismatch, "expired": Closed}
    for name, refusal in expected.items():
        wanted = await batch(shared, "attempt-1", reservation(name), reservation("new"), close={"new too": "rejected"})
        change = Change(await version_of(shared), f"write-{name}", Record(), batch=wanted)
        answer = await shared.threads.save(KEY, change=change)
        assert isinstance(answer, NotReserved)
        assert isinstance(answer.answers[name], refusal)
    assert await shared.effects.read(KEY, interrupts=["new", "new too"]) == {}


async def test_a_batch_that_would_close_a_settled_row_is_refused(shared: Stores) -> None:
    await settled(shared, "attempt-0")
    wanted = await batch(shared, "attempt-1", reservation("interrupt-2"), close={"interrupt-1": "rejected"})
    answer = await shared.threads.save(KEY, change=Change(await version_of(shared), "write-2", Record(), batch=wanted))
    assert isinstance(answer, NotReserved)
    assert answer.answers["interrupt-1"] == Settled(RESULT)
    assert await read(shared, "interrupt-2") is None


async def test_a_settled_row_does_not_refuse_the_batch(shared: Stores) -> None:
    await settled(shared, "attempt-0", "interrupt-1")
    wanted = await batch(shared, "attempt-1", reservation("interrupt-1"), reservation("interrupt-2"))
    await saved(shared, record("interrupt-1", "interrupt-2"), batch=wanted)
    kept = await read(shared, "interrupt-1")
    assert kept is not None
    assert (kept.state, kept.result) == (EffectState.SETTLED, RESULT)
    assert await begin(shared, "attempt-1", "interrupt-2") == Began()


async def test_a_lost_change_reserves_nothing(shared: Stores) -> None:
    old = await version_of(shared)
    await saved(shared, record("interrupt-1"))
    wanted = await batch(shared, "attempt-1", reservation("interrupt-1"), close={"interrupt-2": "rejected"})
    assert await shared.threads.save(KEY, change=Change(old, "write-9", Record(), batch=wanted)) == Lost()
    assert await shared.effects.read(KEY, interrupts=["interrupt-1", "interrupt-2"]) == {}


async def test_a_lost_change_frees_nothing(shared: Stores) -> None:
    old = await version_of(shared)
    await saved(shared, record("interrupt-1"))
    await reserve(shared, "attempt-1")
    assert await shared.threads.save(KEY, change=Change(old, "write-9", Record(), free="attempt-1")) == Lost()
    assert await reserve(shared, "attempt-2") == Held(same=True)


async def test_a_saved_change_answers_what_the_ledger_answered(shared: Stores) -> None:
    await settled(shared, "attempt-0", "interrupt-1")
    approve = [reservation("interrupt-1"), reservation("interrupt-2"), idempotent("interrupt-3", begin=True)]
    wanted = await batch(shared, "attempt-1", *approve, close={"interrupt-4": "rejected"})
    change = Change(await version_of(shared), "write-2", record("interrupt-1"), batch=wanted)
    answers = {
        "interrupt-1": Settled(RESULT),
        "interrupt-2": Reserved(),
        "interrupt-3": Reserved(begun=True),
        "interrupt-4": Closed("rejected"),
    }
    first = await shared.threads.save(KEY, change=change)
    assert isinstance(first, Saved)
    assert first.answers == answers
    before = await rows_of(shared, *answers)
    assert await shared.threads.save(KEY, change=change) == first
    assert await rows_of(shared, *answers) == before


async def test_a_change_repeated_when_its_row_is_begun_leaves_it_begun(shared: Stores) -> None:
    wanted = await batch(shared, "attempt-1", reservation("interrupt-1"))
    change = Change(await version_of(shared), "write-2", record("interrupt-1"), batch=wanted)
    first = await shared.threads.save(KEY, change=change)
    assert isinstance(first, Saved)
    await begin(shared, "attempt-1", "interrupt-1")
    again = await shared.threads.save(KEY, change=change)
    assert isinstance(again, Saved)
    assert again.version == first.version
    kept = await read(shared, "interrupt-1")
    assert kept is not None
    assert (kept.state, kept.attempt) == (EffectState.BEGUN, "attempt-1")


async def test_a_change_can_free_the_rows_of_an_attempt(shared: Stores) -> None:
    await reserve(shared, "attempt-1", reservation("interrupt-1"))
    await reserve(shared, "attempt-2", reservation("interrupt-2"))
    await saved(shared, record("interrupt-1", "interrupt-2"), free="attempt-1")
    assert await reserve(shared, "attempt-3", reservation("interrupt-1")) == Reserved()
    assert await reserve(shared, "attempt-3", reservation("interrupt-2")) == Held(same=True)


async def test_a_change_frees_before_it_reserves(shared: Stores) -> None:
    await reserve(shared, "attempt-1", reservation("interrupt-1"))
    await saved(shared, Record(), batch=await batch(shared, "attempt-2", reservation("interrupt-1")), free="attempt-1")
    assert await begin(shared, "attempt-1", "interrupt-1") == Fenced()
    assert await begin(shared, "attempt-2", "interrupt-1") == Began()


async def test_a_refused_batch_frees_nothing(shared: Stores) -> None:
    await reserve(shared, "attempt-1", reservation("interrupt-1"))
    await reserve(shared, "attempt-2", reservation("interrupt-2"))
    wanted = await batch(shared, "attempt-3", reservation("interrupt-1"), reservation("interrupt-2"))
    change = Change(await version_of(shared), "write-2", Record(), batch=wanted, free="attempt-1")
    assert isinstance(await shared.threads.save(KEY, change=change), NotReserved)
    assert await begin(shared, "attempt-1", "interrupt-1") == Began()


async def test_a_claim_after_the_first_one_died_takes_its_rows_over(shared: Stores) -> None:
    wanted = await batch(shared, "attempt-1", reservation("interrupt-1"), idempotent("interrupt-2", begin=True))
    await saved(shared, record("interrupt-1", "interrupt-2"), batch=wanted)
    over = await batch(
        shared, "attempt-2", reservation("interrupt-1"), idempotent("interrupt-2"), dead=["holder-of-attempt-1"]
    )
    await saved(shared, record("interrupt-1", "interrupt-2"), batch=over)
    assert await begin(shared, "attempt-1", "interrupt-1") == Fenced()
    assert await begin(shared, "attempt-2", "interrupt-1") == Began()
    taken = await read(shared, "interrupt-2")
    assert taken is not None
    assert (taken.state, taken.attempt) == (EffectState.BEGUN, "attempt-2")


@pytest.mark.parametrize("neighbour", NEIGHBOURS)
async def test_a_batch_reserves_in_its_own_thread_only(shared: Stores, neighbour: ThreadKey) -> None:
    await reserve(shared, "attempt-0", key=neighbour)
    wanted = await batch(shared, "attempt-1", reservation("interrupt-1"))
    await saved(shared, record("interrupt-1"), batch=wanted, free="attempt-0")
    kept = await read(shared, key=neighbour)
    assert kept is not None
    assert (kept.attempt, kept.holder) == ("attempt-0", "holder-of-attempt-0")


async def take(stores: Stores, attempt: str, *, dead: str = "", **changes: Any) -> ReserveAnswer:
    """Claim with a batch of one reservation; its answer."""
    wanted = await batch(stores, attempt, reservation(**changes), dead=[f"holder-of-{dead}"])
    change = Change(await version_of(stores), fresh("write"), record("interrupt-1"), batch=wanted)
    answer = await stores.threads.save(KEY, change=change)
    assert isinstance(answer, Saved | NotReserved)
    return answer.answers["interrupt-1"]


async def test_a_begun_row_is_judged_by_the_kind_and_the_lifetime_it_was_inserted_with(shared: Stores) -> None:
    await begun(shared, "attempt-1", reservation())
    repeatable = {"kind": EffectKind.IDEMPOTENT, "key_lifetime_seconds": DAY}
    assert isinstance(await take(shared, "attempt-2", dead="attempt-1", **repeatable), Begun)


async def test_an_attempt_whose_row_was_taken_over_in_a_change_still_brings_its_result(shared: Stores) -> None:
    repeatable = {"kind": EffectKind.IDEMPOTENT, "key_lifetime_seconds": DAY}
    await begun(shared, "attempt-1", reservation(**repeatable))
    assert await take(shared, "attempt-2", dead="attempt-1", **repeatable) == Reserved(begun=True)
    assert await settle(shared, "attempt-1") == Settled(RESULT)
    assert await settle(shared, "attempt-2", OTHER_RESULT) == AlreadySettled(RESULT)


async def test_a_row_that_is_held_is_not_closed_by_a_change(shared: Stores) -> None:
    await reserve(shared, "attempt-1")
    wanted = await batch(shared, "attempt-2", close={"interrupt-1": "rejected"})
    change = Change(await version_of(shared), fresh("write"), Record(), batch=wanted)
    assert await shared.threads.save(KEY, change=change) == NotReserved({"interrupt-1": Held(same=False)})
    assert await begin(shared, "attempt-1") == Began()
