"""A full thread takes no new message, a run that would outgrow it saves nothing, and an approval is answered."""

from __future__ import annotations

import logging

import pytest

from app.sizes import stored_bytes
from stores import history
from stores.records import RunState
from tests.host.bank import Bank
from tests.host.bodies import answers, approve, cancel, says
from tests.host.hosts import Hosts, key_of

LIMIT = "LIMIT_EXCEEDED"


async def test_a_full_thread_takes_no_new_message_on_any_replica(hosts: Hosts) -> None:
    await hosts.a.send(says("t", "look up INV-1"))
    size = (await hosts.loaded("t")).snapshot_bytes
    full = await hosts.start(snapshot_bytes_max=size)
    before = (await hosts.loaded("t")).snapshot
    body = says("t", "look up INV-2")

    for _ in range(2):
        refused = await full.send(body)
        assert (refused.code, refused.metadata["definite"]) == (LIMIT, hosts.is_certain)
        assert "AGUI_SNAPSHOT_BYTES_MAX" in refused.message
        assert "Start a new one" in refused.message

    loaded = await hosts.loaded("t")
    assert (loaded.record.claim, loaded.snapshot) == (None, before)
    assert (await full.send(says("another", "look up INV-2"))).code is None
    assert (await hosts.b.send(body)).code is None


async def test_an_approval_of_a_full_thread_is_answered_and_recorded(
    hosts: Hosts, bank: Bank, caplog: pytest.LogCaptureFixture
) -> None:
    asked = await hosts.a.send(says("t", "wire INV-1 to ACME"))
    full = await hosts.start(snapshot_bytes_max=10)
    body = answers("t", *map(approve, asked.ids))

    with caplog.at_level(logging.WARNING, logger="app.commits"):
        answered = await full.send(body)

    assert (answered.code, await bank.paid()) == (None, [("INV-1", "ACME")])
    assert (await hosts.c.send(body)).is_replay
    (warned,) = [record.getMessage() for record in caplog.records if record.name == "app.commits"]
    assert "AGUI_SNAPSHOT_BYTES_MAX" in warned


async def test_an_approval_of_a_full_thread_is_cancelled(hosts: Hosts, bank: Bank) -> None:
    asked = await hosts.a.send(says("t", "wire INV-1 to ACME"))
    full = await hosts.start(snapshot_bytes_max=10)

    assert (await full.send(answers("t", *map(cancel, asked.ids)))).code is None

    assert await bank.paid() == []


@pytest.mark.parametrize("words", ["look up INV-2", "wire INV-2 to ACME"])
async def test_a_run_that_would_outgrow_its_thread_saves_nothing(hosts: Hosts, words: str) -> None:
    await hosts.a.send(says("t", "look up INV-1"))
    loaded = await hosts.loaded("t")
    almost_full = await hosts.start(snapshot_bytes_max=loaded.snapshot_bytes + 1)
    body = says("t", words)

    refused = await almost_full.send(body)

    assert refused.code == LIMIT
    assert "AGUI_SNAPSHOT_BYTES_MAX" in refused.message
    assert "af-call-" not in str(refused.events)
    after = await hosts.loaded("t")
    assert (after.snapshot, after.record.occurrences, after.record.claim) == (loaded.snapshot, (), None)
    run = await hosts.a.stores.threads.outcome(key_of("t"), run_id=str(body["runId"]))
    assert run is not None
    assert run.state is RunState.FAILED
    assert (await hosts.b.send(body)).code is None


async def test_what_a_snapshot_will_take_is_what_it_takes(hosts: Hosts) -> None:
    # Long words, so that messages are sealed now and then; the store's own count is the judge.
    for turn in range(8):
        before = await hosts.loaded("t")
        assert (await hosts.a.send(says("t", f"look up INV-{turn} ({'é' * 3_000})"))).code is None
        after = await hosts.loaded("t")
        assert after.snapshot is not None
        expected = stored_bytes(before, history.carried_on(before.snapshot, after.snapshot))
        assert abs(expected - after.snapshot_bytes) < 100


async def test_a_request_with_a_large_state_is_refused(hosts: Hosts) -> None:
    host = await hosts.start(state_bytes_max=50)

    refused = await host.send(says("t", "look up INV-1", state={"notes": "x" * 50}))

    assert refused.code == LIMIT
    assert "AGUI_STATE_BYTES_MAX" in refused.message
    assert (await hosts.loaded("t")).snapshot is None
    assert (await host.send(says("t", "look up INV-1", state={"notes": "x" * 10}))).code is None
