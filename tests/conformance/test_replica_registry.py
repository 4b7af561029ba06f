"""ReplicaRegistry, on every adapter."""

from __future__ import annotations

import asyncio

from stores.ports import Stores
from tests.conformance.adapters import Adapter
from tests.conformance.examples import tick


async def test_nobody_is_seen_at_first(stores: Stores) -> None:
    assert await stores.replicas.seen() == {}


async def test_a_heartbeat_is_seen_by_others_with_its_age(adapter: Adapter, stores: Stores) -> None:
    await stores.replicas.heartbeat("holder-1", label="replica-a")
    seen = await (await adapter.open_another()).replicas.seen()
    assert set(seen) == {"holder-1"}
    assert 0.0 <= seen["holder-1"] < 60.0


async def test_the_age_is_counted_from_the_last_heartbeat_on_one_clock(stores: Stores) -> None:
    await stores.replicas.heartbeat("holder-1", label="a")
    await tick(stores)
    await stores.replicas.heartbeat("holder-2", label="b")
    await tick(stores)
    before = await stores.replicas.seen()
    assert before["holder-1"] > before["holder-2"]
    await stores.replicas.heartbeat("holder-1", label="a")
    after = await stores.replicas.seen()
    assert after["holder-1"] < after["holder-2"]
    assert after["holder-2"] >= before["holder-2"]


async def test_a_process_has_one_row_whatever_its_label(stores: Stores) -> None:
    for label in ("a", "a", "b", ""):
        await stores.replicas.heartbeat("holder-1", label=label)
    await stores.replicas.heartbeat("holder-2", label="a")
    assert set(await stores.replicas.seen()) == {"holder-1", "holder-2"}


async def test_a_forgotten_holder_is_seen_no_more_until_it_speaks_again(stores: Stores) -> None:
    await stores.replicas.heartbeat("holder-1", label="a")
    await stores.replicas.heartbeat("holder-2", label="b")
    await stores.replicas.forget("holder-1")
    await stores.replicas.forget("unheard-of")
    assert set(await stores.replicas.seen()) == {"holder-2"}
    await stores.replicas.heartbeat("holder-1", label="a")
    assert set(await stores.replicas.seen()) == {"holder-1", "holder-2"}


async def test_many_processes_can_speak_at_once(adapter: Adapter, stores: Stores) -> None:
    others = [await adapter.open_another() for _ in range(16)]
    beats = [each.replicas.heartbeat(f"holder-{n % 4}", label="a") for n, each in enumerate(others)]
    await asyncio.gather(*beats)
    assert set(await stores.replicas.seen()) == {f"holder-{n}" for n in range(4)}


async def test_the_check_of_stores_that_are_there_passes_and_leaves_nothing_to_see(stores: Stores) -> None:
    await stores.check()
    await stores.check()
    assert await stores.replicas.seen() == {}
