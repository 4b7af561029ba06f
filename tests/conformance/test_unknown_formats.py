"""All ports: a stored value in a format that this version does not know is not read, and nothing takes its place."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Any, get_args, get_type_hints

import pytest

from stores.errors import UnknownFormat
from stores.history import CHUNK_CHARACTERS
from stores.ports import Change, Stores
from stores.records import Bag, Chunk, Record, Run, Snapshot, ToolResult, to_json
from tests.conformance.adapters import BackDoor
from tests.conformance.examples import (
    BAG,
    KEY,
    OTHER_RESULT,
    SNAPSHOT,
    batch,
    begun,
    finished,
    occurrence,
    read,
    reservation,
    reserve,
    resolve,
    run,
    saved,
    settle,
    version_of,
)

Step = Callable[[Stores], Awaitable[Any]]

NOTE = {"note": "MARK"}
LONG = {"id": "m1", "content": "MARK" + "x" * CHUNK_CHARACTERS}


@dataclass(frozen=True, slots=True)
class Stored:
    """One kind of stored value: what stores one, and every call that must look at it (some if `Stores.shared`)."""

    store: Step
    looks: tuple[Step, ...]
    looks_if_shared: tuple[Step, ...] = ()


def _save(changed: Record, **parts: Any) -> Step:
    return lambda stores: saved(stores, changed, **parts)


async def _settled(stores: Stores) -> None:
    await begun(stores, "attempt-1")
    await settle(stores, "attempt-1", ToolResult((NOTE,)))


async def _save_with_batch(stores: Stores) -> None:
    wanted = await batch(stores, "attempt-2", reservation())
    await stores.threads.save(KEY, change=Change(await version_of(stores), "write-9", Record(), batch=wanted))


def _open(run_id: str) -> Step:
    return lambda s: s.threads.open(KEY, run=run(run_id), holder="h", claim_seconds=60.0, write_id="open-1")


LOAD_OR_OPEN = (lambda s: s.threads.load(KEY), _open("run-9"))
STORED: dict[type, Stored] = {
    Record: Stored(_save(Record(occurrences=(occurrence(upstream=NOTE),))), LOAD_OR_OPEN),
    Snapshot: Stored(_save(Record(), snapshot=replace(SNAPSHOT, state=NOTE)), LOAD_OR_OPEN),
    Chunk: Stored(_save(Record(), snapshot=replace(SNAPSHOT, messages=(LONG,))), LOAD_OR_OPEN),
    Bag: Stored(_save(Record(), bag=replace(BAG, state=NOTE)), LOAD_OR_OPEN),
    Run: Stored(
        _save(Record(), runs=[finished("run-1", "interrupt-0", events=(NOTE,))]),
        (
            lambda s: s.threads.load(KEY, interrupts=["interrupt-0"]),
            lambda s: s.threads.load(KEY, run_id="run-1"),
            lambda s: s.threads.outcome(KEY, interrupt="alias-of-interrupt-0"),
            lambda s: s.threads.outcome(KEY, run_id="run-1"),
            _open("run-1"),
        ),
    ),
    ToolResult: Stored(
        _settled,
        (
            read,
            lambda s: reserve(s, "attempt-2"),
            lambda s: settle(s, "attempt-1"),
            lambda s: resolve(s, OTHER_RESULT),
            lambda s: resolve(s, None),
            lambda s: s.effects.close(KEY, interrupts={"interrupt-1": "rejected"}),
        ),
        (_save_with_batch,),
    ),
}


def test_every_kind_of_stored_value_is_tried() -> None:
    assert set(STORED) == set(get_args(get_type_hints(to_json)["value"]))


@pytest.mark.parametrize("kind", list(STORED), ids=lambda kind: kind.__name__)
async def test_a_value_in_an_unknown_format_is_not_read_and_not_replaced(
    stores: Stores, back_door: BackDoor, kind: type
) -> None:
    stored = STORED[kind]
    # The other parts are there too, and in order.
    await saved(stores, Record(), snapshot=SNAPSHOT, bag=BAG, runs=[finished("run-0")])
    await stored.store(stores)
    await stored.looks[0](stores)
    assert await back_door.age_format("MARK") == 1
    looks = stored.looks + (stored.looks_if_shared if stores.shared else ())
    # Twice: what a call that failed left behind would be read by the next.
    for look in looks * 2:
        with pytest.raises(UnknownFormat):
            await look(stores)
