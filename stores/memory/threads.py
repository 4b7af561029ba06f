"""ThreadStore in memory."""

from __future__ import annotations

import json
import math
from collections import ChainMap
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from itertools import chain, islice, product

from stores.effect_row import judged
from stores.history import divided, joined
from stores.memory.ordered import next_string
from stores.memory.world import ListEntry, MemoryWorld, ThreadRow
from stores.ports import (
    Batch,
    Change,
    Listed,
    Loaded,
    Lost,
    NotReserved,
    OldRun,
    OldRuns,
    Opened,
    Purged,
    Saved,
)
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
        freed = {} if change.free is None else self._world.freed(key, change.free)
        batch = change.batch or Batch("", "", 0.0)
        judgement = judged(ChainMap(freed, self._world.rows(key)), batch, self._world.clock())
        if is_repeated:
            return Saved(version, judgement.answers)
        if judgement.rows is None:
            return NotReserved(judgement.answers)
        saved = self._write(key, change)
        self._world.put(key, {**freed, **judgement.rows})
        return Saved(saved, judgement.answers)

    async def outcome(self, key: ThreadKey, *, interrupt: str | None = None, run_id: str | None = None) -> Run | None:
        return _known(self._row(key), () if interrupt is None else (interrupt,), run_id)

    async def list(self, scope: Scope, *, limit: int, after: str | None = None) -> Sequence[Listed]:
        found = islice(self._entries(scope, "" if after is None else next_string(after)), limit)
        return [self._world.threads[ThreadKey(scope, agent, name)].open[place] for _, _, agent, name, place in found]

    async def count_open(self, scope: Scope, *, at_most: int) -> int:
        return sum(1 for _ in islice(self._entries(scope, ""), at_most))

    async def due(self, *, alive: Collection[str], limit: int) -> Sequence[ThreadKey]:
        now = self._world.clock()
        claims = ((self._world.threads[key].claim, key) for key in self._world.claimed)
        waiting = [
            (claim.until, key) for claim, key in claims if claim and (claim.until < now or claim.holder not in alive)
        ]
        appointments = islice(self._world.appointments.irange(None, (now,)), limit)
        waiting += [(due_at, ThreadKey(Scope(scope), agent, name)) for due_at, scope, agent, name in appointments]
        return [key for _, key in sorted(waiting, key=lambda each: each[0])[:limit]]

    async def delete(self, key: ThreadKey, *, expected: Version) -> Saved | Lost:
        row = self._row(key)
        if row.version != expected or row.claim is not None:
            return Lost()
        self._remove(key)
        return Saved(Version())

    async def old(self, *, age_seconds: float, limit: int, after: str | None = None) -> OldRuns:
        world = self._world
        first = None if after is None else (*json.loads(after), "")
        seen = list(islice(world.runs.irange(first, (world.clock() - age_seconds,)), limit))
        old = []
        for _, scope, agent, name, run_id in seen:
            key = ThreadKey(Scope(scope), agent, name)
            row = world.threads[key]
            if row.claim is None and not row.open:
                ended = (each for each in row.ended_by.get(run_id, ()) if row.ended_interrupts.get(each) == run_id)
                old.append(OldRun(key, run_id, tuple(sorted(ended))))
        return OldRuns(tuple(old), json.dumps(seen[-1]) if len(seen) == limit else None)

    async def purge(self, key: ThreadKey, *, run_ids: Collection[str], age_seconds: float = 0.0) -> Purged:
        row = self._row(key)
        if row.claim is not None or row.open:
            return Purged(0)
        latest = self._world.clock() - age_seconds
        gone = [run_id for run_id in set(run_ids) if row.written_at.get(run_id, math.inf) <= latest]
        if gone and len(gone) == len(row.runs):
            self._remove(key)
            return Purged(len(gone), is_whole=True)
        for run_id in gone:
            self._world.forget_run(key, run_id)
            del row.runs[run_id]
            for name, ended in product(row.ended_by.pop(run_id, ()), (row.ended_interrupts, row.ended_aliases)):
                if ended.get(name) == run_id:
                    del ended[name]
        return Purged(len(gone))

    def _entries(self, scope: Scope, first: str) -> Iterator[ListEntry]:
        return self._world.with_open.irange((scope, first), (next_string(scope),))

    def _remove(self, key: ThreadKey) -> None:
        row = self._world.threads.get(key)
        if row is not None:
            for run_id in row.runs:
                self._world.forget_run(key, run_id)
            self._world.unindex(key)
            del self._world.threads[key]

    def _row(self, key: ThreadKey) -> ThreadRow:
        return self._world.threads.get(key) or ThreadRow(to_json(Record()))

    def _load(self, key: ThreadKey, interrupts: Collection[str], run_id: str | None) -> Loaded:
        row = self._row(key)
        return Loaded(
            record=record_from_json(row.record, row.version, row.claim),
            now=self._world.clock(),
            snapshot=joined(row.snapshot, row.chunks) if row.snapshot is not None else None,
            bag=bag_from_json(row.bag) if row.bag is not None else None,
            known=_known(row, interrupts, run_id),
            snapshot_bytes=sum(len(text.encode()) for text in (row.snapshot or "", *row.chunks)),
        )

    def _write(self, key: ThreadKey, change: Change) -> Version:
        # All texts are made before the first write: a value that JSON has no form for must change nothing.
        record, runs = to_json(change.record), {run.run_id: to_json(run) for run in change.runs}
        parts = None if change.snapshot is None else divided(change.snapshot)
        bag = None if change.bag is None else to_json(change.bag)
        self._world.unindex(key)
        row = self._world.threads.setdefault(key, self._row(key))
        row.version = Version(row.version.generation + 1, change.write_id)
        row.record, row.claim, row.due_at = record, change.record.claim, change.due_at
        row.bag = bag or row.bag
        if parts is not None:
            row.snapshot = parts.text
            row.chunks = [*(row.chunks if parts.keeps else ()), *([parts.chunk] if parts.chunk else ())]
        row.open = _listed(key, change.record)
        row.runs.update(runs)
        for run in change.runs:
            self._world.note_run(key, run.run_id)
            if run.state is RunState.FINISHED:
                interrupts = {each.interrupt_id for each in run.outcomes}
                aliases = {alias for each in run.outcomes for alias in each.aliases}
                row.ended_interrupts.update(dict.fromkeys(interrupts, run.run_id))
                row.ended_aliases.update(dict.fromkeys(aliases, run.run_id))
                row.ended_by[run.run_id] = row.ended_by.get(run.run_id, frozenset()).union(interrupts, aliases)
        self._world.index(key)
        return row.version


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
