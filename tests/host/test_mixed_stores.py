"""Threads in one store and the ledger in another: whatever one loses or a crash cuts, an effect happens once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, nullcontext
from pathlib import Path
from uuid import uuid4

import pytest

from app.answers import approval_digest
from stores.ports import Batch, Began, Closed, Reservation, Reserved, Settled
from stores.records import EffectKind, EffectState, ToolResult
from tests.host.bank import Bank
from tests.host.bodies import answers, approve, cancel, reject, says
from tests.host.faulty import start_faulty
from tests.host.hosts import Host, Hosts, Stop, key_of
from tests.host.mixed_worlds import MixedWorld, Remember, memory_threads, mixed_world, redis_threads, sql_threads
from tests.host.worlds import postgres_world, redis_world, sqlite_world

LEASE_SECONDS = 0.3
IN_PROGRESS = "APPROVAL_RESUME_IN_PROGRESS"
DOUBT = "APPROVAL_OUTCOME_INDETERMINATE"
CONFLICT = "APPROVAL_RESUME_CONFLICT"
KINDS = {"idempotent": "pay INV-1 to ACME", "unsafe": "wire INV-1 to ACME"}


@pytest.fixture(
    params=[
        pytest.param("memory and sqlite", marks=pytest.mark.slow),
        pytest.param("sqlite and sqlite", marks=pytest.mark.slow),
        pytest.param("postgres and sqlite", marks=[pytest.mark.external_service, pytest.mark.slow]),
        pytest.param("redis and sqlite", marks=[pytest.mark.external_service, pytest.mark.slow]),
        pytest.param("redis and postgres", marks=pytest.mark.external_service),
    ]
)
def _fresh_mixed_world(request: pytest.FixtureRequest, tmp_path: Path) -> AbstractAsyncContextManager[MixedWorld]:
    threads, effects = request.param.split(" and ")
    template = request.getfixturevalue("sqlite_template")
    folder = tmp_path / "effects"
    folder.mkdir()
    second = (
        sqlite_world(template, folder)
        if effects == "sqlite"
        else postgres_world(request.getfixturevalue("postgres_database"))
    )
    match threads:
        case "memory":
            world, remember = memory_threads()
            return mixed_world(nullcontext(world), second, remember)
        case "sqlite":
            url = f"sqlite+aiosqlite:///{tmp_path / 'hosts.db'}"
            return mixed_world(sqlite_world(template, tmp_path), second, sql_threads(url))
        case "postgres":
            url = request.getfixturevalue("postgres_database")
            return mixed_world(postgres_world(url), second, sql_threads(url))
        case _:
            url = request.getfixturevalue("redis_url")
            return mixed_world(redis_world(url), second, redis_threads(url))


@pytest.fixture
async def mixed(_fresh_mixed_world: AbstractAsyncContextManager[MixedWorld]) -> AsyncIterator[MixedWorld]:
    """A fresh world of two technologies."""
    async with _fresh_mixed_world as mixed:
        yield mixed


@pytest.fixture
async def hosts(mixed: MixedWorld, bank: Bank) -> AsyncIterator[Hosts]:
    """Three hosts over one mixed world."""
    async with AsyncExitStack() as stack:
        hosts = Hosts(mixed.world, bank.url, stack)
        hosts.a, hosts.b, hosts.c = await hosts.start(), await hosts.start(), await hosts.start()
        yield hosts


@pytest.fixture
def remember(mixed: MixedWorld) -> Remember:
    """Copies the threads, to set them back."""
    return mixed.remember


async def start_reconciling(hosts: Hosts) -> Host:
    """Start a host to which the others are dead after a moment, and which brings on what is due."""
    return await hosts.start(lease_seconds=LEASE_SECONDS, reconcile_seconds=0.02)


async def test_every_kind_of_call_happens_once_and_a_duplicate_is_replayed(hosts: Hosts, bank: Bank) -> None:
    asked = await hosts.a.send(says("t", "pay INV-1 and INV-2 to ACME and wire INV-3 to ACME and refund INV-4"))
    body = answers("t", approve(asked.ids[0]), reject(asked.ids[1]), *map(approve, asked.ids[2:]))

    answered = await hosts.b.send(body)
    before = await hosts.dump_threads()
    replayed = await hosts.c.send(body)

    assert (answered.code, answered.is_replay, replayed.is_replay) == (None, False, True)
    assert await hosts.dump_threads() == before
    assert await bank.paid() == [("INV-1", "ACME"), ("INV-3", "ACME")]
    assert (await hosts.dump()).count("demo_refunds: ") == 1


# Crashes between ledger and record ------------------------------------------------------------------------


@pytest.mark.parametrize("words", KINDS.values(), ids=KINDS)
async def test_a_host_that_freezes_between_reserve_and_claim_is_passed_when_it_is_dead(
    hosts: Hosts, bank: Bank, words: str
) -> None:
    frozen, faults = await start_faulty(hosts)
    body = answers("t", *map(approve, (await hosts.a.send(says("t", words))).ids))
    stop = faults.threads.stops["claim"] = Stop("claim")
    answering = asyncio.create_task(frozen.send(body))
    await stop.wait()
    assert (await hosts.c.send(body)).code == IN_PROGRESS

    observer = await hosts.start(lease_seconds=LEASE_SECONDS)
    answered = await hosts.answered(observer, body, unless=IN_PROGRESS)

    assert (answered.code, answered.is_replay) == (None, False)
    stop.go.set()
    assert (await answering).is_replay
    assert await bank.paid() == [("INV-1", "ACME")]


async def test_a_reservation_whose_claim_was_never_made_binds_nobody(hosts: Hosts, bank: Bank) -> None:
    frozen, faults = await start_faulty(hosts)
    asked = await hosts.a.send(says("t", "wire INV-1 to ACME"))
    stop = faults.threads.stops["claim"] = Stop("claim")
    answering = asyncio.create_task(frozen.send(answers("t", *map(approve, asked.ids))))
    await stop.wait()
    rejection = answers("t", *map(reject, asked.ids))
    assert (await hosts.c.send(rejection)).code == "THREAD_BUSY"

    observer = await hosts.start(lease_seconds=LEASE_SECONDS)
    assert (await hosts.answered(observer, rejection, unless="THREAD_BUSY")).code is None

    stop.go.set()
    assert (await answering).code == CONFLICT
    assert await bank.paid() == []


async def test_a_reservation_whose_claim_was_refused_is_let_go_with_the_heartbeat(hosts: Hosts, bank: Bank) -> None:
    host, faults = await start_faulty(hosts, lease_seconds=0.4)
    asked = await hosts.a.send(says("t", "wire INV-1 to ACME"))
    body = answers("t", *map(approve, asked.ids))
    faults.threads.before["claim"] = 1

    assert (await host.send(body)).code == "STORE_UNAVAILABLE"

    # B's lease is an hour: to it, the host that keeps the row is alive.
    assert (await hosts.answered(hosts.b, body, unless=IN_PROGRESS)).code is None
    assert await bank.paid() == [("INV-1", "ACME")]


async def test_a_reservation_that_got_no_reply_is_asked_again(hosts: Hosts, bank: Bank) -> None:
    host, faults = await start_faulty(hosts)
    asked = await hosts.a.send(says("t", "wire INV-1 to ACME"))
    faults.effects.after["reserve"] = 1

    assert (await host.send(answers("t", *map(approve, asked.ids)))).code is None

    assert await bank.paid() == [("INV-1", "ACME")]


# A doubt is looked at every five seconds: of those that wait for it `make test` has one.
FREEZES = [
    pytest.param(words, step, marks=[pytest.mark.slow] if (words, step) == (KINDS["unsafe"], "after-begin") else [])
    for words in KINDS.values()
    for step in ("after-claim", "before-begin", "after-begin", "after-effect", "after-settle", "before-finish")
]
REPEATS = [
    pytest.param(
        words,
        step,
        marks=[pytest.mark.slow] if words == KINDS["unsafe"] and step in {"after-begin", "after-effect"} else [],
        id=f"{kind}-{step}",
    )
    for kind, words in KINDS.items()
    for step in ("before-begin", "after-begin", "after-effect", "after-settle")
]


@pytest.mark.parametrize(("words", "step"), FREEZES)
async def test_a_frozen_host_is_taken_over_from_any_step_with_one_effect(
    hosts: Hosts, bank: Bank, words: str, step: str
) -> None:
    asked = await hosts.a.send(says("t", words))
    body = answers("t", *map(approve, asked.ids))
    stop = hosts.b.steps.stop_at(step)
    answering = asyncio.create_task(hosts.b.send(body))
    await stop.wait()

    observer = await start_reconciling(hosts)
    is_doubtful = words == KINDS["unsafe"] and step in {"after-begin", "after-effect"}
    if is_doubtful:
        await hosts.until(lambda: has_doubt(hosts))
        assert (await hosts.c.send(body)).code == DOUBT
        stop.go.set()
    await hosts.until(lambda: hosts.is_closed("t"))
    stop.go.set()

    assert (await answering).code == IN_PROGRESS
    replayed = await observer.send(body)
    assert (replayed.is_replay, len(replayed.results)) == (True, 1)
    assert await bank.paid() == [("INV-1", "ACME")]


@pytest.mark.parametrize("step", ["after-claim", "before-settle", "after-settle", "before-finish"])
async def test_a_transactional_call_is_taken_over_with_one_effect(hosts: Hosts, step: str) -> None:
    asked = await hosts.a.send(says("t", "refund INV-1"))
    body = answers("t", *map(approve, asked.ids))
    host = await hosts.start(tool_seconds=1.0)
    stop = host.steps.stop_at(step)
    answering = asyncio.create_task(host.send(body))
    await stop.wait()

    observer = await start_reconciling(hosts)
    await hosts.until(lambda: hosts.is_closed("t"))

    stop.go.set()
    assert (await answering).code is not None
    replayed = await observer.send(body)
    assert (replayed.is_replay, replayed.results) == (True, ["Refunded INV-1."])
    assert (await hosts.dump()).count("demo_refunds: ") == 1


@pytest.mark.parametrize(("why", "decide"), [("rejected", reject), ("cancelled", cancel)])
async def test_a_call_that_was_closed_before_its_record_was_written_ends_so(
    hosts: Hosts, bank: Bank, why: str, decide: object
) -> None:
    asked = await hosts.a.send(says("t", "wire INV-1 to ACME"))
    await hosts.a.stores.effects.close(key_of("t"), interrupts={asked.ids[0]: why})

    refused = await hosts.b.send(answers("t", approve(*asked.ids)))
    assert (refused.code, refused.metadata["definite"]) == (CONFLICT, hosts.is_certain)
    await start_reconciling(hosts)
    await hosts.until(lambda: hosts.is_closed("t"))

    assert callable(decide)
    assert (await hosts.c.send(answers("t", decide(*asked.ids)))).is_replay
    assert (await hosts.c.send(answers("t", approve(*asked.ids)))).code == CONFLICT
    assert await bank.paid() == []


async def test_an_expiry_that_was_cut_after_its_close_is_repeated(hosts: Hosts, bank: Bank) -> None:
    hasty = await hosts.start(approval_seconds=0.2)
    asked = await hasty.send(says("t", "wire INV-1 to ACME"))
    closed = await hosts.a.stores.effects.close(key_of("t"), interrupts={asked.ids[0]: "expired"})
    assert isinstance(closed, Closed)

    await start_reconciling(hosts)
    await hosts.until(lambda: hosts.is_closed("t"))

    assert (await hosts.b.send(answers("t", approve(*asked.ids)))).code == "APPROVAL_RESUME_EXPIRED"
    assert await bank.paid() == []


async def test_a_pause_that_a_dead_host_reserved_expires(hosts: Hosts, bank: Bank) -> None:
    hasty = await hosts.start(approval_seconds=1.5)
    frozen, faults = await start_faulty(hosts)
    asked = await hasty.send(says("t", "wire INV-1 to ACME"))
    stop = faults.threads.stops["claim"] = Stop("claim")
    answering = asyncio.create_task(frozen.send(answers("t", *map(approve, asked.ids))))
    await stop.wait()

    await start_reconciling(hosts)
    await hosts.until(lambda: hosts.is_closed("t"))

    stop.go.set()
    assert (await answering).code == "APPROVAL_RESUME_EXPIRED"
    assert await bank.paid() == []


# A thread store that lost its last writes -----------------------------------------------------------------


@pytest.mark.parametrize("words", [*KINDS.values(), "refund INV-1"])
async def test_a_result_outlives_the_record_of_its_approval(
    hosts: Hosts, bank: Bank, remember: Remember, words: str
) -> None:
    asked = await hosts.a.send(says("t", words))
    body = answers("t", *map(approve, asked.ids))
    set_back = await remember()
    first = await hosts.b.send(body)
    await set_back()

    second = await hosts.c.send(body)

    assert (second.code, second.results) == (None, first.results)
    assert (await hosts.a.send(body)).is_replay
    assert len(await bank.paid()) + (await hosts.dump()).count("demo_refunds: ") == 1


async def test_a_rejection_does_not_undo_a_result_that_the_record_lost(
    hosts: Hosts, bank: Bank, remember: Remember
) -> None:
    asked = await hosts.a.send(says("t", "wire INV-1 to ACME"))
    approval = answers("t", *map(approve, asked.ids))
    set_back = await remember()
    first = await hosts.b.send(approval)
    await set_back()

    refused = await hosts.c.send(answers("t", *map(reject, asked.ids)))
    assert (refused.code, refused.metadata["definite"]) == (CONFLICT, False)
    await start_reconciling(hosts)
    await hosts.until(lambda: hosts.is_closed("t"))

    replayed = await hosts.c.send(approval)
    assert (replayed.is_replay, replayed.results) == (True, first.results)
    assert await bank.paid() == [("INV-1", "ACME")]


async def test_a_rejection_outlives_its_record(hosts: Hosts, bank: Bank, remember: Remember) -> None:
    asked = await hosts.a.send(says("t", "wire INV-1 to ACME"))
    rejection = answers("t", *map(reject, asked.ids))
    set_back = await remember()
    assert (await hosts.b.send(rejection)).code is None
    await set_back()

    assert (await hosts.c.send(answers("t", *map(approve, asked.ids)))).code == CONFLICT
    assert (await hosts.a.send(rejection)).code is None
    assert await bank.paid() == []


async def test_a_result_of_edited_arguments_is_not_taken_for_that_of_others(
    hosts: Hosts, bank: Bank, remember: Remember
) -> None:
    asked = await hosts.a.send(says("t", "pay INV-1 to ACME"))
    edited = answers("t", approve(*asked.ids, payee="Another"))
    set_back = await remember()
    first = await hosts.b.send(edited)
    await set_back()

    assert (await hosts.c.send(answers("t", approve(*asked.ids)))).code == CONFLICT
    assert (await hosts.c.send(answers("t", approve(*asked.ids)))).code == CONFLICT
    second = await hosts.a.send(edited)

    assert (second.code, second.results) == (None, first.results)
    assert await bank.paid() == [("INV-1", "Another")]


async def test_a_result_whose_arguments_nobody_sends_again_is_kept_by_a_cancel(
    hosts: Hosts, bank: Bank, remember: Remember
) -> None:
    asked = await hosts.a.send(says("t", "pay INV-1 to ACME"))
    set_back = await remember()
    first = await hosts.b.send(answers("t", approve(*asked.ids, payee="Another")))
    await set_back()
    assert (await hosts.c.send(answers("t", approve(*asked.ids)))).code == CONFLICT

    assert (await hosts.c.send(answers("t", cancel(*asked.ids)))).code is None

    words = [message.get("content") for message in (await hosts.a.show("t")).messages]
    assert first.results[0] in words
    assert (await hosts.b.send(says("t", "hello"))).code is None
    assert await bank.paid() == [("INV-1", "Another")]


@pytest.mark.parametrize("words", KINDS.values(), ids=KINDS)
async def test_a_live_holder_whose_claim_was_lost_is_waited_for(
    hosts: Hosts, bank: Bank, remember: Remember, words: str
) -> None:
    asked = await hosts.a.send(says("t", words))
    body = answers("t", *map(approve, asked.ids))
    set_back = await remember()
    stop = hosts.b.steps.stop_at("after-effect")
    answering = asyncio.create_task(hosts.b.send(body))
    await stop.wait()
    await set_back()

    assert (await hosts.c.send(body)).code == IN_PROGRESS
    stop.go.set()
    assert (await answering).code == IN_PROGRESS
    answered = await hosts.answered(hosts.c, body, unless=IN_PROGRESS)

    assert (answered.code, len(answered.results)) == (None, 1)
    assert await bank.paid() == [("INV-1", "ACME")]


@pytest.mark.parametrize(("words", "step"), REPEATS)
async def test_a_thread_that_reaches_the_same_generation_by_another_run_has_one_effect(
    hosts: Hosts, bank: Bank, remember: Remember, words: str, step: str
) -> None:
    # B claims generation n and freezes; the store forgets that; another run claims the same n; B thaws.
    asked = await hosts.a.send(says("t", words))
    body = answers("t", *map(approve, asked.ids))
    set_back = await remember()
    stop = hosts.b.steps.stop_at(step)
    answering = asyncio.create_task(hosts.b.send(body))
    await stop.wait()
    claimed = (await hosts.loaded("t")).record.version
    await set_back()
    observer = await start_reconciling(hosts)
    is_doubtful = words == KINDS["unsafe"] and step in {"after-begin", "after-effect"}

    answered = await hosts.answered(observer, body, unless=IN_PROGRESS)

    assert answered.code == (DOUBT if is_doubtful else None)
    assert (await hosts.loaded("t")).record.version.generation >= claimed.generation
    stop.go.set()
    assert (await answering).code == IN_PROGRESS
    await hosts.until(lambda: hosts.is_closed("t"))
    replayed = await hosts.c.send(body)
    assert (replayed.is_replay, len(replayed.results)) == (True, 1)
    assert await bank.paid() == [("INV-1", "ACME")]


async def test_an_approval_that_was_carried_out_does_not_expire_in_a_record_that_lost_it(
    hosts: Hosts, bank: Bank, remember: Remember
) -> None:
    hasty = await hosts.start(approval_seconds=1.0)
    asked = await hasty.send(says("t", "wire INV-1 to ACME"))
    body = answers("t", *map(approve, asked.ids))
    set_back = await remember()
    first = await hosts.b.send(body)
    assert first.code is None
    await set_back()

    await start_reconciling(hosts)
    await hosts.until(lambda: hosts.is_closed("t"))

    replayed = await hosts.c.send(body)
    assert (replayed.is_replay, replayed.results) == (True, first.results)
    assert await bank.paid() == [("INV-1", "ACME")]


async def test_what_nobody_answered_expires_beside_what_the_ledger_knows(hosts: Hosts, bank: Bank) -> None:
    hasty = await hosts.start(approval_seconds=0.5)
    asked = await hasty.send(says("t", "wire INV-1 to ACME and wire INV-2 to ACME"))
    await settle_behind_their_back(hosts, asked.ids[0])

    await start_reconciling(hosts)
    await hosts.until(lambda: hosts.is_closed("t"))

    run = await hosts.a.stores.threads.outcome(key_of("t"), interrupt=asked.ids[0])
    assert run is not None
    assert {each.interrupt_id: each.state for each in run.outcomes} == {
        asked.ids[0]: "finished",
        asked.ids[1]: "expired",
    }
    assert await bank.paid() == []


async def test_a_doubt_that_an_operator_ended_is_carried_on_once(hosts: Hosts, bank: Bank) -> None:
    asked = await hosts.a.send(says("t", "wire INV-1 to ACME"))
    body = answers("t", *map(approve, asked.ids))
    stop = hosts.b.steps.stop_at("after-begin")
    answering = asyncio.create_task(hosts.b.send(body))
    await stop.wait()
    observer = await start_reconciling(hosts)
    await hosts.until(lambda: has_doubt(hosts))

    (row,) = (await hosts.a.stores.effects.read(key_of("t"), interrupts=asked.ids)).values()
    resolved = await hosts.a.stores.effects.resolve(
        key_of("t"),
        interrupt_id=asked.ids[0],
        attempt=row.attempt or "",
        result=TOLD,
        by="operator",
        evidence="the bank's statement",
    )

    assert resolved == Settled(TOLD)
    answered = await hosts.answered(observer, body, unless=IN_PROGRESS)
    assert (answered.code, answered.results) == (None, ["Told by the bank."])
    hosts.b.steps.let_go()
    await answering


async def test_a_begun_idempotent_call_is_not_taken_back_by_a_host_that_lost_it(hosts: Hosts, bank: Bank) -> None:
    host, faults = await start_faulty(hosts)
    asked = await hosts.a.send(says("t", "pay INV-1 to ACME"))
    faults.effects.after["begin"] = 1_000

    failed = await host.send(answers("t", *map(approve, asked.ids)))

    # The time of its first begin is what the life of its key counts from: it must not be forgotten.
    (row,) = (await hosts.a.stores.effects.read(key_of("t"), interrupts=asked.ids)).values()
    assert (failed.code, row.state, row.holder) == ("STORE_UNAVAILABLE", EffectState.BEGUN, None)
    assert (await hosts.b.send(answers("t", *map(approve, asked.ids)))).code is None
    assert await bank.paid() == [("INV-1", "ACME")]


TOLD = ToolResult(({"type": "text", "text": "Told by the bank."},))


async def settle_behind_their_back(hosts: Hosts, interrupt_id: str) -> None:
    """Give a call a result as it was shown, as a run does whose record was lost."""
    occurrence = (await hosts.loaded("t")).record.find(interrupt_id)
    assert occurrence is not None
    digest = approval_digest(occurrence.tool, occurrence.arguments)
    effects, attempt = hosts.a.stores.effects, uuid4().hex
    batch = Batch(attempt, "gone", 0.0, (Reservation(interrupt_id, EffectKind.UNSAFE, digest),))
    assert isinstance((await effects.reserve(key_of("t"), batch=batch))[interrupt_id], Reserved)
    assert isinstance(await effects.begin(key_of("t"), interrupt_id=interrupt_id, attempt=attempt), Began)
    await effects.settle(key_of("t"), interrupt_id=interrupt_id, attempt=attempt, result=TOLD)


async def has_doubt(hosts: Hosts) -> bool:
    return (await hosts.c.show("t")).states == ["indeterminate"]
