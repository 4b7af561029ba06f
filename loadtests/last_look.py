"""After the last fault: send again what has no answer yet, and look at every thread, as the people behind it would."""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from deploy.agui_client import AguiClient, Run, connect, hydrate, resume
from loadtests.decisions import decision
from loadtests.history import Answer, Card, Event, Intent, Replied, Sent, exchanges
from loadtests.invariants import EXPIRED, IN_DOUBT
from loadtests.journal import Journal
from loadtests.shown import replied

AT_ONCE = 8
PAUSE_SECONDS = 0.5


@dataclass(slots=True)
class Thread:
    """One conversation as its client left it; `unanswered` are the decisions that came to no end, newest first."""

    scope: str
    name: str
    cards: dict[str, Card] = field(default_factory=dict)
    unanswered: list[tuple[Answer, ...]] = field(default_factory=list)


def left_open(history: Sequence[Event]) -> list[Thread]:
    """Return every thread of a history, with the decisions whose end nobody was told."""
    threads: dict[tuple[str, str], Thread] = {}
    sent: defaultdict[tuple[str, str], list[tuple[Answer, ...]]] = defaultdict(list)
    ended: set[str] = set()
    for each in exchanges(history):
        if each.sent.intent in {Intent.FORGE, Intent.INTRUDE}:
            continue
        key = (each.sent.scope, each.sent.thread)
        thread = threads.setdefault(key, Thread(*key))
        thread.cards |= {card.interrupt_id: card for card in each.replied.cards}
        if each.sent.answers and each.sent.answers not in sent[key]:
            sent[key].append(each.sent.answers)
        if each.replied.is_finished or each.replied.code in {EXPIRED, IN_DOUBT}:
            ended |= {answer.interrupt_id for answer in each.sent.answers}
    for key, thread in threads.items():
        is_open = [answers for answers in sent[key] if not ended.issuperset(each.interrupt_id for each in answers)]
        thread.unanswered = [answers for answers in reversed(is_open) if thread.cards.keys() >= _names(answers)]
    return list(threads.values())


async def look_at_all(url: str, threads: Iterable[Thread], journal: Journal, *, seconds: float) -> None:
    """Bring every thread to its end, in so many seconds at most, and write down how it stands then."""
    deadline = time.monotonic() + seconds
    waiting = iter(threads)
    async with asyncio.TaskGroup() as group:
        for number in range(AT_ONCE):
            group.create_task(_look_one_after_another(f"last-{number}", url, waiting, journal, deadline))


async def _look_one_after_another(
    user: str, url: str, waiting: Iterator[Thread], journal: Journal, deadline: float
) -> None:
    for thread in waiting:
        async with connect(url, scope=thread.scope) as client:
            person = _Person(client, journal, thread, user, deadline)
            for answers in thread.unanswered:
                if await person.send_until_answered(answers):
                    break
            await person.look()


@dataclass(slots=True)
class _Person:
    client: AguiClient
    journal: Journal
    thread: Thread
    user: str
    deadline: float

    async def send_until_answered(self, answers: tuple[Answer, ...]) -> bool:
        """Send decisions again; True if they came to their end, False if they are refused."""
        run = resume(self.thread.name, *(decision(each) for each in answers))
        while True:
            reply = await self._post(run, answers)
            if reply.is_finished or reply.code in {EXPIRED, IN_DOUBT}:
                return True
            is_to_repeat = reply.is_cut or not reply.definite
            if not is_to_repeat or time.monotonic() > self.deadline:
                return False
            await asyncio.sleep(PAUSE_SECONDS)

    async def look(self) -> None:
        """Load the page, until it is shown."""
        while True:
            reply = await self._post(hydrate(self.thread.name), ())
            if reply.is_finished or time.monotonic() > self.deadline:
                return
            await asyncio.sleep(PAUSE_SECONDS)

    async def _post(self, run: Run, answers: tuple[Answer, ...]) -> Replied:
        at = time.time()
        request = f"{self.user}:{run.run_id}:{at}"
        sent = Sent(
            at, request, self.thread.scope, self.thread.name, answers, not answers, Intent.LAST, run.run_id, self.user
        )
        self.journal.append(sent)
        told = await self.client.post(run)
        reply = replied(request, told, at=time.time())
        self.journal.append(reply)
        return reply


def _names(answers: Iterable[Answer]) -> set[str]:
    return {answer.interrupt_id for answer in answers}
