"""What the two databases do differently, as values that the rest of the adapter need not ask about."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from sqlalchemy.ext.asyncio import AsyncEngine

from stores.errors import StoreUnavailable

WHOLE = "agui_whole"
"""The execution option of connections whose statements are one transaction; of others each commits itself."""


class PoolerInBetween(StoreUnavailable):
    """The database is reached through a pooler that the options do not speak of; nothing was sent through it."""


@dataclass(frozen=True, slots=True)
class Backend:
    """One database technology, connected to.

    `single` executes each statement by itself, `whole` begins transactions that write, `tools` is a pool of its own
    for those of tools. `errors` are what the driver raises unwrapped; `is_unstorable` knows those that say that a value
    can not be kept at all. `has_writing_ctes`: the writes of a step are one statement, which commits itself; elsewhere
    a step is a transaction. `limit_tools` sets the limits, in milliseconds, of a tool's transaction, `lock_migration`
    makes other processes wait that migrate too; `prepare_file` is called before a migration. `leaving` are the
    connections of calls that were cut off: they are no longer in the pool, but not closed yet.
    """

    technology: str
    single: AsyncEngine
    whole: AsyncEngine
    tools: AsyncEngine
    errors: tuple[type[Exception], ...]
    is_unstorable: Callable[[Exception], bool]
    has_writing_ctes: bool
    limit_tools: str | None = None
    lock_migration: str | None = None
    prepare_file: Callable[[AsyncEngine], Awaitable[None]] | None = None
    leaving: set[asyncio.Task[None]] = field(default_factory=set)
