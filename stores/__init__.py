"""Opens the stores that the options name; the only place that knows which technologies there are."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from pkgutil import resolve_name

from stores.options import StoreOptions
from stores.ports import Stores


@asynccontextmanager
async def open_stores(options: StoreOptions) -> AsyncIterator[Stores]:
    """Open the four ports, each in the technology named for it, and close them at the end.

    Raises ValueError for a technology or an address that there is no adapter for, SchemaOutdated for a database that
    was not migrated.
    """
    names = (options.threads, options.effects or options.threads, options.checkpoints or options.threads)
    async with AsyncExitStack() as stack:
        opened: dict[str, Stores] = {}
        for name in dict.fromkeys(names):
            opened[name] = await stack.enter_async_context(_opening(name, options))
        threads, effects, checkpoints = (opened[name] for name in names)
        yield Stores(
            threads=threads.threads,
            effects=effects.effects,
            checkpoints=checkpoints.checkpoints,
            # Who is alive is asked about holders of rows: it is kept where those are.
            replicas=effects.replicas,
            check=_checking(each.check for each in opened.values()),
            shared=threads is effects and threads.shared,
            transactional=effects.transactional,
            durable=effects.durable,
        )


def _opening(name: str, options: StoreOptions) -> AbstractAsyncContextManager[Stores]:
    # Imported here, so that nobody needs the drivers of a technology that is not in use.
    match name:
        case "memory":
            from stores.memory import open_memory_stores

            return open_memory_stores(options.clock or time.time)
        case "sql":
            from stores.sql import open_sql_stores

            return open_sql_stores(options)
        case "redis":
            from stores.redis import open_redis_stores

            return open_redis_stores(options)
        case _:
            return _own(name)(options)


def _own(name: str) -> Callable[[StoreOptions], AbstractAsyncContextManager[Stores]]:
    """Find a user's own stores: what is named is called with the options, and entered."""
    if ":" not in name:
        raise ValueError(
            f"Stores are memory, sql, redis, or package.module:name of your own; '{name}' is none of them."
        )
    try:
        found: Callable[[StoreOptions], AbstractAsyncContextManager[Stores]] = resolve_name(name)
    except (ImportError, AttributeError, ValueError) as error:
        raise ValueError(f"The stores '{name}' can not be imported: {error}") from error
    return found


def _checking(checks: Iterable[Callable[[], Awaitable[None]]]) -> Callable[[], Awaitable[None]]:
    every = tuple(checks)

    async def check() -> None:
        for one in every:
            await one()

    return check
