"""What ended answers duplicates as long as it is kept, and is then gone whole; what is open or in doubt never goes."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace

import pytest

from app.drain import Drain
from app.retention import Retention
from stores.errors import StoreUnavailable
from stores.ports import Stores
from tests.host.bank import Bank
from tests.host.bodies import answers, approve, says
from tests.host.faulty import Faulty, start_faulty
from tests.host.hosts import STILL_SECONDS, Hosts, key_of

NOT_FOUND = "APPROVAL_RESUME_NOT_FOUND"
AT_ONCE_SECONDS = 1e-6
KEPT_SECONDS = 3600.0


def retention(stores: Stores, *, age_seconds: float = AT_ONCE_SECONDS, batch: int = 100) -> Retention:
    return Retention(stores, drain=Drain(), age_seconds=age_seconds, batch=batch, pause_seconds=STILL_SECONDS)


async def pay(hosts: Hosts, thread: str) -> tuple[dict[str, object], list[str]]:
    """Let a payment be approved and carried out; answers the resume and the interrupts."""
    asked = await hosts.a.send(says(thread, "pay INV-1 to ACME"))
    body = answers(thread, *map(approve, asked.ids))
    assert (await hosts.b.send(body)).code is None
    return body, asked.ids


async def test_a_duplicate_is_answered_inside_the_window_and_not_found_after_it(hosts: Hosts, bank: Bank) -> None:
    body, ids = await pay(hosts, "t")
    stores = hosts.a.stores
    await stores.checkpoints.save(key_of("t"), checkpoint_id="c", workflow="w", blob=b"state", created_at=1.0)

    assert await retention(stores, age_seconds=KEPT_SECONDS).run_once() == 0
    assert (await hosts.c.send(body)).is_replay

    assert await retention(stores).run_once() == 2
    assert (await hosts.c.send(body)).code == NOT_FOUND
    assert await stores.effects.read(key_of("t"), interrupts=ids) == {}
    assert await stores.checkpoints.load(key_of("t"), checkpoint_id="c") is None
    assert (await hosts.loaded("t")).snapshot is None
    assert await bank.paid() == [("INV-1", "ACME")]


async def test_a_host_purges_by_itself(hosts: Hosts) -> None:
    body, _ = await pay(hosts, "t")

    await hosts.start(retention_terminal_seconds=AT_ONCE_SECONDS, purge_seconds=0.02)

    async def is_purged() -> bool:
        return (await hosts.c.send(body)).code == NOT_FOUND

    await hosts.until(is_purged)


async def test_what_is_open_is_kept_with_all_its_thread_said(hosts: Hosts, bank: Bank) -> None:
    await hosts.a.send(says("t", "look up INV-1"))
    asked = await hosts.a.send(says("t", "wire INV-2 to ACME"))

    assert await retention(hosts.a.stores).run_once() == 0

    assert (await hosts.b.send(answers("t", *map(approve, asked.ids)))).code is None
    assert await bank.paid() == [("INV-2", "ACME")]


async def test_a_thread_that_goes_on_loses_its_old_runs_alone(hosts: Hosts) -> None:
    old, ids = await pay(hosts, "t")
    since = (await hosts.loaded("t")).now
    young, young_ids = await pay(hosts, "t")
    now = (await hosts.loaded("t")).now

    # What was written before the second payment was asked for, and nothing after.
    listed = await hosts.a.stores.threads.old(age_seconds=now - since, limit=10)
    purged = await hosts.a.stores.threads.purge(key_of("t"), run_ids=[run.run_id for run in listed.runs])

    assert (purged.runs, purged.is_whole) == (2, False)
    assert (await hosts.c.send(old)).code == NOT_FOUND
    assert (await hosts.c.send(young)).is_replay
    assert (await hosts.loaded("t")).snapshot is not None
    rows = await hosts.a.stores.effects.read(key_of("t"), interrupts=[*ids, *young_ids])
    assert set(rows) == {*ids, *young_ids}


async def test_several_replicas_purge_at_once_and_remove_each_run_once(hosts: Hosts) -> None:
    for thread in ("t1", "t2", "t3"):
        await pay(hosts, thread)

    counts = await asyncio.gather(*(retention(host.stores).run_once() for host in (hosts.a, hosts.b, hosts.c)))

    assert sum(counts) == 6
    assert (await hosts.a.stores.threads.old(age_seconds=AT_ONCE_SECONDS, limit=10)).runs == ()


async def test_checkpoints_go_with_their_thread_also_where_the_reply_was_lost(hosts: Hosts) -> None:
    await pay(hosts, "t")
    checkpoints = hosts.a.stores.checkpoints
    await checkpoints.save(key_of("t"), checkpoint_id="c", workflow="refunds", blob=b"blob", created_at=1.0)
    host, faults = await start_faulty(hosts)
    faults.threads.after["purge"] = 1

    await retention(host.stores).run_once()

    assert await checkpoints.list(key_of("t"), workflow="refunds") == []


async def test_full_pages_follow_each_other_without_a_pause(hosts: Hosts) -> None:
    for thread in ("t1", "t2"):
        await pay(hosts, thread)
    purging = asyncio.create_task(retention(hosts.a.stores, batch=1).run())

    async def is_purged() -> bool:
        return (await hosts.a.stores.threads.old(age_seconds=AT_ONCE_SECONDS, limit=10)).runs == ()

    await hosts.until(is_purged)
    purging.cancel()
    await asyncio.gather(purging, return_exceptions=True)


async def test_a_pass_looks_at_a_batch_and_the_next_goes_on_from_there(hosts: Hosts) -> None:
    await hosts.a.send(says("open", "wire INV-9 to ACME"))
    for thread in ("t1", "t2"):
        await pay(hosts, thread)
    purging = retention(hosts.a.stores, batch=1)

    counts = [await purging.run_once() for _ in range(6)]

    # The run of the open thread is the oldest for ever, and bars nobody.
    assert (counts[0], sum(counts)) == (0, 4)


@pytest.mark.parametrize("port", ["effects", "threads", "checkpoints"])
async def test_a_purge_that_is_cut_off_at_any_step_is_finished_by_the_next(hosts: Hosts, bank: Bank, port: str) -> None:
    body, ids = await pay(hosts, "t")
    stores = hosts.a.stores
    faulty = Faulty(getattr(stores, port), after={"forget": 1, "purge": 1})
    cut = retention(replace(stores, **{port: faulty}))

    await cut.run_once()

    duplicate = await hosts.c.send(body)
    assert duplicate.is_replay or duplicate.code == NOT_FOUND
    await retention(stores).run_once()
    assert (await hosts.c.send(body)).code == NOT_FOUND
    assert await stores.effects.read(key_of("t"), interrupts=ids) == {}
    assert await bank.paid() == [("INV-1", "ACME")]


async def test_a_thread_that_fails_does_not_stop_the_pass_and_is_logged_without_ids(
    hosts: Hosts, caplog: pytest.LogCaptureFixture
) -> None:
    for thread in ("t1", "t2"):
        await pay(hosts, thread)
    threads = Faulty(hosts.a.stores.threads, before={"purge": 1})

    with caplog.at_level(logging.WARNING, logger="app.retention"):
        assert await retention(replace(hosts.a.stores, threads=threads)).run_once() == 2

    assert [record.getMessage() for record in caplog.records] == ["A thread was not purged: StoreUnavailable"]
    assert await retention(hosts.a.stores).run_once() == 2


async def test_a_store_that_can_not_list_what_is_old_is_asked_again_from_there(hosts: Hosts) -> None:
    await pay(hosts, "t")
    threads = Faulty(hosts.a.stores.threads, before={"old": 1})
    purging = retention(replace(hosts.a.stores, threads=threads))

    with pytest.raises(StoreUnavailable):
        await purging.run_once()

    assert await purging.run_once() == 2


async def test_a_draining_host_purges_nothing(hosts: Hosts) -> None:
    await pay(hosts, "t")
    drain = Drain()
    drain.begin(0.0)
    purging = Retention(hosts.a.stores, drain=drain, age_seconds=AT_ONCE_SECONDS, batch=100, pause_seconds=1.0)

    assert await purging.run_once() == 0


@pytest.mark.timeout(30)
async def test_a_host_that_drains_between_two_full_pages_does_other_things_as_well(hosts: Hosts) -> None:
    for thread in ("t1", "t2"):
        await pay(hosts, thread)
    drain = Drain()
    purging = Retention(hosts.a.stores, drain=drain, age_seconds=AT_ONCE_SECONDS, batch=1, pause_seconds=STILL_SECONDS)
    assert await purging.run_once() == 1
    drain.begin(STILL_SECONDS)

    task = asyncio.create_task(purging.run())
    # A loop that never waits would never let this go on.
    await asyncio.sleep(0)

    task.cancel()
    assert await asyncio.gather(task, return_exceptions=True) != [None]


async def test_a_thread_that_was_purged_can_be_used_again(hosts: Hosts, bank: Bank) -> None:
    await pay(hosts, "t")
    await retention(hosts.a.stores).run_once()

    asked = await hosts.b.send(says("t", "pay INV-2 to ACME"))

    assert (await hosts.c.send(answers("t", *map(approve, asked.ids)))).code is None
    assert await bank.paid() == [("INV-1", "ACME"), ("INV-2", "ACME")]


async def test_a_call_in_doubt_is_never_purged_but_said_loudly_once(
    hosts: Hosts, bank: Bank, caplog: pytest.LogCaptureFixture
) -> None:
    asked = await hosts.a.send(says("t", "wire INV-1 to ACME"))
    body = answers("t", *map(approve, asked.ids))
    stop = hosts.b.steps.stop_at("after-begin")
    answering = asyncio.create_task(hosts.b.send(body))
    await stop.wait()
    observer = await hosts.start(
        lease_seconds=0.3, reconcile_seconds=0.02, retention_indeterminate_seconds=AT_ONCE_SECONDS
    )

    async def is_alarmed() -> bool:
        # Whoever asks about the call meets the doubt, and the reconciler does too.
        await observer.send(body)
        return bool(alarms(caplog))

    await hosts.until(is_alarmed)
    assert (await observer.send(body)).code == "APPROVAL_OUTCOME_INDETERMINATE"
    assert await retention(hosts.a.stores).run_once() == 0

    assert len(alarms(caplog)) == 1
    assert not any(word in alarms(caplog)[0] for word in ("alice", "INV-1", "ACME"))
    assert (await hosts.loaded("t")).record.find(asked.ids[0]) is not None
    stop.go.set()
    await answering


def alarms(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name == "app.doubt_alarm"]
