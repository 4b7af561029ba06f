"""All ports: of a thread that has lost one part the others are shown as they were, and nothing is made up for it."""

from __future__ import annotations

from dataclasses import replace
from typing import get_args

import pytest

from stores.errors import PartMissing
from stores.history import CHUNK_CHARACTERS
from stores.ports import Fenced, Loaded, Stores
from stores.records import Effect, Snapshot
from tests.conformance.adapters import BackDoor
from tests.conformance.back_doors.port import Part
from tests.conformance.examples import BAG, KEY, SNAPSHOT, begin, record, reserve, rows_of, saved
from tests.conformance.operations import checkpoints

LONG = Snapshot(messages=({"id": "m1", "content": "x" * CHUNK_CHARACTERS},))


async def seen(stores: Stores) -> tuple[Loaded, dict[str, Effect], list[str]]:
    loaded = replace(await stores.threads.load(KEY), now=0.0, snapshot_bytes=0)
    rows = dict(await rows_of(stores, "interrupt-1"))
    return loaded, rows, list(await stores.checkpoints.list(KEY, workflow="w"))


@pytest.mark.parametrize("part", [each for each in get_args(Part) if each != "chunk"])
async def test_a_lost_part_is_missing_and_the_others_are_as_they_were(
    stores: Stores, back_door: BackDoor, part: Part
) -> None:
    await saved(stores, record("interrupt-1"), snapshot=SNAPSHOT, bag=BAG)
    await reserve(stores, "attempt-1")
    await checkpoints(stores, KEY)
    loaded, rows, names = await seen(stores)
    await back_door.lose(KEY, part)
    without = {
        "snapshot": (replace(loaded, snapshot=None), rows, names),
        "record": (replace(loaded, record=record(version=loaded.record.version, pause_id=None)), rows, names),
        "bag": (replace(loaded, bag=None), rows, names),
        "effect": (loaded, {}, names),
        "checkpoints": (loaded, rows, []),
    }
    assert await seen(stores) == without[part]
    if part == "effect":
        assert await begin(stores, "attempt-1") == Fenced()


async def test_a_history_that_lost_a_chunk_is_not_read(stores: Stores, back_door: BackDoor) -> None:
    await saved(stores, record(), snapshot=LONG)
    await back_door.lose(KEY, "chunk")
    with pytest.raises(PartMissing):
        await stores.threads.load(KEY)
