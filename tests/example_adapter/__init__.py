"""A third-party adapter, as an afternoon makes one: JSON files in a folder, for the processes of one machine.

It is written against `stores.ports`, `stores.records`, `stores.history` and `stores.effect_row` alone. What it does not
have is an index: `list`, `due` and `old` read every thread, so it is for some hundred of them.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from stores.options import StoreOptions
from stores.ports import Stores
from tests.example_adapter.beside import FileCheckpointStore, FileReplicaRegistry
from tests.example_adapter.effects import FileEffectLedger
from tests.example_adapter.folder import Folder
from tests.example_adapter.threads import FileThreadStore

__all__ = ["make_stores"]


@asynccontextmanager
async def make_stores(options: StoreOptions) -> AsyncIterator[Stores]:
    """Open the four ports over the folder that `options.database_url` (file:///…) names."""
    folder = Folder.at(options.database_url, timeout_seconds=options.timeout_seconds)
    yield Stores(
        threads=FileThreadStore(folder),
        effects=FileEffectLedger(folder),
        checkpoints=FileCheckpointStore(folder),
        replicas=FileReplicaRegistry(folder),
        check=folder.check,
        # A thread and its rows of the ledger are one file, and a file is replaced whole and synced.
        shared=True,
        durable=True,
    )
