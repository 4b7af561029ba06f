"""What a run says is kept as short as it can be replayed, and a thread shows no call without its end."""

from __future__ import annotations

import pytest
from ag_ui.core import (
    BaseEvent,
    CustomEvent,
    EventType,
    MessagesSnapshotEvent,
    RunFinishedEvent,
    StateSnapshotEvent,
    TextMessageContentEvent,
    TextMessageEndEvent,
    TextMessageStartEvent,
    ToolCallArgsEvent,
    ToolCallEndEvent,
    ToolCallResultEvent,
    ToolCallStartEvent,
)

from app.transcript import LEFT_TEXT, Transcript, close_calls, open_interrupts
from stores.records import Json, Snapshot

TEXT = "The approval was cancelled; the call was not run."


def heard(*events: BaseEvent) -> list[Json]:
    transcript = Transcript()
    for event in events:
        transcript.add(event)
    return list(transcript.events())


def text_of(message: str, *deltas: str) -> list[BaseEvent]:
    return [
        TextMessageStartEvent(message_id=message, role="assistant"),
        *(TextMessageContentEvent(message_id=message, delta=delta) for delta in deltas),
        TextMessageEndEvent(message_id=message),
    ]


def test_the_deltas_of_a_message_become_one() -> None:
    events = heard(*text_of("m1", "Here ", "it ", "is."))

    assert [event["type"] for event in events] == ["TEXT_MESSAGE_START", "TEXT_MESSAGE_CONTENT", "TEXT_MESSAGE_END"]
    assert events[1]["delta"] == "Here it is."


def test_messages_that_overlap_are_kept_apart() -> None:
    one, two = text_of("m1", "a", "b"), text_of("m2", "c", "d")

    events = heard(one[0], two[0], one[1], two[1], one[2], two[2], one[3], two[3])

    assert [event["delta"] for event in events if "delta" in event] == ["ab", "cd"]


def test_calls_their_arguments_and_results_are_kept_in_order() -> None:
    events = heard(
        ToolCallStartEvent(tool_call_id="c1", tool_call_name="pay"),
        ToolCallArgsEvent(tool_call_id="c1", delta='{"invoice":'),
        ToolCallArgsEvent(tool_call_id="c1", delta='"INV-1"}'),
        ToolCallEndEvent(tool_call_id="c1"),
        ToolCallResultEvent(tool_call_id="c1", message_id="m1", content="Paid."),
    )

    assert [event["type"] for event in events] == [
        "TOOL_CALL_START",
        "TOOL_CALL_ARGS",
        "TOOL_CALL_END",
        "TOOL_CALL_RESULT",
    ]
    assert events[1]["delta"] == '{"invoice":"INV-1"}'
    assert events[-1]["content"] == "Paid."


def test_what_a_replay_does_not_repeat_is_not_kept() -> None:
    assert (
        heard(
            StateSnapshotEvent(snapshot={}),
            MessagesSnapshotEvent(messages=[]),
            CustomEvent(name="function_approval_request", value={}),
            RunFinishedEvent(thread_id="t", run_id="r"),
        )
        == []
    )


def test_a_replay_carries_no_time_of_its_own() -> None:
    (event,) = heard(TextMessageEndEvent(message_id="m1", timestamp=1))

    assert event == {"type": EventType.TEXT_MESSAGE_END.value, "messageId": "m1"}


def test_a_card_is_shown_with_its_expiry_and_the_pause_it_belongs_to() -> None:
    cards: list[Json] = [{"id": "i1", "message": "Approve?", "metadata": {"theirs": 1}}, {"id": "i2"}]

    shown = open_interrupts(cards, pause_id="p1", expires_at={"i1": 0.0, "i2": 1.5})

    assert shown == (
        {
            "id": "i1",
            "message": "Approve?",
            "expiresAt": "1970-01-01T00:00:00+00:00",
            "metadata": {"theirs": 1, "agui": {"pauseId": "p1"}},
        },
        {"id": "i2", "expiresAt": "1970-01-01T00:00:01.500000+00:00", "metadata": {"agui": {"pauseId": "p1"}}},
    )


def test_a_card_that_nobody_may_answer_is_not_shown() -> None:
    assert open_interrupts([{"id": "i1"}, {}], pause_id="p1", expires_at={}) == ()


def call(*ids: str) -> Json:
    return {"id": "a", "role": "assistant", "toolCalls": [{"id": each, "type": "function"} for each in ids]}


def result(call_id: str, content: str = "done") -> Json:
    return {"id": "r", "role": "tool", "toolCallId": call_id, "content": content}


def closed(*messages: Json, texts: dict[str, str]) -> list[Json]:
    snapshot = close_calls(Snapshot(messages=messages, interrupts=({"id": "i"},), pause_id="p", state={"x": 1}), texts)
    assert (snapshot.interrupts, snapshot.pause_id, snapshot.state) == ((), None, {"x": 1})
    return list(snapshot.messages)


def test_a_call_that_will_not_run_gets_a_result_that_says_so_right_after_it() -> None:
    question = {"id": "u", "role": "user", "content": "pay"}

    asked, call_message, end = closed(question, call("c1"), texts={"c1": TEXT})

    assert (asked, call_message) == (question, call("c1"))
    assert (end["role"], end["toolCallId"], end["content"]) == ("tool", "c1", TEXT)
    assert end["id"]


def test_each_call_of_a_turn_gets_its_own_result_and_other_turns_are_left_alone() -> None:
    messages = closed(call("c0"), call("c1", "c2", "c3"), texts={"c1": TEXT, "c3": TEXT})

    assert [message.get("toolCallId") for message in messages] == [None, None, "c1", "c2", "c3"]
    assert [message.get("content") for message in messages[2:]] == [TEXT, LEFT_TEXT, TEXT]
    assert len({message["id"] for message in messages[1:]}) == len(messages) - 1


def test_a_call_that_has_its_result_keeps_it() -> None:
    assert closed(call("c1"), result("c1"), texts={"c1": TEXT}) == [call("c1"), result("c1")]


@pytest.mark.parametrize("name", ["toolCallId", "tool_call_id"])
def test_a_result_of_an_earlier_call_with_the_same_id_does_not_count(name: str) -> None:
    earlier = {"id": "r", "role": "tool", name: "c1", "content": "done"}
    messages = closed(call("c1"), earlier, call("c1"), texts={"c1": TEXT})

    assert [message.get("content") for message in messages] == [None, "done", None, TEXT]
