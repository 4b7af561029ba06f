"""CheckpointStore and ReplicaRegistry in files."""

from __future__ import annotations

import time
from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence

from stores.records import ThreadKey
from tests.example_adapter.folder import Document, Folder, checkpoint_file

REPLICAS = "replicas.json"


class FileCheckpointStore:
    """CheckpointStore over one file per thread: per checkpoint its workflow, its blob and when it was made."""

    def __init__(self, folder: Folder) -> None:
        self._folder = folder

    async def save(self, key: ThreadKey, *, checkpoint_id: str, workflow: str, blob: bytes, created_at: float) -> None:
        made = {checkpoint_id: [workflow, b64encode(blob).decode(), created_at]}
        await self._folder.change(checkpoint_file(key), lambda document: document.update(made))

    async def load(self, key: ThreadKey, *, checkpoint_id: str) -> bytes | None:
        found = (await self._folder.read(checkpoint_file(key))).get(checkpoint_id)
        return None if found is None else b64decode(found[1])

    async def list(self, key: ThreadKey, *, workflow: str) -> Sequence[str]:
        return _oldest_first(await self._folder.read(checkpoint_file(key)), workflow)

    async def delete(self, key: ThreadKey, *, checkpoint_id: str) -> bool:
        def step(document: Document) -> bool:
            return document.pop(checkpoint_id, None) is not None

        return await self._folder.change(checkpoint_file(key), step)

    async def prune(self, key: ThreadKey, *, workflow: str, keep: int) -> int:
        def step(document: Document) -> int:
            oldest_first = _oldest_first(document, workflow)
            gone = oldest_first[: max(len(oldest_first) - keep, 0)]
            for checkpoint_id in gone:
                del document[checkpoint_id]
            return len(gone)

        return await self._folder.change(checkpoint_file(key), step)

    async def forget(self, key: ThreadKey) -> int:
        def step(document: Document) -> int:
            count = len(document)
            document.clear()
            return count

        return await self._folder.change(checkpoint_file(key), step)


class FileReplicaRegistry:
    """ReplicaRegistry over one file: per holder its label and when it spoke last, on the machine's clock."""

    def __init__(self, folder: Folder) -> None:
        self._folder = folder

    async def heartbeat(self, holder: str, *, label: str) -> None:
        await self._folder.change(REPLICAS, lambda document: document.update({holder: [label, time.time()]}))

    async def seen(self) -> Mapping[str, float]:
        document, now = await self._folder.read(REPLICAS), time.time()
        return {holder: now - beat_at for holder, (_, beat_at) in document.items()}

    async def forget(self, holder: str) -> None:
        await self._folder.change(REPLICAS, lambda document: document.pop(holder, None))


def _oldest_first(document: Document, workflow: str) -> list[str]:
    found = [(created_at, name) for name, (of, _, created_at) in document.items() if of == workflow]
    return [name for _, name in sorted(found)]
