"""Redis, filled by a script that copies the template's keys and its entries in the indexes."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from itertools import cycle
from pathlib import Path

from redis.asyncio import Redis

from loadtests.bench.example import TEMPLATE, key_of, name_of
from loadtests.bench.worlds import AGE_SECONDS, SPREAD, TIMEOUT_SECONDS, Written
from stores import open_stores
from stores.options import RedisOptions, StoreOptions
from stores.ports import Stores
from stores.records import ThreadKey
from stores.redis.keys import bucket_of, keys_of, prefix_of
from tests.servers import redis

DATABASES = 16
COPIES_PER_CALL = 500
ASIDE = "template:"


@dataclass(slots=True)
class RedisTechnology:
    """The databases of one server, which are numbered."""

    address: str
    name: str = "Redis"
    _numbers: Iterator[int] = field(default_factory=lambda: cycle(range(DATABASES)))

    @asynccontextmanager
    async def world(self) -> AsyncIterator[RedisBench]:
        url = f"{self.address}/{next(self._numbers)}"
        options = StoreOptions("redis", redis=RedisOptions(url), timeout_seconds=TIMEOUT_SECONDS)
        async with open_stores(options) as stores, Redis.from_url(url, socket_timeout=TIMEOUT_SECONDS) as client:
            yield RedisBench(stores, client)
            await client.flushdb(asynchronous=True)


@contextmanager
def redis_technology() -> Iterator[RedisTechnology]:
    """Run a server. It keeps an append-only file, never written anew, and does not wait for the disk."""
    options = {"appendfsync": "no", "auto_aof_rewrite_percentage": "0", "databases": str(DATABASES)}
    with redis(**options) as server:
        yield RedisTechnology(server.url.removesuffix("/0"))


@dataclass(frozen=True, slots=True)
class RedisBench:
    """One database."""

    stores: Stores
    client: Redis

    async def copy_template(self, count: int) -> None:
        copy = self.client.register_script((Path(__file__).parent / "copy_template.lua").read_text("utf-8"))
        prefix, scope, name = _place(TEMPLATE)
        # Set aside, because copies come into the template's own bucket too.
        keys = [key.decode() async for key in self.client.scan_iter(match=f"{prefix}*")]
        aside = [ASIDE + key.removeprefix(prefix) for key in keys]
        for key, other in zip(keys, aside, strict=True):
            await self.client.copy(key, other)
        for first in range(0, count, COPIES_PER_CALL):
            arguments: list[str | int] = [ASIDE, scope, name]
            for number in range(first, min(first + COPIES_PER_CALL, count)):
                arguments += [*_place(name_of(number)), int(AGE_SECONDS) + number * SPREAD % count]
            await copy(keys=aside, args=arguments)
        await self.client.delete(*aside)

    async def settle(self) -> None:
        """Nothing: Redis does all at once."""

    async def counting(self, key: ThreadKey) -> Written:
        before = await self._appended()

        async def written() -> int:
            return await self._appended() - before

        return written

    async def _appended(self) -> int:
        return int((await self.client.info("persistence"))["aof_current_size"])


def _place(name: str) -> tuple[str, str, str]:
    """Return how the keys of a stored thread's bucket begin, its scope, and its name."""
    key = key_of(name)
    return prefix_of(bucket_of(keys_of(key).name)), key.scope, name
