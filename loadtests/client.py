"""One device of one person: sends a POST over locust's own client, reads its stream, and writes both down."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http import HTTPStatus

import gevent
from geventhttpclient.response import HTTPParseError
from locust.contrib.fasthttp import FastHttpSession
from locust.event import EventHook

from deploy.agui_client import REPLICA_HEADER, SCOPE_HEADER, Json, Reply, Run
from loadtests.decisions import calls_in
from loadtests.expected import is_expected
from loadtests.history import Answer, Intent, Replied, Sent
from loadtests.shown import names_in, replied

PAUSE_SECONDS = 0.3
PAUSE_SECONDS_MAX = 3.0
CLOCK_SECONDS = 0.02

_TOLD_APART = frozenset({Intent.FORGE, Intent.INTRUDE, Intent.LOOK, Intent.CONFLICT, Intent.ELSEWHERE, Intent.LATE})
"""What keeps its name when it is sent again: the judge asks for something else from each of these."""


class UnexpectedReply(Exception):
    """What locust counts as a failure: a reply that no client has to reckon with."""


@dataclass(slots=True)
class _Heard:
    """What has come back for one POST until now."""

    status: int = 0
    replica: str = ""
    events: list[Json] = field(default_factory=list)
    first_event_at: float | None = None


@dataclass(frozen=True, slots=True)
class Client:
    """Speaks to one agent in one scope. It sends nothing a second time by itself, but for `send`, which says so.

    `numbers` are the person's, over all their devices and threads: no two requests of a history have the same name.
    Who gets no answer for `patience_seconds` gives up; the last look of a run sends it once more.
    """

    session: FastHttpSession
    fire: EventHook
    write: Callable[[Sent | Replied], None]
    user: str
    scope: str
    numbers: Iterator[int]
    patience_seconds: float
    agent: str = "payments"

    def post(
        self, run: Run, intent: Intent, answers: tuple[Answer, ...] = (), *, leave_after_seconds: float | None = None
    ) -> Reply:
        """Send a run once; who leaves closes the connection after so long, wherever its stream is then.

        A greenlet that is killed meanwhile leaves no reply in the history, as a client that died has seen none.
        """
        at = time.time()
        request = f"{self.user}:{next(self.numbers)}"
        looks = not answers and not run.messages
        names = names_in(run.messages)
        words = str(run.messages[-1]["content"]) if run.messages else ""
        calls = calls_in(words) if words else None
        self.write(
            Sent(
                at,
                request,
                self.scope,
                run.thread_id,
                answers,
                looks,
                intent,
                run.run_id,
                self.user,
                calls,
                names,
                words,
            )
        )
        heard = _Heard()
        with gevent.Timeout(leave_after_seconds, False):
            self._hear(run, heard)
        ended_at = time.time()
        # The session may take this for a failure of its own, and say nothing of it; its clock may be a little ahead.
        has_left = leave_after_seconds is not None and ended_at - at >= leave_after_seconds - CLOCK_SECONDS
        reply = Reply(heard.status, heard.replica, tuple(heard.events))
        self.write(replied(request, reply, at=ended_at, first_event_at=heard.first_event_at, has_left=has_left))
        if heard.first_event_at is not None:
            self._count("first event", intent, heard.first_event_at - at)
        what, name = _outcome(intent, reply, has_left=has_left)
        failure = None if is_expected(intent, reply) else UnexpectedReply(f"{name}, to {intent}")
        self._count(what, name, ended_at - at, failure)
        return reply

    def send(self, run: Run, intent: Intent, answers: tuple[Answer, ...] = ()) -> Reply:
        """Send a run, and the very same again for as long as a client is to; the last reply is returned."""
        deadline = time.monotonic() + self.patience_seconds
        pause_seconds = PAUSE_SECONDS
        reply = self.post(run, intent, answers)
        while reply.is_to_repeat and time.monotonic() < deadline:
            pause_seconds = float(reply.metadata.get("retryAfterSeconds") or pause_seconds * 1.5)
            pause_seconds = min(pause_seconds, PAUSE_SECONDS_MAX)
            gevent.sleep(pause_seconds)
            reply = self.post(run, intent if intent in _TOLD_APART else Intent.AGAIN, answers)
        return reply

    def _hear(self, run: Run, heard: _Heard) -> None:
        headers = {SCOPE_HEADER: self.scope, "accept": "text/event-stream", "content-type": "application/json"}
        with self.session.request(
            "POST",
            f"/agents/{self.agent}",
            name="POST, to its headers",
            data=json.dumps(run.body()),
            headers=headers,
            stream=True,
            catch_response=True,
        ) as response:
            response.success()  # what became of it is counted by what its stream says
            if response.headers is None:
                return  # nobody answered
            heard.status = response.status_code
            heard.replica = response.headers.get(REPLICA_HEADER) or ""
            stream = response.stream
            try:
                while line := stream.readline(b"\n"):
                    if line.startswith(b"data:"):
                        heard.first_event_at = heard.first_event_at or time.time()
                        heard.events.append(json.loads(line.removeprefix(b"data:")))
            except (OSError, HTTPParseError):
                pass  # the events that came until then show that the stream was cut
            finally:
                stream.release()

    def _count(self, what: str, name: str, seconds: float, failure: Exception | None = None) -> None:
        """Give locust's own statistics what its headers do not say."""
        self.fire.fire(
            request_type=what,
            name=name,
            response_time=1000 * seconds,
            response_length=0,
            exception=failure,
            context={},
        )


def _outcome(intent: Intent, reply: Reply, *, has_left: bool) -> tuple[str, str]:
    """Return what became of a POST, and by what name it is counted."""
    if reply.is_cut:
        return "left" if has_left else "cut", intent
    if reply.status != HTTPStatus.OK:
        return "refused", f"HTTP {reply.status}"
    if reply.code:
        return "refused", reply.code
    return "interrupt" if reply.interrupts else "finish", intent
