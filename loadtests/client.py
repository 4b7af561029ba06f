"""One device of one person: sends a POST over locust's own client, reads its stream, and writes both down."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator

import gevent
from geventhttpclient.response import HTTPParseError
from locust.contrib.fasthttp import FastHttpSession
from locust.event import EventHook

from deploy.agui_client import REPLICA_HEADER, SCOPE_HEADER, Json, Reply, Run
from loadtests.history import Answer, Intent, Replied, Sent
from loadtests.journal import Journal
from loadtests.shown import replied

PAUSE_SECONDS = 0.3
PAUSE_SECONDS_MAX = 3.0


class Client:
    """Speaks to one agent in one scope. It sends nothing a second time by itself, but for `send`, which says so.

    `numbers` are the person's, over all their devices and threads: no two requests of a history have the same name.
    Who gets no answer for `patience_seconds` gives up; the last look of a run sends it once more.
    """

    def __init__(
        self,
        session: FastHttpSession,
        fire: EventHook,
        write: Callable[[Sent | Replied], None],
        *,
        user: str,
        scope: str,
        numbers: Iterator[int],
        patience_seconds: float,
        agent: str = "payments",
    ) -> None:
        self.user = user
        self.scope = scope
        self._session = session
        self._fire = fire
        self._write = write
        self._path = f"/agents/{agent}"
        self._numbers = numbers
        self._patience_seconds = patience_seconds

    def as_scope(self, scope: str) -> Client:
        """Return the same device with another identity."""
        return Client(
            self._session,
            self._fire,
            self._write,
            user=self.user,
            scope=scope,
            numbers=self._numbers,
            patience_seconds=self._patience_seconds,
        )

    def post(
        self, run: Run, intent: Intent, answers: tuple[Answer, ...] = (), *, events_max: int | None = None
    ) -> Reply:
        """Send a run once. With `events_max` the connection is closed when so many events came: the stream is lost."""
        at = time.time()
        request = f"{self.user}:{next(self._numbers)}"
        looks = not answers and not run.messages
        self._write(Sent(at, request, self.scope, run.thread_id, answers, looks, intent, run.run_id, self.user))
        reply, first_event_at = self._read(run, events_max)
        ended_at = time.time()
        self._write(replied(request, reply, at=ended_at, first_event_at=first_event_at))
        self._report(intent, reply, at, first_event_at, ended_at)
        return reply

    def send(self, run: Run, intent: Intent, answers: tuple[Answer, ...] = ()) -> Reply:
        """Send a run, and the very same again for as long as a client is to; the last reply is returned."""
        deadline = time.monotonic() + self._patience_seconds
        pause_seconds = PAUSE_SECONDS
        reply = self.post(run, intent, answers)
        while reply.is_to_repeat and time.monotonic() < deadline:
            pause_seconds = min(
                float(reply.metadata.get("retryAfterSeconds") or pause_seconds * 1.5), PAUSE_SECONDS_MAX
            )
            gevent.sleep(pause_seconds)
            reply = self.post(run, intent if intent in _TOLD_APART else Intent.AGAIN, answers)
        return reply

    def _read(self, run: Run, events_max: int | None) -> tuple[Reply, float | None]:
        headers = {SCOPE_HEADER: self.scope, "accept": "text/event-stream", "content-type": "application/json"}
        body = json.dumps(run.body())
        events: list[Json] = []
        first_event_at: float | None = None
        status, replica = 0, ""
        with self._session.request(
            "POST",
            self._path,
            name="POST, to its headers",
            data=body,
            headers=headers,
            stream=True,
            catch_response=True,
        ) as response:
            response.success()  # what it was is told below, by what its stream says
            status = response.status_code
            if not status or response.headers is None:
                return Reply(), None
            replica = response.headers.get(REPLICA_HEADER) or ""
            stream = response.stream
            try:
                while events_max is None or len(events) < events_max:
                    line = stream.readline(b"\n")
                    if not line:
                        break
                    if line.startswith(b"data:"):
                        first_event_at = first_event_at or time.time()
                        events.append(json.loads(line[5:]))
            except (OSError, HTTPParseError, ConnectionError):
                pass  # the events that came until then show that the stream was cut
            finally:
                stream.release()
        return Reply(status, replica, tuple(events)), first_event_at

    def _report(self, intent: Intent, reply: Reply, at: float, first_event_at: float | None, ended_at: float) -> None:
        """Give locust's own statistics what its headers do not say."""
        if first_event_at is not None:
            self._time("first event", intent, first_event_at - at)
        if reply.is_cut:
            self._time("cut", intent, ended_at - at)
        elif reply.status != 200:
            is_expected = reply.is_to_repeat
            self._time("refused", f"HTTP {reply.status}", ended_at - at, None if is_expected else ValueError("HTTP"))
        elif reply.code:
            self._time("refused", reply.code, ended_at - at)
        else:
            self._time("interrupt" if reply.interrupts else "finish", intent, ended_at - at)

    def _time(self, what: str, name: str, seconds: float, exception: Exception | None = None) -> None:
        self._fire.fire(
            request_type=what,
            name=name,
            response_time=1000 * seconds,
            response_length=0,
            exception=exception,
            context={},
        )


_TOLD_APART = frozenset({Intent.FORGE, Intent.INTRUDE, Intent.LOOK, Intent.CONFLICT, Intent.ELSEWHERE, Intent.LATE})
"""What keeps its name when it is sent again: the judge asks for something else from each of these."""


def writer(journal: Journal | None) -> Callable[[Sent | Replied], None]:
    """Return what writes a history, or forgets it where nobody asked for one."""
    return journal.append if journal is not None else lambda event: None
