"""One process of several that write to the same SQLite file; any call that fails ends it with the traceback.

python -m tests.stores.sqlite_writer URL NAME CYCLES
"""

from __future__ import annotations

import asyncio
import sys
from dataclasses import replace

from stores import open_stores
from stores.options import StoreOptions
from stores.ports import Change, Saved, Stores
from stores.records import Record, ThreadKey
from tests.conformance.examples import KEY, fresh
from tests.stores.cycles import GENERATIONS, cycle

WRITERS = 16
SHARED = replace(KEY, thread_id="shared")


def key_of(process: str, writer: int) -> ThreadKey:
    """Return the thread that one writer has to itself."""
    return replace(KEY, thread_id=f"{process}-{writer}")


async def main(url: str, process: str, cycles: int) -> None:
    """Run all writers of this process, each on a thread of its own and once on one that all share."""
    async with open_stores(StoreOptions("sql", database_url=url, timeout_seconds=5.0, pool_size=10)) as stores:
        await asyncio.gather(*(write(stores, key_of(process, n), cycles) for n in range(WRITERS)))


async def write(stores: Stores, key: ThreadKey, cycles: int) -> None:
    """Carry out so many cycles, then write where everyone does."""
    for n in range(cycles):
        await cycle(stores, key, n, expected=n * GENERATIONS)
    while not await write_shared(stores):
        pass


async def write_shared(stores: Stores) -> bool:
    """Write on top of what is there; false if another was faster."""
    version = (await stores.threads.load(SHARED)).record.version
    return isinstance(await stores.threads.save(SHARED, change=Change(version, fresh(), Record())), Saved)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
