"""A holder that thaws after its thread was taken over starts nothing new, and what it had begun counts once."""

from __future__ import annotations

import asyncio

import pytest

from stores.ports import Began, Fenced
from tests.host.bank import Bank
from tests.host.frozen import (
    DOUBT,
    IN_PROGRESS,
    RESULTS,
    assert_replayed,
    effects,
    freeze,
    has_doubt,
    start_observer,
    take_over,
)
from tests.host.hosts import Hosts

BEGINS = {"idempotent": "begin", "unsafe": "begin", "transactional": "transact"}
"""The call with which an effect may start."""


@pytest.mark.parametrize("kind", BEGINS)
async def test_a_holder_frozen_before_its_begin_is_fenced_and_has_no_effect(
    hosts: Hosts, bank: Bank, kind: str
) -> None:
    """The begin arrives after the take-over.

    A: claims, begin is under way ........................................... begin: fenced
    B:                            (A's lease ends) claims, begins, finishes
    """
    frozen = await freeze(hosts, kind, "effects", BEGINS[kind], is_sent=False)
    await take_over(hosts)
    calls, stored = await bank.calls(), await hosts.dump_threads()

    late = await frozen.thaw()

    assert frozen.held.answers == [Fenced()]
    assert (late.code, late.metadata["definite"]) == (IN_PROGRESS, False)
    assert (await bank.calls(), await effects(hosts, bank)) == (calls, 1)
    assert without_heartbeats(await hosts.dump_threads()) == without_heartbeats(stored)
    await assert_replayed(hosts, bank, frozen, kind)


@pytest.mark.parametrize("kind", ["idempotent", "unsafe"])
async def test_a_holder_frozen_before_its_begin_is_fenced_also_while_the_one_that_took_over_is_calling(
    hosts: Hosts, bank: Bank, kind: str
) -> None:
    """The row is begun, but not by A.

    A: claims, begin is under way ........................................... begin: fenced
    B:                            (A's lease ends) claims, begins ......................... calls, finishes
    """
    frozen = await freeze(hosts, kind, "effects", "begin", is_sent=False)
    observer = await start_observer(hosts)
    stop = observer.steps.stop_at("before-effect")
    answering = asyncio.create_task(hosts.answered(observer, frozen.body, unless=IN_PROGRESS))
    await stop.wait()

    late = await frozen.thaw()

    assert (frozen.held.answers, late.code, await bank.calls()) == ([Fenced()], IN_PROGRESS, 0)
    stop.go.set()
    assert (await answering).results == [RESULTS[kind]]
    await assert_replayed(hosts, bank, frozen, kind)
    assert await bank.calls() == 1


async def test_an_unsafe_call_whose_holder_froze_in_its_begin_is_in_doubt_until_it_settles(
    hosts: Hosts, bank: Bank
) -> None:
    """The begin is recorded, and the holder does not know yet.

    A: claims, begin is recorded .................................... reads "began", wires, settles; its finish: lost
    B:                           (A's lease ends) doubt, starts nothing                              replays A's result
    """
    frozen = await freeze(hosts, "unsafe", "effects", "begin", is_sent=True)
    observer = await start_observer(hosts, reconcile_seconds=0.02)
    await hosts.until(lambda: has_doubt(hosts))
    doubted = await hosts.b.send(frozen.body)
    assert (doubted.code, doubted.metadata["definite"], await bank.calls()) == (DOUBT, False, 0)

    late = await frozen.thaw()

    assert (frozen.held.answers, late.code) == ([Began()], IN_PROGRESS)
    answered = await hosts.answered(observer, frozen.body, unless=IN_PROGRESS)
    assert (answered.code, answered.results) == (None, [RESULTS["unsafe"]])
    await assert_replayed(hosts, bank, frozen, "unsafe")
    assert await bank.calls() == 1


@pytest.mark.parametrize(("port", "call"), [("effects", "begin"), ("threads", "save")], ids=["begin", "claim"])
async def test_an_idempotent_call_whose_holder_froze_in_its_begin_runs_twice_under_one_key(
    hosts: Hosts, bank: Bank, port: str, call: str
) -> None:
    """What the holder has not seen yet is its begin, or its claim before that.

    A: claims, begins ........................................... calls with the key, reads B's result; its finish: lost
    B:                (A's lease ends) claims, calls, finishes
    """
    frozen = await freeze(hosts, "idempotent", port, call, is_sent=True)
    await take_over(hosts)

    assert (await frozen.thaw()).code == IN_PROGRESS

    assert [each["key"] for each in await bank.payments()] == [frozen.interrupt]
    assert await bank.calls() == (2 if call == "begin" else 1)
    await assert_replayed(hosts, bank, frozen, "idempotent")


async def test_a_transaction_that_was_committed_before_its_holder_froze_is_the_result(hosts: Hosts, bank: Bank) -> None:
    """Begin, effect and settle are one transaction, and its reply is not seen.

    A: claims, the transaction commits ............................................. its finish: lost
    B:                                 (A's lease ends) claims, reuses the result, finishes
    """
    frozen = await freeze(hosts, "transactional", "effects", "transact", is_sent=True)
    await take_over(hosts)

    assert (await frozen.thaw()).code == IN_PROGRESS

    await assert_replayed(hosts, bank, frozen, "transactional")


def without_heartbeats(stored: str) -> list[str]:
    """Leave out who said when that it lives, however the store names that."""
    return [line for line in stored.splitlines() if "{replicas}" not in line]
