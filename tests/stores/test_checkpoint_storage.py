"""Upstream's CheckpointStorage over every CheckpointStore: what it gives back, and what it refuses to believe."""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import replace
from typing import Any

import pytest
from agent_framework import CheckpointStorage, WorkflowCheckpoint, WorkflowCheckpointException

from app.upstream import decode_checkpoint, encode_checkpoint
from stores.checkpoint_storage import ThreadCheckpointStorage
from stores.ports import Stores
from stores.records import Scope, ThreadKey
from stores.sealing import Seal
from tests.conformance.adapters import Adapter
from tests.stores.workflows import NAME, REFUND_TYPE, Refund, Unlisted, refunding

OLD, NEW = b"o" * 32, b"n" * 32
KEY = ThreadKey(Scope("tenant-1"), "refunds", "thread-1")
HEAD_FIELDS = 4


def storage_of(
    stores: Stores,
    key: ThreadKey = KEY,
    *,
    keys: tuple[bytes, ...] = (OLD,),
    types: Collection[str] = (REFUND_TYPE,),
    keep: int = 20,
    keep_ids: Collection[str] = (),
) -> ThreadCheckpointStorage:
    return ThreadCheckpointStorage(
        stores.checkpoints,
        key,
        seal=Seal(keys),
        encode=encode_checkpoint,
        decode=decode_checkpoint,
        allowed_types=types,
        keep=keep,
        keep_ids=lambda: keep_ids,
    )


def checkpoint(name: str, *, workflow: str = NAME, timestamp: str = "2030-01-01T00:00:00+00:00", **state: Any) -> Any:
    return WorkflowCheckpoint(workflow, "graph", checkpoint_id=name, timestamp=timestamp, state=state)


async def plant(stores: Stores, blob: bytes, *, name: str = "c1", key: ThreadKey = KEY, position: float = 1.0) -> None:
    """Put a blob where the storage looks, by the port alone."""
    await stores.checkpoints.save(key, checkpoint_id=name, workflow=NAME, blob=blob, created_at=position)


async def blob_of(stores: Stores, name: str = "c1") -> bytes:
    blob = await stores.checkpoints.load(KEY, checkpoint_id=name)
    assert blob is not None
    return blob


async def reasons(storage: CheckpointStorage, name: str) -> set[str]:
    """What every kind of read says when its newest checkpoint is `name`; each has to refuse, and to name it."""
    found = set()
    for read in (
        storage.load(name),
        storage.get_latest(workflow_name=NAME),
        storage.list_checkpoints(workflow_name=NAME),
    ):
        with pytest.raises(WorkflowCheckpointException, match=f"^Checkpoint '{name}' can not be used: ") as refused:
            await read
        found.add(str(refused.value).partition("used: ")[2])
    return found


async def test_a_workflow_pauses_in_one_process_and_goes_on_in_another(adapter: Adapter) -> None:
    here = storage_of(await adapter.open_another())
    paused = await refunding(here).run("INV-1")
    (asked,) = paused.get_request_info_events()
    pause = await here.get_latest(workflow_name=NAME)
    assert pause is not None

    there = storage_of(await adapter.open_another())
    resumed = await refunding(there).run(checkpoint_id=pause.checkpoint_id, responses={asked.request_id: True})

    assert asked.data == Refund("INV-1", 1_250)
    assert resumed.get_outputs() == ["INV-1: 1250"]
    assert here.refused is None


async def test_a_checkpoint_comes_back_as_it_was(stores: Stores) -> None:
    saved = checkpoint("c1", refund=Refund("INV-ü\ud800", 1), seen={1, 2}, pair=(1, "2"), ratio=0.1)

    assert await storage_of(stores).save(saved) == "c1"

    assert await storage_of(stores).load("c1") == saved


async def test_a_type_that_could_not_be_loaded_is_refused_when_it_is_saved(stores: Stores) -> None:
    storage = storage_of(stores)

    with pytest.raises(WorkflowCheckpointException, match=r"'c1' is not saved.*tests\.stores\.workflows:Unlisted"):
        await storage.save(checkpoint("c1", value=Unlisted()))

    assert isinstance(storage.refused, WorkflowCheckpointException)
    assert await storage.list_checkpoint_ids(workflow_name=NAME) == []


async def test_a_value_that_has_no_stored_form_is_refused_when_it_is_saved(stores: Stores) -> None:
    with pytest.raises(WorkflowCheckpointException, match=r"'c1' is not saved.*generator"):
        await storage_of(stores).save(checkpoint("c1", value=(each for each in "ab")))


async def test_a_pause_that_could_not_be_saved_is_known_although_upstream_goes_on(stores: Stores) -> None:
    storage = storage_of(stores, types=())

    paused = await refunding(storage).run("INV-1")

    assert len(paused.get_request_info_events()) == 1
    assert REFUND_TYPE in str(storage.refused)


async def test_a_planted_type_is_not_made_even_under_a_valid_signature(stores: Stores) -> None:
    payload = json.dumps(encode_checkpoint(checkpoint("c1", value=Unlisted()).to_dict())).encode()
    place = (KEY.scope, KEY.agent, KEY.thread_id, "c1")
    await plant(stores, Seal([OLD]).sealed(payload, place=place, position=1))
    made_before = Unlisted.made

    found = await reasons(storage_of(stores), "c1")

    assert found == {"it holds a type that is not allowed here, or was made by another version of agent-framework."}
    assert Unlisted.made == made_before
    await storage_of(stores, types=["tests.stores.workflows:Unlisted"]).load("c1")
    assert Unlisted.made == made_before + 1


async def test_a_change_at_any_place_of_the_blob_is_refused(stores: Stores) -> None:
    storage = storage_of(stores)
    await storage.save(checkpoint("c1"))
    blob = await blob_of(stores)
    await storage.load("c1")

    for place in range(len(blob)):
        changed = bytearray(blob)
        changed[place] ^= 1 << place % 8
        await plant(stores, bytes(changed))
        with pytest.raises(WorkflowCheckpointException, match=r"^Checkpoint 'c1' can not be used"):
            await storage.load("c1")


async def test_a_blob_cut_short_at_any_place_is_refused(stores: Stores) -> None:
    storage = storage_of(stores)
    await storage.save(checkpoint("c1"))
    blob = await blob_of(stores)

    for length in range(len(blob)):
        await plant(stores, blob[:length])
        with pytest.raises(WorkflowCheckpointException, match=r"^Checkpoint 'c1' can not be used"):
            await storage.load("c1")


@pytest.mark.parametrize(
    "elsewhere",
    [
        pytest.param((replace(KEY, scope=Scope("tenant-2")), "c1"), id="scope"),
        pytest.param((replace(KEY, agent="payments"), "c1"), id="agent"),
        pytest.param((replace(KEY, thread_id="thread-2"), "c1"), id="thread"),
        pytest.param((KEY, "c2"), id="checkpoint id"),
        pytest.param((ThreadKey(Scope("tenant-1r"), "efunds", "thread-1"), "c1"), id="parts shifted by a letter"),
    ],
)
async def test_a_blob_that_was_moved_elsewhere_is_refused(stores: Stores, elsewhere: tuple[ThreadKey, str]) -> None:
    key, name = elsewhere
    await storage_of(stores).save(checkpoint("c1"))
    await plant(stores, await blob_of(stores), name=name, key=key, position=2.0)

    found = await reasons(storage_of(stores, key), name)

    assert found == {"its signature does not fit: it was changed, or it was made for another place."}


async def test_a_checkpoint_that_was_moved_to_another_workflow_is_refused(stores: Stores) -> None:
    storage = storage_of(stores)
    await storage.save(checkpoint("c1", workflow="payouts"))
    await plant(stores, await blob_of(stores))

    with pytest.raises(WorkflowCheckpointException, match="'c1' can not be used: it belongs to another workflow"):
        await storage.get_latest(workflow_name=NAME)
    with pytest.raises(WorkflowCheckpointException, match="'c1' can not be used: it belongs to another workflow"):
        await storage.list_checkpoints(workflow_name=NAME)


@pytest.mark.parametrize(
    ("blob", "reason"),
    [
        pytest.param(b"", "it is damaged, or was never signed.", id="empty"),
        pytest.param(b'{"workflow_name": "refunds"}', "it is damaged, or was never signed.", id="unsigned"),
        pytest.param(b"2 whatever comes\nthen", "its format is newer than this version can read.", id="newer format"),
    ],
)
async def test_a_newest_checkpoint_that_is_not_ours_is_an_error_and_no_older_one_is_used(
    stores: Stores, blob: bytes, reason: str
) -> None:
    storage = storage_of(stores)
    await storage.save(checkpoint("c1"))
    await plant(stores, blob, name="c2", position=2.0)

    assert await reasons(storage, "c2") == {reason}
    assert await storage.list_checkpoint_ids(workflow_name=NAME) == ["c1", "c2"]
    with pytest.raises(WorkflowCheckpointException, match="'c2' can not be used"):
        await storage.save(checkpoint("c3"))
    assert await storage.delete("c2")
    assert await storage.get_latest(workflow_name=NAME) == await storage.load("c1")


async def test_a_checkpoint_that_was_never_saved_is_an_error_that_names_it(stores: Stores) -> None:
    storage = storage_of(stores)

    with pytest.raises(WorkflowCheckpointException, match="Checkpoint 'c9' can not be used: there is none"):
        await storage.load("c9")
    assert await storage.get_latest(workflow_name=NAME) is None
    assert not await storage.delete("c9")


async def test_a_key_is_replaced_while_both_are_there_and_refused_once_it_is_gone(stores: Stores) -> None:
    await storage_of(stores, keys=(OLD,)).save(checkpoint("c1"))
    both = storage_of(stores, keys=(NEW, OLD))
    await both.load("c1")
    await both.save(checkpoint("c2"))
    only_new = storage_of(stores, keys=(NEW,))

    await only_new.load("c2")

    with pytest.raises(WorkflowCheckpointException, match="'c1' can not be used: it was signed with a key that is not"):
        await only_new.load("c1")


async def test_a_thread_whose_key_is_gone_goes_on_with_new_checkpoints(stores: Stores) -> None:
    await storage_of(stores, keys=(OLD,)).save(checkpoint("c1"))
    storage = storage_of(stores, keys=(NEW,))

    await storage.save(checkpoint("c0"))

    assert await storage.list_checkpoint_ids(workflow_name=NAME) == ["c1", "c0"]
    assert (await storage.get_latest(workflow_name=NAME)) == await storage.load("c0")


async def test_no_blob_contains_a_key(stores: Stores) -> None:
    await storage_of(stores).save(checkpoint("c1"))

    blob = await blob_of(stores)

    assert OLD not in blob
    assert OLD.hex().encode() not in blob
    assert len(blob.partition(b"\n")[0].split(b" ")) == HEAD_FIELDS


async def test_the_newest_is_what_was_saved_last_whatever_the_hosts_clocks_say(adapter: Adapter) -> None:
    ahead, behind = storage_of(await adapter.open_another()), storage_of(await adapter.open_another())
    await ahead.save(checkpoint("b", timestamp="2030-01-01T00:01:00+00:00"))
    await behind.save(checkpoint("a", timestamp="2029-12-31T23:59:00+00:00"))
    await ahead.save(checkpoint("c", timestamp="2030-01-01T00:01:01+00:00"))
    await behind.save(checkpoint("0", timestamp="2029-12-31T23:59:01+00:00"))

    assert await ahead.list_checkpoint_ids(workflow_name=NAME) == ["b", "a", "c", "0"]
    latest = await ahead.get_latest(workflow_name=NAME)
    assert latest is not None
    assert latest.checkpoint_id == "0"


async def test_a_checkpoint_saved_again_is_the_newest(stores: Stores) -> None:
    storage = storage_of(stores)
    for name in ("a", "b", "a"):
        await storage.save(checkpoint(name))

    assert await storage.list_checkpoint_ids(workflow_name=NAME) == ["b", "a"]


async def test_only_the_newest_are_kept_of_each_workflow(stores: Stores) -> None:
    storage = storage_of(stores, keep=2)
    await storage.save(checkpoint("other", workflow="payouts"))
    for name in ("e", "d", "c", "b", "a"):
        await storage.save(checkpoint(name))

    assert await storage.list_checkpoint_ids(workflow_name=NAME) == ["b", "a"]
    assert await storage.list_checkpoint_ids(workflow_name="payouts") == ["other"]


async def test_what_an_open_pause_points_to_is_kept_for_as_long_as_it_does(stores: Stores) -> None:
    await storage_of(stores).save(checkpoint("pause"))
    paused = storage_of(stores, keep=2, keep_ids=["pause"])
    for name in ("a", "b", "c", "d"):
        await paused.save(checkpoint(name))

    assert await paused.list_checkpoint_ids(workflow_name=NAME) == ["pause", "c", "d"]
    await storage_of(stores, keep=2).save(checkpoint("e"))
    assert await paused.list_checkpoint_ids(workflow_name=NAME) == ["d", "e"]


async def test_a_thread_is_forgotten_with_all_its_checkpoints_and_no_others(stores: Stores) -> None:
    storage, neighbour = storage_of(stores), storage_of(stores, replace(KEY, thread_id="thread-2"))
    for name in ("a", "b"):
        await storage.save(checkpoint(name))
    await neighbour.save(checkpoint("a"))

    assert await storage.forget() == 2
    assert await storage.list_checkpoints(workflow_name=NAME) == []
    assert await neighbour.list_checkpoint_ids(workflow_name=NAME) == ["a"]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        pytest.param("ab" * 31, "shorter than 32 bytes", id="short"),
        pytest.param("xy" * 32, "not in hexadecimal digits", id="no hex"),
        pytest.param(f"{'ab' * 32},", "shorter than 32 bytes", id="empty second key"),
    ],
)
def test_a_key_that_is_no_key_is_refused_without_telling_it(text: str, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence) as refused:
        Seal.from_text(text)

    assert text[:8] not in str(refused.value)


def test_there_is_no_seal_without_a_key() -> None:
    with pytest.raises(ValueError, match="no key"):
        Seal([])
