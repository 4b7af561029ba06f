"""After the last fault: send again what has no answer yet, and look at every thread, as the people behind it would."""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field

from deploy.agui_client import AguiClient, Reply, Run, connect, hydrate, resume
from loadtests.decisions import decision
from loadtests.history import Answer, Card, Event, Intent, Sent, exchanges
from loadtests.invariants import EXPIRED, IN_DOUBT
from loadtests.journal import Journal
from loadtests.shown import replied

AT_ONCE = 32
"""Threads, about as many as there were users."""
PAUSE_SECONDS = 0.3
PAUSE_SECONDS_MAX = 3.0
POST_SECONDS_MIN = 10.0
"""So long an answer is waited for even when the time for it is over."""
SHARES_MAX = 4
"""After so many times what one thread has, everything else is sent once only: then most hosts do not answer at all."""


@dataclass(slots=True)
class LeftThread:
    """One conversation as its client left it; `unanswered` are the decisions that came to no end, newest first."""

    scope: str
    name: str
    cards: dict[str, Card] = field(default_factory=dict)
    unanswered: list[tuple[Answer, ...]] = field(default_factory=list)


def left_open(history: Sequence[Event]) -> list[LeftThread]:
    """Return every thread of a history, with the decisions whose end nobody was told."""
    threads: dict[tuple[str, str], LeftThread] = {}
    sent: defaultdict[tuple[str, str], list[tuple[Answer, ...]]] = defaultdict(list)
    ended: set[str] = set()
    for each in exchanges(history):
        if each.sent.intent in {Intent.FORGE, Intent.INTRUDE}:
            continue
        key = (each.sent.scope, each.sent.thread)
        thread = threads.setdefault(key, LeftThread(*key))
        thread.cards |= {card.interrupt_id: card for card in each.replied.cards}
        if each.sent.answers and each.sent.answers not in sent[key]:
            sent[key].append(each.sent.answers)
        if each.replied.is_finished or each.replied.code in {EXPIRED, IN_DOUBT}:
            ended |= _names(each.sent.answers)
    for key, thread in threads.items():
        is_open = [answers for answers in sent[key] if not ended.issuperset(_names(answers))]
        thread.unanswered = [answers for answers in reversed(is_open) if thread.cards.keys() >= _names(answers)]
    return list(threads.values())


async def look_at_all(
    url: str,
    threads: Sequence[LeftThread],
    journal: Journal,
    *,
    seconds: float,
    clock: Callable[[], float] = time.monotonic,
) -> None:
    """Bring every thread to its end, look at it then, and write all of that down.

    `seconds` is how long each decision, and each page, is sent again while hosts ask for that, from when its thread has
    its turn. No thread is left out: what has its turn only after SHARES_MAX times as long is still sent, once.
    """
    waiting = iter(threads)
    ends_at = clock() + SHARES_MAX * seconds
    async with AsyncExitStack() as connections:
        clients = {
            scope: await connections.enter_async_context(connect(url, scope=scope))
            for scope in sorted({thread.scope for thread in threads})
        }
        async with asyncio.TaskGroup() as group:
            for number in range(AT_ONCE):
                person = _Person(clients, journal, f"last-{number}", seconds, ends_at, clock)
                group.create_task(person.look_one_after_another(waiting))


@dataclass(frozen=True, slots=True)
class _Person:
    clients: Mapping[str, AguiClient]
    journal: Journal
    user: str
    seconds: float
    ends_at: float
    clock: Callable[[], float]

    async def look_one_after_another(self, waiting: Iterator[LeftThread]) -> None:
        for thread in waiting:
            ended: set[str] = set()
            for answers in thread.unanswered:
                # Of two decisions about the same, the other one could only be refused when one has come to its end.
                if not ended.issuperset(_names(answers)) and await self._has_end(thread, answers):
                    ended |= _names(answers)
            await self._send(thread, hydrate(thread.name))

    async def _has_end(self, thread: LeftThread, answers: tuple[Answer, ...]) -> bool:
        """Send decisions until they are answered, and tell whether that is their end; else they are refused."""
        reply = await self._send(thread, resume(thread.name, *map(decision, answers)), answers)
        return bool(reply.end) and reply.code in {None, EXPIRED, IN_DOUBT}

    async def _send(self, thread: LeftThread, run: Run, answers: tuple[Answer, ...] = ()) -> Reply:
        """Send a run, and the very same again for as long as a client is to and its time is not over."""
        deadline = min(self.clock() + self.seconds, self.ends_at)
        pause_seconds = PAUSE_SECONDS
        while True:
            reply = await self._post(thread, run, answers, max(POST_SECONDS_MIN, deadline - self.clock()))
            if not reply.is_to_repeat or self.clock() > deadline:
                return reply
            pause_seconds = float(reply.metadata.get("retryAfterSeconds") or pause_seconds * 1.5)
            pause_seconds = min(pause_seconds, PAUSE_SECONDS_MAX)
            await asyncio.sleep(pause_seconds)

    async def _post(self, thread: LeftThread, run: Run, answers: tuple[Answer, ...], seconds: float) -> Reply:
        at = time.time()
        request = f"{self.user}:{run.run_id}:{at}"
        self.journal.append(
            Sent(at, request, thread.scope, thread.name, answers, not answers, Intent.LAST, run.run_id, self.user)
        )
        told, has_left = Reply(), True
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                told = await self.clients[thread.scope].post(run)
                has_left = False
        self.journal.append(replied(request, told, at=time.time(), has_left=has_left))
        return told


def _names(answers: Iterable[Answer]) -> set[str]:
    return {answer.interrupt_id for answer in answers}
