"""The small AG-UI client: it tells a cut stream from an answer, and sends the very same again where it must."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from typing import Any

import httpx
import pytest

from deploy.agui_client import AguiClient, approve, ask, resume

STARTED = {"type": "RUN_STARTED", "threadId": "t", "runId": "r"}
FINISHED = {"type": "RUN_FINISHED", "threadId": "t", "runId": "r"}
BUSY = {"type": "RUN_ERROR", "code": "THREAD_BUSY", "message": "", "metadata": {"retryAfterSeconds": 0.01}}
NOT_FOUND = {"type": "RUN_ERROR", "code": "APPROVAL_RESUME_NOT_FOUND", "message": ""}
RUN = resume("t", approve("i", payee="ACME"))


class Wire:
    """Answers one POST after the other with a script, and keeps what was sent."""

    def __init__(self, *script: httpx.Response | Exception) -> None:
        self.sent: list[Any] = []
        self._script: Iterator[httpx.Response | Exception] = iter(script)
        transport = httpx.MockTransport(self._answer)
        self.client = AguiClient(httpx.AsyncClient(transport=transport, base_url="http://balancer"))

    def _answer(self, request: httpx.Request) -> httpx.Response:
        self.sent.append(json.loads(request.content))
        answer = next(self._script)
        if isinstance(answer, Exception):
            raise answer
        return answer


def stream(*events: dict[str, Any], error: Exception | None = None, chunk: int = 7) -> httpx.Response:
    """A response in chunks that end anywhere, followed by an error of the connection if one is given."""
    text = ": a comment\r\n\r\n" + "".join(f"data: {json.dumps(each, ensure_ascii=False)}\r\n\r\n" for each in events)
    data = text.encode()

    async def chunks() -> AsyncIterator[bytes]:
        for start in range(0, len(data), chunk):
            yield data[start : start + chunk]
        if error is not None:
            raise error

    return httpx.Response(200, content=chunks(), headers={"x-agui-replica": "host-1"})


async def test_events_arrive_whole_whatever_characters_they_hold() -> None:
    text = {"type": "TEXT_MESSAGE_CONTENT", "messageId": "m", "delta": "one\u2028two\x85three"}

    reply = await Wire(stream(STARTED, text, FINISHED)).client.post(RUN)

    assert reply.events == (STARTED, text, FINISHED)
    assert (reply.replica, reply.text, reply.is_cut, reply.is_to_repeat) == ("host-1", text["delta"], False, False)


@pytest.mark.parametrize(
    "answer",
    [
        stream(STARTED),
        stream(),
        stream(STARTED, error=httpx.RemoteProtocolError("the peer closed the connection")),
        stream(STARTED, error=httpx.ReadTimeout("silence")),
        httpx.ConnectError("refused"),
    ],
    ids=["no terminal event", "no event", "broken", "silent", "refused"],
)
async def test_stream_without_its_end_is_cut(answer: httpx.Response | Exception) -> None:
    reply = await Wire(answer).client.post(RUN)

    assert reply.is_cut
    assert reply.is_to_repeat


async def test_same_run_is_sent_again_until_it_is_answered() -> None:
    wire = Wire(httpx.ConnectError("refused"), httpx.Response(502), stream(STARTED, BUSY), stream(STARTED, FINISHED))

    replies = [reply async for reply in wire.client.replies(RUN)]

    assert [(reply.status, reply.code) for reply in replies] == [
        (0, None),
        (502, None),
        (200, "THREAD_BUSY"),
        (200, None),
    ]
    assert wire.sent == [RUN.body()] * 4


@pytest.mark.parametrize("answer", [stream(STARTED, NOT_FOUND), httpx.Response(413), httpx.Response(401)])
async def test_refusal_that_repeating_can_not_change_is_final(answer: httpx.Response) -> None:
    wire = Wire(answer)

    reply = await wire.client.send(RUN)

    assert not reply.is_cut
    assert len(wire.sent) == 1


async def test_time_is_limited() -> None:
    wire = Wire(*(stream(STARTED, BUSY) for _ in range(100)))

    with pytest.raises(TimeoutError, match="THREAD_BUSY"):
        await wire.client.send(RUN, seconds=0.05)


async def test_a_new_question_is_a_new_run() -> None:
    assert ask("t", "pay").run_id != ask("t", "pay").run_id
