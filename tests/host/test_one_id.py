"""A client that appends what it is told has each call, its arguments and its result once: live, repeated and shown."""

from __future__ import annotations

import json

import pytest

from tests.host.answers import Answer, Json
from tests.host.bank import Bank
from tests.host.bodies import answers, approve, cancel, reject, says
from tests.host.hosts import Hosts


class AppendingClient:
    """Keeps messages as the AG-UI JavaScript client does: it appends, and a picture updates and drops by id."""

    def __init__(self) -> None:
        self.messages: list[Json] = []
        self.announced: list[str] = []

    def take(self, answer: Answer) -> None:
        for event in answer.events:
            match event["type"]:
                case "TEXT_MESSAGE_START":
                    self._message(event["messageId"])
                case "TEXT_MESSAGE_CONTENT":
                    message = self._message(event["messageId"])
                    message["content"] = (message.get("content") or "") + event["delta"]
                case "TOOL_CALL_START":
                    self._start(event)
                case "TOOL_CALL_ARGS":
                    self.call(event["toolCallId"])["function"]["arguments"] += event["delta"]
                case "TOOL_CALL_RESULT":
                    message = {"id": event["messageId"], "role": "tool", "toolCallId": event["toolCallId"]}
                    self.messages.append({**message, "content": event["content"]})
                case "MESSAGES_SNAPSHOT":
                    self.messages = json.loads(json.dumps(event["messages"]))

    def call(self, call_id: str) -> Json:
        calls: list[Json] = [each for message in self.messages for each in message.get("toolCalls") or []]
        return next(each for each in calls if each["id"] == call_id)

    def results(self) -> list[tuple[str, str, str]]:
        told = [message for message in self.messages if message["role"] == "tool"]
        return [(each["id"], each["toolCallId"], each["content"]) for each in told]

    def _start(self, event: Json) -> None:
        call_id = event["toolCallId"]
        self.announced.append(call_id)
        if not any(each["id"] == call_id for message in self.messages for each in message.get("toolCalls") or []):
            call = {"id": call_id, "type": "function", "function": {"name": event["toolCallName"], "arguments": ""}}
            self._message(event["parentMessageId"]).setdefault("toolCalls", []).append(call)

    def _message(self, message_id: str) -> Json:
        for message in self.messages:
            if message["id"] == message_id:
                return message
        self.messages.append({"id": message_id, "role": "assistant"})
        return self.messages[-1]


def said(answer: Answer) -> list[tuple[str, str, str]]:
    """Return the results of a stream: message, call, text."""
    return [(each["messageId"], each["toolCallId"], each["content"]) for each in answer.of("TOOL_CALL_RESULT")]


async def shown(hosts: Hosts) -> list[tuple[str, str, str]]:
    client = AppendingClient()
    client.take(await hosts.b.show("t"))
    return client.results()


async def test_a_call_is_announced_once_and_has_one_text_of_arguments_over_the_whole_thread(hosts: Hosts) -> None:
    client = AppendingClient()
    asked = await hosts.a.send(says("t", "pay INV-1 to ACME and wire INV-2 to Bolt then look up INV-3"))
    client.take(asked)
    client.take(await hosts.b.send(answers("t", approve(asked.ids[0]), reject(asked.ids[1]))))
    client.take(await hosts.a.send(says("t", "look up INV-4")))

    calls = [each for message in client.messages for each in message.get("toolCalls") or []]
    assert client.announced == [each["id"] for each in calls]
    assert len(set(client.announced)) == 4
    assert [json.loads(each["function"]["arguments"])["invoice"] for each in calls] == [
        f"INV-{n}" for n in (1, 2, 3, 4)
    ]
    assert client.messages == (await hosts.c.show("t")).messages


@pytest.mark.parametrize("is_new_client", [False, True], ids=["same client", "new client"])
async def test_who_gets_a_run_again_has_what_the_thread_shows_and_nothing_twice(
    hosts: Hosts, is_new_client: bool
) -> None:
    client = AppendingClient()
    asking = says("t", "pay INV-1 to ACME and wire INV-2 to Bolt and look up INV-3")
    asked = await hosts.a.send(asking)
    deciding = answers("t", approve(asked.ids[0]), reject(asked.ids[1]))
    client.take(asked)
    client.take(await hosts.a.send(asking))
    (call,) = {each["toolCallId"] for each in asked.interrupts[:1]}
    assert json.loads(client.call(call)["function"]["arguments"]) == {"invoice": "INV-1", "payee": "ACME"}

    client.take(await hosts.a.send(deciding))
    client = AppendingClient() if is_new_client else client
    repeated = await hosts.b.send(deciding)
    client.take(repeated)

    assert repeated.is_replay
    assert client.messages == (await hosts.c.show("t")).messages


async def test_a_result_has_one_id_live_repeated_in_the_picture_and_when_it_is_shown(hosts: Hosts) -> None:
    asked = await hosts.a.send(says("t", "pay INV-1 to ACME and wire INV-2 to Bolt and look up INV-3"))
    body = answers("t", approve(asked.ids[0]), reject(asked.ids[1]))
    live = await hosts.a.send(body)

    assert len(said(live)) == 3
    assert said(await hosts.b.send(body)) == said(live)
    client = AppendingClient()
    client.take(live)
    assert client.results() == said(live) == await shown(hosts)
    # Nor does a later run of the thread give it another.
    again = await hosts.a.send(says("t", "wire INV-4 to ACME"))
    ended = await hosts.a.send(answers("t", approve(*again.ids)))
    assert await shown(hosts) == [*said(live), *said(ended)]


async def test_a_result_keeps_its_id_when_the_run_that_said_it_first_failed(hosts: Hosts, bank: Bank) -> None:
    asked = await hosts.a.send(says("t", "pay INV-1 to ACME and look up INV-2 (outage o)"))
    await bank.break_model("o", times=1)
    body = answers("t", approve(*asked.ids))
    failed = await hosts.a.send(body)
    assert failed.code == "RUN_FAILED"

    ended = await hosts.b.send(body)

    assert (ended.code, said(ended)) == (None, said(failed))
    assert await shown(hosts) == said(ended)


async def test_who_cancels_is_shown_at_once_what_everybody_is_shown_later(hosts: Hosts) -> None:
    client = AppendingClient()
    asked = await hosts.a.send(says("t", "pay INV-1 to ACME"))
    body = answers("t", cancel(*asked.ids))
    client.take(asked)

    client.take(await hosts.a.send(body))

    assert [content for _, _, content in client.results()] == ["The approval was cancelled; the call was not run."]
    assert client.messages == (await hosts.c.show("t")).messages
    client.take(await hosts.b.send(body))
    assert client.messages == (await hosts.c.show("t")).messages
