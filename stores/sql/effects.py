"""EffectLedger on SQL: one row per answered interrupt, in the database of the threads."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Any

from sqlalchemy.ext.asyncio import AsyncConnection

from stores.effect_row import EffectRow
from stores.ports import (
    AlreadySettled,
    Batch,
    Began,
    CannotClose,
    Closed,
    Fenced,
    ReserveAnswer,
    Reserved,
    SecondEffect,
    Settled,
)
from stores.records import Effect, ThreadKey, ToolResult, to_json
from stores.sql import effect_statements as sql
from stores.sql.connection import StoreConnection
from stores.sql.effect_rows import attempts_text, row_of
from stores.sql.engine import Database
from stores.sql.expressions import as_names, of_key
from stores.sql.reservations import Reservations


class SqlEffectLedger:
    """EffectLedger over the effects table; a tool's statements can be part of its transaction."""

    def __init__(self, database: Database, reservations: Reservations) -> None:
        self._database = database
        self._reservations = reservations
        self._read = database.statement(sql.READ)
        self._begin = database.step(sql.BEGIN)
        self._settle = database.step(sql.SETTLE)
        self._settle_transaction = database.step(sql.SETTLE_TRANSACTION)
        self._is_reserved_by_me = database.statement(sql.IS_RESERVED_BY_ME)
        self._free = database.step(sql.FREE_ALONE)
        self._forget = database.statement(sql.FORGET)

    async def reserve(self, key: ThreadKey, *, batch: Batch) -> Mapping[str, ReserveAnswer]:
        async with self._database.transaction() as connection:
            judgement = await self._reservations.reserve(connection, key, batch)
            if judgement.rows is None:
                await connection.rollback()
            return judgement.answers

    async def begin(self, key: ThreadKey, *, interrupt_id: str, attempt: str) -> Began | Fenced:
        me = attempts_text([attempt])
        parameters = of_key(key, interrupt=interrupt_id, my_attempt=attempt, me_too=me)
        return Fenced() if await self._database.write(self._begin, parameters) is None else Began()

    async def settle(
        self, key: ThreadKey, *, interrupt_id: str, attempt: str, result: ToolResult
    ) -> Settled | AlreadySettled | SecondEffect | Fenced:
        parameters = of_key(key, interrupt=interrupt_id, my_attempt=attempt, new_result=to_json(result))
        if await self._database.write(self._settle, parameters) is not None:
            return Settled(result)
        async with self._database.transaction() as connection:
            row = await self._locked(connection, key, interrupt_id)
            answer = Fenced() if row is None else row.to_settle(attempt, result)
            if row is not None and isinstance(answer, Settled):
                await self._reservations.put(connection, key, row.settled(result))
            return answer

    async def close(self, key: ThreadKey, *, interrupts: Mapping[str, str]) -> Closed | CannotClose:
        async with self._database.transaction() as connection:
            refused = await self._reservations.close(connection, key, interrupts)
            if refused:
                await connection.rollback()
                return CannotClose(refused)
            return Closed(", ".join(sorted(set(interrupts.values()))))

    async def free(self, key: ThreadKey, *, attempt: str) -> None:
        await self._database.write(self._free, of_key(key, freed_attempt=attempt))

    async def read(self, key: ThreadKey, *, interrupts: Collection[str]) -> Mapping[str, Effect]:
        rows = await self._database.read(self._read, of_key(key, interrupts=as_names(interrupts)))
        return {row.interrupt_id: row_of(row).effect(row.now) for row in rows}

    async def forget(self, key: ThreadKey, *, interrupts: Collection[str]) -> int:
        async with self._database.writing() as connection:
            return len(await connection.all(self._forget, of_key(key, interrupts=as_names(interrupts))))

    async def resolve(
        self, key: ThreadKey, *, interrupt_id: str, attempt: str, result: ToolResult | None, by: str, evidence: str
    ) -> Settled | Reserved | Fenced:
        async with self._database.transaction() as connection:
            row = await self._locked(connection, key, interrupt_id)
            if row is not None and row.is_doubted_under(attempt):
                await self._reservations.put(connection, key, row.resolved(result, by, evidence))
            return Fenced() if row is None else row.to_resolve(attempt, result)

    async def transact(
        self,
        key: ThreadKey,
        *,
        interrupt_id: str,
        attempt: str,
        call: Callable[[Any], Awaitable[ToolResult]],
        seconds: float,
    ) -> ToolResult | Fenced:
        mine = of_key(key, interrupt=interrupt_id, my_attempt=attempt)
        async with self._database.tool_transaction(seconds) as connection:
            # Only to spare the tool; what counts is the settle, which another attempt may still come before.
            if not await connection.all(self._is_reserved_by_me, mine):
                return Fenced()
            result = await _called(call, connection.driver)
            settled = await connection.win(self._settle_transaction, {**mine, "new_result": to_json(result)})
            if settled is None:
                await connection.rollback()
                return Fenced()
            return result

    async def _locked(self, connection: StoreConnection, key: ThreadKey, interrupt_id: str) -> EffectRow | None:
        return (await self._reservations.lock(connection, key, [interrupt_id])).rows.get(interrupt_id)


async def _called(call: Callable[[Any], Awaitable[ToolResult]], driver: AsyncConnection) -> ToolResult:
    opened = driver.sync_connection and driver.sync_connection.get_transaction()
    result = await call(driver)
    if driver.sync_connection is None or driver.sync_connection.get_transaction() is not opened:
        raise RuntimeError("The tool ended the transaction that it was given; its result can not be recorded with it.")
    return result
