"""One example of the hosts' machine: clients, replicas and their troubles over one world; in the end it is judged."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import Any
from uuid import uuid4

from deploy.agui_client import RETRYABLE_CODES
from loadtests.history import Answer, Card, Replied
from loadtests.invariants import Violation, violations
from stores.ports import Change
from stores.records import EffectKind, OccurrenceState, Verdict
from tests.host.bodies import Json, answers, approve, cancel, looks, reject, says
from tests.host.hosts import WAIT_SECONDS_MAX, key_of
from tests.host.worlds import World
from tests.machines.far_side import FarSide
from tests.machines.recorder import Recorder
from tests.machines.replicas import Living, Pulse, Replicas

TRIES_MAX = 6
"""How often a client sends the same again, in the end, before it counts as not answered."""
PAYEE, EDITED_PAYEE = "ACME", "Bolt"
REUSED_LENGTH_MAX = len("call_99")
"""Call ids of a provider that numbers them anew in each turn are that short: nobody can tell which call they name."""
IN_TRANSACTION = ("before-effect", "after-effect", "before-settle")
"""A replica that froze here would keep a database's locks, until its time-out lets the others go on."""

Sending = tuple[Living, Json, tuple[Answer, ...]]


class Example:
    """What happens in one example. Everything that clients see is noted, and judged in the end."""

    def __init__(self, world: World, bank: FarSide, prefix: str, stack: AsyncExitStack, *, is_apart: bool) -> None:
        self.recorder = Recorder(bank, world, prefix)
        self.sent: list[tuple[Json, tuple[Answer, ...]]] = []
        self.is_transactional = world.is_transactional
        self._world = world
        self._bank = bank
        self._prefix = prefix
        self._stack = stack
        self._is_apart = is_apart
        self._invoices = 0
        self._shown: dict[str, tuple[Card, ...]] = {}
        self._threads: dict[str, None] = {}
        self._exchanges: dict[asyncio.Task[Replied | None], Living] = {}
        self.replicas: Replicas

    async def open(self) -> None:
        raw = await self._stack.enter_async_context(self._world.open_another())
        self.replicas = Replicas(self._world, raw, self._bank.url, self._stack, self._note_fault)
        for _ in range(2):
            await self.start()

    async def start(self) -> Living:
        return await self.replicas.start(is_apart=self._is_apart)

    def open_cards(self, thread: str) -> tuple[Card, ...]:
        """Return the cards a client of this thread was shown last."""
        return self._shown.get(thread, ())

    def can_expire(self) -> bool:
        cards = [card for shown in self._shown.values() for card in shown]
        return any(card.interrupt_id not in self.recorder.expired for card in cards)

    def can_freeze_at(self, step: str) -> bool:
        cards = [card for shown in self._shown.values() for card in shown]
        return step not in IN_TRANSACTION or all(card.kind is not EffectKind.TRANSACTIONAL for card in cards)

    async def ask(self, living: Living, thread: str, verbs: Sequence[str], directions: str) -> None:
        """Say something that asks for these calls; no invoice is named twice."""
        self._threads[thread] = None
        calls = []
        for verb in verbs:
            self._invoices += 1
            payee = "" if verb in ("refund", "look up") else f" to {PAYEE}"
            calls.append(f"{verb} {self._prefix}{self._invoices}{payee}")
        if directions == "outage":
            await self._bank.break_model_once(self._prefix.rstrip("-"))
            directions = f"outage {self._prefix.rstrip('-')}"
        words = " and ".join(calls) + (f" ({directions})" if directions else "")
        await self.deliver([(living, says(thread, words), ())])

    def decision(self, thread: str, verdicts: Sequence[str], *, by_alias: bool) -> tuple[Json, tuple[Answer, ...]]:
        """Return a resume with these verdicts on the cards of a thread, in their order; it leaves out what has none."""
        entries, decided = [], []
        for card, verdict in zip(self.open_cards(thread), verdicts, strict=False):
            is_reused = len(card.call_id) < REUSED_LENGTH_MAX
            name = card.call_id if by_alias and not is_reused else card.interrupt_id
            entry, answer = _decided(card, verdict, name)
            entries.append(entry)
            decided.append(answer)
        self.sent.append((answers(thread, *entries), tuple(decided)))
        return self.sent[-1]

    async def deliver(self, sendings: Sequence[Sending], *, scope: str = "alice") -> None:
        """Let these reach their replicas at once; go on when each was answered or its replica stopped."""
        await asyncio.gather(*(self._deliver(*each, scope) for each in sendings))

    async def look(self, living: Living, thread: str, *, scope: str = "alice") -> Replied | None:
        body = looks(thread)
        return self._seen(thread, scope, await self.recorder.send(living, body, scope=scope, looks=True))

    async def reconcile(self, living: Living) -> None:
        """Let one replica look after what others left, and wait until it is through with it, or stopped."""
        for thread in self._threads:
            loaded = await self.replicas.raw.threads.load(key_of(thread))
            if loaded.record.claim is None and loaded.record.occurrences:
                change = Change(loaded.record.version, uuid4().hex, loaded.record, due_at=loaded.now)
                await self.replicas.raw.threads.save(key_of(thread), change=change)
        await self._unless_stopped(living, self._reconciled(living))

    async def expire(self, thread: str) -> None:
        """Let the time of what waits for a person in a thread be over."""
        loaded = await self.replicas.raw.threads.load(key_of(thread))
        record = loaded.record
        pending = [each for each in record.occurrences if each.state is OccurrenceState.PENDING]
        if record.claim is not None or not pending:
            return
        late = tuple(
            replace(each, expires_at=loaded.now - 1) if each in pending else each for each in record.occurrences
        )
        change = Change(record.version, uuid4().hex, replace(record, occurrences=late), due_at=loaded.now)
        await self.replicas.raw.threads.save(key_of(thread), change=change)
        self.recorder.note_expiry(each.interrupt_id for each in pending)

    async def thaw(self, living: Living) -> None:
        """Let a frozen replica go on, and wait for what it was doing."""
        living.thaw()
        await self._wait_for_exchanges(living)

    async def misjudge(self, living: Living) -> None:
        await self.replicas.misjudge(living)
        await self.recorder.note_fault(living)

    async def judged(self) -> list[Violation]:
        """Let everything run out on a replica that takes over from all others, and judge what all saw."""
        last = await self._run_out()
        await self._send_all_again(last)
        for thread in self._threads:
            await self._answer_what_is_open(last, thread)
        await self._send_all_again(last)
        for thread in self._threads:
            await self.look(last, thread)
            await self.look(last, thread, scope="bob")
        return [*violations(self.recorder.history(), await self.recorder.effects()), *self._unended()]

    async def _run_out(self) -> Living:
        for each in self.replicas.all:
            each.trouble = None
            each.lost.clear()
            if each.pulse is Pulse.FROZEN:
                each.thaw()
        for each in self.replicas.up():
            await self._wait_for_exchanges(each)
        for each in self.replicas.up():
            await each.crash()
        last = await self.start()
        await self.replicas.let_lease_pass()
        return last

    async def _wait_for_exchanges(self, living: Living) -> None:
        mine = [task for task, by in self._exchanges.items() if by is living]
        await asyncio.wait_for(asyncio.gather(*mine), WAIT_SECONDS_MAX)
        for task in mine:
            del self._exchanges[task]

    async def _send_all_again(self, last: Living) -> None:
        for body, answered in self.sent:
            await self._until_answered(last, body, answered)

    async def _answer_what_is_open(self, last: Living, thread: str) -> None:
        for _ in range(TRIES_MAX):
            await self.look(last, thread)
            if not self.open_cards(thread):
                break
            await self._until_answered(last, *self.decision(thread, ["approve"] * 9, by_alias=False))

    async def _until_answered(self, last: Living, body: Json, answered: tuple[Answer, ...]) -> None:
        replies: list[Replied] = []
        while not replies or replies[-1].code in RETRYABLE_CODES:
            assert len(replies) < TRIES_MAX, f"not answered: {replies[-1]}"
            reply = await self.recorder.send(last, body, answers=answered)
            assert reply is not None, "the last replica lives"
            self._seen(body["threadId"], "alice", reply)
            replies.append(reply)

    def _unended(self) -> list[Violation]:
        return [
            Violation(card.interrupt_id, "everything runs out", f"is still open in {thread}")
            for thread, cards in self._shown.items()
            for card in cards
        ]

    async def _deliver(self, living: Living, body: Json, answered: tuple[Answer, ...], scope: str) -> None:
        reply = await self._unless_stopped(living, self.recorder.send(living, body, scope=scope, answers=answered))
        self._seen(body["threadId"], scope, reply)

    async def _unless_stopped(self, living: Living, work: Coroutine[Any, Any, Replied | None]) -> Replied | None:
        """Wait for what a replica does, unless it stops: then it goes on after the thaw, or never."""
        task = asyncio.create_task(work)
        stopped = asyncio.create_task(living.stopped.wait())
        await asyncio.wait({task, stopped}, return_when=asyncio.FIRST_COMPLETED)
        stopped.cancel()
        if task.done():
            return None if living.pulse is Pulse.DEAD else task.result()
        self._exchanges[task] = living
        return None

    async def _reconciled(self, living: Living) -> None:
        await living.reconciler.run_once()
        while living.reconciler._under_way:
            await asyncio.sleep(0)

    def _seen(self, thread: str, scope: str, reply: Replied | None) -> Replied | None:
        if reply is not None and reply.is_finished and scope == "alice":
            self._shown[thread] = reply.cards
        return reply

    async def _note_fault(self, living: Living) -> None:
        left_begun = await self.replicas.left_begun(living) if living.pulse is Pulse.DEAD else frozenset[str]()
        await self.recorder.note_fault(living, left_begun)


def _decided(card: Card, verdict: str, name: str) -> tuple[Json, Answer]:
    match verdict:
        case "edit" if PAYEE in card.arguments:
            edited = card.arguments.replace(PAYEE, EDITED_PAYEE)
            return approve(name, payee=EDITED_PAYEE), Answer(card.interrupt_id, Verdict.APPROVE, edited)
        case "approve" | "edit":
            return approve(name), Answer(card.interrupt_id, Verdict.APPROVE, card.arguments)
        case "reject":
            return reject(name), Answer(card.interrupt_id, Verdict.REJECT)
        case _:
            return cancel(name), Answer(card.interrupt_id, Verdict.CANCEL)
