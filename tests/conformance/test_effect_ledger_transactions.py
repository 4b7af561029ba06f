"""EffectLedger: transact, on every adapter that can run a tool's statements in the ledger's own transaction."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from stores.errors import NotSupported, StoreError
from stores.ports import Began, Fenced, Reserved, Settled, Stores
from stores.records import EffectKind, EffectState, ToolResult
from tests.conformance.adapters import Adapter
from tests.conformance.examples import (
    DAY,
    KEY,
    RESULT,
    begin,
    begun,
    read,
    reservation,
    reserve,
    settled,
)

Call = Callable[[Any], Awaitable[ToolResult]]


@pytest.fixture
async def transactional(stores: Stores) -> Stores:
    """The stores, where the ledger offers transactions; one transactional call of attempt-1 is reserved."""
    if not stores.transactional:
        pytest.skip("these stores offer tools no transaction")
    await reserve(stores, "attempt-1", reservation(kind=EffectKind.TRANSACTIONAL))
    return stores


def writes(adapter: Adapter, name: str, error: Exception | None = None) -> Call:
    """Return a tool that writes one row, and then returns or raises."""

    async def call(connection: Any) -> ToolResult:
        await adapter.back_door.write(connection, name)
        if error is not None:
            raise error
        return RESULT

    return call


async def transact(
    stores: Stores, call: Call, attempt: str = "attempt-1", seconds: float = 20.0
) -> ToolResult | Fenced:
    return await stores.effects.transact(KEY, interrupt_id="interrupt-1", attempt=attempt, call=call, seconds=seconds)


async def state_of(stores: Stores) -> EffectState | None:
    row = await read(stores)
    return None if row is None else row.state


async def test_stores_without_transactions_say_so(adapter: Adapter, stores: Stores) -> None:
    if stores.transactional:
        pytest.skip("these stores offer tools a transaction")
    await reserve(stores, "attempt-1")
    with pytest.raises(NotSupported):
        await transact(stores, writes(adapter, "never"))
    assert await state_of(stores) is EffectState.RESERVED


async def test_the_tools_writes_and_the_result_are_committed_together(adapter: Adapter, transactional: Stores) -> None:
    assert await transact(transactional, writes(adapter, "paid")) == RESULT
    assert await adapter.back_door.written() == ["paid"]
    row = await read(await adapter.open_another())
    assert row is not None
    assert (row.state, row.result, row.attempt) == (EffectState.SETTLED, RESULT, "attempt-1")
    assert await reserve(transactional, "attempt-2") == Settled(RESULT)


async def test_an_exception_rolls_back_and_is_raised_as_it_is(adapter: Adapter, transactional: Stores) -> None:
    error = LookupError("no such invoice")
    with pytest.raises(LookupError) as raised:
        await transact(transactional, writes(adapter, "never", error))
    assert raised.value is error
    assert await adapter.back_door.written() == []
    assert await state_of(transactional) is EffectState.RESERVED
    assert await transact(transactional, writes(adapter, "paid")) == RESULT
    assert await adapter.back_door.written() == ["paid"]


async def test_a_result_whose_writes_can_not_be_committed_is_not_settled(
    adapter: Adapter, transactional: Stores
) -> None:
    async def call(connection: Any) -> ToolResult:
        await adapter.back_door.write(connection, "never", needs="what is not there")
        return RESULT

    with pytest.raises(StoreError):
        await transact(transactional, call)
    assert await state_of(transactional) is EffectState.RESERVED
    assert await transact(transactional, writes(adapter, "paid")) == RESULT
    assert await adapter.back_door.written() == ["paid"]


async def test_a_cancelled_call_rolls_back(adapter: Adapter, transactional: Stores) -> None:
    is_inside = asyncio.Event()

    async def call(connection: Any) -> ToolResult:
        await adapter.back_door.write(connection, "never")
        is_inside.set()
        await asyncio.Event().wait()
        return RESULT

    task = asyncio.create_task(transact(transactional, call))
    await is_inside.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await adapter.back_door.written() == []
    assert await state_of(transactional) is EffectState.RESERVED
    assert await transact(transactional, writes(adapter, "paid")) == RESULT


async def test_an_attempt_that_lost_its_row_is_fenced_and_rolled_back(adapter: Adapter, transactional: Stores) -> None:
    assert await reserve(transactional, "attempt-2", dead=["holder-of-attempt-1"]) == Reserved()
    assert await transact(transactional, writes(adapter, "never")) == Fenced()
    assert await adapter.back_door.written() == []
    assert await transact(transactional, writes(adapter, "paid"), "attempt-2") == RESULT
    assert await adapter.back_door.written() == ["paid"]


async def test_an_attempt_that_freed_its_row_is_fenced_and_rolled_back(adapter: Adapter, transactional: Stores) -> None:
    await transactional.effects.free(KEY, attempt="attempt-1")
    assert await transact(transactional, writes(adapter, "never")) == Fenced()
    assert await adapter.back_door.written() == []


async def test_a_call_in_flight_and_a_take_over_never_both_win(adapter: Adapter, transactional: Stores) -> None:
    # A is inside its call when B takes the row over. Where the database lets B through, A is fenced at its last
    # statement; where A's transaction keeps B out, B finds A's result.
    other = await adapter.open_another()
    taken: list[Any] = []

    async def call(connection: Any) -> ToolResult:
        await adapter.back_door.write(connection, "by A")
        take_over = asyncio.create_task(reserve(other, "attempt-B", dead=["holder-of-attempt-1"]))
        taken.append(take_over)
        await asyncio.wait([take_over], timeout=0.3)
        return RESULT

    answer = await transact(transactional, call)
    reserved = await taken[0]
    if answer == Fenced():
        assert reserved == Reserved()
        assert await adapter.back_door.written() == []
        assert await transact(other, writes(adapter, "by B"), "attempt-B") == RESULT
        assert await adapter.back_door.written() == ["by B"]
    else:
        assert (answer, reserved) == (RESULT, Settled(RESULT))
        assert await adapter.back_door.written() == ["by A"]


async def test_a_call_that_hangs_keeps_its_row_no_longer_than_it_may(adapter: Adapter, transactional: Stores) -> None:
    other = await adapter.open_another()
    is_inside, may_go_on = asyncio.Event(), asyncio.Event()

    async def call(connection: Any) -> ToolResult:
        await adapter.back_door.write(connection, "never")
        is_inside.set()
        await may_go_on.wait()
        return RESULT

    hanging = asyncio.create_task(transact(transactional, call, seconds=0.5))
    await is_inside.wait()
    assert await reserve(other, "attempt-2", dead=["holder-of-attempt-1"]) == Reserved()
    may_go_on.set()
    (answer,) = await asyncio.gather(hanging, return_exceptions=True)
    assert answer == Fenced() or isinstance(answer, StoreError | TimeoutError)
    assert await adapter.back_door.written() == []
    assert await transact(other, writes(adapter, "paid"), "attempt-2") == RESULT
    assert await adapter.back_door.written() == ["paid"]


@pytest.mark.parametrize("state", ["missing", "begun", "settled", "closed"])
async def test_only_a_reserved_row_can_be_transacted(adapter: Adapter, transactional: Stores, state: str) -> None:
    name = f"interrupt-{state}"
    if state == "begun":
        await begun(transactional, "attempt-1", reservation(name))
    elif state == "settled":
        await settled(transactional, "attempt-1", name)
    elif state == "closed":
        await reserve(transactional, "attempt-1", reservation(name), lasts=-DAY)
        await transactional.effects.close(KEY, interrupts={name: "rejected"})
    call = writes(adapter, "never")
    answer = await transactional.effects.transact(KEY, interrupt_id=name, attempt="attempt-1", call=call, seconds=20.0)
    assert answer == Fenced()
    assert await adapter.back_door.written() == []


async def test_sixteen_transactions_of_one_row_commit_once(adapter: Adapter, transactional: Stores) -> None:
    others = [await adapter.open_another() for _ in range(16)]
    answers = await asyncio.gather(*(transact(each, writes(adapter, f"by {n}")) for n, each in enumerate(others)))
    assert answers.count(RESULT) == 1
    assert answers.count(Fenced()) == 15
    assert await adapter.back_door.written() == [f"by {answers.index(RESULT)}"]


async def test_a_transaction_and_a_begin_never_both_win(adapter: Adapter, transactional: Stores) -> None:
    other = await adapter.open_another()
    answer, began = await asyncio.gather(transact(transactional, writes(adapter, "paid")), begin(other, "attempt-1"))
    assert (answer == RESULT) == (began != Began())
    assert await adapter.back_door.written() == (["paid"] if answer == RESULT else [])


async def test_a_pool_is_whole_after_more_failures_than_it_has_connections(
    adapter: Adapter, transactional: Stores
) -> None:
    for _ in range(10):
        with pytest.raises(RuntimeError, match="broken tool"):
            await transact(transactional, writes(adapter, "never", RuntimeError("broken tool")))
    assert await transact(transactional, writes(adapter, "paid")) == RESULT
