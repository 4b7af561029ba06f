"""EffectLedger: every "exactly one" of it, raced over separate connections."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from stores.ports import (
    AlreadySettled,
    Began,
    Begun,
    CannotClose,
    Closed,
    Fenced,
    Held,
    Reserved,
    SecondEffect,
    Settled,
    Stores,
)
from stores.records import EffectState, ToolResult
from tests.conformance.examples import (
    CLAIMANTS,
    DAY,
    KEY,
    RESULT,
    ROUNDS,
    begin,
    begun,
    kinds,
    read,
    reservation,
    reserve,
    reserve_all,
    resolve,
    settle,
)


async def test_of_sixteen_attempts_one_reserves(openings: Sequence[Stores]) -> None:
    answers = await asyncio.gather(*(reserve(each, f"attempt-{n}") for n, each in enumerate(openings)))
    assert Counter(answers) == {Reserved(): 1, Held(same=True): CLAIMANTS - 1}
    row = await read(openings[0])
    assert row is not None
    assert row.attempt == f"attempt-{answers.index(Reserved())}"


async def test_of_sixteen_attempts_one_takes_a_dead_holders_row_over(openings: Sequence[Stores]) -> None:
    await reserve(openings[0], "attempt-dead")
    dead = ["holder-of-attempt-dead"]
    answers = await asyncio.gather(*(reserve(each, f"attempt-{n}", dead=dead) for n, each in enumerate(openings)))
    assert Counter(answers) == {Reserved(): 1, Held(same=True): CLAIMANTS - 1}
    assert await begin(openings[0], "attempt-dead") == Fenced()
    assert await begin(openings[0], f"attempt-{answers.index(Reserved())}") == Began()


async def test_overlapping_batches_in_any_order_are_whole_and_do_not_deadlock(openings: Sequence[Stores]) -> None:
    names = ["a", "b", "c", "d"]
    for n in range(ROUNDS):
        key = replace(KEY, thread_id=f"thread-{n}")
        orders = [names[k % 4 :] + names[: k % 4] for k in range(CLAIMANTS // 2)] + [names[::-1]] * (CLAIMANTS // 2)
        answers = await asyncio.gather(
            *(
                reserve_all(each, f"attempt-{k}", *map(reservation, order), key=key)
                for k, (each, order) in enumerate(zip(openings, orders, strict=True))
            )
        )
        winners = [k for k, answer in enumerate(answers) if set(answer.values()) == {Reserved()}]
        assert len(winners) == 1
        rows = await openings[0].effects.read(key, interrupts=names)
        assert {name: row.attempt for name, row in rows.items()} == dict.fromkeys(names, f"attempt-{winners[0]}")


async def test_a_begin_and_a_take_over_never_both_win(openings: Sequence[Stores]) -> None:
    one, other = openings[:2]
    for n in range(ROUNDS):
        name = f"interrupt-{n}"
        await reserve(one, "attempt-A", reservation(name))
        began, taken = await asyncio.gather(
            begin(one, "attempt-A", name), reserve(other, "attempt-B", reservation(name), dead=["holder-of-attempt-A"])
        )
        assert (type(began), type(taken)) in {(Began, Begun), (Fenced, Reserved)}
        row = await read(one, name)
        assert row is not None
        assert row.attempt == ("attempt-A" if isinstance(began, Began) else "attempt-B")


async def test_a_begin_and_a_close_never_both_win(openings: Sequence[Stores]) -> None:
    one, other = openings[:2]
    for n in range(ROUNDS):
        name = f"interrupt-{n}"
        await reserve(one, "attempt-A", reservation(name), lasts=-DAY)
        began, closed = await asyncio.gather(
            begin(one, "attempt-A", name), other.effects.close(KEY, interrupts={name: "cancelled"})
        )
        assert (type(began), type(closed)) in {(Began, CannotClose), (Fenced, Closed)}


async def test_a_reserve_and_a_close_never_both_win(openings: Sequence[Stores]) -> None:
    one, other = openings[:2]
    for n in range(ROUNDS):
        name = f"interrupt-{n}"
        reserved, closed = await asyncio.gather(
            reserve(one, "attempt-A", reservation(name)), other.effects.close(KEY, interrupts={name: "expired"})
        )
        assert (type(reserved), type(closed)) in {(Reserved, CannotClose), (Closed, Closed)}
        row = await read(one, name)
        assert row is not None
        assert row.state is (EffectState.CLOSED if isinstance(closed, Closed) else EffectState.RESERVED)


async def test_of_sixteen_results_the_first_stands_and_the_others_are_told_it(openings: Sequence[Stores]) -> None:
    await begun(openings[0], "attempt-1")
    results = [ToolResult(({"text": f"receipt {n}"},)) for n in range(CLAIMANTS)]
    answers = await asyncio.gather(
        *(settle(each, "attempt-1", result) for each, result in zip(openings, results, strict=True))
    )
    assert kinds(answers) == {Settled: 1, AlreadySettled: CLAIMANTS - 1}
    first = next(result for answer, result in zip(answers, results, strict=True) if isinstance(answer, Settled))
    assert all(isinstance(answer, Settled | AlreadySettled) and answer.result == first for answer in answers)


async def test_a_late_settle_and_an_operator_agree_on_the_end(openings: Sequence[Stores]) -> None:
    one, other = openings[:2]
    for n in range(ROUNDS):
        name = f"interrupt-{n}"
        await begun(one, "attempt-A", reservation(name))
        late, resolved = await asyncio.gather(settle(one, "attempt-A", interrupt_id=name), resolve(other, None, name))
        # The result wins on either side of the statement that it did not happen.
        assert late == Settled(RESULT)
        assert resolved in (Reserved(), Settled(RESULT))
        assert await reserve(one, "attempt-B", reservation(name)) == Settled(RESULT)


async def test_a_late_settle_and_the_next_begin_never_both_win(openings: Sequence[Stores]) -> None:
    one, other = openings[:2]
    for n in range(ROUNDS):
        name = f"interrupt-{n}"
        await begun(one, "attempt-A", reservation(name))
        await resolve(one, None, name)
        await reserve(one, "attempt-B", reservation(name))
        late, began = await asyncio.gather(settle(one, "attempt-A", interrupt_id=name), begin(other, "attempt-B", name))
        assert (type(late), type(began)) in {(Settled, Fenced), (SecondEffect, Began)}


async def test_a_take_over_and_a_late_settle_lose_no_result(openings: Sequence[Stores]) -> None:
    one, other = openings[:2]
    for n in range(ROUNDS):
        name = f"interrupt-{n}"
        await begun(one, "attempt-A", reservation(name))
        late, found = await asyncio.gather(
            settle(one, "attempt-A", interrupt_id=name),
            reserve(other, "attempt-B", reservation(name), dead=["holder-of-attempt-A"]),
        )
        assert late == Settled(RESULT)
        assert isinstance(found, Begun | Settled)
        assert await reserve(one, "attempt-C", reservation(name)) == Settled(RESULT)


async def test_a_free_that_races_a_begin_or_a_settle_undoes_neither(openings: Sequence[Stores]) -> None:
    one, other, judge = openings[:3]
    for number in range(ROUNDS):
        name, late = f"interrupt-{number}", f"late-{number}"
        await reserve_all(one, f"attempt-{number}", reservation(name), reservation(late))
        assert await begin(one, f"attempt-{number}", late) == Began()
        _, began, settled = await asyncio.gather(
            other.effects.free(KEY, attempt=f"attempt-{number}"),
            begin(one, f"attempt-{number}", name),
            settle(judge, f"attempt-{number}", interrupt_id=late),
        )
        assert settled == Settled(RESULT)
        rows = await judge.effects.read(KEY, interrupts=[name, late])
        assert rows[late].result == RESULT
        assert (rows[name].state is EffectState.BEGUN) == (began == Began())


async def test_a_free_that_races_a_take_over_leaves_the_row_to_whoever_has_it(openings: Sequence[Stores]) -> None:
    one, other = openings[:2]
    for number in range(ROUNDS):
        name = f"interrupt-{number}"
        await reserve(one, f"attempt-{number}", reservation(name))
        dead = [f"holder-of-attempt-{number}"]
        _, taken = await asyncio.gather(
            one.effects.free(KEY, attempt=f"attempt-{number}"),
            reserve(other, f"taker-{number}", reservation(name), dead=dead),
        )
        assert taken == Reserved()
        row = await read(one, name)
        assert row is not None
        assert (row.attempt, row.holder) == (f"taker-{number}", f"holder-of-taker-{number}")
