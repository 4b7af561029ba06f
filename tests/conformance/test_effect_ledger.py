"""EffectLedger: reserve, on every adapter. The other operations are in the files beside."""

from __future__ import annotations

import pytest

from stores.ports import (
    Began,
    Begun,
    CannotClose,
    Closed,
    DigestMismatch,
    Fenced,
    Held,
    Reserved,
    Settled,
    Stores,
)
from stores.records import Effect, EffectKind, EffectState
from tests.conformance.adapters import Adapter
from tests.conformance.examples import (
    DAY,
    DIGEST,
    KEY,
    RESULT,
    batch,
    begin,
    begun,
    idempotent,
    read,
    reservation,
    reserve,
    reserve_all,
    rows_of,
    settle,
    settled,
    tick,
)


async def close(stores: Stores, *interrupts: str, why: str = "rejected") -> Closed | CannotClose:
    return await stores.effects.close(KEY, interrupts=dict.fromkeys(interrupts, why))


async def state_of(stores: Stores, interrupt_id: str = "interrupt-1") -> EffectState | None:
    row = await read(stores, interrupt_id)
    return None if row is None else row.state


async def test_a_missing_row_is_inserted_with_all_that_it_carries(adapter: Adapter, stores: Stores) -> None:
    wanted = await batch(stores, "attempt-1", idempotent(digest="sha256:x"))
    assert await stores.effects.reserve(KEY, batch=wanted) == {"interrupt-1": Reserved()}
    row = await read(await adapter.open_another())
    kind, holder = EffectKind.IDEMPOTENT, "holder-of-attempt-1"
    until = row.until if row is not None else 0.0
    assert row == Effect("interrupt-1", EffectState.RESERVED, kind, "sha256:x", "attempt-1", holder, until)
    assert until == pytest.approx(wanted.until, abs=0.001)


async def test_a_missing_row_can_be_inserted_as_begun(stores: Stores) -> None:
    assert await reserve(stores, "attempt-1", idempotent(begin=True)) == Reserved(begun=True)
    row = await read(stores)
    assert row is not None
    assert row.state is EffectState.BEGUN
    assert row.begun_age_seconds is not None
    assert 0.0 <= row.begun_age_seconds < 60.0
    assert await settle(stores, "attempt-1") == Settled(RESULT)


@pytest.mark.parametrize("digest", [DIGEST, "another"])
async def test_a_row_of_a_live_holder_is_held(stores: Stores, digest: str) -> None:
    await reserve(stores, "attempt-1")
    before = await read(stores)
    assert await reserve(stores, "attempt-2", reservation(digest=digest)) == Held(same=digest == DIGEST)
    assert await read(stores) == before
    assert await begin(stores, "attempt-1") == Began()


async def test_a_begun_row_of_a_live_holder_is_held_also_if_it_is_idempotent(stores: Stores) -> None:
    await begun(stores, "attempt-1", idempotent("interrupt-1"))
    await begun(stores, "attempt-1", reservation("interrupt-2"))
    assert await reserve(stores, "attempt-2", idempotent("interrupt-1")) == Held(same=True)
    assert await reserve(stores, "attempt-2", reservation("interrupt-2", digest="another")) == Held(same=False)
    assert await begin(stores, "attempt-2", "interrupt-1") == Fenced()


@pytest.mark.parametrize("freed", ["dead", "until", "free"])
async def test_a_free_reserved_row_is_taken_over_and_binds_nobody_to_its_digest(stores: Stores, freed: str) -> None:
    await reserve(stores, "attempt-1", lasts=-1.0 if freed == "until" else DAY)
    if freed == "free":
        await stores.effects.free(KEY, attempt="attempt-1")
    dead = ["nobody", "holder-of-attempt-1"] if freed == "dead" else []
    wanted = await batch(stores, "attempt-2", reservation(digest="edited"), dead=dead)
    assert await stores.effects.reserve(KEY, batch=wanted) == {"interrupt-1": Reserved()}
    row = await read(stores)
    assert row is not None
    assert (row.state, row.digest) == (EffectState.RESERVED, "edited")
    assert (row.attempt, row.holder) == ("attempt-2", "holder-of-attempt-2")
    assert row.until == pytest.approx(wanted.until, abs=0.001)
    assert await begin(stores, "attempt-1") == Fenced()
    assert await begin(stores, "attempt-2") == Began()


async def test_a_free_reserved_row_can_be_taken_over_as_begun(stores: Stores) -> None:
    await reserve(stores, "attempt-1", idempotent(), lasts=-DAY)
    assert await reserve(stores, "attempt-2", idempotent(begin=True)) == Reserved(begun=True)
    assert await begin(stores, "attempt-1") == Fenced()
    assert await settle(stores, "attempt-1") == Fenced()
    assert await settle(stores, "attempt-2") == Settled(RESULT)


async def test_holders_found_dead_free_no_others(stores: Stores) -> None:
    await reserve(stores, "attempt-1")
    dead = ["holder-of-attempt-2", "holder-of-attempt", "holder-of-attempt-10", "attempt-1", ""]
    assert await reserve(stores, "attempt-3", dead=dead) == Held(same=True)


@pytest.mark.parametrize("begin_too", [False, True])
async def test_a_reserve_repeated_after_a_lost_reply_is_answered_the_same(stores: Stores, begin_too: bool) -> None:
    wanted = await batch(stores, "attempt-1", idempotent(begin=begin_too), close={"interrupt-2": "rejected"})
    first = await stores.effects.reserve(KEY, batch=wanted)
    assert first == {"interrupt-1": Reserved(begun=begin_too), "interrupt-2": Closed("rejected")}
    assert await stores.effects.reserve(KEY, batch=wanted) == first


@pytest.mark.parametrize("kind", [EffectKind.UNSAFE, EffectKind.NONE])
@pytest.mark.parametrize("kind_now", [EffectKind.UNSAFE, EffectKind.IDEMPOTENT])
async def test_a_begun_free_row_that_was_not_idempotent_is_left_untouched(
    stores: Stores, kind: EffectKind, kind_now: EffectKind
) -> None:
    await begun(stores, "attempt-1", reservation(kind=kind, key_lifetime_seconds=DAY), lasts=-DAY)
    answer = await reserve(stores, "attempt-2", reservation(kind=kind_now, key_lifetime_seconds=DAY, begin=True))
    assert isinstance(answer, Begun)
    assert 0.0 <= answer.age_seconds < 60.0
    row = await read(stores)
    assert row is not None
    assert (row.state, row.attempt, row.holder) == (EffectState.BEGUN, "attempt-1", "holder-of-attempt-1")


async def test_a_begun_free_row_of_an_idempotent_tool_is_taken_over_begun(stores: Stores) -> None:
    await begun(stores, "attempt-1", idempotent(), lasts=-DAY)
    before = await read(stores)
    assert await reserve(stores, "attempt-2", idempotent()) == Reserved(begun=True)
    row = await read(stores)
    assert row is not None
    assert (row.state, row.attempt, row.holder) == (EffectState.BEGUN, "attempt-2", "holder-of-attempt-2")
    assert row.until > (before.until if before else row.until)
    assert await begin(stores, "attempt-1") == Fenced()
    assert await begin(stores, "attempt-2") == Began()


async def test_taking_over_never_moves_the_time_of_the_first_begin(stores: Stores) -> None:
    await begun(stores, "attempt-1", idempotent("interrupt-1"), lasts=-DAY)
    await tick(stores)
    await begun(stores, "attempt-1", idempotent("younger"), lasts=-DAY)
    for attempt in ("attempt-2", "attempt-3"):
        assert await reserve(stores, attempt, idempotent("interrupt-1"), lasts=-DAY) == Reserved(begun=True)
        assert await begin(stores, attempt) == Began()
    rows = await stores.effects.read(KEY, interrupts=["interrupt-1", "younger"])
    older, younger = rows["interrupt-1"].begun_age_seconds, rows["younger"].begun_age_seconds
    assert older is not None
    assert younger is not None
    assert older > younger


async def test_an_idempotent_row_past_its_key_lifetime_is_not_repeated(stores: Stores) -> None:
    await begun(stores, "attempt-1", idempotent(key_lifetime_seconds=-1.0), lasts=-DAY)
    assert isinstance(await reserve(stores, "attempt-2", idempotent(key_lifetime_seconds=DAY)), Begun)
    row = await read(stores)
    assert row is not None
    assert row.attempt == "attempt-1"


@pytest.mark.parametrize("kind", [EffectKind.UNSAFE, EffectKind.IDEMPOTENT])
async def test_a_begun_free_row_of_other_arguments_is_a_mismatch(stores: Stores, kind: EffectKind) -> None:
    await begun(stores, "attempt-1", reservation(kind=kind, key_lifetime_seconds=DAY), lasts=-DAY)
    before = await read(stores)
    edited = reservation(kind=kind, key_lifetime_seconds=DAY, digest="edited")
    assert await reserve(stores, "attempt-2", edited) == DigestMismatch()
    after = await read(stores)
    assert before is not None
    assert after is not None
    assert (after.attempt, after.digest, after.until) == (before.attempt, DIGEST, before.until)


async def test_a_settled_row_answers_its_result_and_takes_nothing_new(stores: Stores) -> None:
    await settled(stores, "attempt-1")
    answers = await reserve_all(stores, "attempt-2", reservation("interrupt-1", digest="edited"), reservation("new"))
    assert answers == {"interrupt-1": Settled(RESULT), "new": Reserved()}
    row = await read(stores)
    assert row is not None
    assert (row.state, row.digest, row.attempt) == (EffectState.SETTLED, DIGEST, "attempt-1")


async def test_a_closed_row_answers_why(stores: Stores) -> None:
    await close(stores, "interrupt-1", why="expired")
    assert await reserve(stores, "attempt-1") == Closed("expired")
    assert await begin(stores, "attempt-1") == Fenced()
    assert await settle(stores, "attempt-1") == Fenced()
    assert await state_of(stores) is EffectState.CLOSED


@pytest.mark.parametrize(
    "obstacle", ["held", "begun", "closed", "mismatch", "close held", "close begun", "close settled"]
)
async def test_a_batch_is_reserved_and_closed_whole_or_not_at_all(stores: Stores, obstacle: str) -> None:
    await settled(stores, "attempt-0", "settled")
    await begun(stores, "attempt-0", reservation("begun"), lasts=-DAY)
    await reserve(stores, "attempt-0", reservation("held"))
    await reserve(stores, "attempt-0", reservation("free"), lasts=-DAY)
    await close(stores, "closed")
    before = await rows_of(stores, "settled", "held", "free", "closed", "begun")
    approve = [reservation("missing-1"), reservation("settled"), reservation("free", digest="edited")]
    to_close = {"missing-2": "rejected", "closed": "rejected"}
    if obstacle.startswith("close "):
        to_close[obstacle.removeprefix("close ")] = "rejected"
    elif obstacle == "mismatch":
        approve.append(reservation("begun", digest="edited"))
    else:
        to_close.pop(obstacle, None)
        approve.append(reservation(obstacle))
    await reserve_all(stores, "attempt-1", *approve, close=to_close)
    assert await rows_of(stores, *before) == before
    assert await stores.effects.read(KEY, interrupts=["missing-1", "missing-2"]) == {}


async def test_the_answers_of_a_mixed_batch_name_every_row(stores: Stores) -> None:
    await settled(stores, "attempt-0", "settled")
    await reserve(stores, "attempt-0", reservation("free"), lasts=-DAY)
    await reserve(stores, "attempt-0", reservation("free too"), lasts=-DAY)
    await close(stores, "closed", why="expired")
    approve = (reservation("settled"), reservation("free"), reservation("new"))
    to_close = {"free too": "rejected", "closed": "rejected", "new too": "cancelled"}
    assert await reserve_all(stores, "attempt-1", *approve, close=to_close) == {
        "settled": Settled(RESULT),
        "free": Reserved(),
        "new": Reserved(),
        "free too": Closed("rejected"),
        "closed": Closed("expired"),
        "new too": Closed("cancelled"),
    }
    assert await begin(stores, "attempt-0", "free too") == Fenced()


async def test_what_a_batch_would_close_is_answered_with_what_it_is(stores: Stores) -> None:
    await settled(stores, "attempt-0", "settled")
    await begun(stores, "attempt-0", reservation("begun"), lasts=-DAY)
    await reserve(stores, "attempt-0", reservation("held"))
    answers = await reserve_all(stores, "attempt-1", close=dict.fromkeys(["settled", "begun", "held"], "rejected"))
    assert answers["settled"] == Settled(RESULT)
    assert isinstance(answers["begun"], Begun)
    assert isinstance(answers["held"], Held)


async def test_a_row_held_by_the_dead_can_be_closed_by_a_batch(stores: Stores) -> None:
    await reserve(stores, "attempt-0")
    answers = await reserve_all(stores, "attempt-1", close={"interrupt-1": "cancelled"}, dead=["holder-of-attempt-0"])
    assert answers == {"interrupt-1": Closed("cancelled")}
    assert await begin(stores, "attempt-0") == Fenced()


async def test_a_batch_of_fifty_rows_is_one_step(stores: Stores) -> None:
    names = [f"interrupt-{n}" for n in range(50)]
    answers = await reserve_all(stores, "attempt-1", *map(reservation, names))
    assert answers == dict.fromkeys(names, Reserved())
    assert set(await stores.effects.read(KEY, interrupts=names)) == set(names)
