"""CheckpointStore on Redis."""

from __future__ import annotations

import struct
from collections.abc import Sequence

from stores.records import ThreadKey
from stores.redis.client import RedisClient, script
from stores.redis.keys import behind, bucket_of, joined, parted, prefix_of

_SAVE = script("arguments", "checkpoint_save")
_LOAD = script("arguments", "checkpoint_load")
_LIST = script("arguments", "checkpoint_list")
_DELETE = script("arguments", "checkpoint_delete")
_PRUNE = script("arguments", "checkpoint_prune")
_FORGET = script("arguments", "checkpoint_forget")

_SIGN = 1 << 63


class RedisCheckpointStore:
    """CheckpointStore over a hash and a sorted set per thread.

    The set has one *place* per checkpoint, made of workflow, time and id, which sorts as they do.
    """

    def __init__(self, client: RedisClient) -> None:
        self._client = client

    async def save(self, key: ThreadKey, *, checkpoint_id: str, workflow: str, blob: bytes, created_at: float) -> None:
        place = joined(workflow, _sortable(created_at), checkpoint_id)
        await self._client.write(_SAVE, _keys(key), joined(checkpoint_id), place, bytes(blob))

    async def load(self, key: ThreadKey, *, checkpoint_id: str) -> bytes | None:
        blob: bytes | None = await self._client.read(_LOAD, _keys(key)[:1], joined(checkpoint_id))
        return blob

    async def list(self, key: ThreadKey, *, workflow: str) -> Sequence[str]:
        places = await self._client.read(_LIST, _keys(key)[1:], *_bounds(workflow))
        return [parted(place)[-1] for place in places]

    async def delete(self, key: ThreadKey, *, checkpoint_id: str) -> bool:
        return bool(await self._client.write(_DELETE, _keys(key), joined(checkpoint_id)))

    async def prune(self, key: ThreadKey, *, workflow: str, keep: int) -> int:
        before_id = len(joined(workflow, _sortable(0.0), "").encode())
        return int(await self._client.write(_PRUNE, _keys(key), *_bounds(workflow), keep, before_id))

    async def forget(self, key: ThreadKey) -> int:
        return int(await self._client.write(_FORGET, _keys(key)))


def _keys(key: ThreadKey) -> Sequence[str]:
    """Return the keys of a thread's checkpoints and of their places."""
    name = joined(key.scope, key.agent, key.thread_id)
    return [f"{prefix_of(bucket_of(name))}{part}:{name}" for part in ("checkpoints", "places")]


def _bounds(workflow: str) -> Sequence[str]:
    """Return between what ZRANGEBYLEX finds the places of a workflow."""
    return (f"[{joined(workflow, '')}", f"({behind(workflow)}")


def _sortable(seconds: float) -> str:
    """Return a text that sorts among others as the number does."""
    # IEEE 754 sorts as an integer does, but for the sign: a negative one is turned around.
    (bits,) = struct.unpack(">Q", struct.pack(">d", seconds + 0.0))
    return f"{bits ^ (2 * _SIGN - 1) if bits & _SIGN else bits | _SIGN:016x}"
