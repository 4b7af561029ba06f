"""The back door of memory: the dicts of the world."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import repeat
from typing import Any

from stores.effect_row import EffectRow
from stores.memory import MemoryWorld
from stores.memory.world import ThreadRow
from stores.records import ThreadKey
from tests.conformance.back_doors.port import NOTHING_OPEN, UNKNOWN, Part


class MemoryBackDoor:
    """BackDoor to one MemoryWorld."""

    def __init__(self, world: MemoryWorld) -> None:
        self._world = world

    async def age_format(self, marker: str) -> int:
        return sum(map(_age_thread, self._world.threads.values(), repeat(marker))) + sum(
            map(_age_effects, self._world.effects.values(), repeat(marker))
        )

    async def lose(self, key: ThreadKey, part: Part) -> None:
        match part:
            case "snapshot":
                assert self._world.threads[key].snapshot is not None
                self._world.threads[key].snapshot = None
                self._world.threads[key].chunks.clear()
            case "record":
                self._world.threads[key].record = NOTHING_OPEN
            case "bag":
                assert self._world.threads[key].bag is not None
                self._world.threads[key].bag = None
            case "effect":
                del self._world.effects[key]
            case "chunk":
                del self._world.threads[key].chunks[0]
            case "checkpoints":
                del self._world.checkpoints[key]

    async def write(self, connection: Any, name: str, needs: str | None = None) -> None:
        raise AssertionError("memory stores give tools no connection")

    async def written(self) -> list[str]:
        raise AssertionError("memory stores give tools no connection")


def _age_thread(row: ThreadRow, marker: str) -> int:
    parts = {name: getattr(row, name) or "" for name in ("record", "snapshot", "bag")}
    aged = {name: _aged(part) for name, part in parts.items() if marker in part}
    for name, part in aged.items():
        setattr(row, name, part)
    runs = {run_id: _aged(stored) for run_id, stored in row.runs.items() if marker in stored}
    row.runs.update(runs)
    chunks = {n: _aged(stored) for n, stored in enumerate(row.chunks) if marker in stored}
    for n, stored in chunks.items():
        row.chunks[n] = stored
    return len(aged) + len(runs) + len(chunks)


def _age_effects(rows: dict[str, EffectRow], marker: str) -> int:
    stored = {name: row.result for name, row in rows.items() if row.result is not None and marker in row.result}
    rows.update({name: replace(rows[name], result=_aged(result)) for name, result in stored.items()})
    return len(stored)


def _aged(stored: str) -> str:
    return re.sub(r'"format": ?\d+', UNKNOWN, stored)
