"""Reserves and closes a whole batch of ledger rows, or none, inside a transaction that others share."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from stores.ports import Batch, Begun, Closed, Held, ReserveAnswer, Reserved, Settled
from stores.records import ThreadKey
from stores.sql import effect_statements as sql
from stores.sql.connection import StoreConnection
from stores.sql.effect_rows import EffectRow, attempts_text, new_closed_row, new_row
from stores.sql.engine import Database
from stores.sql.expressions import as_json, of_key


@dataclass(frozen=True, slots=True)
class Reserving:
    """What the ledger answers to a batch. Unless it `is_complete`, the transaction must be rolled back."""

    answers: Mapping[str, ReserveAnswer]
    is_complete: bool


class Reservations:
    """The steps on ledger rows that a change of a thread can have in it."""

    def __init__(self, database: Database) -> None:
        self._insert = database.statement(sql.INSERT)
        self._lock = database.statement(sql.LOCK)
        self._put = database.statement(sql.PUT)

    async def reserve(self, connection: StoreConnection, key: ThreadKey, batch: Batch) -> Reserving:
        """Insert what is missing, then judge what is there."""
        approve = {wanted.interrupt_id: wanted for wanted in batch.approve}
        new = {name: new_row(wanted, batch) for name, wanted in approve.items()}
        new |= {name: new_closed_row(name, why) for name, why in batch.close.items()}
        rows = await self._rows_that_were_there(connection, key, new)
        reserved: dict[str, ReserveAnswer] = {
            name: rows[name].to_reserve(wanted, batch) if name in rows else Reserved(begun=wanted.begin)
            for name, wanted in approve.items()
        }
        closed = {
            name: rows[name].to_close(why, batch.dead) if name in rows else Closed(why)
            for name, why in batch.close.items()
        }
        is_complete = all(isinstance(answer, Reserved | Settled) for answer in reserved.values())
        is_complete = is_complete and all(isinstance(answer, Closed) for answer in closed.values())
        if is_complete:
            taken = [name for name in rows if isinstance(reserved.get(name), Reserved)]
            await self.put(connection, key, *(rows[name].reserved(approve[name], batch) for name in taken))
            ended = [name for name in rows if name in closed]
            await self.put(connection, key, *(rows[name].closed(batch.close[name]) for name in ended))
        return Reserving({**reserved, **closed}, is_complete)

    async def close(
        self, connection: StoreConnection, key: ThreadKey, interrupts: Mapping[str, str]
    ) -> Mapping[str, Held | Begun | Settled]:
        """Close rows; answers those that can not be, and then the transaction must be rolled back."""
        new = {name: new_closed_row(name, why) for name, why in interrupts.items()}
        rows = await self._rows_that_were_there(connection, key, new)
        answers = {name: row.to_close(interrupts[name], ()) for name, row in rows.items()}
        refused = {name: answer for name, answer in answers.items() if not isinstance(answer, Closed)}
        if not refused:
            await self.put(connection, key, *(row.closed(interrupts[name]) for name, row in rows.items()))
        return refused

    async def lock(
        self, connection: StoreConnection, key: ThreadKey, interrupts: Collection[str]
    ) -> Mapping[str, EffectRow]:
        """Read rows as they are now, and keep everyone else from changing them until the transaction ends."""
        found = await connection.all(self._lock, of_key(key, interrupts=as_json(sorted(interrupts))))
        return {row.interrupt_id: EffectRow.of(row) for row in found}

    async def put(self, connection: StoreConnection, key: ThreadKey, *rows: EffectRow) -> None:
        """Write rows that are locked."""
        for row in rows:
            changed = {f"new_{name}": getattr(row, name) for name in sql.CHANGING}
            changed["new_begun_by"] = attempts_text(row.begun_by)
            changed["new_refuted"] = attempts_text(row.refuted)
            await connection.all(self._put, of_key(key, interrupt=row.interrupt_id, **changed))

    async def _rows_that_were_there(
        self, connection: StoreConnection, key: ThreadKey, new: Mapping[str, Mapping[str, object]]
    ) -> Mapping[str, EffectRow]:
        """Insert where there is no row, and lock the others. Most batches are all new: then it is one statement."""
        rows = as_json(new[name] for name in sorted(new))
        inserted = await connection.all(self._insert, of_key(key, new_effects=rows, nobody=attempts_text(())))
        there = new.keys() - {row.interrupt_id for row in inserted}
        return await self.lock(connection, key, there) if there else {}
