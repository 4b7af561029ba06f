"""A small AG-UI client that keeps the client's side of the contract: what was cut, or asks for it, is sent again."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import httpx

Json = dict[str, Any]

REPLICA_HEADER = "x-agui-replica"
SCOPE_HEADER = "x-agui-scope"

RETRYABLE_CODES = frozenset(
    {"APPROVAL_RESUME_IN_PROGRESS", "RUN_IN_PROGRESS", "THREAD_BUSY", "RUN_FAILED", "STORE_UNAVAILABLE"}
)
"""Refusals after which the very same request is to be sent again."""
_RETRYABLE_STATUSES = frozenset(
    {
        httpx.codes.TOO_MANY_REQUESTS,
        httpx.codes.BAD_GATEWAY,
        httpx.codes.SERVICE_UNAVAILABLE,
        httpx.codes.GATEWAY_TIMEOUT,
    }
)
_TERMINAL = frozenset({"RUN_FINISHED", "RUN_ERROR"})
_PAUSE_SECONDS = 0.25
_PAUSE_SECONDS_MAX = 5.0
# Hosts send a comment every 15 s (AGUI_KEEPALIVE_SECONDS), so a stream that is silent for longer is dead.
_TIMEOUTS = httpx.Timeout(5.0, read=40.0)


@dataclass(frozen=True, slots=True)
class Run:
    """One run as it is asked for; sent again, it is the very same."""

    thread_id: str
    run_id: str
    messages: tuple[Json, ...] = ()
    resume: tuple[Json, ...] = ()

    def body(self) -> Json:
        """Return the request body."""
        body: Json = {"threadId": self.thread_id, "runId": self.run_id, "messages": list(self.messages)}
        return {**body, "resume": list(self.resume)} if self.resume else body


def ask(thread_id: str, words: str) -> Run:
    """Say something new in a thread."""
    return Run(thread_id, uuid4().hex, messages=({"id": uuid4().hex, "role": "user", "content": words},))


def hydrate(thread_id: str) -> Run:
    """Read a thread as it stands, as a page does when it is loaded."""
    return Run(thread_id, uuid4().hex)


def resume(thread_id: str, *decisions: Json) -> Run:
    """Answer the open interrupts of a thread."""
    return Run(thread_id, uuid4().hex, resume=decisions)


def approve(interrupt_id: str, **edited: Any) -> Json:
    """Decide that a call may run, with these arguments changed."""
    return {"interruptId": interrupt_id, "status": "resolved", "payload": {"approved": True, **edited}}


def reject(interrupt_id: str) -> Json:
    """Decide that a call may not run."""
    return {"interruptId": interrupt_id, "status": "resolved", "payload": {"approved": False}}


def cancel(interrupt_id: str) -> Json:
    """Withdraw the question."""
    return {"interruptId": interrupt_id, "status": "cancelled"}


@dataclass(frozen=True, slots=True)
class Reply:
    """What came back for one POST: `status` 0 if nothing did, `replica` "" if nobody said who served it."""

    status: int = 0
    replica: str = ""
    events: tuple[Json, ...] = ()

    @property
    def is_cut(self) -> bool:
        """Whether it ended before its end: nobody knows then what the run did."""
        is_stream = self.status in (0, httpx.codes.OK)
        return is_stream and not (self.events and self.events[-1]["type"] in _TERMINAL)

    @property
    def code(self) -> str | None:
        """The code of the refusal or failure that it ended with."""
        return str(self.end.get("code")) if self.end.get("type") == "RUN_ERROR" else None

    @property
    def is_to_repeat(self) -> bool:
        """Whether the same run must be sent again to get its answer."""
        return self.is_cut or self.status in _RETRYABLE_STATUSES or self.code in RETRYABLE_CODES

    @property
    def end(self) -> Json:
        """The terminal event; empty if there is none."""
        return self.events[-1] if self.events and self.events[-1]["type"] in _TERMINAL else {}

    @property
    def metadata(self) -> Json:
        """What the terminal event says besides: `replay`, `approvals`, `definite`, `retryAfterSeconds`."""
        return self.end.get("metadata") or {}

    @property
    def is_replay(self) -> bool:
        """Whether it is the recorded outcome of an earlier run: nothing was executed for it."""
        return self.metadata.get("replay") is True

    @property
    def interrupts(self) -> list[Json]:
        """The cards that wait for a decision."""
        outcome = self.end.get("outcome") or {}
        return list(outcome.get("interrupts") or ())

    @property
    def text(self) -> str:
        """What the agent said."""
        return "".join(event["delta"] for event in self.events if event["type"] == "TEXT_MESSAGE_CONTENT")

    @property
    def tool_results(self) -> list[str]:
        """What the tools answered, as text."""
        return [str(event["content"]) for event in self.events if event["type"] == "TOOL_CALL_RESULT"]


class AguiClient:
    """Speaks to one agent, in one scope, through whatever `http` is connected to."""

    def __init__(self, http: httpx.AsyncClient, *, agent: str = "payments") -> None:
        self._http = http
        self._path = f"/agents/{agent}"

    async def post(self, run: Run, *, on_start: Callable[[str], None] = lambda replica: None) -> Reply:
        """Send a run once; `on_start` is told who serves it as soon as that is known. No transport error is raised."""
        status, replica = 0, ""
        events: list[Json] = []
        try:
            async with self._http.stream("POST", self._path, json=run.body()) as response:
                status, replica = response.status_code, response.headers.get(REPLICA_HEADER, "")
                on_start(replica)
                await _read(response, events)
        except httpx.TransportError:
            pass  # the events that came until then show that the stream was cut
        return Reply(status, replica, tuple(events))

    async def replies(self, run: Run, *, seconds: float = 60.0) -> AsyncIterator[Reply]:
        """Send a run until it is answered, and yield every reply; the last one is the answer. Raises TimeoutError."""
        deadline = asyncio.get_running_loop().time() + seconds
        pause_seconds = _PAUSE_SECONDS
        while True:
            reply = await self.post(run)
            yield reply
            if not reply.is_to_repeat:
                return
            pause_seconds = float(reply.metadata.get("retryAfterSeconds") or pause_seconds * 1.5)
            pause_seconds = min(pause_seconds, _PAUSE_SECONDS_MAX)
            if asyncio.get_running_loop().time() + pause_seconds > deadline:
                raise TimeoutError(f"Run {run.run_id} was not answered in {seconds:g} s; the last reply: {reply}")
            await asyncio.sleep(pause_seconds)

    async def send(self, run: Run, *, seconds: float = 60.0) -> Reply:
        """Send a run until it is answered. Raises TimeoutError."""
        return [reply async for reply in self.replies(run, seconds=seconds)][-1]


@asynccontextmanager
async def connect(url: str, *, scope: str, agent: str = "payments") -> AsyncIterator[AguiClient]:
    """Open a client of one agent; `url` is the load balancer's, or one replica's own."""
    headers = {SCOPE_HEADER: scope, "accept": "text/event-stream"}
    # No proxy of the environment stands between two processes of one machine.
    async with httpx.AsyncClient(base_url=url, headers=headers, timeout=_TIMEOUTS, trust_env=False) as http:
        yield AguiClient(http, agent=agent)


async def _read(response: httpx.Response, events: list[Json]) -> None:
    """Read server-sent events by hand: httpx's own lines would also end at characters that JSON text may hold."""
    rest = b""
    async for chunk in response.aiter_bytes():
        *lines, rest = (rest + chunk).split(b"\n")
        events.extend(json.loads(line.removeprefix(b"data:")) for line in lines if line.startswith(b"data:"))
