"""All ports: what is easily read past in the contract, and must be the same on every adapter."""

from __future__ import annotations

from dataclasses import replace

import pytest

from stores.ports import Began, Begun, CannotClose, Fenced, Held, Lost, Reserved, Saved, Stores
from stores.records import EffectKind, EffectState, Record, Version
from tests.conformance.examples import (
    DAY,
    KEY,
    batch,
    begin,
    begun,
    claim,
    now_of,
    read,
    record,
    reservation,
    reserve,
    reserve_all,
    saved,
)


async def test_a_row_whose_time_has_passed_is_still_its_attempts_to_begin(stores: Stores) -> None:
    # Whether it is too late to start is the caller's to say; the row is lost only to whoever reserves it.
    await reserve(stores, "attempt-1", lasts=-DAY)
    assert await begin(stores, "attempt-1") == Began()
    await reserve(stores, "attempt-1", reservation("taken"), lasts=-DAY)
    assert await reserve(stores, "attempt-2", reservation("taken")) == Reserved()
    assert await begin(stores, "attempt-1", "taken") == Fenced()


async def test_an_idempotent_row_of_unknown_key_lifetime_is_not_repeated(stores: Stores) -> None:
    wanted = reservation(kind=EffectKind.IDEMPOTENT, key_lifetime_seconds=None)
    await begun(stores, "attempt-1", wanted, lasts=-DAY)
    # What the claimant says of the key's lifetime now does not count: the row has what it was inserted with.
    assert isinstance(await reserve(stores, "attempt-2", wanted), Begun)
    assert isinstance(await reserve(stores, "attempt-2", replace(wanted, key_lifetime_seconds=DAY)), Begun)
    row = await read(stores)
    assert row is not None
    assert row.attempt == "attempt-1"


async def test_a_repeated_delete_finds_no_thread_at_that_version(stores: Stores) -> None:
    version = await saved(stores, record("interrupt-1"))
    assert await stores.threads.delete(KEY, expected=version) == Saved(Version())
    assert await stores.threads.delete(KEY, expected=version) == Lost()
    # Where there is no thread the version is that of an empty one, and what is not there is as good as removed.
    assert await stores.threads.delete(KEY, expected=Version()) == Saved(Version())
    assert (await stores.threads.load(KEY)).record == Record()


async def test_claims_of_the_dead_are_due_in_the_order_of_the_time_that_they_had(stores: Stores) -> None:
    now = await now_of(stores)
    for name, seconds in (("dead, much time left", DAY), ("dead, time left", 60.0), ("passed", -60.0)):
        holder = "holder-alive" if name == "passed" else "holder-dead"
        held = Record(claim=claim(until=now + seconds, holder=holder))
        await saved(stores, held, key=replace(KEY, thread_id=name))
    await saved(stores, record("a"), key=replace(KEY, thread_id="waits"), due_at=now - 30.0)
    due = await stores.threads.due(alive=["holder-alive"], limit=10)
    assert [key.thread_id for key in due] == ["passed", "waits", "dead, time left", "dead, much time left"]
    first = await stores.threads.due(alive=["holder-alive"], limit=3)
    assert [key.thread_id for key in first] == ["passed", "waits", "dead, time left"]


@pytest.mark.parametrize("is_begun", [False, True])
async def test_a_close_is_told_of_a_live_holder_before_it_is_told_of_a_begin(stores: Stores, is_begun: bool) -> None:
    await reserve(stores, "attempt-1")
    if is_begun:
        await begin(stores, "attempt-1")
    held = {"interrupt-1": Held(same=False)}
    assert await stores.effects.close(KEY, interrupts={"interrupt-1": "rejected"}) == CannotClose(held)
    assert await reserve_all(stores, "attempt-2", close={"interrupt-1": "rejected"}) == held
    answers = await reserve_all(stores, "attempt-2", close={"interrupt-1": "rejected"}, dead=["holder-of-attempt-1"])
    assert (type(answers["interrupt-1"]) is Begun) == is_begun


async def test_a_batch_that_is_its_attempts_own_row_to_close_is_refused_while_it_is_held(stores: Stores) -> None:
    # An attempt that wants its own row closed has to free it first.
    await reserve(stores, "attempt-1")
    wanted = await batch(stores, "attempt-1", close={"interrupt-1": "cancelled"})
    assert await stores.effects.reserve(KEY, batch=wanted) == {"interrupt-1": Held(same=False)}
    await stores.effects.free(KEY, attempt="attempt-1")
    await stores.effects.reserve(KEY, batch=wanted)
    row = await read(stores)
    assert row is not None
    assert row.state is EffectState.CLOSED
