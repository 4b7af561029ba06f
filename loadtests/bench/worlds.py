"""What the bench needs of a technology: worlds to fill through the back door, and the bytes that a step writes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from loadtests.bench.example import TEMPLATE, key_of, name_of, put, require_whole
from stores.ports import Saved, Stores
from stores.records import ThreadKey, Version

TIMEOUT_SECONDS = 60.0
"""Far above what a step takes, so that a busy machine ends no bench."""

CHECKED = 20
AGE_SECONDS = 86_400.0
"""How much older than its template a copy is, at least."""

SPREAD = 1_009
"""A prime, to give copies ages in another order than that of their names."""

Written = Callable[[], Awaitable[int]]
"""Answers how many bytes were written since it was made."""


class World(Protocol):
    """One empty database of its own, with the ports over it."""

    @property
    def stores(self) -> Stores:
        """The ports."""
        ...

    async def copy_template(self, count: int) -> None:
        """Store the template's thread so many times more, under the names 0 to count - 1, past the port."""
        ...

    async def settle(self) -> None:
        """Let the database do now what it would do some time after it was filled."""
        ...

    async def counting(self, key: ThreadKey) -> Written:
        """Begin to count what is written; `key` is the only thread that will be."""
        ...


class Technology(Protocol):
    """One adapter, with what it needs running."""

    @property
    def name(self) -> str:
        """What it is called in the report."""
        ...

    def world(self) -> AbstractAsyncContextManager[World]:
        """Open a new world; at its end it is gone."""
        ...


async def fill(world: World, count: int, checked: Iterable[int]) -> None:
    """Store a thread so many times, and prove by a sample that the port reads every copy as its own."""
    template = key_of(TEMPLATE)
    await put(world.stores, template)
    await require_whole(world.stores, template)
    await world.copy_template(count)
    version = (await world.stores.threads.load(template)).record.version
    assert await world.stores.threads.delete(template, expected=version) == Saved(Version())
    for number in checked:
        await require_whole(world.stores, key_of(name_of(number)))
