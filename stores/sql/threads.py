"""ThreadStore on SQL: one row per thread, one step per change."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence

from stores.ports import (
    Batch,
    Change,
    Listed,
    Loaded,
    Lost,
    NotReserved,
    OldRuns,
    Opened,
    Purged,
    ReserveAnswer,
    Saved,
)
from stores.records import Record, Run, Scope, ThreadKey, Version, run_from_json, to_json
from stores.sql import list_statements as lists
from stores.sql import retention_statements as retention
from stores.sql import thread_statements as sql
from stores.sql.connection import StoreConnection
from stores.sql.engine import Database
from stores.sql.expressions import as_json, as_names, of_key
from stores.sql.reservations import Reservations, as_new_effects, judged_as_new
from stores.sql.statements import Parameters, Step
from stores.sql.thread_rows import changed, expected_version, key_of, loaded_of, old_run_of

OPEN_TRIES_MAX = 10
"""How often a claim is tried for while other writers come and go; each try was lost to one that got its turn."""

FROM_THE_OLDEST = (0.0, "", "", "", "")
"""The cursor before all: no clock is so early."""


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
        self._list = database.statement(lists.LIST)
        self._count_open = database.statement(lists.COUNT_OPEN)
        self._due = database.statement(lists.DUE)
        self._claim = database.step(sql.REPLACE, sql.follow_claim)
        self._old = database.statement(retention.OLD)
        self._lock = database.statement(retention.LOCK)
        self._remove_runs = database.statement(retention.REMOVE_RUNS)
        self._remove_thread = database.statement(retention.REMOVE_THREAD)

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
            for tries_left in reversed(range(OPEN_TRIES_MAX)):
                claimed = await connection.win(self._open, parameters)
                if claimed is not None:
                    return Opened(loaded_of(claimed), claimed=True)
                found = await connection.all(self._load, of_key(key, names=as_names(()), run_id=run.run_id))
                loaded = loaded_of(found[0])
                if _stands_in_the_way(loaded) or not tries_left:
                    return Opened(loaded, claimed=loaded.record.version.write_id == write_id)
        raise AssertionError("the last try returns")

    async def load(self, key: ThreadKey, *, interrupts: Collection[str] = (), run_id: str | None = None) -> Loaded:
        found = await self._database.read(self._load, of_key(key, names=as_names(interrupts), run_id=run_id))
        return loaded_of(found[0])

    async def save(self, key: ThreadKey, *, change: Change) -> Saved | Lost | NotReserved:
        step = self._create if change.expected == Version() else self._replace
        parameters = changed(key, change)
        if change.batch is not None:
            claimed = await self._claimed(change, change.batch, parameters)
            return claimed or await self._reserved(key, change, change.batch, step, parameters)
        async with self._database.writing() as connection:
            saved = await connection.win(step, parameters)
            if saved is None:
                return await self._repeated(connection, key, change)
            return Saved(Version(saved.generation, change.write_id))

    async def outcome(self, key: ThreadKey, *, interrupt: str | None = None, run_id: str | None = None) -> Run | None:
        names = as_names(() if interrupt is None else (interrupt,))
        found = await self._database.read(self._known, of_key(key, names=names, run_id=run_id))
        return run_from_json(found[0].body) if found else None

    async def list(self, scope: Scope, *, limit: int, after: str | None = None) -> Sequence[Listed]:
        parameters = {"key_scope": scope, "after": after, "limit": limit}
        return [
            Listed(key_of(row), row.interrupt_id, row.state, row.tool, row.created_at, row.expires_at)
            for row in await self._database.read(self._list, parameters)
        ]

    async def count_open(self, scope: Scope, *, at_most: int) -> int:
        found = await self._database.read(self._count_open, {"key_scope": scope, "limit": at_most})
        return int(found[0].open)

    async def due(self, *, alive: Collection[str], limit: int) -> Sequence[ThreadKey]:
        found = await self._database.read(self._due, {"alive": as_json(alive), "limit": limit})
        return [key_of(row) for row in found]

    async def delete(self, key: ThreadKey, *, expected: Version) -> Saved | Lost:
        async with self._database.writing() as connection:
            deleted = await connection.win(self._delete, of_key(key, **expected_version(expected)))
            if deleted is None and (expected != Version() or await connection.all(self._version, of_key(key))):
                return Lost()
            return Saved(Version())

    async def old(self, *, age_seconds: float, limit: int, after: str | None = None) -> OldRuns:
        left_off = FROM_THE_OLDEST if after is None else json.loads(after)
        cursor = {f"after_{name}": value for name, value in zip(retention.CURSOR, left_off, strict=True)}
        seen = await self._database.read(self._old, {"age_seconds": age_seconds, "limit": limit, **cursor})
        old = tuple(old_run_of(row) for row in seen if row.is_at_rest)
        is_all = not seen or len(seen) < limit
        return OldRuns(old, None if is_all else as_json(getattr(seen[-1], name) for name in retention.CURSOR))

    async def purge(self, key: ThreadKey, *, run_ids: Collection[str], age_seconds: float = 0.0) -> Purged:
        async with self._database.transaction() as connection:
            if not await connection.all(self._lock, of_key(key)):
                return Purged(0)
            gone = await connection.all(
                self._remove_runs, of_key(key, run_ids=as_names(run_ids), age_seconds=age_seconds)
            )
            whole = await connection.all(self._remove_thread, of_key(key)) if gone else ()
            return Purged(len(gone), is_whole=bool(whole))

    async def _claimed(self, change: Change, batch: Batch, parameters: Parameters) -> Saved | None:
        """Save with a batch none of whose rows is there, as most are; None if it can not be had in one statement."""
        judgement = judged_as_new(batch)
        is_new = change.expected == Version()
        if is_new or change.free is not None or judgement.rows is None or not self._claim.is_one_statement:
            return None
        async with self._database.writing() as connection:
            new_effects = as_new_effects(judgement.rows)
            saved = await connection.win(self._claim, {**parameters, "new_effects": new_effects})
            return None if saved is None else Saved(Version(saved.generation, change.write_id), judgement.answers)

    async def _reserved(
        self, key: ThreadKey, change: Change, batch: Batch, step: Step, parameters: Parameters
    ) -> Saved | Lost | NotReserved:
        """Save with any batch: rows that are there are locked and judged before the commit."""
        async with self._database.transaction() as connection:
            # The record first: whoever loses it must neither touch nor wait for rows of the ledger.
            saved = await connection.win(step, parameters)
            if saved is None:
                return await self._repeated(connection, key, change)
            judgement = await self._reservations.reserve(connection, key, batch)
            if judgement.rows is None:
                await connection.rollback()
                return NotReserved(judgement.answers)
            return Saved(Version(saved.generation, change.write_id), judgement.answers)

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


def _stands_in_the_way(loaded: Loaded) -> bool:
    return loaded.record.claim is not None or bool(loaded.record.occurrences) or loaded.known is not None
