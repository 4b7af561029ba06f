"""A call that the model's provider runs: a person's decision reaches it once, whatever becomes of the run around it."""

from __future__ import annotations

import asyncio

import pytest

from app.doubts import doubts_of
from app.resolve import Ended, Statement
from app.settings import Environment, ScopeResolver, Settings
from stores.records import ToolResult
from tests.host.agents import serve
from tests.host.answers import Answer
from tests.host.bank import Bank
from tests.host.bodies import Json, answers, approve, reject, says
from tests.host.hosted import ProviderSide, hosting
from tests.host.hosts import Hosts, key_of

LEASE_SECONDS = 0.3
"""An observer's lease: the other hosts said once that they live, and are dead to it when this has passed."""
IN_PROGRESS = "APPROVAL_RESUME_IN_PROGRESS"
DOUBT = "APPROVAL_OUTCOME_INDETERMINATE"
DELETED = "Done. hosted-1: deleted. "


@pytest.fixture(autouse=True)
def side(monkeypatch: pytest.MonkeyPatch) -> ProviderSide:
    """The provider of all hosts that start from now on."""
    side = ProviderSide()
    serve(monkeypatch, hosting(side))
    return side


async def ask(hosts: Hosts, words: str = "delete Ann") -> Json:
    """Let the model ask; answers a body that approves everything."""
    asked = await hosts.a.send(says("t", words))
    assert asked.code is None, asked.message
    return answers("t", *map(approve, asked.ids))


@pytest.mark.parametrize("options", [{"store": True}, {}])
async def test_an_approved_hosted_call_is_sent_once_and_a_duplicate_gets_its_answer(
    hosts: Hosts, side: ProviderSide, options: Json
) -> None:
    side.options = options
    hosts.b = await hosts.start()
    body = await ask(hosts)

    answered = await hosts.b.send(body)
    replayed = await hosts.c.send(body)

    assert (answered.code, answered.text, answered.interrupts) == (None, DELETED, [])
    assert (replayed.code, replayed.text, replayed.is_replay) == (None, DELETED, True)
    assert (await hosts.a.send(says("t", "hello"))).text == "Hello. "
    assert side.decisions == [("hosted-1", True)]
    assert await hosts.is_closed("t")


async def test_the_response_streams_while_it_comes_and_a_stored_conversation_goes_on(
    hosts: Hosts, side: ProviderSide
) -> None:
    answered = await hosts.b.send(await ask(hosts))
    await hosts.a.send(says("t", "hello"))

    assert len(answered.of("TEXT_MESSAGE_CONTENT")) == 2
    assert side.conversations == [None, "conversation-1", "conversation-2"]
    assert side.requests == [["text"], ["function_approval_response"], ["text"]]


async def test_a_rejection_is_sent_to_the_provider(hosts: Hosts, side: ProviderSide) -> None:
    await ask(hosts)

    answered = await hosts.b.send(answers("t", reject("hosted-1")))

    assert (answered.code, answered.text) == (None, "Done. hosted-1: left alone. ")
    assert side.decisions == [("hosted-1", False)]
    assert (await hosts.a.stores.effects.read(key_of("t"), interrupts=["hosted-1"]))["hosted-1"].state == "closed"


async def test_a_rejection_is_sent_again_if_its_run_failed(hosts: Hosts, side: ProviderSide) -> None:
    await ask(hosts)
    body = answers("t", reject("hosted-1"))
    side.breaks = [1]

    failed = await hosts.b.send(body)
    answered = await hosts.c.send(body)

    assert (failed.code, answered.text) == ("RUN_FAILED", "Done. hosted-1: left alone. ")
    assert side.ran == []


async def test_of_a_local_call_the_provider_is_sent_the_result_and_of_a_hosted_one_the_decision(
    hosts: Hosts, side: ProviderSide, bank: Bank
) -> None:
    body = await ask(hosts, "delete Ann and wire it")

    answered = await hosts.b.send(body)

    assert (answered.code, answered.results) == (None, ["Wired INV-1 to ACME, receipt wire-1."])
    assert side.decisions == [("hosted-1", True)]
    assert side.results == ["Wired INV-1 to ACME, receipt wire-1."]
    assert await bank.paid() == [("INV-1", "ACME")]


async def test_of_one_batch_an_approval_and_a_rejection_are_sent_together(hosts: Hosts, side: ProviderSide) -> None:
    await ask(hosts, "delete Ann, delete Bob, delete Eve")
    entries = [approve("hosted-1"), reject("hosted-2"), approve("hosted-3")]

    answered = await hosts.b.send(answers("t", *entries))

    assert answered.text == "Done. hosted-1: deleted. hosted-2: left alone. hosted-3: deleted. "
    assert side.decisions == [("hosted-1", True), ("hosted-2", False), ("hosted-3", True)]


async def test_a_later_request_of_the_same_run_does_not_carry_the_decision_again(
    hosts: Hosts, side: ProviderSide
) -> None:
    side.options, side.looks_up = {}, True
    hosts.b = await hosts.start()

    answered = await hosts.b.send(await ask(hosts))

    assert (answered.code, answered.results) == (None, ["Invoice INV-1: 165 EUR."])
    assert side.decisions == [("hosted-1", True)]
    assert len(side.requests) == 3


@pytest.mark.parametrize("words", ["delete Ann", "delete Ann, delete Bob"])
async def test_a_run_that_fails_after_the_response_is_carried_on_with_the_response_as_it_was_recorded(
    hosts: Hosts, side: ProviderSide, words: str
) -> None:
    side.looks_up, side.breaks = True, [None, None, 1]
    body = await ask(hosts, words)

    failed = await hosts.b.send(body)
    answered = await hosts.c.send(body)

    assert (failed.code, answered.code, answered.interrupts) == ("RUN_FAILED", None, [])
    assert answered.results == ["Invoice INV-1: 165 EUR."]
    assert side.ran == [f"hosted-{number}" for number in range(1, words.count("delete") + 1)]
    assert side.conversations[-2:] == ["conversation-2", "conversation-2"]
    assert await hosts.is_closed("t")


@pytest.mark.parametrize("updates", [0, 1, 2])
async def test_a_response_that_breaks_off_leaves_doubt_and_the_decision_is_not_sent_again(
    hosts: Hosts, side: ProviderSide, updates: int
) -> None:
    body = await ask(hosts)
    side.breaks = [updates]

    broken = await hosts.b.send(body)
    again = await hosts.c.send(body)

    assert (broken.code, again.code) == (DOUBT, DOUBT)
    assert broken.text == "".join(["Done. ", "hosted-1: deleted. "][:updates])
    assert side.decisions == [("hosted-1", True)]
    assert (await hosts.a.show("t")).states == ["indeterminate"]


@pytest.mark.parametrize(
    ("stated", "text", "sent"), [("Ann is gone.", "Ann is gone.", 1), (None, "Done. hosted-1: deleted. ", 2)]
)
async def test_what_an_operator_states_of_a_broken_response_is_what_its_run_goes_on_with(
    hosts: Hosts, side: ProviderSide, stated: str | None, text: str, sent: int
) -> None:
    body = await ask(hosts)
    side.breaks = [0]
    await hosts.b.send(body)
    settings = Settings(environment=Environment.DEVELOPMENT, scope=ScopeResolver.FIXED)
    doubts = doubts_of(settings, hosts.b.stores)
    doubt = await doubts.find(key_of("t"), "hosted-1")
    assert doubt is not None

    result = ToolResult(({"type": "text", "text": stated},)) if stated else None
    statement = Statement(doubt.attempt, result, by="operator-1", evidence="the provider's log", has_ended=True)
    assert await doubts.resolve(key_of("t"), "hosted-1", statement) == Ended(result)

    answered = await hosts.c.send(body)
    assert (answered.code, answered.text) == (None, text)
    assert len(side.decisions) == sent


async def test_no_words_that_a_call_failed_reach_a_stored_conversation_while_it_is_in_doubt(
    hosts: Hosts, side: ProviderSide, bank: Bank
) -> None:
    hasty = await hosts.start(tool_seconds=0.3)
    body = await ask(hosts, "wire it")
    await bank.delay("INV-1", 600)

    assert (await hasty.send(body)).code == DOUBT

    await bank.delay("INV-1", 0)
    assert side.requests == [["text"]]


async def freeze(hosts: Hosts, step: str) -> tuple[Json, asyncio.Task[Answer]]:
    """Let B stop while it carries out an approval; answers what it was sent, and what it is doing."""
    body = await ask(hosts)
    stop = hosts.b.steps.stop_at(step)
    answering = asyncio.create_task(hosts.b.send(body))
    await stop.wait()
    return body, answering


@pytest.mark.parametrize("step", ["after-claim", "before-begin", "after-settle", "before-finish"])
async def test_a_call_that_had_not_begun_or_had_ended_is_carried_on_by_another_host(
    hosts: Hosts, side: ProviderSide, step: str
) -> None:
    body, answering = await freeze(hosts, step)

    await hosts.start(lease_seconds=LEASE_SECONDS, reconcile_seconds=0.02)
    await hosts.until(lambda: hosts.is_closed("t"))

    hosts.b.steps.let_go()
    assert (await answering).code == IN_PROGRESS
    replayed = await hosts.c.send(body)
    assert (replayed.is_replay, replayed.text) == (True, DELETED)
    assert side.decisions == [("hosted-1", True)]


@pytest.mark.parametrize(("step", "sent"), [("after-begin", 0), ("after-effect", 1)])
async def test_a_call_that_had_begun_is_in_doubt_until_its_host_tells(
    hosts: Hosts, side: ProviderSide, step: str, sent: int
) -> None:
    body, answering = await freeze(hosts, step)

    observer = await hosts.start(lease_seconds=LEASE_SECONDS, reconcile_seconds=0.02)
    await hosts.until(lambda: is_in_doubt(hosts))

    assert (await hosts.c.send(body)).code == DOUBT
    assert len(side.decisions) == sent
    hosts.b.steps.let_go()
    assert (await answering).code == IN_PROGRESS
    answered = await hosts.answered(observer, body, unless=IN_PROGRESS)
    assert (answered.code, answered.text) == (None, DELETED)
    assert side.decisions == [("hosted-1", True)]


async def is_in_doubt(hosts: Hosts) -> bool:
    return (await hosts.a.show("t")).states == ["indeterminate"]


async def test_edited_arguments_are_refused_and_the_approval_stays_open(hosts: Hosts, side: ProviderSide) -> None:
    body = await ask(hosts)

    refused = await hosts.b.send(answers("t", approve("hosted-1", editedArgs={"who": "Bob"})))

    assert refused.code == "APPROVAL_RESUME_INVALID_RESPONSE"
    assert "does not support edited arguments" in refused.message
    assert side.decisions == []
    assert (await hosts.b.send(body)).text == DELETED


async def test_a_tool_that_is_not_configured_any_more_is_unavailable_until_it_is_again(
    hosts: Hosts, side: ProviderSide
) -> None:
    body = await ask(hosts)
    side.tools = [{"type": "mcp", "server_label": "wiki", "require_approval": "always"}]
    without = await hosts.start()

    assert (await without.send(body)).code == "APPROVAL_TOOL_UNAVAILABLE"
    assert (await hosts.b.send(body)).text == DELETED
    assert side.decisions == [("hosted-1", True)]


async def test_a_tool_that_is_configured_at_the_provider_only_can_be_approved(hosts: Hosts, side: ProviderSide) -> None:
    side.tools = []
    hosts.a, hosts.b = await hosts.start(), await hosts.start()

    assert (await hosts.b.send(await ask(hosts))).text == DELETED


async def test_a_call_whose_server_the_provider_does_not_name_fails_the_run_and_leaves_no_card(
    hosts: Hosts, side: ProviderSide
) -> None:
    side.label = None

    failed = await hosts.a.send(says("t", "delete Ann"))

    assert (failed.code, "crm_delete" in failed.message, failed.interrupts) == ("RUN_FAILED", True, [])
    assert "hosted-1" not in str(failed.events)
    assert (await hosts.is_closed("t"), (await hosts.b.show("t")).ids) == (True, [])
    assert (await hosts.c.send(says("t", "hello"))).code is None


async def test_an_id_that_named_another_call_before_asks_nobody(hosts: Hosts, side: ProviderSide) -> None:
    side.name = "hosted-1"
    await hosts.b.send(await ask(hosts))

    failed = await hosts.a.send(says("t", "delete Bob"))

    assert (failed.code, failed.interrupts) == ("RUN_FAILED", [])
    assert side.decisions == [("hosted-1", True)]
