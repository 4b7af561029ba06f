"""Where answers are missing the stream shows what is open, and who repeats a paused run is shown no dead card."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.host.answers import Answer, Json
from tests.host.bank import Bank
from tests.host.bodies import answers, approve, cancel, reject, says
from tests.host.hosts import Hosts

WORDS = "pay INV-1 to ACME and wire INV-2 to Bolt and wire INV-3 to Coil"
REQUIRED = "APPROVAL_RESUME_REQUIRED"
MISSING = "APPROVAL_RESUME_MISSING_INTERRUPT"


def requests(answer: Answer) -> list[Json]:
    """Return what a stream says of calls that wait for a person, without the time it was said."""
    asked = [event for event in answer.of("CUSTOM") if event["name"] == "function_approval_request"]
    return [{key: value for key, value in event.items() if key != "timestamp"} for event in asked]


def told(answer: Answer) -> list[Json]:
    approvals: list[Json] = answer.metadata["approvals"]
    return approvals


async def test_a_new_message_is_refused_with_all_that_is_open_as_the_pause_showed_it(hosts: Hosts) -> None:
    live = await hosts.a.send(says("t", WORDS))
    before = await hosts.dump_threads()

    for host in (hosts.a, hosts.b, hosts.c):
        refused = await host.send(says("t", "hello"))

        assert refused.code == REQUIRED
        assert requests(refused) == requests(live)
        assert refused.metadata["interrupts"] == live.interrupts
        assert told(refused) == [{"interruptId": name, "state": "pending"} for name in live.ids]
        assert [event["type"] for event in refused.events] == ["RUN_STARTED", *["CUSTOM"] * 3, "RUN_ERROR"]
    assert await hosts.dump_threads() == before


async def test_an_answer_to_some_of_them_is_refused_with_all_that_is_open_and_names_the_missing_ones(
    hosts: Hosts, bank: Bank
) -> None:
    live = await hosts.a.send(says("t", WORDS))
    before = await hosts.dump_threads()

    refused = await hosts.b.send(answers("t", approve(live.ids[0])))

    assert refused.code == MISSING
    assert all(name in refused.message for name in live.ids[1:])
    assert live.ids[0] not in refused.message
    assert requests(refused) == requests(live)
    assert refused.metadata["interrupts"] == live.interrupts
    assert all(card["expiresAt"] for card in refused.metadata["interrupts"])
    assert (await hosts.dump_threads(), await bank.calls()) == (before, 0)


async def test_who_is_shown_the_cards_by_a_refusal_can_answer_them(hosts: Hosts, bank: Bank) -> None:
    await hosts.a.send(says("t", "pay INV-1 to ACME"))

    (card,) = (await hosts.b.send(says("t", "hello"))).metadata["interrupts"]

    assert (await hosts.c.send(answers("t", approve(card["id"])))).code is None
    assert await bank.paid() == [("INV-1", "ACME")]


async def test_a_refusal_shows_no_card_that_was_answered_and_says_how_far_it_got(hosts: Hosts, bank: Bank) -> None:
    asked = await hosts.a.send(says("t", "pay INV-1 to ACME (outage o)"))
    await bank.break_model("o", times=1)
    assert (await hosts.a.send(answers("t", approve(*asked.ids)))).code == "RUN_FAILED"

    refused = await hosts.b.send(says("t", "hello"))

    assert (refused.code, requests(refused), refused.metadata["interrupts"]) == (REQUIRED, [], [])
    assert told(refused) == [{"interruptId": asked.ids[0], "state": "decided", "decision": "approve"}]


async def test_another_scope_is_shown_nothing_of_it(hosts: Hosts) -> None:
    asked = await hosts.a.send(says("t", "pay INV-1 to ACME"))

    refused = await hosts.b.send(answers("t", approve(*asked.ids)), scope="bob")

    assert (refused.code, requests(refused)) == ("APPROVAL_RESUME_NOT_FOUND", [])
    assert not {"interrupts", "approvals"} & refused.metadata.keys()


async def test_a_repeated_paused_run_shows_its_cards_while_they_are_open(hosts: Hosts) -> None:
    body = says("t", WORDS)
    live = await hosts.a.send(body)

    repeated = await hosts.b.send(body)

    assert (repeated.is_replay, repeated.interrupts) == (True, live.interrupts)
    assert [each["state"] for each in told(repeated)] == ["pending"] * 3


@pytest.mark.parametrize(
    ("decide", "state"),
    [(approve, "finished"), (reject, "rejected"), (cancel, "cancelled")],
    ids=["approved", "rejected", "cancelled"],
)
async def test_a_repeated_paused_run_offers_no_card_that_was_answered_since(
    hosts: Hosts, decide: Callable[[str], Json], state: str
) -> None:
    body = says("t", "wire INV-1 to ACME")
    asked = await hosts.a.send(body)
    await hosts.b.send(answers("t", decide(*asked.ids)))
    before = await hosts.dump_threads()

    repeated = await hosts.c.send(body)

    assert (repeated.code, repeated.is_replay, repeated.interrupts) == (None, True, [])
    assert [(each["interruptId"], each["state"]) for each in told(repeated)] == [(asked.ids[0], state)]
    assert await hosts.dump_threads() == before


async def test_a_repeated_paused_run_offers_no_card_that_expired_since(hosts: Hosts) -> None:
    brief = await hosts.start(approval_seconds=0.05)
    body = says("t", "wire INV-1 to ACME")
    asked = await brief.send(body)
    await hosts.until(lambda: is_past_expiry(hosts))

    repeated = await hosts.b.send(body)
    assert (repeated.interrupts, [each["state"] for each in told(repeated)]) == ([], ["expired"])

    assert (await hosts.b.send(answers("t", approve(*asked.ids)))).code == "APPROVAL_RESUME_EXPIRED"
    await hosts.b.send(says("t", "look up INV-2"))
    repeated = await hosts.b.send(body)
    assert (repeated.is_replay, repeated.interrupts) == (True, [])
    assert [(each["interruptId"], each["state"]) for each in told(repeated)] == [(asked.ids[0], "expired")]


async def test_a_repeated_resume_that_paused_anew_offers_what_is_open_of_its_own_pause(hosts: Hosts) -> None:
    first = await hosts.a.send(says("t", "pay INV-1 to ACME then wire INV-2 to Bolt"))
    body = answers("t", approve(*first.ids))
    second = await hosts.a.send(body)
    assert second.ids
    assert (await hosts.b.send(body)).interrupts == second.interrupts

    await hosts.b.send(answers("t", reject(*second.ids)))

    repeated = await hosts.c.send(body)
    assert (repeated.is_replay, repeated.results, repeated.interrupts) == (True, second.results, [])
    assert [(each["interruptId"], each["state"]) for each in told(repeated)] == [(second.ids[0], "rejected")]


async def is_past_expiry(hosts: Hosts) -> bool:
    loaded = await hosts.loaded("t")
    return all(each.expires_at < loaded.now for each in loaded.record.occurrences)
