"""ReplicaRegistry in memory."""

from __future__ import annotations

from collections.abc import Mapping

from stores.memory.world import MemoryWorld, ReplicaRow


class MemoryReplicaRegistry:
    """ReplicaRegistry over the dicts of one MemoryWorld."""

    def __init__(self, world: MemoryWorld) -> None:
        self._world = world

    async def heartbeat(self, holder: str, *, label: str) -> None:
        self._world.replicas[holder] = ReplicaRow(label, self._world.clock())

    async def seen(self) -> Mapping[str, float]:
        now = self._world.clock()
        return {holder: now - row.beat_at for holder, row in self._world.replicas.items()}

    async def forget(self, holder: str) -> None:
        self._world.replicas.pop(holder, None)
