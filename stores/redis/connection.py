"""The connections of one host to Redis: a single server, the primary that Sentinels name, or a Cluster."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from ssl import TLSVersion
from typing import Any

from redis.asyncio import Redis, RedisCluster
from redis.asyncio.client import Pipeline
from redis.asyncio.cluster import ClusterPipeline
from redis.asyncio.connection import Connection, SSLConnection, UnixDomainSocketConnection
from redis.asyncio.sentinel import Sentinel

from stores.options import RedisOptions
from stores.redis.address import Address, address_of, sentinel_addresses
from stores.redis.pool import (
    LeavingPool,
    NotingRetry,
    PrimaryConnection,
    PrimarySSLConnection,
    unanswered,
)


class Connections:
    """The library's client, and how many calls may use it at once.

    Whoever wants more waits: redis-py's own pools either do not wait, or leak a place if a cancelled call gives back.
    """

    def __init__(self, driver: Redis | RedisCluster, *, places: int, pool: LeavingPool | None) -> None:
        self.driver = driver
        self._places = asyncio.Semaphore(places)
        self._pool = pool

    @property
    def is_cluster(self) -> bool:
        """Whether it is a Cluster's client."""
        return isinstance(self.driver, RedisCluster)

    async def memory(self) -> list[dict[str, Any]]:
        """Return what each primary tells about its memory."""
        if isinstance(self.driver, RedisCluster):
            await self.driver.initialize()
            return [await self.driver.info("memory", target_nodes=each) for each in self.driver.get_primaries()]
        return [await self.driver.info("memory")]

    @asynccontextmanager
    async def place(self) -> AsyncIterator[None]:
        """Wait until a connection is free, and have it for one call."""
        unanswered.set(None)
        async with self._places:
            yield

    def pipeline(self) -> Pipeline | ClusterPipeline:
        """Return an empty pipeline; its commands are not a transaction."""
        return self.driver.pipeline(transaction=False)

    def unanswered(self) -> Exception | None:
        """Return why an attempt of the call in progress got no answer; None if there was no such attempt."""
        return unanswered.get()

    def leave(self) -> None:
        """Let every connection be made anew, to where the primary is now. A Cluster's client does so by itself."""
        if self._pool is not None:
            self._pool.leave()


@asynccontextmanager
async def connecting(options: RedisOptions, *, seconds: float, pool_size: int) -> AsyncIterator[Connections]:
    """Make the client; nothing is connected to yet. Raises ValueError that names the setting which is wrong."""
    address = address_of(options)
    async with AsyncExitStack() as stack:
        if options.is_cluster:
            cluster = _cluster(options, address, seconds, pool_size)
            stack.push_async_callback(cluster.aclose)
            yield Connections(cluster, places=pool_size, pool=None)
            return
        reach: dict[str, Any]
        if options.sentinels:
            sentinel = _sentinel(options, address, seconds)
            stack.push_async_callback(sentinel.aclose)
            reach = {
                "connection_class": PrimarySSLConnection if address.is_tls else PrimaryConnection,
                "sentinel": sentinel,
                "service": options.sentinel_service,
            }
        elif address.path:
            reach = {"connection_class": UnixDomainSocketConnection, "path": address.path}
        else:
            kind = SSLConnection if address.is_tls else Connection
            reach = {"connection_class": kind, "host": address.host, "port": address.port}
        pool = LeavingPool(
            **reach,
            **_common(options, address, seconds),
            db=address.database,
            username=address.username,
            password=address.password,
            max_connections=pool_size,
            retry=NotingRetry(),
        )
        redis = Redis.from_pool(pool)
        stack.push_async_callback(redis.aclose)
        yield Connections(redis, places=pool_size, pool=pool)


def _cluster(options: RedisOptions, address: Address, seconds: float, pool_size: int) -> RedisCluster:
    return RedisCluster(
        host=address.host,
        port=address.port,
        username=address.username,
        password=address.password,
        ssl=address.is_tls,
        # Per node, and more than can be in use: a connection that is being closed still counts.
        max_connections=2 * pool_size,
        require_full_coverage=True,
        # Reads go to primaries as well: a replica is behind.
        load_balancing_strategy=None,
        retry=NotingRetry(),
        **_common(options, address, seconds),
    )


def _sentinel(options: RedisOptions, address: Address, seconds: float) -> Sentinel:
    return Sentinel(
        sentinel_addresses(options),
        sentinel_kwargs={
            "username": options.sentinel_username or None,
            "password": options.sentinel_password or None,
            "ssl": address.is_tls,
            # Not this one again, the next one, and while there is time for it.
            "retry": None,
            **_common(options, address, seconds / 2),
        },
    )


def _common(options: RedisOptions, address: Address, seconds: float) -> dict[str, Any]:
    stated: dict[str, Any] = {
        # Half of a call, so that one whose connection is dead without a word has the other half on a new one.
        "socket_timeout": seconds / 2,
        "socket_connect_timeout": seconds / 2,
        # A dead connection shows at the first command, which is repeated on a new one.
        "health_check_interval": 0,
        # Every server and every proxy speaks it, and nothing comes unasked.
        "protocol": 2,
        "decode_responses": False,
        # The name of the library is not worth two commands per connection and a permission.
        "driver_info": None,
    }
    if address.is_tls:
        stated |= {
            "ssl_cert_reqs": "required",
            "ssl_check_hostname": True,
            "ssl_ca_certs": options.ca_file or None,
            "ssl_certfile": options.certificate_file or None,
            "ssl_keyfile": options.key_file or None,
            "ssl_min_version": TLSVersion.TLSv1_2,
        }
    return stated
