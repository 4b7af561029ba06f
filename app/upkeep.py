"""Upkeep of threads between runs: pauses expired, doubts ended, records brought after their ledger, stuck ones left."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from uuid import uuid4

from app import lifecycle, lost_record, standing
from app.again import save
from app.doubt_alarm import DoubtAlarm
from app.errors import Code, Refusal
from app.follow import begun_and_free, follow
from app.ledger import Ledger
from app.lifecycle import EXPIRED
from app.metrics import Metrics
from app.steps import OnStep, Step, no_step
from app.transcript import close_calls, result_text
from stores import history
from stores.ports import Change, Closed, Held, Loaded, Lost, NotReserved, ReserveAnswer, Saved, Stores
from stores.records import Bag, EffectState, OccurrenceState, Record, Run, RunState, Snapshot, ThreadKey

CANCELLED_TEXT = "The approval was cancelled; the call was not run."
EXPIRED_TEXT = "The approval expired before it was answered; the call was not run."


class Upkeep:
    """Writes that belong to no run, each a compare-and-set, ledger first.

    `retries_max` is how often the reconciler repeats a resume before a person must.
    """

    def __init__(
        self,
        stores: Stores,
        ledger: Ledger,
        *,
        retries_max: int,
        alarm: DoubtAlarm,
        on_step: OnStep = no_step,
        metrics: Metrics | None = None,
    ) -> None:
        self.retries_max = retries_max
        self._stores = stores
        self._ledger = ledger
        self._alarm = alarm
        self._on_step = on_step
        self._metrics = metrics or Metrics()

    async def expire(self, key: ThreadKey, loaded: Loaded) -> bool:
        """End what waits for a person past its time, ledger first; True if the thread must be read again.

        Where the ledger knows more than the record, that comes first. Calls that it says were answered go on without
        those that were not.
        """
        occurrences = lifecycle.expired(loaded)
        if not occurrences:
            return False
        answers = await self._close(key, {each.interrupt_id: EXPIRED for each in occurrences})
        if any(answer != Closed(EXPIRED) for answer in answers.values()):
            return await self.follow(key, loaded, answers) is not None
        if len(occurrences) < len(loaded.record.occurrences):
            await self._replace(key, loaded, lifecycle.without(loaded.record, occurrences))
            return True
        asking = await self._stores.threads.outcome(key, run_id=occurrences[0].run_id)
        run = asking or Run(occurrences[0].run_id, "", RunState.FINISHED, uuid4().hex)
        outcomes = tuple(lifecycle.outcome_of(each, OccurrenceState.EXPIRED) for each in occurrences)
        ended = replace(run, outcomes=(*run.outcomes, *outcomes))
        await self._save(key, _end(loaded, ended, {each.call_id: EXPIRED_TEXT for each in occurrences}))
        return True

    async def end_doubt(self, key: ThreadKey, loaded: Loaded) -> bool:
        """Ask the ledger about occurrences in doubt; True if it knew more and the thread must be read again."""
        names = [each.interrupt_id for each in lifecycle.in_state(loaded.record, OccurrenceState.INDETERMINATE)]
        if not names:
            return False
        rows = await self._stores.effects.read(key, interrupts=names)
        record = follow(loaded.record, rows, begun=(), now=loaded.now)
        if record is None:
            self._alarm.look_at(key, loaded, rows)
            return False
        if isinstance(await self._replace(key, loaded, record), Saved):
            for each in lifecycle.not_in_state(record, OccurrenceState.INDETERMINATE):
                if each.interrupt_id in rows:
                    self._metrics.doubt_ended(rows[each.interrupt_id].state)
        return True

    async def follow(self, key: ThreadKey, loaded: Loaded, answers: Mapping[str, ReserveAnswer]) -> Record | None:
        """Bring a record after its ledger, which refused a batch with these answers; None if it is not behind.

        A row that is held will yet get its result, so while there is one nothing is written.
        """
        if any(isinstance(answer, Held) for answer in answers.values()):
            return None
        rows = await self._stores.effects.read(key, interrupts=list(answers))
        record = follow(loaded.record, rows, begun=begun_and_free(answers), now=loaded.now)
        if record is not None:
            await self._replace(key, loaded, record)
        return record

    async def leave(
        self, key: ThreadKey, loaded: Loaded, *, run_id: str, under_way: Run | None = None
    ) -> Run | Refusal | None:
        """End a stuck thread by what the ledger knows, ledger first; None if the thread must be read again.

        A call with a result ends finished with it; one that began, or that was decided and whose row is missing, is in
        doubt; the rest is cancelled. `under_way` is the run that rules carried on until here: it ends with it.
        """
        record = loaded.record
        names = [each.interrupt_id for each in record.occurrences]
        rows = await self._stores.effects.read(key, interrupts=names)
        pending = {each.interrupt_id for each in lifecycle.in_state(record, OccurrenceState.PENDING)}
        begun = {name for name, row in rows.items() if row.state is EffectState.BEGUN}
        in_doubt = begun | (set(names) - rows.keys() - pending)
        if in_doubt:
            doubted = lifecycle.release(record, in_doubt=in_doubt, now=loaded.now)
            await self._replace(key, loaded, doubted)
            return lifecycle.indeterminate(lifecycle.in_state(doubted, OccurrenceState.INDETERMINATE))
        results = {name: row.result for name, row in rows.items() if row.result is not None}
        answers = await self._close(key, {name: "cancelled" for name in names if name not in results})
        if any(isinstance(answer, Held) for answer in answers.values()):
            return _still_held(names)
        if not all(isinstance(answer, Closed) for answer in answers.values()):
            return None
        texts = {
            each.call_id: result_text(results.get(each.interrupt_id), CANCELLED_TEXT) for each in record.occurrences
        }
        run = lifecycle.left_run(record, run_id=run_id, attempt=uuid4().hex, settled=results)
        others = () if under_way is None else (replace(under_way, state=RunState.FINISHED),)
        ended = _end(loaded, run, texts)
        ended = replace(ended, runs=(*others, *ended.runs))
        return run if isinstance(await self._save(key, ended), Saved) else None

    async def leave_lost(self, key: ThreadKey, loaded: Loaded, *, run_id: str) -> Run | Refusal | None:
        """End a pause whose record is gone, ledger first; None if the thread must be read again."""
        cards = lost_record.orphans(loaded)
        names = [each.interrupt_id for each in cards]
        answers = await self._close(key, dict.fromkeys(names, "cancelled"))
        if any(isinstance(answer, Held) for answer in answers.values()):
            return _still_held(names)
        if not all(isinstance(answer, Closed) for answer in answers.values()):
            return lost_record.began(names)
        run = lost_record.left_run(cards, run_id=run_id, attempt=uuid4().hex)
        ended = _end(loaded, run, {each.call_id: CANCELLED_TEXT for each in cards})
        return run if isinstance(await self._save(key, ended), Saved) else None

    async def revoke(self, key: ThreadKey, loaded: Loaded, interrupts: Collection[str]) -> bool:
        """Take back the standing rules that these interrupts gave; False if the thread must be read again."""
        return isinstance(await self._replace(key, loaded, standing.revoked(loaded.record, interrupts)), Saved)

    async def put_off(self, key: ThreadKey, loaded: Loaded) -> None:
        """Let a due thread that can not go on by itself wait a little longer each time; drop a dead claim."""
        attempt = loaded.record.claim.attempt if loaded.record.claim else None
        if attempt is not None and not self._stores.shared:
            await self._stores.effects.free(key, attempt=attempt)
        free = attempt if self._stores.shared else None
        await self._replace(key, loaded, lifecycle.put_off(loaded.record, now=loaded.now), free)

    def due_at(self, record: Record, now: float) -> float | None:
        """When the reconciler shall look at the thread next."""
        return lifecycle.due_at(record, now=now, retries_max=self.retries_max)

    async def _replace(
        self, key: ThreadKey, loaded: Loaded, record: Record, free: str | None = None
    ) -> Saved | Lost | NotReserved:
        due_at = self.due_at(record, loaded.now)
        change = Change(loaded.record.version, uuid4().hex, record, due_at=due_at, free=free)
        saved = await self._save(key, change)
        if isinstance(saved, Saved):
            self._metrics.changed(loaded.record, record)
        return saved

    async def _close(self, key: ThreadKey, interrupts: Mapping[str, str]) -> Mapping[str, ReserveAnswer]:
        await self._on_step(f"before-{Step.CLOSE}", key)
        answers = await self._ledger.close(key, interrupts)
        await self._on_step(f"after-{Step.CLOSE}", key)
        return answers

    async def _save(self, key: ThreadKey, change: Change) -> Saved | Lost | NotReserved:
        await self._on_step(f"before-{Step.RECORD}", key)
        saved = await save(self._stores.threads, key, change)
        await self._on_step(f"after-{Step.RECORD}", key)
        return saved


def _still_held(names: Sequence[str]) -> Refusal:
    return Refusal(Code.THREAD_BUSY, "A call of this thread is still held; retry later.", tuple(names))


def _end(loaded: Loaded, run: Run, texts: Mapping[str, str]) -> Change:
    """Return the write that ends a pause without a model: `texts` say for each call what became of it."""
    closed = close_calls(loaded.snapshot or Snapshot(), texts)
    return Change(
        expected=loaded.record.version,
        write_id=uuid4().hex,
        record=lifecycle.finish(pending=(), pause_id=None, rules=loaded.record.standing_rules),
        snapshot=history.carried_on(loaded.snapshot, closed),
        bag=Bag(),
        runs=(run,),
    )
