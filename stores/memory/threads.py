"""ThreadStore in memory."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from itertools import chain, islice, takewhile

from stores.memory.effects import freed, reserved
from stores.memory.world import EffectRow, MemoryWorld, ThreadRow
from stores.ports import Batch, Change, Listed, Loaded, Lost, NotReserved, Opened, ReserveAnswer, Saved
from stores.records import (
    Claim,
    Record,
    Run,
    RunState,
    Scope,
    ThreadKey,
    Version,
    bag_from_json,
    record_from_json,
    run_from_json,
    snapshot_from_json,
    to_json,
)


class MemoryThreadStore:
    """ThreadStore over the dicts of one MemoryWorld."""

    def __init__(self, world: MemoryWorld) -> None:
        self._world = world

    async def open(self, key: ThreadKey, *, run: Run, holder: str, claim_seconds: float, write_id: str) -> Opened:
        loaded = self._load(key, (), run.run_id)
        record = loaded.record
        if record.version.write_id == write_id:
            return Opened(loaded, claimed=True)
        if record.claim is not None or record.occurrences or loaded.known is not None:
            return Opened(loaded, claimed=False)
        claimed = replace(record, claim=Claim(run.attempt, holder, run.run_id, loaded.now + claim_seconds))
        change = Change(record.version, write_id, claimed, runs=(run,))
        version = self._write(key, change)
        return Opened(replace(loaded, record=replace(claimed, version=version)), claimed=True)

    async def load(self, key: ThreadKey, *, interrupts: Collection[str] = (), run_id: str | None = None) -> Loaded:
        return self._load(key, interrupts, run_id)

    async def save(self, key: ThreadKey, *, change: Change) -> Saved | Lost | NotReserved:
        version = self._row(key).version
        is_repeated = version.write_id == change.write_id
        if version != change.expected and not is_repeated:
            return Lost()
        rows = self._world.rows(key)
        changed = {} if change.free is None else freed(rows, change.free)
        answers, taken = _reserved({**rows, **changed}, change.batch, self._world.clock())
        if is_repeated:
            return Saved(version, answers)
        if taken is None:
            return NotReserved(answers)
        saved = self._write(key, change)
        self._world.put(key, {**changed, **taken})
        return Saved(saved, answers)

    async def outcome(self, key: ThreadKey, *, interrupt: str | None = None, run_id: str | None = None) -> Run | None:
        return _known(self._row(key), () if interrupt is None else (interrupt,), run_id)

    async def list(self, scope: Scope, *, limit: int, after: str | None = None) -> Sequence[Listed]:
        threads = (self._world.threads[key] for key in self._world.with_open if key.scope == scope)
        listed = chain.from_iterable(row.open for row in threads)
        wanted = (each for each in listed if after is None or each.interrupt_id > after)
        return sorted(wanted, key=lambda each: (each.interrupt_id, each.key.agent, each.key.thread_id))[:limit]

    async def due(self, *, alive: Collection[str], limit: int) -> Sequence[ThreadKey]:
        now = self._world.clock()
        claims = ((self._world.threads[key].claim, key) for key in self._world.claimed)
        waiting = [
            (claim.until, key) for claim, key in claims if claim and (claim.until < now or claim.holder not in alive)
        ]
        appointments = islice(takewhile(lambda each: each[0] < now, self._world.appointments), limit)
        waiting += [(due_at, ThreadKey(Scope(scope), agent, name)) for due_at, scope, agent, name in appointments]
        return [key for _, key in sorted(waiting, key=lambda each: each[0])[:limit]]

    async def delete(self, key: ThreadKey, *, expected: Version) -> Saved | Lost:
        row = self._row(key)
        if row.version != expected or row.claim is not None:
            return Lost()
        self._world.unindex(key)
        self._world.threads.pop(key, None)
        return Saved(Version())

    def _row(self, key: ThreadKey) -> ThreadRow:
        return self._world.threads.get(key) or ThreadRow(to_json(Record()))

    def _load(self, key: ThreadKey, interrupts: Collection[str], run_id: str | None) -> Loaded:
        row = self._row(key)
        return Loaded(
            record=record_from_json(row.record, row.version, row.claim),
            now=self._world.clock(),
            snapshot=snapshot_from_json(row.snapshot) if row.snapshot is not None else None,
            bag=bag_from_json(row.bag) if row.bag is not None else None,
            known=_known(row, interrupts, run_id),
        )

    def _write(self, key: ThreadKey, change: Change) -> Version:
        # All texts are made before the first write: a value that JSON has no form for must change nothing.
        record, runs = to_json(change.record), {run.run_id: to_json(run) for run in change.runs}
        snapshot = None if change.snapshot is None else to_json(change.snapshot)
        bag = None if change.bag is None else to_json(change.bag)
        self._world.unindex(key)
        row = self._world.threads.setdefault(key, self._row(key))
        row.version = Version(row.version.generation + 1, change.write_id)
        row.record, row.claim, row.due_at = record, change.record.claim, change.due_at
        row.snapshot, row.bag = snapshot or row.snapshot, bag or row.bag
        row.open = _listed(key, change.record)
        row.runs.update(runs)
        for run in change.runs:
            if run.state is RunState.FINISHED:
                row.ended_interrupts.update({each.interrupt_id: run.run_id for each in run.outcomes})
                row.ended_aliases.update({alias: run.run_id for each in run.outcomes for alias in each.aliases})
        self._world.index(key)
        return row.version


def _reserved(
    rows: Mapping[str, EffectRow], batch: Batch | None, now: float
) -> tuple[Mapping[str, ReserveAnswer], Mapping[str, EffectRow] | None]:
    return ({}, {}) if batch is None else reserved(rows, batch, now)


def _known(row: ThreadRow, interrupts: Collection[str], run_id: str | None) -> Run | None:
    """Find the run a duplicate is answered from: by interrupt id, then by alias, then by its own id."""
    found = chain(map(row.ended_interrupts.get, interrupts), map(row.ended_aliases.get, interrupts), (run_id,))
    texts = (row.runs.get(name) for name in found if name is not None)
    return next((run_from_json(text) for text in texts if text is not None), None)


def _listed(key: ThreadKey, record: Record) -> tuple[Listed, ...]:
    return tuple(
        Listed(key, each.interrupt_id, each.state, each.tool, each.created_at, each.expires_at)
        for each in record.occurrences
    )
