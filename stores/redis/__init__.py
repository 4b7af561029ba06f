"""The stores on Redis (or Valkey): one server, a primary that Sentinels name, or a Cluster."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from stores.options import StoreOptions
from stores.ports import Stores
from stores.redis.checkpoints import RedisCheckpointStore
from stores.redis.client import RedisClient
from stores.redis.connection import connecting
from stores.redis.effects import RedisEffectLedger
from stores.redis.health import RedisHealth
from stores.redis.replicas import RedisReplicaRegistry
from stores.redis.threads import RedisThreadStore


@asynccontextmanager
async def open_redis_stores(options: StoreOptions) -> AsyncIterator[Stores]:
    """Open the four ports over one Redis. Raises ValueError that names the setting which is wrong.

    A Redis that does not answer is no error here: a host that starts before it becomes ready with it.
    It is not `durable`: a primary acknowledges before its replicas have a write, so what it acknowledged last may be
    gone after a failover, and after a crash what its append-only file had not yet. It runs no tool's statements, so
    it is not `transactional`. It is `shared`: a thread and its effects are in one bucket, and one script changes both.
    """
    seconds = options.timeout_seconds
    async with connecting(options.redis, seconds=seconds, pool_size=options.pool_size) as connections:
        client = RedisClient(connections, seconds=seconds)
        yield Stores(
            threads=RedisThreadStore(client),
            effects=RedisEffectLedger(client),
            checkpoints=RedisCheckpointStore(client),
            replicas=RedisReplicaRegistry(client),
            check=RedisHealth(client).check,
            shared=True,
        )
