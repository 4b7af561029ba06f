"""What the stores' pools of connections are at, looked at from inside."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

from sqlalchemy.ext.asyncio import AsyncEngine

from stores.ports import Stores

WAIT_SECONDS_MAX = 20.0


def backend_of(stores: Stores) -> Any:
    """Return the database behind SQL stores."""
    return stores.threads._database._backend  # type: ignore[attr-defined]  # past the port, to what it pools


def checked_out(stores: Stores) -> int:
    """Return how many connections are lent out, of all pools."""
    backend = backend_of(stores)
    engines: dict[int, AsyncEngine] = {id(e.pool): e for e in (backend.single, backend.whole, backend.tools)}
    return sum(engine.pool.checkedout() for engine in engines.values())  # type: ignore[attr-defined]  # past the port, to what it pools


async def until(is_true: Callable[[], Awaitable[bool]], otherwise: str) -> float:
    """Wait for a condition; answers the seconds it took."""
    start = time.monotonic()
    while not await is_true():
        assert time.monotonic() < start + WAIT_SECONDS_MAX, otherwise
        await asyncio.sleep(0)
    return time.monotonic() - start
