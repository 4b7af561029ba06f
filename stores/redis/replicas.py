"""ReplicaRegistry on Redis."""

from __future__ import annotations

from collections.abc import Mapping

from stores.redis.client import RedisClient, script

_HEARTBEAT = script("arguments", "replica_heartbeat")
_SEEN = script("arguments", "replica_seen")
_FORGET = script("arguments", "replica_forget")

_KEYS = ("agui:{replicas}:beats", "agui:{replicas}:labels")


class RedisReplicaRegistry:
    """ReplicaRegistry over one sorted set, with the labels beside it."""

    def __init__(self, client: RedisClient) -> None:
        self._client = client

    async def heartbeat(self, holder: str, *, label: str) -> None:
        await self._client.write(_HEARTBEAT, _KEYS, holder, label)

    async def seen(self) -> Mapping[str, float]:
        answer = await self._client.read(_SEEN, _KEYS[:1])
        return {holder.decode(): float(age) for holder, age in zip(answer[::2], answer[1::2], strict=True)}

    async def forget(self, holder: str) -> None:
        await self._client.write(_FORGET, _KEYS, holder)
