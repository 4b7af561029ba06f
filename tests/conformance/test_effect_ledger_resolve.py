"""EffectLedger: resolve, on every adapter; the timelines of a late truth."""

from __future__ import annotations

import pytest

from stores.ports import (
    AlreadySettled,
    Began,
    Closed,
    Fenced,
    Reserved,
    SecondEffect,
    Settled,
    Stores,
)
from stores.records import EffectState, ToolResult
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
    resolve,
    settle,
    settled,
    tick,
)


async def result_of(stores: Stores, interrupt_id: str = "interrupt-1") -> ToolResult | None:
    row = await read(stores, interrupt_id)
    return None if row is None else row.result


async def test_an_operator_can_state_the_result(stores: Stores) -> None:
    await begun(stores, "attempt-1", lasts=-DAY)
    assert await resolve(stores, RESULT, attempt="attempt-1") == Settled(RESULT)
    assert await reserve(stores, "attempt-2") == Settled(RESULT)
    assert await settle(stores, "attempt-1", OTHER_RESULT) == AlreadySettled(RESULT)


@pytest.mark.parametrize("stated", [None, OTHER_RESULT])
async def test_a_result_that_came_before_the_operator_stands(stores: Stores, stated: ToolResult | None) -> None:
    await settled(stores, "attempt-1")
    assert await resolve(stores, stated) == Settled(RESULT)
    assert await result_of(stores) == RESULT


async def test_only_a_begun_row_can_be_resolved(stores: Stores) -> None:
    assert await resolve(stores, RESULT, "missing") == Fenced()
    await reserve(stores, "attempt-1", reservation("reserved"))
    await stores.effects.close(KEY, interrupts={"closed": "rejected"})
    for name in ("reserved", "closed"):
        assert await resolve(stores, None, name, attempt="attempt-1") == Fenced()
        assert await resolve(stores, RESULT, name, attempt="attempt-1") == Fenced()
    assert await read(stores, "missing") is None
    assert await result_of(stores, "reserved") is None
    assert await reserve(stores, "attempt-2", reservation("closed")) == Closed("rejected")


async def test_what_did_not_happen_is_reserved_and_free_and_can_be_begun_again(stores: Stores) -> None:
    await begun(stores, "attempt-A")
    assert await resolve(stores, None) == Reserved()
    assert await resolve(stores, None) == Reserved()  # said again, as a client does that lost the reply
    row = await read(stores)
    assert row is not None
    assert (row.state, row.holder, row.begun_age_seconds) == (EffectState.RESERVED, None, None)
    assert await reserve(stores, "attempt-B", reservation(digest="edited")) == Reserved()
    assert await begin(stores, "attempt-B") == Began()
    assert await settle(stores, "attempt-B") == Settled(RESULT)


async def test_an_attempt_whose_begin_was_refuted_does_not_begin_by_itself(stores: Stores) -> None:
    await begun(stores, "attempt-A")
    await resolve(stores, None)
    assert await begin(stores, "attempt-A") == Fenced()
    assert await reserve(stores, "attempt-B") == Reserved()
    assert await begin(stores, "attempt-A") == Fenced()


@pytest.mark.parametrize("reserved_since", [False, True])
async def test_a_late_settle_before_the_next_begin_wins_over_the_operator(stores: Stores, reserved_since: bool) -> None:
    # A begins, the operator states that nothing happened, B may have reserved; A's result arrives before B begins.
    await begun(stores, "attempt-A")
    await resolve(stores, None)
    if reserved_since:
        await reserve(stores, "attempt-B")
    assert await settle(stores, "attempt-A") == Settled(RESULT)
    assert await begin(stores, "attempt-B") == Fenced()
    assert await reserve(stores, "attempt-C") == Settled(RESULT)


@pytest.mark.parametrize("is_settled", [False, True])
async def test_a_late_settle_after_the_next_begin_is_a_second_effect(stores: Stores, is_settled: bool) -> None:
    # A begins, the operator states that nothing happened, B begins (and settles); then A's result arrives.
    await begun(stores, "attempt-A")
    await resolve(stores, None)
    await begun(stores, "attempt-B")
    if is_settled:
        await settle(stores, "attempt-B")
    assert await settle(stores, "attempt-A", OTHER_RESULT) == SecondEffect()
    assert await settle(stores, "attempt-B") == (AlreadySettled(RESULT) if is_settled else Settled(RESULT))
    assert await result_of(stores) == RESULT
    assert await settle(stores, "attempt-A", OTHER_RESULT) == SecondEffect()


async def test_every_attempt_whose_begin_was_refuted_is_a_second_effect(stores: Stores) -> None:
    await begun(stores, "attempt-A", idempotent(), lasts=-DAY)
    await reserve(stores, "attempt-B", idempotent(), lasts=-DAY)
    await resolve(stores, None, attempt="attempt-B")
    await begun(stores, "attempt-C", idempotent(), lasts=-DAY)
    await resolve(stores, None, attempt="attempt-C")
    await begun(stores, "attempt-D", idempotent())
    for attempt in ("attempt-A", "attempt-B", "attempt-C"):
        assert await settle(stores, attempt, OTHER_RESULT) == SecondEffect()
    assert await settle(stores, "attempt-D") == Settled(RESULT)


async def test_the_age_of_a_begin_is_counted_anew_after_a_refuted_one(stores: Stores) -> None:
    await begun(stores, "attempt-A", idempotent("interrupt-1"))
    await tick(stores)
    await begun(stores, "attempt-A", idempotent("between"))
    await tick(stores)
    await resolve(stores, None)
    await begun(stores, "attempt-B", idempotent("interrupt-1"))
    rows = await stores.effects.read(KEY, interrupts=["interrupt-1", "between"])
    renewed, between = rows["interrupt-1"].begun_age_seconds, rows["between"].begun_age_seconds
    assert renewed is not None
    assert between is not None
    assert renewed < between


async def test_a_late_result_of_a_refuted_attempt_is_a_second_effect_of_a_row_that_was_closed_since(
    stores: Stores,
) -> None:
    await begun(stores, "attempt-A")
    await resolve(stores, None)
    assert isinstance(await stores.effects.close(KEY, interrupts={"interrupt-1": "cancelled"}), Closed)
    assert await settle(stores, "attempt-A") == SecondEffect()
    assert await settle(stores, "attempt-B") == Fenced()
    assert await result_of(stores, "interrupt-1") is None


async def test_what_one_operator_stated_no_other_can_state_otherwise(stores: Stores) -> None:
    await begun(stores, "attempt-A")
    await resolve(stores, None)
    assert await resolve(stores, RESULT) == Fenced()

    await begun(stores, "attempt-B")
    await resolve(stores, RESULT, attempt="attempt-B")
    assert await resolve(stores, None, attempt="attempt-B") == Settled(RESULT)
    assert await resolve(stores, OTHER_RESULT, attempt="attempt-B") == Settled(RESULT)


@pytest.mark.parametrize("is_begun", [False, True])
async def test_what_is_stated_of_one_attempt_says_nothing_of_the_next(stores: Stores, is_begun: bool) -> None:
    # A second operator still speaks of A's begin, while B has the row.
    await begun(stores, "attempt-A")
    await resolve(stores, None)
    await (begun if is_begun else reserve)(stores, "attempt-B")
    assert await resolve(stores, None) == Fenced()
    assert await resolve(stores, RESULT) == Fenced()
    row = await read(stores)
    assert row is not None
    assert (row.attempt, row.holder) == ("attempt-B", "holder-of-attempt-B")
    assert await settle(stores, "attempt-B") == (Settled(RESULT) if is_begun else Fenced())
