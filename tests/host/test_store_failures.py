"""A store that fails or loses its reply costs an answer, never an effect, and nothing runs that was not claimed."""

from __future__ import annotations

import pytest

from stores.records import EffectState
from tests.host.bank import Bank
from tests.host.bodies import answers, approve, says
from tests.host.faulty import start_faulty
from tests.host.hosts import Hosts, key_of

UNAVAILABLE = "STORE_UNAVAILABLE"
ALWAYS = 1_000


@pytest.mark.parametrize("step", ["load", "claim"])
async def test_nothing_runs_without_a_claim(hosts: Hosts, bank: Bank, step: str) -> None:
    host, faults = await start_faulty(hosts)
    asked = await hosts.a.send(says("t", "wire INV-1 to ACME"))
    body = answers("t", approve(*asked.ids))
    before = await hosts.dump()
    faults.threads.before[step] = 1

    failed = await host.send(body)

    assert (failed.code, failed.metadata["definite"]) == (UNAVAILABLE, False)
    assert (await hosts.dump(), await bank.paid()) == (before, [])
    assert (await host.send(body)).code is None
    assert await bank.paid() == [("INV-1", "ACME")]


async def test_a_new_message_on_a_host_without_its_store_says_so(hosts: Hosts) -> None:
    host, faults = await start_faulty(hosts)
    body = says("t", "pay INV-1 to ACME")
    faults.threads.before["open"] = 1

    assert (await host.send(body)).code == UNAVAILABLE

    assert len((await host.send(body)).ids) == 1


async def test_hydration_on_a_host_without_its_store_says_so(hosts: Hosts) -> None:
    host, faults = await start_faulty(hosts)
    await hosts.a.send(says("t", "pay INV-1 to ACME"))
    faults.threads.before["load"] = 1

    assert (await host.show("t")).code == UNAVAILABLE

    assert len((await host.show("t")).ids) == 1


@pytest.mark.parametrize("step", ["open", "claim", "save"])
async def test_a_reply_lost_once_is_not_noticed(hosts: Hosts, bank: Bank, step: str) -> None:
    host, faults = await start_faulty(hosts)
    faults.threads.after[step] = 1

    asked = await host.send(says("t", "wire INV-1 to ACME"))
    answered = await host.send(answers("t", approve(*asked.ids)))

    assert (answered.code, answered.is_replay) == (None, False)
    assert await bank.paid() == [("INV-1", "ACME")]


async def test_a_pause_whose_commit_got_no_reply_is_shown_by_the_same_message_again(hosts: Hosts) -> None:
    host, faults = await start_faulty(hosts)
    body = says("t", "pay INV-1 to ACME")
    faults.threads.after["save"] = ALWAYS

    failed = await host.send(body)

    assert failed.code == UNAVAILABLE
    assert "af-call-" not in str(failed.events)
    asked = await hosts.b.send(body)
    assert (asked.is_replay, len(asked.ids)) == (True, 1)


async def test_a_pause_that_was_not_committed_is_asked_anew(hosts: Hosts) -> None:
    host, faults = await start_faulty(hosts)
    body = says("t", "pay INV-1 to ACME")
    faults.threads.before["save"] = 1

    failed = await host.send(body)

    assert failed.code == UNAVAILABLE
    assert "af-call-" not in str(failed.events)
    asked = await hosts.b.send(body)
    assert (asked.is_replay, len(asked.ids)) == (False, 1)


async def test_a_snapshot_that_could_not_be_written_is_reported_and_the_last_good_one_is_kept(hosts: Hosts) -> None:
    host, faults = await start_faulty(hosts)
    await host.send(says("t", "look up INV-1"))
    before = (await hosts.loaded("t")).snapshot
    body = says("t", "look up INV-2")
    faults.threads.before["save"] = 1

    failed = await host.send(body)

    assert (failed.code, (await hosts.loaded("t")).snapshot) == (UNAVAILABLE, before)
    assert (await host.send(body)).code is None
    assert (await hosts.loaded("t")).snapshot != before


async def test_an_effect_whose_run_was_not_committed_is_not_repeated(hosts: Hosts, bank: Bank) -> None:
    host, faults = await start_faulty(hosts)
    asked = await hosts.a.send(says("t", "wire INV-1 to ACME"))
    body = answers("t", approve(*asked.ids))
    faults.threads.before["save"] = 1

    failed = await host.send(body)
    answered = await hosts.b.send(body)

    assert failed.code == UNAVAILABLE
    assert (answered.code, answered.is_replay) == (None, False)
    assert answered.results == ["Wired INV-1 to ACME, receipt wire-1."]
    assert await bank.paid() == [("INV-1", "ACME")]


async def test_a_settle_is_repeated_until_the_ledger_takes_it(hosts: Hosts, bank: Bank) -> None:
    host, faults = await start_faulty(hosts)
    asked = await hosts.a.send(says("t", "wire INV-1 to ACME"))
    faults.effects.before["settle"] = 2
    faults.effects.after["settle"] = 1

    answered = await host.send(answers("t", approve(*asked.ids)))

    assert (answered.code, answered.results) == (None, ["Wired INV-1 to ACME, receipt wire-1."])


async def test_a_begin_whose_reply_was_lost_is_asked_again_before_the_call(hosts: Hosts, bank: Bank) -> None:
    host, faults = await start_faulty(hosts)
    asked = await hosts.a.send(says("t", "wire INV-1 to ACME"))
    faults.effects.after["begin"] = 1

    assert (await host.send(answers("t", approve(*asked.ids)))).code is None

    assert await bank.paid() == [("INV-1", "ACME")]


async def test_a_begin_that_never_gets_a_reply_starts_nothing_and_leaves_no_doubt(hosts: Hosts, bank: Bank) -> None:
    host, faults = await start_faulty(hosts)
    asked = await hosts.a.send(says("t", "wire INV-1 to ACME"))
    body = answers("t", approve(*asked.ids))
    faults.effects.after["begin"] = ALWAYS

    failed = await host.send(body)

    assert (failed.code, await bank.paid()) == (UNAVAILABLE, [])
    (row,) = (await hosts.a.stores.effects.read(key_of("t"), interrupts=asked.ids)).values()
    assert (row.state, row.holder) == (EffectState.RESERVED, None)
    assert (await hosts.b.send(body)).code is None
    assert await bank.paid() == [("INV-1", "ACME")]


async def test_a_claim_that_got_no_reply_is_let_go_by_the_heartbeat(hosts: Hosts, bank: Bank) -> None:
    host, faults = await start_faulty(hosts, lease_seconds=0.4)
    asked = await hosts.a.send(says("t", "wire INV-1 to ACME"))
    body = answers("t", approve(*asked.ids))
    faults.threads.after["claim"] = ALWAYS

    assert (await host.send(body)).code == UNAVAILABLE

    # B's lease is an hour: it would wait that long for a holder that keeps silent.
    answered = await hosts.answered(hosts.b, body, unless="APPROVAL_RESUME_IN_PROGRESS")
    assert answered.code is None
    assert await bank.paid() == [("INV-1", "ACME")]


async def test_a_release_that_failed_is_repeated_by_the_heartbeat(hosts: Hosts, bank: Bank) -> None:
    host, faults = await start_faulty(hosts, lease_seconds=0.4)
    asked = await hosts.a.send(says("t", "wire INV-1 to ACME (outage o)"))
    await bank.break_model("o", times=1)
    body = answers("t", approve(*asked.ids))
    faults.threads.before["save"] = 1

    assert (await host.send(body)).code == "RUN_FAILED"

    answered = await hosts.answered(hosts.b, body, unless="APPROVAL_RESUME_IN_PROGRESS")
    assert (answered.code, answered.results) == (None, ["Wired INV-1 to ACME, receipt wire-1."])
    assert await bank.paid() == [("INV-1", "ACME")]
