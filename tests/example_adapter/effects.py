"""EffectLedger in files: the rules are `stores.effect_row`'s, here they are only read and written."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import asdict
from typing import Any

from stores.effect_row import EffectRow, closed_or_refused, judged
from stores.errors import NotSupported
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
from stores.records import Effect, EffectKind, EffectState, ThreadKey, ToolResult
from tests.example_adapter.folder import Document, Folder, thread_file

Rows = Mapping[str, EffectRow]


class FileEffectLedger:
    """EffectLedger over one file per thread."""

    def __init__(self, folder: Folder) -> None:
        self._folder = folder

    async def reserve(self, key: ThreadKey, *, batch: Batch) -> Mapping[str, ReserveAnswer]:
        def step(document: Document) -> Mapping[str, ReserveAnswer]:
            judgement = judged(rows_in(document), batch, time.time())
            put(document, judgement.rows or {})
            return judgement.answers

        return await self._folder.change(thread_file(key), step)

    async def begin(self, key: ThreadKey, *, interrupt_id: str, attempt: str) -> Began | Fenced:
        def step(document: Document) -> Began | Fenced:
            row = rows_in(document).get(interrupt_id)
            answer = Fenced() if row is None else row.to_begin(attempt)
            if row is not None and answer == Began():
                put(document, {interrupt_id: row.begun(time.time())})
            return answer

        return await self._folder.change(thread_file(key), step)

    async def settle(
        self, key: ThreadKey, *, interrupt_id: str, attempt: str, result: ToolResult
    ) -> Settled | AlreadySettled | SecondEffect | Fenced:
        def step(document: Document) -> Settled | AlreadySettled | SecondEffect | Fenced:
            row = rows_in(document).get(interrupt_id)
            answer = Fenced() if row is None else row.to_settle(attempt, result)
            if row is not None and isinstance(answer, Settled):
                put(document, {interrupt_id: row.settled(result)})
            return answer

        return await self._folder.change(thread_file(key), step)

    async def close(self, key: ThreadKey, *, interrupts: Mapping[str, str]) -> Closed | CannotClose:
        def step(document: Document) -> Closed | CannotClose:
            refused, rows = closed_or_refused(rows_in(document), interrupts, time.time())
            put(document, rows)
            return CannotClose(refused) if refused else Closed(", ".join(sorted(set(interrupts.values()))))

        return await self._folder.change(thread_file(key), step)

    async def free(self, key: ThreadKey, *, attempt: str) -> None:
        await self._folder.change(thread_file(key), lambda document: put(document, freed_in(document, attempt)))

    async def read(self, key: ThreadKey, *, interrupts: Collection[str]) -> Mapping[str, Effect]:
        rows, now = rows_in(await self._folder.read(thread_file(key))), time.time()
        return {name: rows[name].effect(now) for name in interrupts if name in rows}

    async def forget(self, key: ThreadKey, *, interrupts: Collection[str]) -> int:
        def step(document: Document) -> int:
            rows = rows_in(document)
            ended = [name for name in set(interrupts) & set(rows) if rows[name].state not in _UNSETTLED]
            for name in ended:
                del document["rows"][name]
            return len(ended)

        return await self._folder.change(thread_file(key), step)

    async def resolve(
        self, key: ThreadKey, *, interrupt_id: str, attempt: str, result: ToolResult | None, by: str, evidence: str
    ) -> Settled | Reserved | Fenced:
        def step(document: Document) -> Settled | Reserved | Fenced:
            row = rows_in(document).get(interrupt_id)
            if row is not None and row.is_doubted_under(attempt):
                put(document, {interrupt_id: row.resolved(result, by, evidence)})
            return Fenced() if row is None else row.to_resolve(attempt, result)

        return await self._folder.change(thread_file(key), step)

    async def transact(
        self,
        key: ThreadKey,
        *,
        interrupt_id: str,
        attempt: str,
        call: Callable[[Any], Awaitable[ToolResult]],
        seconds: float,
    ) -> ToolResult | Fenced:
        raise NotSupported("A folder of files has no transactions to offer to tools.")


def rows_in(document: Document) -> Rows:
    """Return the rows of the ledger that are in a thread's document."""
    return {name: _row(fields) for name, fields in document.get("rows", {}).items()}


def freed_in(document: Document, attempt: str) -> Rows:
    """Return an attempt's rows that are neither settled nor closed, without its hold."""
    rows = rows_in(document).items()
    return {name: row.freed() for name, row in rows if row.attempt == attempt and row.state in _UNSETTLED}


def put(document: Document, rows: Rows) -> None:
    """Insert or replace rows in a thread's document."""
    document.setdefault("rows", {}).update({name: _fields(row) for name, row in rows.items()})


_UNSETTLED = (EffectState.RESERVED, EffectState.BEGUN)


def _fields(row: EffectRow) -> Document:
    return {**asdict(row), "begun_by": sorted(row.begun_by), "refuted": sorted(row.refuted)}


def _row(fields: Document) -> EffectRow:
    sets = {name: frozenset(fields[name]) for name in ("begun_by", "refuted")}
    return EffectRow(**{**fields, **sets, "state": EffectState(fields["state"]), "kind": EffectKind(fields["kind"])})
