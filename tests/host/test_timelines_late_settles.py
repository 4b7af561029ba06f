"""A holder that thaws after a take-over and brings its result late: it is taken, or the one that was first stands."""

from __future__ import annotations

import asyncio

import pytest

from stores.ports import AlreadySettled, Settled
from stores.records import EffectState
from tests.host.bank import Bank
from tests.host.frozen import (
    DOUBT,
    IN_PROGRESS,
    RESULTS,
    assert_replayed,
    freeze,
    has_doubt,
    start_observer,
    take_over,
)
from tests.host.hosts import Hosts, key_of


async def test_the_late_settle_of_an_unsafe_call_is_taken_and_replayed(hosts: Hosts, bank: Bank) -> None:
    """The effect happened, and nobody else can know.

    A: claims, begins, wires, settle is under way ............................ settled; its finish: lost
    B:                                            (A's lease ends) doubt                                 replays it
    """
    frozen = await freeze(hosts, "unsafe", "effects", "settle", is_sent=False)
    observer = await start_observer(hosts, reconcile_seconds=0.02)
    await hosts.until(lambda: has_doubt(hosts))
    assert (await hosts.b.send(frozen.body)).code == DOUBT

    late = await frozen.thaw()

    assert (late.code, [type(each) for each in frozen.held.answers]) == (IN_PROGRESS, [Settled])
    answered = await hosts.answered(observer, frozen.body, unless=IN_PROGRESS)
    assert (answered.code, answered.results) == (None, [RESULTS["unsafe"]])
    await assert_replayed(hosts, bank, frozen, "unsafe")
    assert await bank.calls() == 1


async def test_the_late_settle_of_an_idempotent_call_is_the_result_if_it_comes_first(hosts: Hosts, bank: Bank) -> None:
    """B has called too, and has not settled yet.

    A: claims, begins, pays, settle is under way ............................... settled; its finish: lost
    B:                                           (A's lease ends) claims, pays ........................... uses A's
    """
    frozen = await freeze(hosts, "idempotent", "effects", "settle", is_sent=False)
    observer = await start_observer(hosts)
    stop = observer.steps.stop_at("before-settle")
    answering = asyncio.create_task(hosts.answered(observer, frozen.body, unless=IN_PROGRESS))
    await stop.wait()

    late = await frozen.thaw()
    (row,) = (await hosts.a.stores.effects.read(key_of("t"), interrupts=[frozen.interrupt])).values()
    stop.go.set()

    assert (late.code, [type(each) for each in frozen.held.answers]) == (IN_PROGRESS, [Settled])
    assert (row.state, row.result) == (EffectState.SETTLED, frozen.held.answers[0].result)
    assert (await answering).results == [RESULTS["idempotent"]]
    await assert_replayed(hosts, bank, frozen, "idempotent")
    assert await bank.calls() == 2


async def test_the_late_settle_of_an_idempotent_call_gets_the_result_that_was_first(hosts: Hosts, bank: Bank) -> None:
    """B has called too, and its result is recorded.

    A: claims, begins, pays, settle is under way ............................................. already settled
    B:                                           (A's lease ends) claims, pays, settles, finishes
    """
    frozen = await freeze(hosts, "idempotent", "effects", "settle", is_sent=False)
    await take_over(hosts)

    late = await frozen.thaw()

    assert (late.code, [type(each) for each in frozen.held.answers]) == (IN_PROGRESS, [AlreadySettled])
    await assert_replayed(hosts, bank, frozen, "idempotent")
    assert await bank.calls() == 2


@pytest.mark.parametrize("kind", ["idempotent", "unsafe"])
async def test_a_settle_whose_reply_was_not_seen_is_the_result(hosts: Hosts, bank: Bank, kind: str) -> None:
    """The result is recorded before the take-over.

    A: claims, begins, calls, settles ............................................. its finish: lost
    B:                                (A's lease ends) claims, reuses the result, finishes
    """
    frozen = await freeze(hosts, kind, "effects", "settle", is_sent=True)
    await take_over(hosts)

    assert (await frozen.thaw()).code == IN_PROGRESS

    await assert_replayed(hosts, bank, frozen, kind)
    assert await bank.calls() == 1
