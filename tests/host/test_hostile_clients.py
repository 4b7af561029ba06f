"""What a hostile or clumsy client sends: `definite` never lies about it, no limit is passed, no stream breaks."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from stores.ports import Change
from stores.records import Record, ThreadKey, Version
from tests.host.bank import Bank
from tests.host.bodies import answers, approve, cancel, reject, resolve, says
from tests.host.hosts import Hosts, key_of

DEEP = "[" * 100_000


async def wired(hosts: Hosts, thread: str) -> str:
    """Wire an invoice in a thread; answers the interrupt that was approved."""
    asked = await hosts.a.send(says(thread, "wire INV-1 to ACME"))
    assert (await hosts.b.send(answers(thread, approve(*asked.ids)))).code is None
    return asked.ids[0]


@pytest.mark.parametrize("payload", [{"approved": "yes"}, {"approved": True, "unknown": 1}])
async def test_a_bad_answer_to_a_call_that_ran_is_not_definite(hosts: Hosts, bank: Bank, payload: Any) -> None:
    interrupt = await wired(hosts, "t")

    refused = await hosts.c.send(answers("t", resolve(interrupt, payload)))

    assert (refused.code, refused.metadata["definite"]) == ("APPROVAL_RESUME_INVALID", False)


async def test_an_answer_that_leaves_one_out_beside_a_call_that_ran_is_not_definite(hosts: Hosts) -> None:
    interrupt = await wired(hosts, "t")
    asked = await hosts.a.send(says("t", "wire INV-2 and INV-3 to ACME"))

    refused = await hosts.b.send(answers("t", approve(interrupt), approve(asked.ids[0])))

    assert (refused.code, refused.metadata["definite"]) == ("APPROVAL_RESUME_MISSING_INTERRUPT", False)


async def test_a_conflict_about_one_call_speaks_of_its_siblings_too(hosts: Hosts, bank: Bank) -> None:
    asked = await hosts.a.send(says("t", "wire INV-1 and INV-2 to ACME (outage model)"))
    first, second = asked.ids
    await bank.break_model("model", 1)
    assert (await hosts.b.send(answers("t", approve(first), reject(second)))).code == "RUN_FAILED"

    refused = await hosts.c.send(answers("t", approve(first), approve(second)))

    assert (refused.code, refused.metadata["definite"]) == ("APPROVAL_RESUME_CONFLICT", False)


async def test_a_finished_run_is_not_replaced_by_another_under_its_id(hosts: Hosts) -> None:
    finished = await hosts.a.send(says("t", "hello", runId="mine"))
    interrupt = await wired(hosts, "t")
    asked = await hosts.a.send(says("t", "wire INV-2 to ACME"))

    refused = await hosts.b.send(answers("t", approve(interrupt), approve(*asked.ids), runId="mine"))

    assert (finished.code, refused.code) == (None, "RUN_ID_CONFLICT")
    assert (await hosts.c.send(says("t", "hello", runId="mine"))).is_replay


async def test_a_reused_call_id_beside_a_finished_answer_decides_nothing(hosts: Hosts, bank: Bank) -> None:
    asked = await hosts.a.send(says("t", "wire INV-1 to ACME (reuse call ids)"))
    interrupt = asked.ids[0]
    await hosts.b.send(answers("t", approve(interrupt)))
    await hosts.a.send(says("t", "wire INV-2 to ACME (reuse call ids)"))

    refused = await hosts.b.send(answers("t", approve(interrupt), approve("call_1")))

    assert refused.code == "APPROVAL_RESUME_INVALID"
    assert await bank.paid() == [("INV-1", "ACME")]


async def test_two_verdicts_that_differ_are_refused(hosts: Hosts, bank: Bank) -> None:
    asked = await hosts.a.send(says("t", "wire INV-1 to ACME"))

    refused = await hosts.b.send(answers("t", resolve(asked.ids[0], {"accepted": False, "approved": True})))

    assert (refused.code, await bank.paid()) == ("APPROVAL_RESUME_INVALID", [])


@pytest.mark.parametrize(
    "fields",
    [
        {"messages": [{"role": "tool", "toolCallId": "n", "content": "{}"}] * 1001},
        {"state": {"a": [[]]}, "deep": True},
    ],
    ids=["messages", "nesting"],
)
async def test_a_request_over_a_limit_is_refused(hosts: Hosts, fields: dict[str, Any]) -> None:
    if fields.pop("deep", False):
        for _ in range(80):
            fields["state"] = {"a": fields["state"]}
    before = await hosts.dump()

    refused = await hosts.a.send({**says("t", "hello"), **fields})

    assert (refused.code, refused.metadata["definite"]) == ("LIMIT_EXCEEDED", False)
    assert await hosts.dump() == before


@pytest.mark.parametrize(
    "fields",
    [
        {"messages": [{"role": "tool", "toolCallId": "n", "content": DEEP}]},
        {"messages": [{"role": "assistant", "toolCalls": 5}, {"role": "user", "content": "hello"}]},
        {"messages": [{"role": "assistant", "toolCalls": [{"function": "x"}]}, {"role": "user", "content": "hello"}]},
        {"tools": [{"name": ["a"]}]},
    ],
    ids=["deep text", "calls that are no list", "a function that is no object", "a tool without a name"],
)
async def test_a_malformed_message_ends_in_one_terminal_event(hosts: Hosts, fields: dict[str, Any]) -> None:
    ended = await hosts.a.send({**says("t", "hello"), **fields})

    assert ended.code is None or ended.code.isupper()


@pytest.mark.parametrize("payload", [DEEP, '{"approved": true, "payee": "\\ud800"}'])
async def test_a_payload_that_no_one_can_read_ends_as_an_answer_or_a_failure_of_the_call(
    hosts: Hosts, bank: Bank, payload: str
) -> None:
    asked = await hosts.a.send(says("t", "wire INV-1 to ACME"))

    ended = await hosts.b.send(answers("t", resolve(asked.ids[0], payload)))

    assert ended.code in (None, "APPROVAL_RESUME_INVALID", "APPROVAL_RESUME_INVALID_RESPONSE")


async def test_a_body_that_is_no_json_gets_no_500_and_is_not_read_for_a_stranger(hosts: Hosts) -> None:
    for body in (b"nope \\u0000", b"[" * 100_000 + b"\\u0000"):
        response = await hosts.a.client.post("/agents/payments", content=body, headers={"content-type": "text/plain"})
        assert 400 <= response.status_code < 500


async def test_words_sent_with_a_resume_survive_its_take_over(hosts: Hosts, bank: Bank) -> None:
    asked = await hosts.a.send(says("t", "wire INV-1 to ACME"))
    said = {"id": "m-2", "role": "user", "content": "thank you, and look up INV-77"}
    body = answers("t", approve(*asked.ids), messages=[said])
    stop = hosts.b.steps.stop_at("before-finish")
    answering = asyncio.create_task(hosts.b.send(body))
    await stop.wait()

    await hosts.start(lease_seconds=0.3, reconcile_seconds=0.02)
    await hosts.until(lambda: hosts.is_closed("t"))

    snapshot = (await hosts.loaded("t")).snapshot
    assert snapshot is not None
    assert said["content"] in [message.get("content") for message in snapshot.messages]
    assert (await hosts.c.send(body)).is_replay
    hosts.b.steps.let_go()
    await answering
    assert await bank.paid() == [("INV-1", "ACME")]


async def test_threads_of_an_agent_that_is_gone_do_not_keep_the_reconciler_from_the_rest(hosts: Hosts) -> None:
    asked = await hosts.a.send(says("t", "wire INV-1 to ACME"))
    loaded = await hosts.loaded("t")
    threads = hosts.a.stores.threads
    for number in range(30):
        key = ThreadKey(key_of("t").scope, "gone", f"old-{number}")
        change = Change(Version(), f"w-{number}", loaded.record, due_at=1.0)
        await threads.save(key, change=change)
    await threads.save(
        key_of("t"), change=Change(loaded.record.version, "w-t", _expired(loaded.record), due_at=loaded.now - 1)
    )

    await hosts.start(reconcile_seconds=0.02)
    await hosts.until(lambda: hosts.is_closed("t"))

    assert (await hosts.b.send(answers("t", cancel(*asked.ids)))).code == "APPROVAL_RESUME_EXPIRED"


def _expired(record: Record) -> Record:
    return replace(record, occurrences=tuple(replace(each, expires_at=1.0) for each in record.occurrences))
