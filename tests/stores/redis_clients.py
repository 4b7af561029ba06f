"""Clients of Redis for its tests, and what happens to their servers."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from hashlib import sha1

from redis.asyncio import RedisCluster

from stores.options import RedisOptions
from stores.redis.client import RedisClient, Script
from stores.redis.connection import Connections, connecting
from tests.servers import RedisServer

POOL_SIZE = 2


def lua(text: str) -> Script:
    """Return a script of a test."""
    return Script(text, sha1(text.encode(), usedforsecurity=False).hexdigest())


GET = lua("return redis.call('GET', KEYS[1])")
SET = lua("return redis.call('SET', KEYS[1], ARGV[1])")
COUNT = lua("return redis.call('INCR', KEYS[1])")


@asynccontextmanager
async def client_of(
    url: str, *, seconds: float = 10.0, pool_size: int = POOL_SIZE, **options: object
) -> AsyncIterator[RedisClient]:
    """Open a client; `options` are RedisOptions."""
    async with opened(url, seconds=seconds, pool_size=pool_size, **options) as (client, _):
        yield client


@asynccontextmanager
async def opened(
    url: str, *, seconds: float = 10.0, pool_size: int = POOL_SIZE, **options: object
) -> AsyncIterator[tuple[RedisClient, Connections]]:
    """Open a client, and show what it has open."""
    wanted = RedisOptions(url=url, **options)  # type: ignore[arg-type]  # a test says what it means
    async with connecting(wanted, seconds=seconds, pool_size=pool_size) as connections:
        yield RedisClient(connections, seconds=seconds), connections


def in_use(connections: Connections) -> int:
    """Return how many connections are not there for the next call."""
    driver = connections.driver
    if isinstance(driver, RedisCluster):
        return sum(len(node._connections) - len(node._free) for node in driver.get_nodes())
    return driver.connection_pool.get_connection_count()[1][0]


@contextmanager
def frozen(server: RedisServer) -> Iterator[None]:
    """Stop a server's process: its connections stay, and what is sent is taken by the kernel."""
    pid = server.pid
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


async def until(is_true: Callable[[], bool]) -> None:
    """Wait for a condition; the test's own time limit ends it."""
    while not is_true():
        await asyncio.sleep(0.005)
