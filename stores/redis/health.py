"""Says whether Redis serves: it takes a write, and keeps what it was given."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import uuid4

from stores.errors import StoreUnavailable
from stores.redis.client import RedisClient, script
from stores.redis.keys import BUCKETS, prefix_of

_CHECK = script("arguments", "health_check")
_KEEPS = "noeviction"


class RedisHealth:
    """The check behind a host's readiness."""

    def __init__(self, client: RedisClient) -> None:
        self._client = client

    async def check(self) -> None:
        """Write and read back on every primary, and ask what it does when its memory is full.

        Raises StoreUnavailable. A replica that was a primary answers pings and reads: only the write tells.
        """
        text = uuid4().hex
        # A Cluster has a bucket on each of its primaries, as good as certain with so many of them.
        buckets = range(BUCKETS if self._client.is_cluster else 1)
        for answer in await self._client.read_every(_CHECK, [(_keys(bucket), (text,)) for bucket in buckets]):
            if answer != [text.encode()] * 2:
                raise StoreUnavailable("Redis took a write and did not return it.")
        for policy in await self._client.eviction_policies():
            if policy != _KEEPS:
                raise StoreUnavailable(
                    f"Redis may drop what it was given, for lack of memory: its maxmemory-policy must be {_KEEPS}."
                )


def _keys(bucket: int) -> Sequence[str]:
    return [f"{prefix_of(bucket)}health:{part}" for part in ("hash", "set")]
