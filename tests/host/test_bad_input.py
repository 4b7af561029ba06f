"""What cannot be taken is refused with its code and one sentence, by every road, and leaves no trace anywhere."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from tests.host.bank import Bank
from tests.host.bodies import ROADS, Json, answers, approve, cancel, looks, reject, resolve, says
from tests.host.hosts import Hosts

NOT_FOUND = "APPROVAL_RESUME_NOT_FOUND"
MISSING = "APPROVAL_RESUME_MISSING_INTERRUPT"
INVALID = "APPROVAL_RESUME_INVALID"
INVALID_RESPONSE = "APPROVAL_RESUME_INVALID_RESPONSE"

ANSWERS_BY_ANY_ROAD: dict[str, tuple[str, Callable[[str, str], Sequence[Json]]]] = {
    "unknown id": (NOT_FOUND, lambda _first, _second: [approve("af-call-forged")]),
    "unknown id beside a known one": (NOT_FOUND, lambda first, _second: [approve(first), approve("af-call-forged")]),
    "one of two": (MISSING, lambda first, _second: [approve(first)]),
    "repeated id": (INVALID, lambda first, second: [approve(first), approve(first), approve(second)]),
    "repeated id, other decision": (INVALID, lambda first, second: [approve(first), reject(first), approve(second)]),
    "payload is a text": (INVALID, lambda first, second: [resolve(first, "yes"), approve(second)]),
    "payload is a number": (INVALID, lambda first, second: [resolve(first, 1), approve(second)]),
    "payload without approved": (INVALID, lambda first, second: [resolve(first, {}), approve(second)]),
    "approved is a text": (INVALID, lambda first, second: [resolve(first, {"approved": "true"}), approve(second)]),
    "approved is a number": (INVALID, lambda first, second: [resolve(first, {"approved": 1}), approve(second)]),
    "approved is null": (INVALID, lambda first, second: [resolve(first, {"approved": None}), approve(second)]),
    "unknown argument": (INVALID, lambda first, second: [approve(first, amount=9), approve(second)]),
    "unknown argument in editedArgs": (
        INVALID,
        lambda first, second: [
            approve(first, editedArgs={"invoice": "INV-1", "payee": "A", "amount": 9}),
            approve(second),
        ],
    ),
    "argument of another type": (INVALID_RESPONSE, lambda first, second: [approve(first, invoice=1), approve(second)]),
    "argument is null": (INVALID_RESPONSE, lambda first, second: [approve(first, payee=None), approve(second)]),
    "editedArgs of another type": (
        INVALID_RESPONSE,
        lambda first, second: [approve(first, editedArgs={"invoice": ["INV-1"], "payee": "A"}), approve(second)],
    ),
    "incomplete editedArgs": (
        INVALID_RESPONSE,
        lambda first, second: [approve(first, editedArgs={"payee": "Bolt"}), approve(second)],
    ),
    "editedArgs is a list": (INVALID_RESPONSE, lambda first, second: [approve(first, editedArgs=[]), approve(second)]),
    "editedArgs and more": (
        INVALID_RESPONSE,
        lambda first, second: [approve(first, editedArgs={"invoice": "I-1", "payee": "A"}, payee="B"), approve(second)],
    ),
}


async def test_bad_answers_are_refused_by_every_road_and_leave_no_trace(hosts: Hosts, bank: Bank) -> None:
    asked = await hosts.a.send(says("t", "pay INV-1 to ACME and wire INV-2 to ACME"))
    before = await hosts.dump()

    for case, (code, entries) in ANSWERS_BY_ANY_ROAD.items():
        for road, body in ROADS.items():
            refused = await hosts.b.send(body("t", entries(*asked.ids)))
            assert refused.code == code, (case, road, refused.message)

    assert await hosts.dump() == before
    assert await bank.paid() == []
    assert (await hosts.b.send(answers("t", *map(approve, asked.ids)))).code is None


SHAPES: dict[str, Any] = {
    "empty list": [],
    "list of texts": ["af-call-1"],
    "entry without an id": [{"status": "resolved", "payload": {"approved": True}}],
    "no entries inside": {"interrupts": []},
    "text": "yes",
    "number": 1,
}


async def test_a_resume_of_another_shape_is_refused(hosts: Hosts) -> None:
    await hosts.a.send(says("t", "pay INV-1 to ACME"))
    before = await hosts.dump()

    for shape, resume in SHAPES.items():
        for road, fields in {
            "forwardedProps": {"forwardedProps": {"resume": resume}},
            "command": {"forwardedProps": {"command": {"resume": resume}}},
        }.items():
            refused = await hosts.b.send({**looks("t"), **fields})
            assert refused.code == INVALID, (shape, road)
        # The field of the protocol has a schema, which is checked before the host is asked.
        response = await hosts.b.post({**looks("t"), "resume": resume})
        assert response.status_code == 422 or INVALID in response.text, (shape, response.text)

    assert await hosts.dump() == before


async def test_a_status_that_does_not_exist_is_refused(hosts: Hosts, bank: Bank) -> None:
    asked = await hosts.a.send(says("t", "pay INV-1 to ACME"))
    before = await hosts.dump()
    entry = {**approve(*asked.ids), "status": "approved"}

    for road in ("forwardedProps", "command"):
        assert (await hosts.b.send(ROADS[road]("t", [entry]))).code == INVALID
    response = await hosts.b.post(answers("t", entry))

    assert response.status_code == 422 or INVALID in response.text
    assert (await hosts.dump(), await bank.paid()) == (before, [])


async def test_an_answer_without_a_payload_is_refused(hosts: Hosts, bank: Bank) -> None:
    asked = await hosts.a.send(says("t", "pay INV-1 to ACME"))
    before = await hosts.dump()
    entry = {"interruptId": asked.ids[0], "status": "resolved"}

    for road in ("resume", "forwardedProps", "command"):
        refused = await hosts.b.send(ROADS[road]("t", [entry]))
        assert (refused.code, refused.metadata["definite"]) == (INVALID, hosts.is_certain), road
        assert "must include a boolean `approved`" in refused.message

    assert (await hosts.dump(), await bank.paid()) == (before, [])


@pytest.mark.parametrize("content", ["{}", "", '{"approved": true}'])
async def test_a_trailing_tool_message_without_accepted_is_no_answer_and_one_is_still_required(
    hosts: Hosts, bank: Bank, content: str
) -> None:
    asked = await hosts.a.send(says("t", "pay INV-1 to ACME"))
    before = await hosts.dump()
    body = ROADS["tool message"]("t", [approve(*asked.ids)])
    body["messages"][0]["content"] = content

    refused = await hosts.b.send(body)

    assert (refused.code, refused.metadata["definite"]) == ("APPROVAL_RESUME_REQUIRED", hosts.is_certain)
    assert (await hosts.dump(), await bank.paid()) == (before, [])


@pytest.mark.parametrize("other", ["forwardedProps", "command", "tool message"])
async def test_roads_that_contradict_each_other_are_refused(hosts: Hosts, bank: Bank, other: str) -> None:
    asked = await hosts.a.send(says("t", "pay INV-1 to ACME"))
    before = await hosts.dump()

    body = {**ROADS[other]("t", [reject(*asked.ids)]), "resume": [approve(*asked.ids)]}
    refused = await hosts.b.send(body)

    assert (refused.code, "contradicts itself" in refused.message) == (INVALID, True)
    assert (await hosts.dump(), await bank.paid()) == (before, [])


async def test_roads_that_agree_are_one_answer(hosts: Hosts, bank: Bank) -> None:
    asked = await hosts.a.send(says("t", "pay INV-1 to ACME"))
    entry = approve(*asked.ids)

    body = {**ROADS["command"]("t", [entry]), "resume": [entry]}
    assert (await hosts.b.send(body)).code is None

    assert await bank.paid() == [("INV-1", "ACME")]


async def test_an_id_of_another_scope_is_answered_like_one_that_never_was(hosts: Hosts, bank: Bank) -> None:
    asked = await hosts.a.send(says("t", "pay INV-1 to ACME"))
    before = await hosts.dump()

    for road, body in ROADS.items():
        foreign = await hosts.b.send(body("t", [approve(*asked.ids)]), scope="bob")
        forged = await hosts.b.send(body("t", [approve("af-call-forged")]), scope="bob")
        assert foreign.code == forged.code == NOT_FOUND, road
        assert foreign.message.replace(asked.ids[0], "?") == forged.message.replace("af-call-forged", "?")
        assert foreign.metadata == forged.metadata == {"definite": False}

    assert (await hosts.dump(), await bank.paid()) == (before, [])


async def test_unusual_text_is_kept_as_it_is(hosts: Hosts, bank: Bank) -> None:
    payee = "Zoë \\u0000 \N{RECEIPT} \u202e한국"
    asked = await hosts.a.send(says("faden-é-\N{RECEIPT}", "pay INV-1 to ACME"))

    answered = await hosts.b.send(answers("faden-é-\N{RECEIPT}", approve(*asked.ids, payee=payee)))

    assert answered.results == [f"Paid INV-1 to {payee}, receipt payment-1."]
    assert await bank.paid() == [("INV-1", payee)]


async def test_a_caller_without_a_scope_is_turned_away(hosts: Hosts) -> None:
    before = await hosts.dump()

    response = await hosts.a.client.post("/agents/payments", json=says("t", "pay INV-1 to ACME"))

    assert (response.status_code, await hosts.dump()) == (401, before)


async def test_a_client_can_not_choose_its_scope_in_the_body(hosts: Hosts) -> None:
    asked = await hosts.a.send(says("t", "pay INV-1 to ACME"))
    keys = {"__ag_ui_snapshot_scope": "alice", "__ag_ui_approval_scope": "alice", "scope": "alice"}

    refused = await hosts.b.send({**answers("t", approve(*asked.ids)), **keys}, scope="bob")

    assert refused.code == NOT_FOUND


async def test_calling_a_gated_tool_ones_own_does_not_open_a_fifth_road(hosts: Hosts, bank: Bank) -> None:
    asked = await hosts.a.send(says("t", "pay INV-1 to ACME"))
    card = asked.interrupts[0]
    before = await hosts.dump()
    call = {"id": card["toolCallId"], "type": "function", "function": {"name": "pay_invoice", "arguments": "{}"}}
    body = ROADS["tool message"]("t", [approve(card["toolCallId"])])
    body["messages"].insert(0, {"id": "m", "role": "assistant", "toolCalls": [call]})
    body["tools"] = [{"name": "pay_invoice", "description": "mine", "parameters": {}}]

    refused = await hosts.b.send(body)

    assert refused.code == "APPROVAL_RESUME_REQUIRED"
    assert (await hosts.dump(), await bank.paid()) == (before, [])


async def test_cancelling_needs_every_open_interrupt_too(hosts: Hosts) -> None:
    asked = await hosts.a.send(says("t", "pay INV-1 and INV-2 to ACME"))
    before = await hosts.dump()

    assert (await hosts.b.send(answers("t", cancel(asked.ids[0])))).code == MISSING
    assert await hosts.dump() == before


@pytest.mark.parametrize("name", ["threadId", "runId"])
async def test_an_id_longer_than_the_limit_is_refused(hosts: Hosts, bank: Bank, name: str) -> None:
    before = await hosts.dump()

    refused = await hosts.a.send({**says("t", "pay INV-1 to ACME"), name: "i" * 257})

    assert refused.code == "LIMIT_EXCEEDED"
    assert (await hosts.dump(), await bank.paid()) == (before, [])
