"""CheckpointStore, on every adapter."""

from __future__ import annotations

import asyncio

import pytest

from stores.ports import Stores
from stores.records import ThreadKey
from tests.conformance.adapters import Adapter
from tests.conformance.examples import KEY, NEIGHBOURS

EVERY_BYTE = bytes(range(256))


async def save(
    stores: Stores,
    checkpoint_id: str,
    created_at: float,
    *,
    blob: bytes = b"blob",
    workflow: str = "refunds",
    key: ThreadKey = KEY,
) -> None:
    await stores.checkpoints.save(key, checkpoint_id=checkpoint_id, workflow=workflow, blob=blob, created_at=created_at)


async def test_a_saved_blob_is_loaded_byte_for_byte_by_another_connection(adapter: Adapter, stores: Stores) -> None:
    await save(stores, "c1", 1.0, blob=EVERY_BYTE)
    await save(stores, "c2", 2.0, blob=b"")
    other = await adapter.open_another()
    assert await other.checkpoints.load(KEY, checkpoint_id="c1") == EVERY_BYTE
    assert await other.checkpoints.load(KEY, checkpoint_id="c2") == b""
    assert await other.checkpoints.load(KEY, checkpoint_id="c3") is None


async def test_a_megabyte_is_kept(stores: Stores) -> None:
    blob = EVERY_BYTE * 4_096
    await save(stores, "c1", 1.0, blob=blob)
    assert await stores.checkpoints.load(KEY, checkpoint_id="c1") == blob


async def test_checkpoints_of_a_workflow_are_listed_oldest_first(stores: Stores) -> None:
    for checkpoint_id, created_at in (("b", 3.5), ("a", 3.25), ("c", 1.0), ("d", 1_700_000_000.123)):
        await save(stores, checkpoint_id, created_at)
    await save(stores, "e", 2.0, workflow="other")
    assert list(await stores.checkpoints.list(KEY, workflow="refunds")) == ["c", "a", "b", "d"]
    assert list(await stores.checkpoints.list(KEY, workflow="other")) == ["e"]
    assert list(await stores.checkpoints.list(KEY, workflow="none")) == []


async def test_a_checkpoint_saved_again_is_replaced(stores: Stores) -> None:
    await save(stores, "a", 1.0, blob=b"old")
    await save(stores, "b", 2.0)
    await save(stores, "a", 3.0, blob=b"new")
    assert await stores.checkpoints.load(KEY, checkpoint_id="a") == b"new"
    assert list(await stores.checkpoints.list(KEY, workflow="refunds")) == ["b", "a"]


async def test_a_deleted_checkpoint_is_gone_and_a_second_delete_says_so(stores: Stores) -> None:
    await save(stores, "a", 1.0)
    await save(stores, "b", 2.0)
    assert await stores.checkpoints.delete(KEY, checkpoint_id="a") is True
    assert await stores.checkpoints.delete(KEY, checkpoint_id="a") is False
    assert await stores.checkpoints.load(KEY, checkpoint_id="a") is None
    assert list(await stores.checkpoints.list(KEY, workflow="refunds")) == ["b"]


@pytest.mark.parametrize(
    ("keep", "left"), [(0, []), (1, ["d"]), (3, ["b", "c", "d"]), (4, list("abcd")), (9, list("abcd"))]
)
async def test_pruning_keeps_the_newest_of_its_workflow(stores: Stores, keep: int, left: list[str]) -> None:
    for checkpoint_id, created_at in (("d", 4.0), ("b", 2.0), ("a", 1.0), ("c", 3.0)):
        await save(stores, checkpoint_id, created_at)
    await save(stores, "other-1", 0.0, workflow="other")
    assert await stores.checkpoints.prune(KEY, workflow="refunds", keep=keep) == 4 - len(left)
    assert list(await stores.checkpoints.list(KEY, workflow="refunds")) == left
    assert [name for name in "abcd" if await stores.checkpoints.load(KEY, checkpoint_id=name) is not None] == left
    assert list(await stores.checkpoints.list(KEY, workflow="other")) == ["other-1"]


async def test_of_checkpoints_of_one_moment_the_asked_number_is_kept(stores: Stores) -> None:
    for name in "abcd":
        await save(stores, name, 1.0)
    assert await stores.checkpoints.prune(KEY, workflow="refunds", keep=1) == 3
    assert len(await stores.checkpoints.list(KEY, workflow="refunds")) == 1


@pytest.mark.parametrize("neighbour", NEIGHBOURS)
async def test_checkpoints_of_another_thread_are_not_seen_and_not_touched(stores: Stores, neighbour: ThreadKey) -> None:
    await save(stores, "a", 1.0, blob=b"mine")
    assert await stores.checkpoints.load(neighbour, checkpoint_id="a") is None
    assert list(await stores.checkpoints.list(neighbour, workflow="refunds")) == []
    assert await stores.checkpoints.delete(neighbour, checkpoint_id="a") is False
    assert await stores.checkpoints.prune(neighbour, workflow="refunds", keep=0) == 0
    await save(stores, "a", 1.0, blob=b"theirs", key=neighbour)
    assert await stores.checkpoints.load(KEY, checkpoint_id="a") == b"mine"


async def test_sixteen_saves_of_one_checkpoint_leave_one_of_them_whole(adapter: Adapter, stores: Stores) -> None:
    others = [await adapter.open_another() for _ in range(16)]
    blobs = [bytes([n]) * 10_000 for n in range(16)]
    await asyncio.gather(*(save(each, "a", float(n), blob=blobs[n]) for n, each in enumerate(others)))
    assert await stores.checkpoints.load(KEY, checkpoint_id="a") in blobs
    assert list(await stores.checkpoints.list(KEY, workflow="refunds")) == ["a"]


async def test_a_prune_counts_the_checkpoints_of_its_workflow_alone(stores: Stores) -> None:
    for number, name in enumerate("ab"):
        await save(stores, name, float(number))
        await save(stores, f"other-{name}", 10.0 + number, workflow="other")
    assert await stores.checkpoints.prune(KEY, workflow="refunds", keep=2) == 0
    assert list(await stores.checkpoints.list(KEY, workflow="refunds")) == ["a", "b"]
