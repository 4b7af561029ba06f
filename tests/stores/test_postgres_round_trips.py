"""Each step of a run is one round trip to PostgreSQL, counted on the wire."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace

import pytest
from sqlalchemy import make_url

from stores import open_stores
from stores.options import StoreOptions
from stores.ports import Batch, Began, Change, Saved, Settled, Stores
from stores.records import Record, Snapshot, ThreadKey, Version
from tests.conformance.examples import (
    BAG,
    DAY,
    KEY,
    RESULT,
    batch,
    claim,
    finished,
    fresh,
    idempotent,
    kinds,
    record,
    reservation,
    run,
    saved,
)

pytestmark = pytest.mark.external_service

CHUNK_BYTES = 65_536
FAR = 2e9
LONG = Snapshot(messages=tuple({"id": f"message-{n}", "content": "x" * 300} for n in range(80)))
WARM_UP = 3
"""The driver prepares a statement when it is executed again, which takes a round trip of its own, once."""


@dataclass(slots=True)
class Wire:
    """Counts how often a client spoke after the server had: what it says at a stretch is one round trip."""

    port: int
    round_trips: int = 0
    _is_answered: bool = True
    _links: set[asyncio.Task[None]] = field(default_factory=set)

    async def serve(self, reader: asyncio.StreamReader, client: asyncio.StreamWriter) -> None:
        answers, server = await asyncio.open_connection("127.0.0.1", self.port)
        for passing in (self._pass(reader, server, is_answer=False), self._pass(answers, client, is_answer=True)):
            self._links.add(asyncio.create_task(passing))

    async def ended(self) -> None:
        """Wait until all clients, and then the server, have hung up."""
        await asyncio.gather(*self._links)

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, is_answer: bool) -> None:
        with suppress(ConnectionError):
            while data := await reader.read(CHUNK_BYTES):
                self.round_trips += self._is_answered and not is_answer
                self._is_answered = is_answer
                writer.write(data)
                await writer.drain()
        writer.close()


@pytest.fixture
async def wired(postgres_database: str) -> AsyncIterator[tuple[Wire, Stores]]:
    """Stores over one connection, so that what was prepared once stays so."""
    url = make_url(postgres_database)
    assert url.port is not None
    wire = Wire(url.port)
    async with await asyncio.start_server(wire.serve, "127.0.0.1", 0) as server:
        counted = url.set(port=server.sockets[0].getsockname()[1]).update_query_dict({"sslmode": "disable"})
        database_url = counted.render_as_string(hide_password=False)
        options = StoreOptions("sql", database_url=database_url, timeout_seconds=30.0, pool_size=1)
        async with open_stores(options) as stores:
            yield wire, stores
        await wire.ended()


Step = Callable[[Stores, ThreadKey, Version], Awaitable[object]]


async def load(stores: Stores, key: ThreadKey, _version: Version) -> bool:
    return (await stores.threads.load(key, interrupts=["ended"], run_id="run-0")).known is not None


async def open_(stores: Stores, key: ThreadKey, _version: Version) -> bool:
    opened = await stores.threads.open(key, run=run(), holder="h", claim_seconds=DAY, write_id=fresh())
    return opened.claimed and opened.loaded.snapshot == LONG


async def save(stores: Stores, key: ThreadKey, version: Version) -> bool:
    longer = Snapshot(messages=LONG.messages * 2, sealed=len(LONG.messages))
    change = Change(version, fresh(), record("interrupt-1"), longer, BAG, [finished("run-1", "interrupt-2")])
    return isinstance(await stores.threads.save(key, change=change), Saved)


async def claim_with_batch(stores: Stores, key: ThreadKey, version: Version) -> bool:
    approve = [reservation("new-1"), idempotent("new-2", begin=True)]
    new = Batch("attempt-1", "h", FAR, approve, close={"new-3": "rejected"})
    change = Change(version, fresh(), Record(claim=claim(until=FAR)), runs=[run()], batch=new)
    saved = await stores.threads.save(key, change=change)
    return isinstance(saved, Saved) and list(kinds(saved.answers.values()).values()) == [2, 1]


async def begin(stores: Stores, key: ThreadKey, _version: Version) -> bool:
    return await stores.effects.begin(key, interrupt_id="reserved", attempt="attempt-0") == Began()


async def settle(stores: Stores, key: ThreadKey, _version: Version) -> bool:
    result = await stores.effects.settle(key, interrupt_id="begun", attempt="attempt-0", result=RESULT)
    return result == Settled(RESULT)


async def free(stores: Stores, key: ThreadKey, _version: Version) -> bool:
    return await stores.effects.free(key, attempt="attempt-0") is None


async def read(stores: Stores, key: ThreadKey, _version: Version) -> bool:
    return len(await stores.effects.read(key, interrupts=["reserved", "begun"])) == 2


async def claim_what_is_reserved(stores: Stores, key: ThreadKey, version: Version) -> bool:
    taken = Batch("attempt-1", "h", FAR, [reservation("new"), reservation("reserved")], dead=["holder-of-attempt-0"])
    change = Change(version, fresh(), Record(claim=claim(until=FAR)), batch=taken)
    return isinstance(await stores.threads.save(key, change=change), Saved)


async def round_trips(wire: Wire, stores: Stores, step: Step) -> int:
    """Return what a step takes when it is taken again, each time in a thread of its own with all there is in it."""
    taken = 0
    for _ in range(WARM_UP + 1):
        key = replace(KEY, thread_id=fresh("thread"))
        version = await saved(stores, Record(), key=key, snapshot=LONG, bag=BAG, runs=[finished("run-0", "ended")])
        rows = [reservation("reserved"), idempotent("begun", begin=True)]
        await stores.effects.reserve(key, batch=await batch(stores, "attempt-0", *rows))
        before = wire.round_trips
        assert await step(stores, key, version)
        taken = wire.round_trips - before
    return taken


@pytest.mark.parametrize("step", [load, open_, save, claim_with_batch, begin, settle, free, read])
async def test_a_step_is_one_round_trip(wired: tuple[Wire, Stores], step: Step) -> None:
    assert await round_trips(*wired, step) == 1


async def test_a_take_over_which_finds_rows_takes_more_and_the_wire_shows_it(wired: tuple[Wire, Stores]) -> None:
    # One try, then begin, change, insert, lock, replace, commit.
    assert await round_trips(*wired, claim_what_is_reserved) == 7
