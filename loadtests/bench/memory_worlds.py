"""Memory, filled by copying rows."""

from __future__ import annotations

import gc
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace

from loadtests.bench.example import TEMPLATE, key_of, name_of
from loadtests.bench.worlds import AGE_SECONDS, SPREAD, Written
from stores.memory import MemoryWorld, memory_stores
from stores.memory.world import ThreadRow
from stores.ports import Stores
from stores.records import ThreadKey


class MemoryTechnology:
    """The memory stores."""

    name = "memory"

    @asynccontextmanager
    async def world(self) -> AsyncIterator[MemoryBench]:
        yield MemoryBench()
        gc.unfreeze()


@dataclass(slots=True)
class MemoryBench:
    """One MemoryWorld, with a clock that can be put back while it is filled."""

    stores: Stores = field(init=False)
    _world: MemoryWorld = field(init=False)
    _put_back_to: float | None = None

    def __post_init__(self) -> None:
        self._world = MemoryWorld(self._now)
        self.stores = memory_stores(self._world)

    async def copy_template(self, count: int) -> None:
        template = self._world.threads[key_of(TEMPLATE)]
        effects = self._world.effects[key_of(TEMPLATE)]
        begin = time.time() - AGE_SECONDS - count
        for age in range(count):
            name = name_of(age * SPREAD % count)
            key = key_of(name)
            self._world.threads[key] = _copied(template, name)
            self._world.effects[key] = {
                _named(each, name): replace(row, interrupt_id=_named(each, name), attempt=_named(row.attempt, name))
                for each, row in effects.items()
            }
            self._put_back_to = begin + age
            for run_id in template.runs:
                self._world.note_run(key, _named(run_id, name))
        self._put_back_to = None

    async def settle(self) -> None:
        # Nothing of it is garbage; looking through it again and again is not what is measured.
        gc.collect()
        gc.freeze()

    async def counting(self, key: ThreadKey) -> Written:
        before = set(_texts(self._world.threads[key]))

        async def written() -> int:
            return sum(len(text.encode()) for text in _texts(self._world.threads[key]) if text not in before)

        return written

    def _now(self) -> float:
        return time.time() if self._put_back_to is None else self._put_back_to


def _copied(row: ThreadRow, name: str) -> ThreadRow:
    return replace(
        row,
        record=_named(row.record, name),
        version=replace(row.version, write_id=_named(row.version.write_id, name)),
        snapshot=None if row.snapshot is None else _named(row.snapshot, name),
        chunks=[_named(chunk, name) for chunk in row.chunks],
        runs=_all_named(row.runs, name),
        written_at={},
        ended_interrupts=_all_named(row.ended_interrupts, name),
        ended_aliases=_all_named(row.ended_aliases, name),
        ended_by={
            _named(run_id, name): frozenset(_named(each, name) for each in names)
            for run_id, names in row.ended_by.items()
        },
    )


def _all_named(texts: Mapping[str, str], name: str) -> dict[str, str]:
    return {_named(each, name): _named(text, name) for each, text in texts.items()}


def _named(text: str | None, name: str) -> str:
    return (text or "").replace(TEMPLATE, name)


def _texts(row: ThreadRow) -> list[str]:
    return [text for text in (row.record, row.snapshot, row.bag, *row.chunks, *row.runs.values()) if text is not None]
