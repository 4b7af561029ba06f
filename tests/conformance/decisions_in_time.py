"""What stores decide by the time, as answers to compare; as a program, in a process whose clock may be wrong.

python -m tests.conformance.decisions_in_time THREADS DATABASE_URL REDIS_URL NAME
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from dataclasses import replace
from typing import Any

from stores import open_stores
from stores.options import RedisOptions, StoreOptions
from stores.ports import Stores
from stores.records import Record
from tests.conformance.examples import (
    KEY,
    claim,
    idempotent,
    now_of,
    read,
    reservation,
    reserve,
    run,
    saved,
    tick,
)

SECONDS = 20.0
"""Less than clocks are wrong by, and more than all of this takes."""

Answers = dict[str, Any]


async def decisions(stores: Stores, name: str) -> Answers:
    """Take every decision that depends on the time, in threads called `name`, and return what was decided."""
    threads = {each: replace(KEY, thread_id=f"{name} {each}") for each in ("past", "now", "future", "held", "open")}
    rows = replace(KEY, thread_id=f"{name} rows")
    now = await now_of(stores)
    for each, due_at in (("past", now - SECONDS), ("now", None), ("future", now + SECONDS)):
        await saved(stores, Record(), key=threads[each], due_at=due_at, runs=[run(each)])
    await saved(stores, Record(claim=claim(until=now + SECONDS, holder="alive")), key=threads["held"])
    await stores.threads.open(
        threads["open"], run=run(), holder="alive", claim_seconds=SECONDS, write_id=f"open {name}"
    )
    await reserve(stores, "attempt-1", reservation("held"), key=rows, lasts=SECONDS)
    await reserve(stores, "attempt-1", reservation("free"), key=rows, lasts=-SECONDS)
    for each, lifetime in (("young", SECONDS), ("old", 0.0)):
        wanted = idempotent(each, key_lifetime_seconds=lifetime, begin=True)
        await reserve(stores, "attempt-1", wanted, key=rows, lasts=-SECONDS)
    await tick(stores)
    await stores.replicas.heartbeat(f"holder {name}", label=name)
    held = (await stores.threads.load(threads["open"])).record.claim
    young = await read(stores, "young", rows)
    return {
        "due": await _named(stores, name),
        "old": [await _old(stores, name, seconds) for seconds in (0.0, SECONDS)],
        "reserve": {
            each: type(await reserve(stores, "attempt-2", idempotent(each), key=rows)).__name__
            for each in ("held", "free", "young", "old")
        },
        "clock": now,
        "until": held and held.until,
        "begun at": await now_of(stores) - ((young and young.begun_age_seconds) or 0.0),
        "beat at": await now_of(stores) - (await stores.replicas.seen())[f"holder {name}"],
    }


async def _named(stores: Stores, name: str) -> list[str]:
    due = await stores.threads.due(alive=["alive"], limit=1_000)
    return sorted(key.thread_id.removeprefix(name) for key in due if key.thread_id.startswith(f"{name} "))


async def _old(stores: Stores, name: str, age_seconds: float) -> list[str]:
    runs = (await stores.threads.old(age_seconds=age_seconds, limit=1_000)).runs
    return sorted(each.run_id for each in runs if each.key.thread_id.startswith(f"{name} "))


async def main(threads: str, database_url: str, redis_url: str, name: str) -> None:
    """Print the answers, with what this process takes the time for."""
    async with open_stores(StoreOptions(threads, database_url=database_url, redis=RedisOptions(redis_url))) as stores:
        print(json.dumps({"answers": await decisions(stores, name), "host": time.time()}))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
