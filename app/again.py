"""Repeats a write whose answer was lost: unchanged, so that a store tells what became of it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from tenacity import AsyncRetrying, retry_if_exception_type, stop_after_attempt, wait_exponential_jitter

from stores.errors import WriteInDoubt
from stores.ports import Change, Lost, NotReserved, Saved, ThreadStore
from stores.records import ThreadKey

_Answer = TypeVar("_Answer")


async def again_if_in_doubt(write: Callable[[], Awaitable[_Answer]]) -> _Answer:
    """Repeat the very same write, same `write_id`, when its answer was lost; raises WriteInDoubt in the end."""
    retrying = AsyncRetrying(
        retry=retry_if_exception_type(WriteInDoubt),
        wait=wait_exponential_jitter(multiplier=0.05, max=1.0, jitter=0.05),
        stop=stop_after_attempt(3),
        reraise=True,
    )

    async def once() -> _Answer:
        return await write()

    return await retrying(once)


async def save(threads: ThreadStore, key: ThreadKey, change: Change) -> Saved | Lost | NotReserved:
    """Compare and set; repeated unchanged when its answer was lost. Raises WriteInDoubt in the end."""
    return await again_if_in_doubt(lambda: threads.save(key, change=change))
