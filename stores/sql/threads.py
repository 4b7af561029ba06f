"""ThreadStore on SQL: one row per thread, one step per change."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from sqlalchemy import Row

from stores.ports import Change, Listed, Loaded, Lost, NotReserved, Opened, ReserveAnswer, Saved
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
    snapshot_from_json,
    to_json,
)
from stores.sql import thread_statements as sql
from stores.sql.connection import StoreConnection
from stores.sql.engine import Database
from stores.sql.expressions import as_json, as_names, of_key
from stores.sql.reservations import Reservations


class SqlThreadStore:
    """ThreadStore over the tables of one database, which is the ledger's too."""

    def __init__(self, database: Database, reservations: Reservations) -> None:
        self._database = database
        self._reservations = reservations
        self._open = database.step(sql.OPEN, sql.follow_open)
        self._create = database.step(sql.CREATE, sql.follow_save)
        self._replace = database.step(sql.REPLACE, sql.follow_save)
        self._delete = database.step(sql.DELETE)
        self._load = database.statement(sql.LOAD)
        self._version = database.statement(sql.VERSION)
        self._known = database.statement(sql.KNOWN)
        self._list = database.statement(sql.LIST)
        self._due = database.statement(sql.DUE)

    async def open(self, key: ThreadKey, *, run: Run, holder: str, claim_seconds: float, write_id: str) -> Opened:
        parameters = of_key(
            key,
            new_write_id=write_id,
            new_attempt=run.attempt,
            new_holder=holder,
            new_run_id=run.run_id,
            claim_seconds=claim_seconds,
            empty_record=to_json(Record()),
            new_run_state=run.state,
            new_run=to_json(run),
        )
        async with self._database.writing() as connection:
            claimed = await connection.win(self._open, parameters)
            if claimed is not None:
                return Opened(_loaded(claimed), claimed=True)
            found = await connection.all(self._load, of_key(key, names=as_names(()), run_id=run.run_id))
            loaded = _loaded(found[0])
            return Opened(loaded, claimed=loaded.record.version.write_id == write_id)

    async def load(self, key: ThreadKey, *, interrupts: Collection[str] = (), run_id: str | None = None) -> Loaded:
        found = await self._database.read(self._load, of_key(key, names=as_names(interrupts), run_id=run_id))
        return _loaded(found[0])

    async def save(self, key: ThreadKey, *, change: Change) -> Saved | Lost | NotReserved:
        step = self._create if change.expected == Version() else self._replace
        writing = self._database.writing() if change.batch is None else self._database.transaction()
        async with writing as connection:
            # The record first: whoever loses it must neither touch nor wait for rows of the ledger.
            saved = await connection.win(step, _parameters(key, change))
            if saved is None:
                return await self._repeated(connection, key, change)
            version = Version(saved.generation, change.write_id)
            if change.batch is None:
                return Saved(version)
            reserving = await self._reservations.reserve(connection, key, change.batch)
            if not reserving.is_complete:
                await connection.rollback()
                return NotReserved(reserving.answers)
            return Saved(version, reserving.answers)

    async def outcome(self, key: ThreadKey, *, interrupt: str | None = None, run_id: str | None = None) -> Run | None:
        names = as_names(() if interrupt is None else (interrupt,))
        found = await self._database.read(self._known, of_key(key, names=names, run_id=run_id))
        return run_from_json(found[0].body) if found else None

    async def list(self, scope: Scope, *, limit: int, after: str | None = None) -> Sequence[Listed]:
        parameters = {"key_scope": scope, "after": after, "limit": limit}
        return [
            Listed(_key(row), row.interrupt_id, row.state, row.tool, row.created_at, row.expires_at)
            for row in await self._database.read(self._list, parameters)
        ]

    async def due(self, *, alive: Collection[str], limit: int) -> Sequence[ThreadKey]:
        found = await self._database.read(self._due, {"alive": as_json(alive), "limit": limit})
        return [_key(row) for row in found]

    async def delete(self, key: ThreadKey, *, expected: Version) -> Saved | Lost:
        async with self._database.writing() as connection:
            deleted = await connection.win(self._delete, of_key(key, **_expected(expected)))
            if deleted is None and (expected != Version() or await connection.all(self._version, of_key(key))):
                return Lost()
            return Saved(Version())

    async def _repeated(self, connection: StoreConnection, key: ThreadKey, change: Change) -> Saved | Lost:
        """Tell a change that is there already from one that lost."""
        found = await connection.all(self._version, of_key(key))
        if not found or found[0].write_id != change.write_id:
            return Lost()
        answers: Mapping[str, ReserveAnswer] = {}
        if change.batch is not None:
            # Only for the answers: what it writes again is taken back.
            answers = (await self._reservations.reserve(connection, key, change.batch)).answers
            await connection.rollback()
        return Saved(Version(found[0].generation, found[0].write_id), answers)


def _expected(version: Version) -> Mapping[str, object]:
    return {"expected_generation": version.generation, "expected_write_id": version.write_id}


def _parameters(key: ThreadKey, change: Change) -> Mapping[str, object]:
    record, claim = change.record, change.record.claim
    return of_key(
        key,
        **_expected(change.expected),
        new_write_id=change.write_id,
        new_has_open=bool(record.occurrences),
        new_attempt=claim.attempt if claim else None,
        new_holder=claim.holder if claim else None,
        new_run_id=claim.run_id if claim else None,
        new_until=claim.until if claim else None,
        new_due_at=change.due_at,
        new_record=to_json(record),
        new_snapshot=None if change.snapshot is None else to_json(change.snapshot),
        new_bag=None if change.bag is None else to_json(change.bag),
        new_runs=as_json({run.run_id: _run(run) for run in change.runs}.values()),
        new_outcomes=as_json(_outcomes(change.runs)),
        new_occurrences=as_json({each.interrupt_id: _occurrence(each) for each in record.occurrences}.values()),
        open_names=as_json(each.interrupt_id for each in record.occurrences),
        freed_attempt=change.free,
    )


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


def _key(row: Row[Any]) -> ThreadKey:
    return ThreadKey(Scope(row.scope), row.agent, row.thread_id)


def _loaded(row: Row[Any]) -> Loaded:
    known = None if row.known is None else run_from_json(row.known)
    if row.record is None:
        return Loaded(Record(), row.now, known=known)
    claim = None
    if row.claim_attempt is not None:
        claim = Claim(row.claim_attempt, row.claim_holder, row.claim_run_id, row.claim_until)
    return Loaded(
        record=record_from_json(row.record, Version(row.generation, row.write_id), claim),
        now=row.now,
        snapshot=None if row.snapshot is None else snapshot_from_json(row.snapshot),
        bag=None if row.bag is None else bag_from_json(row.bag),
        known=known,
    )
