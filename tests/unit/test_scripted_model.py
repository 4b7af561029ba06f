"""The scripted model does what the words say, from the history alone, and refuses what a provider would refuse."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import httpx
import pytest
from agent_framework import ChatOptions, ChatResponse, Content, FunctionTool, Message
from agent_framework.exceptions import ChatClientException

from app.agents.models import make_model
from app.agents.scripted import ScriptedChatClient
from app.settings import Environment, ScopeResolver, Settings
from tests.bank_server import running_bank

ISSUE_SENTENCE = "pay INV-1 and INV-2 to ACME, then refund INV-0"
TOOL_NAMES = ("look_up_invoice", "pay_invoice", "refund_invoice", "wire_transfer")
# Without a function the layer above the model hands the calls on instead of making them.
TOOLS = [FunctionTool(name=name, func=None) for name in TOOL_NAMES]


def user(words: str, message_id: str = "m1") -> Message:
    return Message("user", [words], message_id=message_id)


def results(*pairs: tuple[str, str]) -> Message:
    return Message("tool", [Content.from_function_result(call_id, result=text) for call_id, text in pairs])


def calls_of(response: ChatResponse[Any]) -> list[Content]:
    return [c for message in response.messages for c in message.contents if c.type == "function_call"]


def shown(response: ChatResponse[Any]) -> list[tuple[str, dict[str, Any]]]:
    return [(str(call.name), dict(call.parse_arguments() or {})) for call in calls_of(response)]


async def ask(
    history: Sequence[Message],
    *,
    tools: Sequence[FunctionTool] = TOOLS,
    bank_url: str = "",
    tool_choice: Literal["auto", "none"] = "auto",
) -> ChatResponse[Any]:
    """Ask a client that has never seen this conversation."""
    client = ScriptedChatClient(bank_url=bank_url)
    chat_options: ChatOptions[None] = {"tools": list(tools), "tool_choice": tool_choice}
    return await client.get_response(list(history), options=chat_options)


async def go_on(history: list[Message], response: ChatResponse[Any], *texts: str) -> ChatResponse[Any]:
    """Append the calls of a response with these results, and ask again."""
    calls = calls_of(response)
    history.append(Message("assistant", list(calls)))
    history.append(results(*((str(call.call_id), text) for call, text in zip(calls, texts, strict=True))))
    return await ask(history)


async def test_the_sentence_of_the_issue_is_two_payments_then_a_refund_then_an_answer() -> None:
    history = [user(ISSUE_SENTENCE)]

    first = await ask(history)
    assert shown(first) == [
        ("pay_invoice", {"invoice": "INV-1", "payee": "ACME"}),
        ("pay_invoice", {"invoice": "INV-2", "payee": "ACME"}),
    ]
    assert first.finish_reason == "tool_calls"

    second = await go_on(history, first, "Paid one.", "Paid two.")
    assert shown(second) == [("refund_invoice", {"invoice": "INV-0"})]

    answer = await go_on(history, second, "Refunded.")
    assert shown(answer) == []
    assert answer.finish_reason == "stop"
    assert all(result in answer.text for result in ("INV-1: Paid one.", "INV-2: Paid two.", "INV-0: Refunded."))


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("look up INV-9", [("look_up_invoice", {"invoice": "INV-9"})]),
        ("Please LOOK  UP inv-9.", [("look_up_invoice", {"invoice": "inv-9"})]),
        ("wire INV-3 to ACME", [("wire_transfer", {"invoice": "INV-3", "payee": "ACME"})]),
        ("refund 2024-A-7", [("refund_invoice", {"invoice": "2024-A-7"})]),
        (
            "look up INV-9 and pay INV-1 to ACME and INV-2 to Müller and refund INV-0",
            [
                ("look_up_invoice", {"invoice": "INV-9"}),
                ("pay_invoice", {"invoice": "INV-1", "payee": "ACME"}),
                ("pay_invoice", {"invoice": "INV-2", "payee": "Müller"}),
                ("refund_invoice", {"invoice": "INV-0"}),
            ],
        ),
        ("pay INV-1 and INV-1 to ACME", [("pay_invoice", {"invoice": "INV-1", "payee": "ACME"})] * 2),
        ("refund pay-1", [("refund_invoice", {"invoice": "pay-1"})]),
        ("be kind, then refund INV-0", [("refund_invoice", {"invoice": "INV-0"})]),
    ],
)
async def test_verbs_joined_by_and_are_calls_of_one_turn(
    words: str, expected: list[tuple[str, dict[str, str]]]
) -> None:
    assert shown(await ask([user(words)])) == expected


@pytest.mark.parametrize(
    "words",
    [
        "hello",
        "thanks!",
        "pay",
        "pay INV-1",
        "pay to ACME",
        "pay INV-1 to ACME and INV-2",
        "refund it",
        "wire INV-1",
        "prepay INV-1 to ACME",
        "then and",
    ],
)
async def test_what_is_not_understood_or_incomplete_gets_the_abilities_and_no_call(words: str) -> None:
    response = await ask([user(words)])

    assert shown(response) == []
    assert "pay INV-1 and INV-2 to ACME" in response.text


async def test_one_incomplete_part_makes_no_call_at_all() -> None:
    assert shown(await ask([user("refund INV-0 then pay INV-1")])) == []


async def test_the_answer_comes_in_several_deltas_that_add_up_to_the_whole() -> None:
    history = [user("refund INV-0")]
    history.append(Message("assistant", [Content.from_function_call("c", "refund_invoice", arguments={})]))
    history.append(results(("c", "Refunded.")))

    stream = ScriptedChatClient().get_response(history, stream=True, options={"tools": TOOLS})
    deltas = [update.text async for update in stream if update.text]

    assert len(deltas) > 1
    assert "".join(deltas) == (await ask(history)).text
    assert (await stream.get_final_response()).text == "".join(deltas)


async def test_rejected_and_failed_calls_are_results_like_any_other() -> None:
    history = [user("wire INV-6 to ACME and pay INV-7 to ACME then refund INV-0")]

    second = await go_on(history, await ask(history), "Error: rejected by user.", "Error: Function failed.")
    assert shown(second) == [("refund_invoice", {"invoice": "INV-0"})]

    answer = await go_on(history, second, "Refunded.")
    assert "wire_transfer INV-6: Error: rejected by user." in answer.text
    assert "pay_invoice INV-7: Error: Function failed." in answer.text


async def test_a_new_message_starts_anew_and_the_old_turn_is_not_called_again() -> None:
    history = [user("refund INV-0")]
    await go_on(history, await ask(history), "Refunded.")
    history.append(user("thanks", "m2"))

    response = await ask(history)

    assert shown(response) == []
    assert "Refunded." not in response.text


async def test_a_user_message_that_only_carries_an_approval_is_not_a_new_turn() -> None:
    history = [user("refund INV-0 then refund INV-1")]
    call = Content.from_function_call("c", "refund_invoice", arguments={}, id="occurrence")
    request = Content.from_function_approval_request("occurrence", call)
    history.append(Message("assistant", [call, request]))
    history.append(results(("c", "Refunded.")))
    history.append(Message("user", [request.to_function_approval_response(approved=False)]))

    # Asked below the layer that would act on the approval: a provider is given the contents as they are.
    updates = ScriptedChatClient()._updates(history, {"tools": TOOLS})

    assert [c.name for update in [u async for u in updates] for c in update.contents] == ["refund_invoice"]


async def test_call_ids_differ_between_calls_steps_turns_and_threads() -> None:
    words = "pay INV-1 and INV-1 to ACME then pay INV-1 to ACME"
    history = [user(words)]
    first = await ask(history)
    second = await go_on(history, first, "a", "b")
    await go_on(history, second, "c")
    history.append(user(words, "m2"))
    responses = [first, second, await ask(history), await ask([user(words, "first of another thread")])]

    ids = [str(call.call_id) for response in responses for call in calls_of(response)]

    assert len(ids) == len(set(ids)) == 7
    assert all(call_id.startswith("call_") for call_id in ids)


async def test_the_same_history_gets_the_same_call_ids_from_any_client() -> None:
    history = [user(ISSUE_SENTENCE)]

    assert [c.call_id for c in calls_of(await ask(history))] == [c.call_id for c in calls_of(await ask(history))]


async def test_call_ids_are_reused_in_every_turn_if_the_words_ask_for_it() -> None:
    history = [user(f"{ISSUE_SENTENCE} (reuse call ids)")]
    first = await ask(history)
    second = await go_on(history, first, "a", "b")
    answer = await go_on(history, second, "c")

    assert [c.call_id for c in calls_of(first)] == ["call_1", "call_2"]
    assert [c.call_id for c in calls_of(second)] == ["call_1"]
    assert all(line in answer.text for line in ("INV-1: a", "INV-2: b", "INV-0: c"))


CALL = Message("assistant", [Content.from_function_call("c", "refund_invoice", arguments='{"invoice": "INV-0"}')])


@pytest.mark.parametrize(
    ("rest", "problem"),
    [
        ([CALL], "without a result: c"),
        ([CALL, user("hello", "m2")], "without a result: c"),
        ([results(("c", "Refunded."))], "without a call"),
        ([results(("c", "Refunded.")), CALL], "without a call"),
        ([CALL, results(("c", "Refunded."), ("c", "Refunded."))], "without a call"),
        ([CALL, CALL, results(("c", "Refunded."))], "without an id of its own"),
        ([CALL, results(("other", "Refunded."))], "without a call"),
    ],
)
async def test_a_history_that_providers_refuse_is_refused(rest: list[Message], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        await ask([user("refund INV-0"), *rest])


async def test_a_history_with_other_calls_than_its_own_is_refused_rather_than_paid_again() -> None:
    history = [user(ISSUE_SENTENCE)]
    history.append(Message("assistant", [Content.from_function_call("c", "pay_invoice", arguments={})]))
    history.append(results(("c", "Paid.")))

    with pytest.raises(ValueError, match="where this model called"):
        await ask(history)


async def test_a_tool_that_is_not_offered_is_not_called_and_named() -> None:
    response = await ask([user("refund INV-0")], tools=[tool for tool in TOOLS if tool.name != "refund_invoice"])

    assert shown(response) == []
    assert "refund_invoice" in response.text


async def test_no_tool_is_called_where_the_caller_forbids_it() -> None:
    assert shown(await ask([user("refund INV-0")], tool_choice="none")) == []


async def test_an_outage_fails_the_model_after_a_result_and_only_while_it_lasts() -> None:
    async with running_bank() as bank_url, httpx.AsyncClient(base_url=bank_url) as bank:
        await bank.put("/outages/night-1", json={"remaining": 1})
        history = [user("refund INV-0 (outage night-1)")]

        first = await ask(history, bank_url=bank_url)
        assert shown(first) == [("refund_invoice", {"invoice": "INV-0"})]
        history.append(Message("assistant", list(calls_of(first))))
        history.append(results((str(calls_of(first)[0].call_id), "Refunded.")))

        with pytest.raises(ChatClientException, match="unavailable"):
            await ask(history, bank_url=bank_url)
        assert "INV-0: Refunded." in (await ask(history, bank_url=bank_url)).text


async def test_an_outage_without_a_bank_names_the_setting() -> None:
    history = [user("refund INV-0 (outage night-1)"), CALL, results(("c", "Refunded."))]

    with pytest.raises(ValueError, match="AGUI_BANK_URL"):
        await ask(history)


def test_a_model_that_is_not_known_is_refused_by_the_name_of_its_variable() -> None:
    settings = Settings(scope=ScopeResolver.HEADER, trusted_proxies="10.0.0.0/8", model="gpt-9")

    with pytest.raises(ValueError, match="AGUI_MODEL=gpt-9"):
        make_model(settings)


def test_the_scripted_model_is_made_from_the_settings() -> None:
    settings = Settings(environment=Environment.DEVELOPMENT, scope=ScopeResolver.FIXED, model="scripted")

    assert isinstance(make_model(settings), ScriptedChatClient)
