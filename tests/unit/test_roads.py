"""A decision reaches the host by four roads; all are read in one place, and none of them passes it by."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.answers import Entry
from app.errors import Code, Refusal
from app.roads import take_answers

Json = dict[str, Any]

PAYLOAD = {"approved": True}
ENTRY = {"interruptId": "i1", "status": "resolved", "payload": PAYLOAD}
USER = {"id": "m1", "role": "user", "content": "pay"}
SPOKEN = {"id": "m2", "role": "tool", "toolCallId": "i1", "content": '{"accepted": true}'}

ROADS: dict[str, Json] = {
    "resume": {"resume": [ENTRY]},
    "forwardedProps.resume": {"forwardedProps": {"resume": [ENTRY], "theme": "dark"}},
    "forwarded_props.resume": {"forwarded_props": {"resume": [ENTRY], "theme": "dark"}},
    "forwardedProps.command.resume": {"forwardedProps": {"command": {"resume": [ENTRY], "name": "x"}, "theme": "dark"}},
}


def input_of(**fields: Any) -> Json:
    return {"messages": [copy.deepcopy(USER)], **copy.deepcopy(fields)}


@pytest.mark.parametrize("road", ROADS)
def test_an_answer_is_read_and_stripped(road: str) -> None:
    data = input_of(**ROADS[road])

    assert take_answers(data) == [Entry("i1", "resolved", PAYLOAD, road)]
    assert "i1" not in json.dumps(data)
    assert data["messages"] == [USER]
    assert ("dark" in json.dumps(ROADS[road])) == ("dark" in json.dumps(data))


def test_what_is_stripped_is_stripped_from_a_copy_of_what_the_caller_gave() -> None:
    given_props = {"resume": [ENTRY], "command": {"resume": [ENTRY]}}
    data = input_of(forwardedProps=given_props)
    props = data["forwardedProps"]

    take_answers(data)

    assert props == given_props


def test_a_trailing_tool_message_is_an_answer() -> None:
    data = {"messages": [USER, SPOKEN]}

    assert take_answers(data) == [Entry("i1", "resolved", {"accepted": True}, "tool message")]
    assert data["messages"] == [USER]


@pytest.mark.parametrize(
    "message",
    [
        {**SPOKEN, "content": {"accepted": True}},
        {"role": "TOOL", "tool_call_id": "i1", "content": '{"accepted": true}'},
        {"role": "tool", "actionExecutionId": "i1", "result": '{"accepted": true}'},
        {"role": "tool", "toolCallId": "i1", "content": '{"accepted": false, "steps": []}'},
        {"role": "tool", "toolCallId": "i1", "content": '{"accepted": "nonsense"}'},
    ],
)
def test_a_spoken_answer_is_known_by_every_spelling(message: Json) -> None:
    answers = take_answers({"messages": [USER, message]})

    assert isinstance(answers, list)
    assert [(each.name, each.road) for each in answers] == [("i1", "tool message")]


def test_several_trailing_tool_messages_keep_their_order_and_the_others_their_place() -> None:
    result = {"role": "tool", "toolCallId": "c1", "content": "12 EUR"}
    data = {"messages": [USER, SPOKEN, result, {**SPOKEN, "toolCallId": "i2"}]}

    answers = take_answers(data)

    assert isinstance(answers, list)
    assert [each.name for each in answers] == ["i1", "i2"]
    assert data["messages"] == [USER, result]


@pytest.mark.parametrize("content", ["12 EUR", '{"amount": 12}', "[]", "", '"accepted"', "{", None, 12, ["accepted"]])
def test_a_tool_message_that_says_something_else_is_no_answer(content: Any) -> None:
    message = {**SPOKEN, "content": content}
    data = {"messages": [USER, message]}

    assert take_answers(data) is None
    assert data["messages"] == [USER, message]


def test_an_answer_before_the_newest_message_is_history() -> None:
    data = {"messages": [SPOKEN, USER]}

    assert take_answers(data) is None
    assert data["messages"] == [SPOKEN, USER]


def test_the_result_of_the_clients_own_tool_is_no_answer_whatever_it_says() -> None:
    call = {"id": "i1", "type": "function", "function": {"name": "ask_user", "arguments": "{}"}}
    messages = [USER, {"role": "assistant", "toolCalls": [call]}, SPOKEN]

    assert take_answers({"messages": list(messages), "tools": [{"name": "ask_user"}]}) is None
    assert take_answers({"messages": list(messages), "tools": [{"name": "other"}]}) is not None


def test_all_roads_are_read_and_each_answer_says_which_it_came_by() -> None:
    props = {"resume": [ENTRY], "command": {"resume": [ENTRY]}}
    data = {"resume": [ENTRY], "forwardedProps": props, "messages": [USER, SPOKEN]}

    answers = take_answers(data)

    assert isinstance(answers, list)
    assert [each.road for each in answers] == [
        "resume",
        "forwardedProps.resume",
        "forwardedProps.command.resume",
        "tool message",
    ]


@pytest.mark.parametrize("road", ["resume", "forwardedProps.resume", "forwardedProps.command.resume"])
@pytest.mark.parametrize(
    "payload",
    [
        [],
        {},
        "yes",
        1,
        True,
        [1],
        ["i1"],
        [{}],
        [{"status": "resolved"}],
        [{**ENTRY, "status": "approved"}],
        {"interrupts": []},
    ],
)
def test_a_malformed_answer_refuses_the_whole_request(road: str, payload: Any) -> None:
    fields: Json = {
        "resume": {"resume": payload},
        "forwardedProps.resume": {"forwardedProps": {"resume": payload}},
        "forwardedProps.command.resume": {"forwardedProps": {"command": {"resume": payload}}},
    }[road]

    refused = take_answers({"messages": [USER, SPOKEN], **fields})

    assert isinstance(refused, Refusal)
    assert (refused.code, refused.message.endswith(".")) == (Code.RESUME_INVALID, True)


def test_no_answer_is_none_and_leaves_the_input_as_it_is() -> None:
    data = input_of(forwardedProps={"theme": "dark", "command": {"name": "x"}}, state={"resume": 1})
    before = copy.deepcopy(data)

    assert take_answers(data) is None
    assert data == before


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["resume", "command", "accepted", "role", "content", "id", "x"]), inner, max_size=3
        )
    ),
    max_leaves=10,
)


@given(
    resume=JSON_VALUES,
    props=JSON_VALUES,
    messages=st.lists(JSON_VALUES, max_size=3),
    tools=st.none() | st.lists(JSON_VALUES, max_size=2),
)
def test_whatever_a_client_sends_is_answers_a_refusal_or_nothing(
    resume: Any, props: Any, messages: list[Any], tools: list[Any] | None
) -> None:
    data = {"resume": resume, "forwardedProps": props, "messages": messages, "tools": tools}

    assert isinstance(take_answers(data), list | Refusal | None)
    assert "resume" not in data
