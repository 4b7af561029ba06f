"""CheckpointStore in memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from stores.memory.world import CheckpointRow, MemoryWorld
from stores.records import ThreadKey


class MemoryCheckpointStore:
    """CheckpointStore over the dicts of one MemoryWorld."""

    def __init__(self, world: MemoryWorld) -> None:
        self._world = world

    async def save(self, key: ThreadKey, *, checkpoint_id: str, workflow: str, blob: bytes, created_at: float) -> None:
        rows = self._world.checkpoints.setdefault(key, {})
        rows[checkpoint_id] = CheckpointRow(workflow, bytes(blob), created_at)

    async def load(self, key: ThreadKey, *, checkpoint_id: str) -> bytes | None:
        row = self._rows(key).get(checkpoint_id)
        return None if row is None else row.blob

    async def list(self, key: ThreadKey, *, workflow: str) -> Sequence[str]:
        return self._oldest_first(key, workflow)

    async def delete(self, key: ThreadKey, *, checkpoint_id: str) -> bool:
        return self._world.checkpoints.get(key, {}).pop(checkpoint_id, None) is not None

    async def prune(self, key: ThreadKey, *, workflow: str, keep: int) -> int:
        oldest_first = self._oldest_first(key, workflow)
        gone = oldest_first[: max(len(oldest_first) - keep, 0)]
        for checkpoint_id in gone:
            del self._world.checkpoints[key][checkpoint_id]
        return len(gone)

    async def forget(self, key: ThreadKey) -> int:
        return len(self._world.checkpoints.pop(key, {}))

    def _rows(self, key: ThreadKey) -> Mapping[str, CheckpointRow]:
        return self._world.checkpoints.get(key, {})

    def _oldest_first(self, key: ThreadKey, workflow: str) -> Sequence[str]:
        found = [(row.created_at, name) for name, row in self._rows(key).items() if row.workflow == workflow]
        return [name for _, name in sorted(found)]
