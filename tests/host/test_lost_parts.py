"""A thread that lost exactly one part fails closed: the answer names it, nothing executes, nothing is rebuilt."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import pytest
from agent_framework import WorkflowCheckpoint, WorkflowCheckpointException

from app.upstream import decode_checkpoint, encode_checkpoint
from stores.checkpoint_storage import ThreadCheckpointStorage
from stores.sealing import Seal
from tests.conformance.adapters import Adapter
from tests.conformance.back_doors.port import Part
from tests.host.answers import Answer
from tests.host.back_doors import apart, back_door_to
from tests.host.bank import Bank
from tests.host.bodies import Json, answers, approve, cancel, looks, reject, says
from tests.host.hosts import Host, Hosts, key_of

LEASE_SECONDS = 0.3
"""An observer's lease: the other hosts said once that they live, and are dead to it when this has passed."""
IN_PROGRESS = "APPROVAL_RESUME_IN_PROGRESS"
STALE = "APPROVAL_RESUME_STALE"
NOT_FOUND = "APPROVAL_RESUME_NOT_FOUND"
DOUBT = "APPROVAL_OUTCOME_INDETERMINATE"
WORDS = {"idempotent": "pay INV-1 to ACME", "unsafe": "wire INV-1 to ACME"}
NAMES: dict[Part, str] = {"snapshot": "snapshot", "bag": "tool_approval bag"}
"""What the message calls a part of a pause."""
LONG = "look up INV-0" + " please" * 4_000
"""More words than the history holds in one chunk: what follows them is stored apart from them."""
KEY = bytes(range(32))


async def lose(hosts: Hosts, part: Part) -> None:
    await back_door_to(hosts.a.stores).lose(key_of("t"), part)


async def assert_refused(hosts: Hosts, host: Host, body: Json) -> Answer:
    """Send a body that is refused and leaves everything as it is; answers how."""
    before = await hosts.dump_threads()
    refused = await hosts.answered(host, body, unless=IN_PROGRESS)
    assert refused.code is not None
    assert stored(await hosts.dump_threads()) == stored(before)
    return refused


@dataclass(frozen=True, slots=True)
class Decided:
    """A decided thread whose call never began: its holder is frozen, and `observer` takes it for dead."""

    interrupt: str
    observer: Host
    holder: Host
    answering: asyncio.Task[Answer]

    async def thaw(self) -> None:
        """Let the holder go on: what it was about to begin is not its to begin any more."""
        self.holder.steps.let_go()
        assert (await self.answering).code == IN_PROGRESS


async def decide(hosts: Hosts, kind: str) -> Decided:
    """Approve a call on a host that freezes. The ledger is one elsewhere: no call is begun with its claim."""
    holder = await hosts.start(decorate=apart)
    asked = await hosts.a.send(says("t", WORDS[kind]))
    stop = holder.steps.stop_at("before-begin")
    answering = asyncio.create_task(holder.send(answers("t", approve(*asked.ids))))
    await stop.wait()
    observer = await hosts.start(decorate=apart, lease_seconds=LEASE_SECONDS)
    return Decided(asked.ids[0], observer, holder, answering)


@pytest.mark.parametrize("part", NAMES)
@pytest.mark.parametrize("kind", WORDS)
async def test_a_pause_without_a_part_is_stale_and_left_by_cancelling_it(
    hosts: Hosts, bank: Bank, kind: str, part: Part
) -> None:
    asked = await hosts.a.send(says("t", WORDS[kind]))
    await lose(hosts, part)

    for host in (hosts.a, hosts.b):
        for answer in (approve, reject):
            refused = await assert_refused(hosts, host, answers("t", answer(*asked.ids)))
            assert (refused.code, refused.metadata["definite"]) == (STALE, hosts.is_certain)
            assert NAMES[part] in refused.message
        assert (await assert_refused(hosts, host, says("t", "hello"))).code == "APPROVAL_RESUME_REQUIRED"
    await assert_left(hosts, bank, *asked.ids)


@pytest.mark.parametrize("part", NAMES)
@pytest.mark.parametrize("kind", WORDS)
async def test_a_decided_thread_without_a_part_is_stale_and_left_by_cancelling_it(
    hosts: Hosts, bank: Bank, kind: str, part: Part
) -> None:
    decided = await decide(hosts, kind)
    await lose(hosts, part)

    refused = await assert_refused(hosts, decided.observer, answers("t", approve(decided.interrupt)))

    assert (refused.code, NAMES[part] in refused.message) == (STALE, True)
    await assert_left(hosts, bank, decided.interrupt, by=decided.observer)
    await decided.thaw()
    assert await bank.calls() == 0


async def assert_left(hosts: Hosts, bank: Bank, interrupt: str, *, by: Host | None = None) -> None:
    """A cancel ends the pause, whatever it lost, and the thread goes on without it."""
    assert (await (by or hosts.c).send(answers("t", cancel(interrupt)))).code is None
    assert (await hosts.b.send(says("t", "look up INV-2"))).code is None
    assert (await hosts.a.send(answers("t", approve(interrupt)))).code == "APPROVAL_RESUME_CONFLICT"
    assert (await bank.calls(), await bank.paid()) == (0, [])


@pytest.mark.parametrize("kind", WORDS)
async def test_a_decided_call_without_its_effect_row_does_not_start_and_a_cancel_ends_in_doubt(
    hosts: Hosts, bank: Bank, kind: str
) -> None:
    decided = await decide(hosts, kind)
    await lose(hosts, "effect")

    refused = await assert_refused(hosts, decided.observer, answers("t", approve(decided.interrupt)))

    assert (refused.code, "effect row" in refused.message) == (STALE, True)
    assert refused.metadata["definite"] is False
    await assert_doubted(hosts, decided.observer, decided.interrupt)
    await decided.thaw()
    assert (await bank.calls(), await bank.paid()) == (0, [])


@pytest.mark.parametrize("kind", WORDS)
async def test_a_call_that_was_made_and_lost_its_effect_row_is_not_made_again(
    hosts: Hosts, bank: Bank, kind: str
) -> None:
    asked = await hosts.a.send(says("t", f"{WORDS[kind]} (outage o)"))
    await bank.break_model("o", times=1)
    assert (await hosts.b.send(answers("t", approve(*asked.ids)))).code == "RUN_FAILED"
    await lose(hosts, "effect")

    refused = await assert_refused(hosts, hosts.a, answers("t", approve(*asked.ids)))

    assert (refused.code, "effect row" in refused.message) == (STALE, True)
    assert refused.metadata["definite"] is False
    await assert_doubted(hosts, hosts.a, *asked.ids)
    assert (await bank.calls(), await bank.paid()) == (1, [("INV-1", "ACME")])


async def assert_doubted(hosts: Hosts, host: Host, interrupt: str) -> None:
    """Nobody can tell whether the call ran: a cancel says so, and so does all that follows."""
    doubted = await host.send(answers("t", cancel(interrupt)))
    assert (doubted.code, doubted.metadata["definite"]) == (DOUBT, False)
    for body in (answers("t", approve(interrupt)), says("t", "hello")):
        assert (await assert_refused(hosts, hosts.b, body)).code == DOUBT
    assert (await assert_refused(hosts, hosts.b, answers("t", cancel(interrupt)))).metadata["definite"] is False


@pytest.mark.parametrize("kind", WORDS)
async def test_a_pause_without_its_record_is_stale_and_left_by_cancelling_it(
    hosts: Hosts, bank: Bank, kind: str
) -> None:
    asked = await hosts.a.send(says("t", WORDS[kind]))
    await lose(hosts, "record")

    for host in (hosts.a, hosts.b):
        for answer in (approve, reject):
            refused = await assert_refused(hosts, host, answers("t", answer(*asked.ids)))
            assert (refused.code, refused.metadata["definite"]) == (STALE, False)
            assert "approval record" in refused.message
        other = await assert_refused(hosts, host, answers("t", cancel("unheard-of")))
        assert (other.code, other.metadata["definite"]) == (NOT_FOUND, False)
        # The snapshot still has the card; without its record nobody may approve it, so nobody is shown it.
        assert (await host.show("t")).ids == []
        told = await host.send(says("t", "hello"))
        assert (told.code, "approval record" in told.message) == (STALE, True)
    await assert_left(hosts, bank, *asked.ids)


@pytest.mark.parametrize("kind", WORDS)
async def test_a_call_that_was_made_and_lost_its_record_is_not_made_again(hosts: Hosts, bank: Bank, kind: str) -> None:
    asked = await hosts.a.send(says("t", f"{WORDS[kind]} (outage o)"))
    await bank.break_model("o", times=1)
    assert (await hosts.b.send(answers("t", approve(*asked.ids)))).code == "RUN_FAILED"
    await lose(hosts, "record")

    refused = await assert_refused(hosts, hosts.a, answers("t", approve(*asked.ids)))

    assert (refused.code, refused.metadata["definite"]) == (STALE, False)
    # What it was that ran nobody knows any more: neither is it repeated, nor said that it did not happen.
    left = await assert_refused(hosts, hosts.b, answers("t", cancel(*asked.ids)))
    assert (left.code, "operator" in left.message, left.metadata["definite"]) == (STALE, True, False)
    assert (await bank.calls(), await bank.paid()) == (1, [("INV-1", "ACME")])


@pytest.mark.parametrize("kind", WORDS)
async def test_a_pause_without_an_early_part_of_its_history_is_stale(hosts: Hosts, bank: Bank, kind: str) -> None:
    await hosts.a.send(says("t", LONG))
    asked = await hosts.a.send(says("t", WORDS[kind]))
    await lose(hosts, "chunk")

    for host in (hosts.a, hosts.b):
        for body in (answers("t", approve(*asked.ids)), answers("t", reject(*asked.ids)), says("t", "hello")):
            refused = await assert_refused(hosts, host, body)
            assert (refused.code, "snapshot" in refused.message) == (STALE, True)
        # Half a conversation is not shown as if it were the whole.
        assert (await assert_refused(hosts, host, looks("t"))).code == STALE
    assert (await bank.calls(), await bank.paid()) == (0, [])


@pytest.mark.parametrize("is_all", [False, True], ids=["one of two", "all"])
async def test_a_lost_checkpoint_is_an_error_that_names_it(adapter: Adapter, is_all: bool) -> None:
    stores = await adapter.open_another()
    storage = ThreadCheckpointStorage(
        stores.checkpoints,
        key_of("t"),
        seal=Seal.from_text(KEY.hex()),
        encode=encode_checkpoint,
        decode=decode_checkpoint,
        keep=20,
    )
    first, last = [
        WorkflowCheckpoint(workflow_name="refunds", graph_signature_hash="graph", checkpoint_id=name)
        for name in ("checkpoint-1", "checkpoint-2")
    ]
    for each in (first, last):
        await storage.save(each)
    assert (await storage.load(last.checkpoint_id)).checkpoint_id == last.checkpoint_id

    if is_all:
        await adapter.back_door.lose(key_of("t"), "checkpoints")
    else:
        await stores.checkpoints.delete(key_of("t"), checkpoint_id=last.checkpoint_id)

    with pytest.raises(WorkflowCheckpointException, match="checkpoint-2"):
        await storage.load(last.checkpoint_id)


def stored(text: str) -> list[str]:
    """Leave out who said when that it lives, however the store names that."""
    return [line for line in text.splitlines() if "{replicas}" not in line]
