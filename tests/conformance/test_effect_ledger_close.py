"""EffectLedger: close and read, and what no operation sees, on every adapter."""

from __future__ import annotations

import pytest

from stores.ports import (
    Begun,
    CannotClose,
    Closed,
    Fenced,
    Held,
    Reserved,
    Settled,
    Stores,
)
from stores.records import EffectState, ThreadKey
from tests.conformance.examples import (
    DAY,
    KEY,
    NEIGHBOURS,
    RESULT,
    begin,
    begun,
    read,
    reservation,
    reserve,
    resolve,
    rows_of,
    settle,
    settled,
)


async def close(stores: Stores, *interrupts: str, why: str = "rejected") -> Closed | CannotClose:
    return await stores.effects.close(KEY, interrupts=dict.fromkeys(interrupts, why))


async def test_missing_and_free_rows_are_closed_with_their_reasons(stores: Stores) -> None:
    await reserve(stores, "attempt-1", reservation("free"), lasts=-DAY)
    answer = await stores.effects.close(KEY, interrupts={"missing": "expired", "free": "cancelled"})
    assert isinstance(answer, Closed)
    rows = await stores.effects.read(KEY, interrupts=["missing", "free"])
    assert {name: (row.state, row.why) for name, row in rows.items()} == {
        "missing": (EffectState.CLOSED, "expired"),
        "free": (EffectState.CLOSED, "cancelled"),
    }
    assert await begin(stores, "attempt-1", "free") == Fenced()


async def test_a_close_answers_its_reason(stores: Stores) -> None:
    assert await close(stores, "interrupt-1", "interrupt-2", why="expired") == Closed("expired")


async def test_a_close_repeated_after_a_lost_reply_is_closed_and_the_first_reason_stands(stores: Stores) -> None:
    await close(stores, "interrupt-1", why="expired")
    assert isinstance(await close(stores, "interrupt-1", why="cancelled"), Closed)
    row = await read(stores)
    assert row is not None
    assert row.why == "expired"


@pytest.mark.parametrize("obstacle", ["held", "begun", "settled"])
async def test_one_row_that_can_not_be_closed_keeps_all_open(stores: Stores, obstacle: str) -> None:
    await settled(stores, "attempt-0", "settled")
    await begun(stores, "attempt-0", reservation("begun"), lasts=-DAY)
    await reserve(stores, "attempt-0", reservation("held"))
    await reserve(stores, "attempt-0", reservation("free"), lasts=-DAY)
    before = await rows_of(stores, "settled", "held", "free", "begun")
    answer = await close(stores, "free", obstacle, "missing")
    assert isinstance(answer, CannotClose)
    assert set(answer.rows) == {obstacle}
    expected = {"held": Held, "begun": Begun, "settled": Settled}
    assert isinstance(answer.rows[obstacle], expected[obstacle])
    assert await rows_of(stores, *before) == before
    assert await read(stores, "missing") is None


async def test_a_row_in_the_middle_of_its_effect_can_not_be_closed(stores: Stores) -> None:
    await begun(stores, "attempt-1")
    answer = await close(stores, "interrupt-1")
    assert isinstance(answer, CannotClose)
    assert isinstance(answer.rows["interrupt-1"], Held | Begun)
    assert await settle(stores, "attempt-1") == Settled(RESULT)


@pytest.mark.parametrize("neighbour", NEIGHBOURS)
async def test_rows_of_another_thread_are_not_seen_and_not_touched(stores: Stores, neighbour: ThreadKey) -> None:
    await begun(stores, "attempt-1", reservation("interrupt-1"))
    await reserve(stores, "attempt-1", reservation("interrupt-2"))
    names = ["interrupt-1", "interrupt-2"]
    before = await rows_of(stores, *names)

    assert await stores.effects.read(neighbour, interrupts=names) == {}
    assert await begin(stores, "attempt-1", "interrupt-2", key=neighbour) == Fenced()
    assert await settle(stores, "attempt-1", key=neighbour) == Fenced()
    assert await resolve(stores, None, key=neighbour) == Fenced()
    await stores.effects.free(neighbour, attempt="attempt-1")
    assert await reserve(stores, "attempt-2", key=neighbour) == Reserved()
    assert isinstance(await stores.effects.close(neighbour, interrupts={"interrupt-2": "rejected"}), Closed)

    assert await rows_of(stores, *names) == before


async def test_reading_leaves_out_what_is_missing(stores: Stores) -> None:
    await reserve(stores, "attempt-1")
    assert set(await stores.effects.read(KEY, interrupts=["interrupt-1", "missing"])) == {"interrupt-1"}
    assert await stores.effects.read(KEY, interrupts=[]) == {}
