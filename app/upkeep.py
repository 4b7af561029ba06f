"""Upkeep of threads besides a run's claim and finish: claims let go, pauses expired, doubts ended."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import TypeVar
from uuid import uuid4

from tenacity import AsyncRetrying, retry_if_exception_type, stop_after_attempt, wait_exponential_jitter

from app import lifecycle
from app.errors import Code, Refusal
from app.tickets import LetGo, Ticket
from app.transcript import close_calls, result_text
from stores.errors import StoreError, WriteInDoubt
from stores.ports import Change, Closed, Loaded, Lost, NotReserved, Saved, Stores
from stores.records import Bag, EffectState, OccurrenceState, Record, Run, RunState, Snapshot, ThreadKey

CANCELLED_TEXT = "The approval was cancelled; the call was not run."
EXPIRED_TEXT = "The approval expired before it was answered; the call was not run."

_Answer = TypeVar("_Answer")


class Upkeep:
    """Writes that belong to no run, each a compare-and-set, ledger first.

    `holder` is this process; `retries_max` is how often the reconciler repeats a resume before a person must.
    """

    def __init__(self, stores: Stores, *, holder: str, retries_max: int) -> None:
        self._stores = stores
        self._holder = holder
        self.retries_max = retries_max
        self._unreleased: dict[str, tuple[ThreadKey, LetGo]] = {}

    async def save(self, key: ThreadKey, change: Change) -> Saved | Lost | NotReserved:
        """Compare and set; repeated unchanged when its answer was lost. Raises WriteInDoubt in the end."""
        return await again_if_in_doubt(lambda: self._stores.threads.save(key, change=change))

    def remember(self, key: ThreadKey, attempt: str) -> None:
        """Note a claim that may have been made: it is let go with the heartbeat."""
        self._unreleased[attempt] = (key, LetGo())

    async def release(self, ticket: Ticket, let_go: LetGo) -> None:
        """Drop a claim whose calls have all ended; repeated with the heartbeat until a store takes it."""
        try:
            await self._drop_claim(ticket.key, ticket.record, ticket.run, let_go, ticket.now())
        except StoreError:
            self._unreleased[ticket.claim.attempt] = (ticket.key, let_go)

    async def release_again(self) -> None:
        """Repeat the releases that no store has taken yet. Raises StoreError while it still does not."""
        for attempt, (key, let_go) in list(self._unreleased.items()):
            loaded = await self._stores.threads.load(key)
            claim = loaded.record.claim
            if claim is not None and claim.attempt == attempt:
                run = await self._stores.threads.outcome(key, run_id=claim.run_id)
                await self._drop_claim(key, loaded.record, run, let_go, loaded.now)
            del self._unreleased[attempt]

    async def expire(self, key: ThreadKey, loaded: Loaded) -> bool:
        """End a pause whose time has passed, ledger first; True if the thread must be read again."""
        occurrences = lifecycle.expired(loaded)
        if not occurrences:
            return False
        closed = await self._stores.effects.close(
            key, interrupts={each.interrupt_id: "expired" for each in occurrences}
        )
        run = await self._stores.threads.outcome(key, run_id=occurrences[0].run_id)
        if not isinstance(closed, Closed) or run is None:
            return False
        outcomes = tuple(lifecycle.outcome_of(each, OccurrenceState.EXPIRED) for each in occurrences)
        calls = {each.call_id: EXPIRED_TEXT for each in occurrences}
        change = Change(
            expected=loaded.record.version,
            write_id=uuid4().hex,
            record=lifecycle.finish(pending=(), pause_id=None),
            snapshot=close_calls(loaded.snapshot or Snapshot(), calls),
            bag=Bag(),
            runs=(replace(run, outcomes=(*run.outcomes, *outcomes)),),
        )
        await self.save(key, change)
        return True

    async def end_doubt(self, key: ThreadKey, loaded: Loaded) -> bool:
        """Ask the ledger about occurrences in doubt; True if it knew more and the thread must be read again."""
        names = [each.interrupt_id for each in lifecycle.in_state(loaded.record, OccurrenceState.INDETERMINATE)]
        if not names:
            return False
        rows = await self._stores.effects.read(key, interrupts=names)
        known = [name for name, row in rows.items() if row.state in (EffectState.SETTLED, EffectState.RESERVED)]
        record = lifecycle.end_of_doubt(loaded.record, known)
        if record is None:
            return False
        due_at = self.due_at(record, loaded.now)
        await self.save(key, Change(loaded.record.version, uuid4().hex, record, due_at=due_at))
        return True

    async def leave(self, key: ThreadKey, loaded: Loaded, *, run_id: str) -> Run | Refusal | None:
        """End a stuck thread by what the ledger knows, ledger first; None if the thread must be read again.

        A call with a result ends finished with it; one that began, or whose row is missing, is in doubt; the rest is
        cancelled.
        """
        names = [each.interrupt_id for each in loaded.record.occurrences]
        rows = await self._stores.effects.read(key, interrupts=names)
        in_doubt = {name for name in names if name not in rows or rows[name].state is EffectState.BEGUN}
        if in_doubt:
            record = lifecycle.release(loaded.record, in_doubt=in_doubt, now=loaded.now)
            due_at = self.due_at(record, loaded.now)
            await self.save(key, Change(loaded.record.version, uuid4().hex, record, due_at=due_at))
            return lifecycle.indeterminate(lifecycle.in_state(record, OccurrenceState.INDETERMINATE))
        results = {name: row.result for name, row in rows.items() if row.result is not None}
        cancelled = {name: "cancelled" for name in names if name not in results}
        if cancelled and not isinstance(await self._stores.effects.close(key, interrupts=cancelled), Closed):
            return Refusal(Code.THREAD_BUSY, "A call of this thread is still held; retry later.", tuple(names))
        occurrences = loaded.record.occurrences
        texts = {each.call_id: result_text(results.get(each.interrupt_id), CANCELLED_TEXT) for each in occurrences}
        run = lifecycle.left_run(loaded.record, run_id=run_id, attempt=uuid4().hex, settled=results)
        change = Change(
            expected=loaded.record.version,
            write_id=uuid4().hex,
            record=lifecycle.finish(pending=(), pause_id=None),
            snapshot=close_calls(loaded.snapshot or Snapshot(), texts),
            bag=Bag(),
            runs=(run,),
        )
        return run if isinstance(await self.save(key, change), Saved) else None

    async def put_off(self, key: ThreadKey, loaded: Loaded) -> None:
        """Let a due thread that can not go on by itself wait a little longer each time; drop a dead plain claim."""
        record = lifecycle.put_off(loaded.record, now=loaded.now)
        free = loaded.record.claim.attempt if loaded.record.claim and self._stores.shared else None
        due_at = self.due_at(record, loaded.now)
        await self.save(key, Change(loaded.record.version, uuid4().hex, record, due_at=due_at, free=free))

    def due_at(self, record: Record, now: float) -> float | None:
        """When the reconciler shall look at the thread next."""
        return lifecycle.due_at(record, now=now, retries_max=self.retries_max)

    async def _drop_claim(self, key: ThreadKey, record: Record, run: Run | None, let_go: LetGo, now: float) -> None:
        assert record.claim is not None, "only a claimed record is released"
        attempt = record.claim.attempt
        await self._take_back_begins(key, attempt, let_go.unstarted)
        released = lifecycle.release(record, in_doubt=let_go.in_doubt, now=now)
        if not self._stores.shared:
            await self._stores.effects.free(key, attempt=attempt)
        change = Change(
            expected=record.version,
            write_id=uuid4().hex,
            record=released,
            runs=(replace(run, state=RunState.FAILED),) if run else (),
            due_at=self.due_at(released, now),
            free=attempt if self._stores.shared else None,
        )
        await self.save(key, change)

    async def _take_back_begins(self, key: ThreadKey, attempt: str, unstarted: frozenset[str]) -> None:
        """Resolve begun rows of calls that this very process knows it never started."""
        rows = await self._stores.effects.read(key, interrupts=unstarted) if unstarted else {}
        for name, row in rows.items():
            if row.state is EffectState.BEGUN and row.attempt == attempt:
                evidence = "the holder never started the call: its begin got no answer"
                await self._stores.effects.resolve(
                    key, interrupt_id=name, result=None, by=self._holder, evidence=evidence
                )


async def again_if_in_doubt(write: Callable[[], Awaitable[_Answer]]) -> _Answer:
    """Repeat the very same write, same `write_id`, when its answer was lost; raises WriteInDoubt in the end."""
    retrying = AsyncRetrying(
        retry=retry_if_exception_type(WriteInDoubt),
        wait=wait_exponential_jitter(multiplier=0.05, max=1.0, jitter=0.05),
        stop=stop_after_attempt(3),
        reraise=True,
    )

    async def once() -> _Answer:
        return await write()

    return await retrying(once)
