"""Claims that could not be let go at once: each is tried again, and none stands in another's way."""

from __future__ import annotations

from dataclasses import replace

from app.releases import Releases
from stores.memory import MemoryWorld, memory_stores
from stores.ports import Change, Stores
from stores.records import Claim, Record, Run, RunState, Scope, ThreadKey

DAMAGED = ThreadKey(Scope("s"), "payments", "damaged")
HEALTHY = replace(DAMAGED, thread_id="healthy")


async def claimed(stores: Stores, key: ThreadKey) -> None:
    record = Record(claim=Claim("attempt-1", "holder-1", "run-1", 10_000.0))
    run = Run("run-1", "input", RunState.RUNNING, "attempt-1")
    await stores.threads.save(
        key, change=Change((await stores.threads.load(key)).record.version, "w", record, runs=[run])
    )


async def test_a_thread_that_can_not_be_read_keeps_no_other_from_being_let_go() -> None:
    world = MemoryWorld(lambda: 1_000.0)
    stores = memory_stores(world)
    releases = Releases(stores, holder="holder-1", retries_max=8)
    for key in (DAMAGED, HEALTHY):
        await claimed(stores, key)
    for field in ("format", "occurrences"):
        world.threads[DAMAGED].record = world.threads[DAMAGED].record.replace(f'"{field}"', '"unheard_of"')
        releases.remember(DAMAGED, "attempt-0")
        releases.remember(HEALTHY, "attempt-1")

        await releases.release_again()

    assert (await stores.threads.load(HEALTHY)).record.claim is None
