"""What one POST asks for: the thread and run it names, its answers, and whether it keeps to the limits."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from app.answers import Entry, canonical, digest
from app.errors import Code, Refusal
from app.roads import take_answers
from app.upstream import scope_of
from stores.records import Json, Scope, ThreadKey


@dataclass(frozen=True, slots=True)
class RequestLimits:
    """Characters of an id, messages of a request, how deep its values may be nested, and bytes of its state."""

    id_length_max: int
    messages_max: int
    nesting_max: int
    state_bytes_max: int


@dataclass(frozen=True, slots=True)
class RunRequest:
    """One request as the runner sees it; `data` is the AG-UI input without its answers."""

    answers: list[Entry] | Refusal | None
    data: Json

    @property
    def is_hydration(self) -> bool:
        """Whether it only asks to be shown the thread."""
        return self.answers is None and not self.data.get("messages")

    @property
    def names(self) -> list[str] | None:
        """The ids it answers; None if they could not be read."""
        return None if isinstance(self.answers, Refusal) else [entry.name for entry in self.answers or ()]

    @property
    def new_messages(self) -> tuple[Json, ...]:
        """The user's messages since the last answer: what is new in it."""
        new: list[Json] = []
        for message in reversed(self.data.get("messages") or []):
            if not isinstance(message, dict) or message.get("role") != "user":
                break
            new.insert(0, message)
        return tuple(new)

    @property
    def input_digest(self) -> str:
        """The digest of what is new in a plain run: the user's words, and the state."""
        words = [message.get("content") for message in self.new_messages]
        return digest("input", canonical(words), canonical(self.data.get("state")))


def named(input_data: Json, agent: str) -> tuple[ThreadKey, str]:
    """Return the thread and the run id of a request, new ones where the client left them out.

    Raises ValueError without a scope: the endpoint was registered without a resolver.
    """
    scope = scope_of(input_data)
    if scope is None:
        raise ValueError("A run needs an authorization scope; register the agent with a scope resolver.")
    thread_id = str(input_data.get("thread_id") or input_data.get("threadId") or uuid4())
    run_id = str(input_data.get("run_id") or input_data.get("runId") or uuid4())
    return ThreadKey(Scope(scope), agent, thread_id), run_id


def read_request(input_data: Json, key: ThreadKey, run_id: str, limits: RequestLimits) -> RunRequest:
    """Take the answers out of a request; one that is over a limit is refused whole."""
    data: Json = {**input_data, "thread_id": key.thread_id, "run_id": run_id}
    refusal = _over_limit(data, (key.thread_id, run_id), limits)
    answers = refusal or take_answers(data)
    if isinstance(answers, list) and len(answers) > limits.messages_max:
        message = f"The request has more than {limits.messages_max} answers (AGUI_MESSAGES_MAX)."
        answers = Refusal(Code.LIMIT_EXCEEDED, message)
    return RunRequest(answers, data)


def _over_limit(data: Json, ids: Iterable[str], limits: RequestLimits) -> Refusal | None:
    if any(len(each) > limits.id_length_max for each in ids):
        message = f"A thread or run id is longer than {limits.id_length_max} characters (AGUI_ID_LENGTH_MAX)."
        return Refusal(Code.LIMIT_EXCEEDED, message)
    if len(data.get("messages") or ()) > limits.messages_max:
        message = f"The request has more than {limits.messages_max} messages (AGUI_MESSAGES_MAX)."
        return Refusal(Code.LIMIT_EXCEEDED, message)
    if _is_deeper(data, limits.nesting_max):
        message = f"The request is nested deeper than {limits.nesting_max} levels (AGUI_NESTING_MAX)."
        return Refusal(Code.LIMIT_EXCEEDED, message)
    if len(canonical(data.get("state")).encode(errors="surrogatepass")) > limits.state_bytes_max:
        message = f"The state of the request has more than {limits.state_bytes_max} bytes (AGUI_STATE_BYTES_MAX)."
        return Refusal(Code.LIMIT_EXCEEDED, message)
    return None


def _is_deeper(value: Any, levels: int) -> bool:
    level: list[Any] = [value]
    for _ in range(levels):
        level = [
            inner
            for each in level
            if isinstance(each, dict | list)
            for inner in (each.values() if isinstance(each, dict) else each)
        ]
        if not level:
            return False
    return True
