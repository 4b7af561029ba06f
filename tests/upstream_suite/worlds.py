"""Where the approvals of one of upstream's tests are kept: a fresh world, which each of its runs opens anew."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import cache
from pathlib import Path
from uuid import uuid4

from stores import open_stores
from stores.memory import MemoryWorld, memory_stores
from stores.options import StoreOptions
from stores.ports import Stores
from stores.sql.migrate import upgrade

World = Callable[[], AbstractAsyncContextManager[Stores]]
Opener = Callable[[], World]
"""Makes a fresh world."""
STORE_TIMEOUT_SECONDS = 30.0


def memory_worlds() -> Opener:
    """Worlds in this process."""

    def new_world() -> World:
        world = MemoryWorld(time.time)

        @asynccontextmanager
        async def opened() -> AsyncIterator[Stores]:
            yield memory_stores(world)

        return opened

    return new_world


def sqlite_worlds() -> Opener:
    """A database file for each test, copied from one that was migrated once."""
    folder = tempfile.TemporaryDirectory()

    @cache
    def template() -> Path:
        path = Path(folder.name) / "template.db"
        upgrade(f"sqlite+aiosqlite:///{path}")
        return path

    template()

    def new_world() -> World:
        database = Path(folder.name) / f"{uuid4().hex}.db"
        shutil.copy(template(), database)
        options = StoreOptions(
            "sql", database_url=f"sqlite+aiosqlite:///{database}", timeout_seconds=STORE_TIMEOUT_SECONDS
        )
        return lambda: open_stores(options)

    return new_world
