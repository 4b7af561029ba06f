"""Reads the rows of a thread, and writes a change of it as the parameters of its statements."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from sqlalchemy import Row

from stores.history import Divided, divided, joined
from stores.ports import Change, Loaded, OldRun
from stores.records import (
    Claim,
    Occurrence,
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
from stores.sql.expressions import as_json, of_key

NO_CHUNK = -1
"""The number of no message."""


def key_of(row: Row[Any]) -> ThreadKey:
    """Read a thread's key."""
    return ThreadKey(Scope(row.scope), row.agent, row.thread_id)


def loaded_of(row: Row[Any]) -> Loaded:
    """Read a thread, or that there is none. Raises UnknownFormat and PartMissing."""
    known = None if row.known is None else run_from_json(row.known)
    if row.record is None:
        return Loaded(Record(), row.now, known=known)
    claim = None
    if row.claim_attempt is not None:
        claim = Claim(row.claim_attempt, row.claim_holder, row.claim_run_id, row.claim_until)
    chunks = row.chunks.split("\n") if row.chunks else []
    return Loaded(
        record=record_from_json(row.record, Version(row.generation, row.write_id), claim),
        now=row.now,
        snapshot=None if row.snapshot is None else joined(row.snapshot, chunks),
        bag=None if row.bag is None else bag_from_json(row.bag),
        known=known,
        snapshot_bytes=sum(len(text.encode()) for text in (row.snapshot or "", *chunks)),
    )


def old_run_of(row: Row[Any]) -> OldRun:
    """Read a run that may be purged."""
    return OldRun(key_of(row), row.run_id, tuple(sorted(json.loads(row.interrupts or "[]"))))


def expected_version(version: Version) -> Mapping[str, object]:
    """Return what a thread's row is compared with."""
    return {"expected_generation": version.generation, "expected_write_id": version.write_id}


def changed(key: ThreadKey, change: Change) -> Mapping[str, object]:
    """Return the parameters of a change. All texts are made here, before the first write."""
    record, claim = change.record, change.record.claim
    parts = None if change.snapshot is None else divided(change.snapshot)
    return of_key(
        key,
        **expected_version(change.expected),
        **_snapshot(parts),
        new_write_id=change.write_id,
        new_has_open=bool(record.occurrences),
        new_attempt=claim.attempt if claim else None,
        new_holder=claim.holder if claim else None,
        new_run_id=claim.run_id if claim else None,
        new_until=claim.until if claim else None,
        new_due_at=change.due_at,
        new_record=to_json(record),
        new_bag=None if change.bag is None else to_json(change.bag),
        new_runs=as_json({run.run_id: _run(run) for run in change.runs}.values()),
        new_outcomes=as_json(_outcomes(change.runs)),
        new_occurrences=as_json({each.interrupt_id: _occurrence(each) for each in record.occurrences}.values()),
        open_names=as_json(each.interrupt_id for each in record.occurrences),
        freed_attempt=change.free,
    )


def _snapshot(parts: Divided | None) -> Mapping[str, object]:
    """Return the inline text, the chunk to add, and the only one that may stay (None: all stay)."""
    if parts is None:
        return {"new_snapshot": None, "new_chunk": None, "new_first": None, "only_first": None}
    first = NO_CHUNK if parts.chunk is None else parts.first
    return {
        "new_snapshot": parts.text,
        "new_chunk": parts.chunk,
        "new_first": parts.first,
        "only_first": None if parts.keeps else first,
    }


def _run(run: Run) -> Mapping[str, object]:
    return {"run_id": run.run_id, "state": run.state, "body": to_json(run)}


def _outcomes(runs: Sequence[Run]) -> Collection[Mapping[str, object]]:
    """Return one row per name: where runs share an alias, the last has it."""
    rows = {}
    for run in (run for run in runs if run.state is RunState.FINISHED):
        for outcome in run.outcomes:
            names = [(outcome.interrupt_id, 0), *((alias, 1) for alias in outcome.aliases)]
            rows.update({(name, is_alias): _outcome(name, is_alias, run.run_id) for name, is_alias in names})
    return rows.values()


def _outcome(name: str, is_alias: int, run_id: str) -> Mapping[str, object]:
    return {"name": name, "is_alias": is_alias, "run_id": run_id}


def _occurrence(occurrence: Occurrence) -> Mapping[str, object]:
    return {
        "interrupt_id": occurrence.interrupt_id,
        "state": occurrence.state,
        "tool": occurrence.tool,
        "created_at": occurrence.created_at,
        "expires_at": occurrence.expires_at,
    }
