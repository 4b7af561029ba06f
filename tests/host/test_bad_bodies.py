"""A body that is no request gets a status and a reason, and an approval inside of it decides nothing."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.host.bank import Bank
from tests.host.bodies import ROADS, Json, answers, approve, says
from tests.host.hosts import Hosts

BODIES: dict[str, tuple[int, bytes]] = {
    "empty": (422, b""),
    "not JSON": (422, b"{"),
    "a list": (422, b"[]"),
    "a text": (422, b'"resume"'),
    "no messages": (422, b'{"threadId": "t", "runId": "r"}'),
    "messages is a text": (422, b'{"messages": "hello"}'),
    "not UTF-8": (422, b"\xff\xfe"),
    "nested too deeply": (400, b"[" * 100_000),
    "a thread that is a number": (422, b'{"threadId": 1, "runId": "r", "messages": []}'),
    "a NUL in an id": (422, b'{"threadId": "t\\u0000", "runId": "r", "messages": []}'),
    "a NUL in a key": (422, b'{"threadId": "t", "runId": "r", "messages": [], "state": {"\\u0000": 1}}'),
    "half a pair": (422, b'{"threadId": "t", "runId": "\\uD83E", "messages": []}'),
    "half a pair as bytes": (422, b'{"threadId": "t", "runId": "\xed\xa0\xbe", "messages": []}'),
    "2 MB": (413, b'{"messages": [], "x": "' + b"x" * 2_000_000 + b'"}'),
}


async def test_a_body_that_is_no_request_gets_a_status_and_a_reason(hosts: Hosts) -> None:
    await hosts.a.send(says("t", "pay INV-1 to ACME"))
    before = await hosts.dump()

    for case, (status, content) in BODIES.items():
        response = await hosts.b.post(content)
        assert response.status_code == status, (case, response.text)
        assert_says_why(response.json()["detail"])

    assert await hosts.dump() == before


def _cut(body: Json) -> bytes:
    return json.dumps(body).encode()[:-1]


def _listed(body: Json) -> bytes:
    return json.dumps([body]).encode()


def _not_utf_8(body: Json) -> bytes:
    return json.dumps({**body, "state": {"name": "?"}}).encode().replace(b"?", b"\xff")


def _half_a_pair(body: Json) -> bytes:
    return json.dumps({**body, "state": {"name": "\ud83e"}}).encode()


def _big(body: Json) -> bytes:
    return json.dumps({**body, "state": {"name": "x" * 2_000_000}}).encode()


def _followed_by_blanks(body: Json) -> bytes:
    return json.dumps(body).encode() + b" " * 2_000_000


SPOILS: dict[str, tuple[int, Callable[[Json], bytes]]] = {
    "cut": (422, _cut),
    "in a list": (422, _listed),
    "not UTF-8": (400, _not_utf_8),
    "half a pair": (422, _half_a_pair),
    "2 MB": (413, _big),
    "2 MB of blanks": (413, _followed_by_blanks),
}


@pytest.mark.parametrize("road", ROADS)
async def test_an_approval_in_a_body_that_is_no_request_decides_nothing(hosts: Hosts, bank: Bank, road: str) -> None:
    asked = await hosts.a.send(says("t", "pay INV-1 to ACME"))
    body = ROADS[road]("t", [approve(*asked.ids)])
    before = await hosts.dump()

    for case, (status, spoil) in SPOILS.items():
        response = await hosts.b.post(spoil(body))
        assert response.status_code == status, (case, response.text)
        assert_says_why(response.json()["detail"])
        assert (await hosts.dump(), await bank.paid()) == (before, []), case

    assert (await hosts.b.show("t")).ids == asked.ids
    assert (await hosts.b.send(body)).code is None
    assert await bank.paid() == [("INV-1", "ACME")]


async def test_what_is_wrong_is_named_with_its_place(hosts: Hosts) -> None:
    asked = await hosts.a.send(says("t", "pay INV-1 to ACME"))
    body = answers("t", approve(*asked.ids))

    response = await hosts.b.post({**body, "messages": "hello"})

    (problem,) = response.json()["detail"]
    assert problem["loc"] == ["body", "messages"]
    assert problem["msg"] == "Input should be a valid list"


def assert_says_why(detail: Any) -> None:
    """Hold a reason to what a person can use: one text, or for each place in the body what is wrong there."""
    if isinstance(detail, str):
        assert detail
        return
    assert detail
    for problem in detail:
        assert problem["loc"][0] == "body", problem
        assert isinstance(problem["msg"], str), problem
        assert problem["msg"], problem
