"""Opens the stores of one technology; the only place that knows which there are."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from stores.ports import Stores


@asynccontextmanager
async def open_stores(
    technology: str,
    *,
    database_url: str = "",
    timeout_seconds: float,
    pool_size: int,
    clock: Callable[[], float] | None = None,
) -> AsyncIterator[Stores]:
    """Open the four ports of `memory` or `sql`, and close them at the end.

    `timeout_seconds` is after how long a call counts as unanswered, `pool_size` how many connections are kept, twice
    if tools use transactions. `clock` is for memory alone: every other store goes by its own. Raises ValueError for
    a technology or a database that there is no adapter for, SchemaOutdated for a database that was not migrated.
    """
    # Imported here, so that nobody needs the drivers of a technology that is not in use.
    if technology == "memory":
        from stores.memory import MemoryWorld, memory_stores

        yield memory_stores(MemoryWorld(clock or time.time))
    elif technology == "sql":
        from stores.sql import open_sql_stores

        async with open_sql_stores(database_url, timeout_seconds=timeout_seconds, pool_size=pool_size) as stores:
            yield stores
    else:
        raise ValueError(f"There are stores for memory and sql, not for '{technology}'.")
