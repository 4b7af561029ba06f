"""What a host answers: the events of one stream, read as strictly as a client may read them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import httpx

Json = dict[str, Any]
TERMINAL = ("RUN_FINISHED", "RUN_ERROR")


@dataclass(frozen=True, slots=True)
class Answer:
    """One whole stream."""

    events: tuple[Json, ...]

    @property
    def code(self) -> str | None:
        """The code of RUN_ERROR; None if the run finished."""
        return self.events[-1].get("code")

    @property
    def message(self) -> str:
        return str(self.events[-1].get("message"))

    @property
    def metadata(self) -> Json:
        return self.events[-1].get("metadata") or {}

    @property
    def is_replay(self) -> bool:
        return self.metadata.get("replay") is True

    @property
    def interrupts(self) -> list[Json]:
        """The cards that wait for a person."""
        outcome: Json = self.events[-1].get("outcome") or {}
        return list(outcome.get("interrupts") or [])

    @property
    def ids(self) -> list[str]:
        return [str(card["id"]) for card in self.interrupts]

    @property
    def states(self) -> list[str]:
        """How far each open approval of the thread got, as hydration tells it."""
        return [str(each["state"]) for each in self.metadata.get("approvals", [])]

    @property
    def results(self) -> list[str]:
        """What the tools returned, in the order of the stream."""
        return [str(event["content"]) for event in self.of("TOOL_CALL_RESULT")]

    @property
    def text(self) -> str:
        """What the model said."""
        return "".join(str(event["delta"]) for event in self.of("TEXT_MESSAGE_CONTENT"))

    @property
    def messages(self) -> list[Json]:
        """The thread as the last MESSAGES_SNAPSHOT shows it."""
        snapshots = self.of("MESSAGES_SNAPSHOT")
        return list(snapshots[-1]["messages"]) if snapshots else []

    def of(self, kind: str) -> list[Json]:
        """Return the events of one type."""
        return [event for event in self.events if event["type"] == kind]


def read_answer(response: httpx.Response, sent: Json) -> Answer:
    """Read a stream, and hold it to what every stream must be: one RUN_STARTED first, one terminal event last."""
    assert response.status_code == 200, (response.status_code, response.text)
    events = read_events(response.text)
    kinds = [event["type"] for event in events]
    assert kinds[0] == "RUN_STARTED", kinds
    assert kinds.count("RUN_STARTED") == 1, kinds
    assert kinds[-1] in TERMINAL, kinds
    assert sum(kinds.count(kind) for kind in TERMINAL) == 1, kinds
    assert events[0]["threadId"] == sent["threadId"]
    assert events[0]["runId"] == sent["runId"]
    answer = Answer(tuple(events))
    if answer.code is not None:
        assert isinstance(answer.metadata.get("definite"), bool), events[-1]
        assert_clear(answer.message)
    return answer


def read_events(text: str) -> Sequence[Json]:
    """Read the data frames of a text/event-stream; comment frames keep it alive and say nothing."""
    return [json.loads(line.removeprefix("data: ")) for line in text.splitlines() if line.startswith("data: ")]


def assert_clear(message: str) -> None:
    """A message is for a person: a sentence, with nothing of the inside of the host."""
    assert message.endswith("."), message
    assert "\n" not in message, message
    for internal in ("Traceback", "Error:", "Exception", "ApprovalStatus", "<", "stores.", "app.", "sqlalchemy"):
        assert internal not in message, message
