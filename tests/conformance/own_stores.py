"""A user's own stores as an adapter under test: what `--stores package.module:name` names."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from pkgutil import resolve_name
from typing import Any
from uuid import uuid4

import pytest

from stores import open_stores
from stores.options import RedisOptions, StoreOptions
from stores.ports import Stores
from stores.records import ThreadKey
from tests.conformance.adapters import STORE_TIMEOUT_SECONDS, Adapter
from tests.conformance.back_doors.port import Part

MakeWorld = Callable[[StoreOptions], AbstractAsyncContextManager[Adapter]]


@dataclass(frozen=True, slots=True)
class OwnStores:
    """What was named, and the `make_world` of the same module, if it has one."""

    name: str
    make_world: MakeWorld | None

    def adapter(self, options: StoreOptions) -> AbstractAsyncContextManager[Adapter]:
        """Return a fresh world: the user's, or one that is fresh because its options name nothing used before."""
        return self.make_world(options) if self.make_world is not None else _opened_anew(options)


def own_stores(name: str) -> OwnStores:
    """Find what `name` names. Raises UsageError if there is no such thing."""
    try:
        resolve_name(name)
        module = resolve_name(name.partition(":")[0])
    except (ImportError, AttributeError, ValueError) as error:
        raise pytest.UsageError(f"--stores {name}: {error}; it is package.module:name, importable from here") from error
    return OwnStores(name, getattr(module, "make_world", None))


def options_of(name: str, database_url: str | None, redis_url: str | None, folder: Path) -> StoreOptions:
    """Return options that lead to a world of their own: `{world}` in a URL is a name that was never used before."""
    world = f"w{uuid4().hex}"
    return StoreOptions(
        name,
        database_url=(database_url or folder.as_uri()).replace("{world}", world),
        redis=RedisOptions(url=(redis_url or "").replace("{world}", world)),
        timeout_seconds=STORE_TIMEOUT_SECONDS,
        pool_size=2,
    )


@asynccontextmanager
async def _opened_anew(options: StoreOptions) -> AsyncIterator[Adapter]:
    async with AsyncExitStack() as openings:

        async def open_another() -> Stores:
            return await openings.enter_async_context(open_stores(options))

        yield Adapter(open_another, NoBackDoor())


class NoBackDoor:
    """Nothing but the ports leads to the data: what can not be judged through them is skipped, with this reason."""

    async def age_format(self, marker: str) -> int:
        pytest.skip(WITHOUT_BACK_DOOR)

    async def lose(self, key: ThreadKey, part: Part) -> None:
        pytest.skip(WITHOUT_BACK_DOOR)

    async def write(self, connection: Any, name: str, needs: str | None = None) -> None:
        pytest.skip(WITHOUT_BACK_DOOR)

    async def written(self) -> list[str]:
        pytest.skip(WITHOUT_BACK_DOOR)


WITHOUT_BACK_DOOR = "needs a back door to the data, which a make_world beside the stores would give"
