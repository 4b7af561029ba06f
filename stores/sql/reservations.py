"""Reserves and closes a whole batch of ledger rows, or none, inside a transaction that others share."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from stores.effect_row import EffectRow, Judgement, closed_or_refused, judged
from stores.ports import Batch, Begun, Held, Settled
from stores.records import ThreadKey
from stores.sql import effect_statements as sql
from stores.sql.connection import StoreConnection
from stores.sql.effect_rows import columns_of_row, row_of
from stores.sql.engine import Database
from stores.sql.expressions import as_json, of_key


@dataclass(frozen=True, slots=True)
class Locked:
    """Rows that nobody else changes until the transaction ends, and the database's time then."""

    rows: Mapping[str, EffectRow]
    now: float = 0.0


class Reservations:
    """The steps on ledger rows that a change of a thread can have in it."""

    def __init__(self, database: Database) -> None:
        self._insert = database.statement(sql.INSERT)
        self._lock = database.statement(sql.LOCK)
        self._put = database.statement(sql.PUT)

    async def reserve(self, connection: StoreConnection, key: ThreadKey, batch: Batch) -> Judgement:
        """Insert what is missing, then judge what is there; if it is refused, the transaction must be rolled back."""
        there = await self._rows_that_were_there(connection, key, judged_as_new(batch).rows or {})
        judgement = judged(there.rows, batch, there.now)
        await self._replace(connection, key, there.rows, judgement.rows or {})
        return judgement

    async def close(
        self, connection: StoreConnection, key: ThreadKey, interrupts: Mapping[str, str]
    ) -> Mapping[str, Held | Begun | Settled]:
        """Close rows; answers those that can not be, and then the transaction must be rolled back."""
        _, new = closed_or_refused({}, interrupts, 0.0)
        there = await self._rows_that_were_there(connection, key, new)
        refused, closed = closed_or_refused(there.rows, interrupts, there.now)
        await self._replace(connection, key, there.rows, closed)
        return refused

    async def lock(self, connection: StoreConnection, key: ThreadKey, interrupts: Collection[str]) -> Locked:
        """Read rows as they are now, and keep everyone else from changing them until the transaction ends."""
        found = await connection.all(self._lock, of_key(key, interrupts=as_json(sorted(interrupts))))
        return Locked({row.interrupt_id: row_of(row) for row in found}, max((row.now for row in found), default=0.0))

    async def put(self, connection: StoreConnection, key: ThreadKey, row: EffectRow) -> None:
        """Write a row that is locked."""
        columns = columns_of_row(row)
        changed = {f"new_{name}": columns[name] for name in sql.CHANGING}
        await connection.all(self._put, of_key(key, interrupt=row.interrupt_id, **changed))

    async def _replace(
        self,
        connection: StoreConnection,
        key: ThreadKey,
        before: Mapping[str, EffectRow],
        after: Mapping[str, EffectRow],
    ) -> None:
        for name, row in after.items():
            if name in before and row != before[name]:
                await self.put(connection, key, row)

    async def _rows_that_were_there(
        self, connection: StoreConnection, key: ThreadKey, new: Mapping[str, EffectRow]
    ) -> Locked:
        """Insert where there is no row, and lock the others. Most batches are all new: then it is one statement."""
        inserted = await connection.all(self._insert, of_key(key, new_effects=as_new_effects(new)))
        there = new.keys() - {row.interrupt_id for row in inserted}
        return await self.lock(connection, key, there) if there else Locked({})


def judged_as_new(batch: Batch) -> Judgement:
    """Judge a batch none of whose rows is there. The time of a begin is the database's, whatever stands here."""
    return judged({}, batch, 0.0)


def as_new_effects(rows: Mapping[str, EffectRow]) -> str:
    """Return the parameter with rows to insert, in the order in which everyone locks them."""
    columns = (columns_of_row(rows[name]) for name in sorted(rows))
    return as_json({name: each[name] for name in sql.INSERTED} for each in columns)
