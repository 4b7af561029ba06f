"""Worlds of the sizes to compare, each with the threads that are measured in it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from itertools import cycle
from random import Random

from loadtests.bench import example
from loadtests.bench.worlds import AGE_SECONDS, CHECKED, Technology, World, fill
from stores.ports import Stores
from stores.records import Scope, ThreadKey

STORED = 1_000
"""Threads that are stored anyway, where something else grows."""

OPEN = 10
"""Open approvals in the scope that is listed, where something else grows; also threads that are due."""

OPEN_PER_THREAD = 10

QUIET, CROWDED = Scope("quiet"), Scope("crowded")

DEEP_PAGE = 5_000
"""Runs per page on the way to the middle of all old runs."""

TALKS = 8
"""Conversations of one length: each goes on for 26 turns while it is measured, which is one chunk."""

TALK_STEP = 20
"""Messages that are added at once while a conversation is prepared: about a third of a chunk."""

TALK_SHIFT = 7
"""Messages by which conversations differ in where their chunks end, so that all together show a whole chunk's turns."""


@dataclass(slots=True)
class Place:
    """Where scripts run: a world, and which thread is next. `middle` is where the middle of all old runs is."""

    world: World
    next_key: Callable[[Random], ThreadKey]
    middle: str | None = None
    said: Iterator[int] = field(default_factory=lambda: iter(range(10**6, 10**9)))

    @property
    def stores(self) -> Stores:
        """The ports of the world."""
        return self.world.stores


@asynccontextmanager
async def stored(technology: Technology, sizes: Sequence[int], random: Random) -> AsyncIterator[Mapping[int, Place]]:
    """Worlds with so many stored threads."""
    async with AsyncExitStack() as worlds:
        places = {}
        for size in sizes:
            world = await worlds.enter_async_context(technology.world())
            await fill(world, size, random.sample(range(size), min(CHECKED, size)))
            await _put_open(world.stores, QUIET, OPEN, due_in_seconds=-1.0)
            await world.settle()
            places[size] = Place(world, _any_of(size), await _middle(world.stores, size))
        yield places


@asynccontextmanager
async def ended(technology: Technology, sizes: Sequence[int], random: Random) -> AsyncIterator[Mapping[int, Place]]:
    """Threads with so many terminal occurrences, in one world."""
    async with technology.world() as world:
        await _fill_with_ordinary(world, random)
        places = {}
        for size in sizes:
            key = ThreadKey(Scope("long"), "payments", f"ended-{size}")
            await example.put(world.stores, key)
            await example.put_ended(world.stores, key, size - 1)
            places[size] = Place(world, _always(key))
        yield places


@asynccontextmanager
async def said(technology: Technology, sizes: Sequence[int], random: Random) -> AsyncIterator[Mapping[int, Place]]:
    """Threads with so many messages and a few more, in one world."""
    async with technology.world() as world:
        await _fill_with_ordinary(world, random)
        places = {}
        for size in sizes:
            keys = [ThreadKey(Scope("long"), "payments", f"said-{size}-{number}") for number in range(TALKS)]
            for number, key in enumerate(keys):
                await _talk(world.stores, key, size, first=2 + number * TALK_SHIFT, random=random)
            places[size] = Place(world, _in_turn(keys))
        yield places


@asynccontextmanager
async def crowded(technology: Technology, sizes: Sequence[int], random: Random) -> AsyncIterator[Mapping[int, Place]]:
    """Worlds with so many open approvals in one scope; few in another."""
    async with AsyncExitStack() as worlds:
        places = {}
        for size in sizes:
            world = await worlds.enter_async_context(technology.world())
            await _put_open(world.stores, QUIET, OPEN, due_in_seconds=example.CLAIM_SECONDS)
            await _put_open(world.stores, CROWDED, size, due_in_seconds=example.CLAIM_SECONDS)
            places[size] = Place(world, _any_of(size))
            await world.settle()
        yield places


@asynccontextmanager
async def claimed(technology: Technology, sizes: Sequence[int], random: Random) -> AsyncIterator[Mapping[int, Place]]:
    """Worlds with so many claimed threads; few are due."""
    async with AsyncExitStack() as worlds:
        places = {}
        for size in sizes:
            world = await worlds.enter_async_context(technology.world())
            await _put_open(world.stores, QUIET, OPEN, due_in_seconds=-1.0)
            for number in range(size):
                await example.put_claimed(world.stores, ThreadKey(CROWDED, "payments", f"claimed-{number}"))
            places[size] = Place(world, _any_of(size))
            await world.settle()
        yield places


async def _fill_with_ordinary(world: World, random: Random) -> None:
    """Store what is stored anyway. A database's statistics are of these: a long thread among them is an exception."""
    await fill(world, STORED, random.sample(range(STORED), CHECKED))
    await world.settle()


async def _put_open(stores: Stores, scope: Scope, count: int, due_in_seconds: float) -> None:
    for first in range(0, count, OPEN_PER_THREAD):
        key = ThreadKey(scope, "payments", f"open-{first}")
        await example.put_open(stores, key, min(OPEN_PER_THREAD, count - first), due_in_seconds=due_in_seconds)


async def _middle(stores: Stores, size: int) -> str | None:
    """Walk over half of the old runs, of which every thread has two."""
    after = None
    for walked in range(0, size, DEEP_PAGE):
        limit = min(DEEP_PAGE, size - walked)
        page = await stores.threads.old(age_seconds=AGE_SECONDS / 2, limit=limit, after=after)
        after = page.after
    return after


async def _talk(stores: Stores, key: ThreadKey, size: int, *, first: int, random: Random) -> None:
    """Say so much, in turns; other first turns make other places at which chunks end."""
    messages = [example.message(number, random) for number in range(size)]
    await example.talk(stores, key, messages[:first])
    for begin in range(first, size, TALK_STEP):
        await example.talk(stores, key, messages[begin : begin + TALK_STEP])


def _any_of(size: int) -> Callable[[Random], ThreadKey]:
    return lambda random: example.key_of(example.name_of(random.randrange(size)))


def _always(key: ThreadKey) -> Callable[[Random], ThreadKey]:
    return lambda _: key


def _in_turn(keys: Sequence[ThreadKey]) -> Callable[[Random], ThreadKey]:
    turns = cycle(keys)
    return lambda _: next(turns)
