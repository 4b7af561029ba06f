"""A reject, a cancel, an expiry, a deletion or a closing that races a begun effect is refused; the effect is kept."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from stores.ports import Begun, CannotClose, Held, Lost, Purged, Settled
from stores.records import EffectState
from tests.host.answers import Answer
from tests.host.back_doors import apart, keep
from tests.host.bank import Bank
from tests.host.bodies import Json, answers, approve, cancel, reject, says
from tests.host.hosts import Host, Hosts, key_of

LEASE_SECONDS = 0.3
"""An observer's lease: the other hosts said once that they live, and are dead to it when this has passed."""
APPROVAL_SECONDS = 1.0
"""How long an approval stays open that expires while its call runs: time enough to answer it on a busy machine."""
BUSY = "THREAD_BUSY"
CONFLICT = "APPROVAL_RESUME_CONFLICT"
IN_PROGRESS = "APPROVAL_RESUME_IN_PROGRESS"
WORDS = {"idempotent": "pay INV-1 to ACME", "unsafe": "wire INV-1 to ACME"}
RESULTS = {
    "idempotent": "Paid INV-1 to ACME, receipt payment-1.",
    "unsafe": "Wired INV-1 to ACME, receipt wire-1.",
}
STEPS = ["before-effect", "after-effect"]
"""Where the call is when the other comes: begun and about to happen, or happened and not recorded yet."""


class Running:
    """An approved call that began and goes no further until it is let go, with all that was sent for it."""

    def __init__(self, host: Host, body: Json, interrupt: str, answering: asyncio.Task[Answer]) -> None:
        self.body = body
        self.interrupt = interrupt
        self._host = host
        self._answering = answering

    async def ends(self) -> Answer:
        self._host.steps.let_go()
        return await self._answering


async def run_into(hosts: Hosts, host: Host, kind: str, step: str, *, asked_by: Host | None = None) -> Running:
    """Ask, approve, and stop the host that carries the approval out at a step."""
    asked = await (asked_by or hosts.a).send(says("t", WORDS[kind]))
    return await start_call(host, answers("t", approve(*asked.ids)), asked.ids[0], step)


async def start_call(host: Host, body: Json, interrupt: str, step: str) -> Running:
    reached = host.steps.stop_at(step)
    answering = asyncio.create_task(host.send(body))
    await reached.wait()
    return Running(host, body, interrupt, answering)


async def assert_ends_once(hosts: Hosts, bank: Bank, running: Running, kind: str) -> None:
    """The call ends as if nobody had come between, and its one effect is recorded and replayed."""
    ended = await running.ends()
    assert (ended.code, ended.results) == (None, [RESULTS[kind]])
    await assert_recorded_once(hosts, bank, running, kind)


async def assert_recorded_once(hosts: Hosts, bank: Bank, running: Running, kind: str) -> None:
    replayed = await hosts.c.send(running.body)
    assert (replayed.is_replay, replayed.results) == (True, [RESULTS[kind]])
    (row,) = (await hosts.a.stores.effects.read(key_of("t"), interrupts=[running.interrupt])).values()
    assert (row.state, row.why) == (EffectState.SETTLED, None)
    said = [message["content"] for message in (await hosts.a.show("t")).messages if message["role"] == "tool"]
    assert said == [RESULTS[kind]]
    assert (await bank.paid(), await bank.calls()) == ([("INV-1", "ACME")], 1)


@pytest.mark.parametrize("kind", WORDS)
@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("decide", [reject, cancel])
async def test_another_decision_that_comes_while_the_call_runs_is_a_conflict(
    hosts: Hosts, bank: Bank, decide: Callable[[str], Json], step: str, kind: str
) -> None:
    """One client approved, another does not.

    A: claims, begins ................................................ settles, finishes
    C:                rejects: conflict, new message: busy                               rejects: conflict
    """
    running = await run_into(hosts, hosts.b, kind, step)
    other = answers("t", decide(running.interrupt))
    before = await hosts.dump()

    refused = await hosts.a.send(other)
    message = await hosts.a.send(says("t", "hello"))

    assert (refused.code, refused.metadata["definite"]) == (CONFLICT, False)
    assert (message.code, message.metadata["definite"]) == (BUSY, False)
    assert await hosts.dump() == before
    await assert_ends_once(hosts, bank, running, kind)
    refused = await hosts.a.send(other)
    assert (refused.code, refused.metadata["definite"]) == (CONFLICT, False)


@pytest.mark.parametrize("kind", WORDS)
@pytest.mark.parametrize("decide", [reject, cancel])
async def test_another_decision_is_a_conflict_also_when_the_holder_is_taken_for_dead(
    hosts: Hosts, bank: Bank, decide: Callable[[str], Json], kind: str
) -> None:
    """A decision stands without its holder.

    A: claims, calls ................................ settles, finishes
    B:               (A's lease ends) rejects: conflict
    """
    other = await hosts.start(lease_seconds=LEASE_SECONDS)
    running = await run_into(hosts, hosts.b, kind, "after-effect")
    await hosts.until(lambda: is_silent(hosts))

    refused = await other.send(answers("t", decide(running.interrupt)))

    assert (refused.code, refused.metadata["definite"]) == (CONFLICT, False)
    await assert_ends_once(hosts, bank, running, kind)


@pytest.mark.parametrize("kind", WORDS)
async def test_a_pause_whose_time_passes_while_its_call_runs_does_not_expire(
    hosts: Hosts, bank: Bank, kind: str
) -> None:
    """An answer in time is carried out, however long it takes.

    A: claims, calls ........................................................... settles, finishes
    B:               (the pause's time ends) nothing is due, approve: in progress, reject: conflict, message: busy
    """
    brief = await hosts.start(approval_seconds=APPROVAL_SECONDS)
    await hosts.start(reconcile_seconds=0.02)
    running = await run_into(hosts, hosts.b, kind, "after-effect", asked_by=brief)
    await hosts.until(lambda: is_past_expiry(hosts))
    before = (await hosts.loaded("t")).record

    await pass_by_the_reconciler(hosts)
    again = await hosts.a.send(running.body)
    refused = await hosts.a.send(answers("t", reject(running.interrupt)))
    message = await hosts.a.send(says("t", "hello"))

    assert (message.code, message.metadata["definite"]) == (BUSY, False)
    assert (again.code, again.metadata["definite"]) == (IN_PROGRESS, False)
    assert (refused.code, refused.metadata["definite"]) == (CONFLICT, False)
    assert (await hosts.loaded("t")).record == before
    await assert_ends_once(hosts, bank, running, kind)


@pytest.mark.parametrize("kind", WORDS)
async def test_a_pause_that_its_store_forgot_was_answered_does_not_expire_over_a_begun_effect(
    hosts: Hosts, bank: Bank, kind: str
) -> None:
    """The threads say "pending, and its time is over"; the ledger, elsewhere, says "begun".

    A: claims, calls ............................................................. settles; its finish: lost
    store:           loses the claim
    B:                               (the pause's time ends) closes: refused, writes nothing         replays
    """
    brief, one, other = [await hosts.start(decorate=apart, approval_seconds=APPROVAL_SECONDS) for _ in range(3)]
    asked = await brief.send(says("t", WORDS[kind]))
    undo = await keep(hosts.a.stores)
    running = await start_call(one, answers("t", approve(*asked.ids)), asked.ids[0], "after-effect")
    await undo()
    await hosts.until(lambda: is_past_expiry(hosts))
    before = await hosts.dump()

    message = await other.send(says("t", "hello"))
    refused = await other.send(answers("t", reject(running.interrupt)))

    assert (message.code, message.metadata["definite"]) == ("APPROVAL_RESUME_REQUIRED", False)
    assert refused.metadata["definite"] is False
    assert await hosts.dump() == before
    assert (await running.ends()).code == IN_PROGRESS
    # Whoever looks after it next follows the ledger, and goes on with the result.
    await hosts.make_due("t")
    await hosts.start(decorate=apart, reconcile_seconds=0.02)
    await hosts.until(lambda: hosts.is_closed("t"))
    await assert_recorded_once(hosts, bank, running, kind)


@pytest.mark.parametrize("kind", WORDS)
@pytest.mark.parametrize("step", STEPS)
async def test_a_claimed_thread_is_neither_deleted_nor_purged(hosts: Hosts, bank: Bank, step: str, kind: str) -> None:
    """The version that is expected is the right one.

    A: claims, begins ........................................................ settles, finishes
    C:                delete(that version): lost, purge: nothing, forget: nothing
    """
    running = await run_into(hosts, hosts.b, kind, step)
    record = (await hosts.loaded("t")).record
    assert record.claim is not None
    before = await hosts.dump()

    threads, ledger = hosts.a.stores.threads, hosts.a.stores.effects
    assert await threads.delete(key_of("t"), expected=record.version) == Lost()
    assert await threads.purge(key_of("t"), run_ids=[record.claim.run_id]) == Purged(0)
    assert await ledger.forget(key_of("t"), interrupts=[running.interrupt]) == 0

    assert await hosts.dump() == before
    await assert_ends_once(hosts, bank, running, kind)


@pytest.mark.parametrize("kind", WORDS)
async def test_a_begun_row_is_never_closed(hosts: Hosts, bank: Bank, kind: str) -> None:
    """Not while it is held, not when its claim was let go, not when it has its result.

    A: claims, calls .......................................................... settles
    C:               close: held            close: begun                                close: settled
    store:                       frees the row
    """
    running = await run_into(hosts, hosts.b, kind, "after-effect")
    ledger = hosts.a.stores.effects

    async def closing() -> object:
        answer = await ledger.close(key_of("t"), interrupts={running.interrupt: "cancelled", "af-call-other": "x"})
        assert isinstance(answer, CannotClose)
        # All or none: the one that nothing stands in the way of is not closed either.
        assert await ledger.read(key_of("t"), interrupts=["af-call-other"]) == {}
        return answer.rows[running.interrupt]

    assert await closing() == Held(same=False)
    claim = (await hosts.loaded("t")).record.claim
    assert claim is not None
    await ledger.free(key_of("t"), attempt=claim.attempt)
    assert isinstance(await closing(), Begun)

    await assert_ends_once(hosts, bank, running, kind)
    settled = await closing()
    assert isinstance(settled, Settled)
    assert [content["text"] for content in settled.result.contents] == [RESULTS[kind]]


async def pass_by_the_reconciler(hosts: Hosts) -> None:
    """Wait until the reconciler has brought another thread on: it has looked at what is due."""
    brief = await hosts.start(approval_seconds=0.01)
    await brief.send(says("other", "wire INV-9 to ACME"))
    await hosts.until(lambda: hosts.is_closed("other"))


async def is_past_expiry(hosts: Hosts) -> bool:
    loaded = await hosts.loaded("t")
    return all(each.expires_at < loaded.now for each in loaded.record.occurrences)


async def is_silent(hosts: Hosts) -> bool:
    """Whether the holder of the claim has been silent for longer than an observer's lease."""
    claim = (await hosts.loaded("t")).record.claim
    assert claim is not None
    return (await hosts.a.stores.replicas.seen())[claim.holder] > 2 * LEASE_SECONDS
