"""The stores in one process's memory: for development, and the fake of other tests; nothing survives the process."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from stores.memory.checkpoints import MemoryCheckpointStore
from stores.memory.effects import MemoryEffectLedger
from stores.memory.replicas import MemoryReplicaRegistry
from stores.memory.threads import MemoryThreadStore
from stores.memory.world import MemoryWorld
from stores.ports import Stores

__all__ = [
    "MemoryCheckpointStore",
    "MemoryEffectLedger",
    "MemoryReplicaRegistry",
    "MemoryThreadStore",
    "MemoryWorld",
    "memory_stores",
    "open_memory_stores",
]


@asynccontextmanager
async def open_memory_stores(clock: Callable[[], float]) -> AsyncIterator[Stores]:
    """Open the four ports over a world of their own; `clock` gives epoch seconds."""
    yield memory_stores(MemoryWorld(clock))


def memory_stores(world: MemoryWorld) -> Stores:
    """Return the four ports over `world`; hosts that are given the same world share everything in it."""
    return Stores(
        threads=MemoryThreadStore(world),
        effects=MemoryEffectLedger(world),
        checkpoints=MemoryCheckpointStore(world),
        replicas=MemoryReplicaRegistry(world),
        check=_check,
        shared=True,
        durable=True,
    )


async def _check() -> None:
    """Memory is there as long as the process is."""
