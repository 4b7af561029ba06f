"""The back door of Redis: every key of the database, through a client of its own."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from typing import Any

from redis.asyncio import Redis

from stores.records import ThreadKey
from stores.redis.keys import bucket_of, joined, prefix_of
from tests.conformance.back_doors.port import NOTHING_OPEN, UNKNOWN, Part

_PARTS = ("thread", "chunks", "held", "effects", "checkpoints", "places")
_FORMAT = re.compile(rb'"format": ?\d+')


class RedisBackDoor:
    """BackDoor to one database of a server."""

    def __init__(self, redis: Redis) -> None:
        self._redis: Any = redis

    async def age_format(self, marker: str) -> int:
        count = 0
        async for replace, stored in self._values():
            # What is packed begins otherwise: it has no format number of its own, and another length would spoil it.
            is_json = stored.startswith(b"{") and marker.encode() in stored
            aged = _FORMAT.sub(UNKNOWN.encode(), stored) if is_json else stored
            if aged != stored:
                await self._redis.execute_command(*replace, aged)
                count += 1
        return count

    async def lose(self, key: ThreadKey, part: Part) -> None:
        name = joined(key.scope, key.agent, key.thread_id)
        named = {each: f"{prefix_of(bucket_of(name))}{each}:{name}" for each in _PARTS}
        match part:
            case "snapshot":
                lost = await self._redis.hdel(named["thread"], "snapshot")
                await self._redis.delete(named["chunks"])
            case "record":
                lost = await self._redis.exists(named["thread"])
                await self._redis.hset(named["thread"], "record", NOTHING_OPEN)
            case "bag":
                lost = await self._redis.hdel(named["thread"], "bag")
            case "effect":
                lost = await self._redis.delete(named["held"], named["effects"])
            case "chunk":
                lost = await self._redis.lpop(named["chunks"])
            case "checkpoints":
                lost = await self._redis.delete(named["checkpoints"], named["places"])
        assert lost, f"there was no {part}"

    async def write(self, connection: Any, name: str, needs: str | None = None) -> None:
        raise AssertionError("Redis gives tools no connection")

    async def written(self) -> list[str]:
        raise AssertionError("Redis gives tools no connection")

    async def _values(self) -> AsyncIterator[tuple[tuple[object, ...], bytes]]:
        """Tell every stored text with the command that replaces it."""
        for key in [key async for key in self._redis.scan_iter(count=1000)]:
            match await self._redis.type(key):
                case b"hash":
                    for field, stored in (await self._redis.hgetall(key)).items():
                        yield ("HSET", key, field), stored
                case b"list":
                    for index, stored in enumerate(await self._redis.lrange(key, 0, -1)):
                        yield ("LSET", key, index), stored
                case b"string":
                    yield ("SET", key), await self._redis.get(key)
