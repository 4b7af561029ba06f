"""EffectLedger: begin, settle and free, on every adapter."""

from __future__ import annotations

import pytest

from stores.ports import (
    AlreadySettled,
    Began,
    Begun,
    Closed,
    Fenced,
    Held,
    Reserved,
    Settled,
    Stores,
)
from stores.records import EffectState, ToolResult
from tests.conformance.adapters import Adapter
from tests.conformance.examples import (
    DAY,
    KEY,
    OTHER_RESULT,
    RESULT,
    begin,
    begun,
    idempotent,
    read,
    reservation,
    reserve,
    rows_of,
    settle,
    settled,
)


async def result_of(stores: Stores, interrupt_id: str = "interrupt-1") -> ToolResult | None:
    row = await read(stores, interrupt_id)
    return None if row is None else row.result


async def test_a_begin_is_recorded_with_its_age(stores: Stores) -> None:
    await begun(stores, "attempt-1")
    row = await read(stores)
    assert row is not None
    assert (row.state, row.attempt, row.holder) == (EffectState.BEGUN, "attempt-1", "holder-of-attempt-1")
    assert row.begun_age_seconds is not None
    assert 0.0 <= row.begun_age_seconds < 60.0


async def test_a_begin_repeated_after_a_lost_reply_has_begun(stores: Stores) -> None:
    await begun(stores, "attempt-1")
    assert await begin(stores, "attempt-1") == Began()


async def test_a_begin_without_a_reservation_is_fenced_and_inserts_nothing(stores: Stores) -> None:
    assert await begin(stores, "attempt-1") == Fenced()
    assert await read(stores) is None


@pytest.mark.parametrize("other", ["attempt-2", "", "ATTEMPT-1", "attempt-1 "])
async def test_a_begin_of_another_attempt_is_fenced(stores: Stores, other: str) -> None:
    await reserve(stores, "attempt-1")
    assert await begin(stores, other) == Fenced()
    assert await begin(stores, "attempt-1") == Began()
    assert await begin(stores, other) == Fenced()


async def test_a_settled_row_is_not_begun_again(stores: Stores) -> None:
    await settled(stores, "attempt-1")
    assert await begin(stores, "attempt-1") == Fenced()
    assert await result_of(stores) == RESULT


async def test_a_holder_thawed_after_the_take_over_is_fenced_before_its_effect(stores: Stores) -> None:
    # A reserves, freezes; its lease lapses; B takes the row over; A thaws and wants to begin.
    await reserve(stores, "attempt-A")
    assert await reserve(stores, "attempt-B", dead=["holder-of-attempt-A"]) == Reserved()
    assert await begin(stores, "attempt-A") == Fenced()
    assert await begin(stores, "attempt-B") == Began()
    assert await begin(stores, "attempt-A") == Fenced()
    assert await settle(stores, "attempt-A") == Fenced()
    assert await settle(stores, "attempt-B") == Settled(RESULT)


async def test_the_first_result_stands(adapter: Adapter, stores: Stores) -> None:
    await begun(stores, "attempt-1")
    assert await settle(stores, "attempt-1", OTHER_RESULT) == Settled(OTHER_RESULT)
    assert await settle(stores, "attempt-1", OTHER_RESULT) == AlreadySettled(OTHER_RESULT)
    assert await settle(stores, "attempt-1", RESULT) == AlreadySettled(OTHER_RESULT)
    row = await read(await adapter.open_another())
    assert row is not None
    assert (row.state, row.result) == (EffectState.SETTLED, OTHER_RESULT)


async def test_only_what_was_begun_can_be_settled(stores: Stores) -> None:
    assert await settle(stores, "attempt-1") == Fenced()
    assert await read(stores) is None
    await reserve(stores, "attempt-1")
    assert await settle(stores, "attempt-1") == Fenced()
    await begin(stores, "attempt-1")
    assert await settle(stores, "attempt-2") == Fenced()
    row = await read(stores)
    assert row is not None
    assert (row.state, row.result) == (EffectState.BEGUN, None)


async def test_a_late_settle_ends_the_doubt(stores: Stores) -> None:
    # A begins an unsafe call and is given up; B finds it begun and leaves it; A's result arrives after all.
    await begun(stores, "attempt-A")
    assert isinstance(await reserve(stores, "attempt-B", dead=["holder-of-attempt-A"]), Begun)
    assert await settle(stores, "attempt-A") == Settled(RESULT)
    assert await reserve(stores, "attempt-C") == Settled(RESULT)


async def test_of_two_attempts_that_began_an_idempotent_call_the_first_result_stands(stores: Stores) -> None:
    await begun(stores, "attempt-A", idempotent())
    assert await reserve(stores, "attempt-B", idempotent(), dead=["holder-of-attempt-A"]) == Reserved(begun=True)
    assert await reserve(stores, "attempt-C", idempotent(), dead=["holder-of-attempt-B"]) == Reserved(begun=True)
    assert await settle(stores, "attempt-A") == Settled(RESULT)
    assert await settle(stores, "attempt-B", OTHER_RESULT) == AlreadySettled(RESULT)
    assert await settle(stores, "attempt-C", OTHER_RESULT) == AlreadySettled(RESULT)
    assert await result_of(stores) == RESULT


async def test_the_taker_of_a_begun_row_settles_it_without_a_begin_of_its_own(stores: Stores) -> None:
    await begun(stores, "attempt-A", idempotent(), lasts=-DAY)
    assert await reserve(stores, "attempt-B", idempotent()) == Reserved(begun=True)
    assert await settle(stores, "attempt-B") == Settled(RESULT)


async def test_freed_rows_stay_as_they_are_and_can_be_taken_over(stores: Stores) -> None:
    await reserve(stores, "attempt-1", reservation("reserved"))
    await begun(stores, "attempt-1", idempotent("begun"))
    await begun(stores, "attempt-1", reservation("unsafe"))
    await stores.effects.free(KEY, attempt="attempt-1")
    rows = await stores.effects.read(KEY, interrupts=["reserved", "begun", "unsafe"])
    assert {name: (row.state, row.holder) for name, row in rows.items()} == {
        "reserved": (EffectState.RESERVED, None),
        "begun": (EffectState.BEGUN, None),
        "unsafe": (EffectState.BEGUN, None),
    }
    assert await reserve(stores, "attempt-2", reservation("reserved")) == Reserved()
    assert await reserve(stores, "attempt-2", idempotent("begun")) == Reserved(begun=True)
    assert isinstance(await reserve(stores, "attempt-2", reservation("unsafe")), Begun)


async def test_an_attempt_that_freed_its_row_begins_no_more_until_it_reserves_again(stores: Stores) -> None:
    await reserve(stores, "attempt-1")
    await stores.effects.free(KEY, attempt="attempt-1")
    assert await begin(stores, "attempt-1") == Fenced()
    assert await reserve(stores, "attempt-1") == Reserved()
    assert await begin(stores, "attempt-1") == Began()


async def test_a_freed_row_still_takes_the_result_of_the_attempt_that_began(stores: Stores) -> None:
    await begun(stores, "attempt-1")
    await stores.effects.free(KEY, attempt="attempt-1")
    assert await settle(stores, "attempt-1") == Settled(RESULT)


async def test_settled_and_closed_rows_and_rows_of_others_are_not_freed(stores: Stores) -> None:
    await settled(stores, "attempt-1", "settled")
    await stores.effects.close(KEY, interrupts={"closed": "rejected"})
    await reserve(stores, "attempt-2", reservation("other"))
    before = await rows_of(stores, "settled", "closed", "other")
    await stores.effects.free(KEY, attempt="attempt-1")
    assert await rows_of(stores, "settled", "closed", "other") == before
    assert await reserve(stores, "attempt-3", reservation("settled")) == Settled(RESULT)
    assert await reserve(stores, "attempt-3", reservation("closed")) == Closed("rejected")
    assert await reserve(stores, "attempt-3", reservation("other")) == Held(same=True)


async def test_freeing_what_has_no_rows_or_was_freed_does_nothing(stores: Stores) -> None:
    await stores.effects.free(KEY, attempt="attempt-1")
    await reserve(stores, "attempt-1")
    await stores.effects.free(KEY, attempt="attempt-1")
    await reserve(stores, "attempt-2")
    await stores.effects.free(KEY, attempt="attempt-1")
    assert await reserve(stores, "attempt-3") == Held(same=True)
