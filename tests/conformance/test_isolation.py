"""All ports: no operation sees or touches what another scope, agent or thread has under the same ids."""

from __future__ import annotations

from dataclasses import replace

import pytest

from stores.ports import Stores
from stores.records import Scope, ThreadKey
from tests.conformance.examples import KEY, NEIGHBOURS
from tests.conformance.operations import (
    OF_NO_THREAD,
    OPERATIONS,
    PORTS,
    Operation,
    name_of,
    thread_and_rows,
    timeless,
    view,
)

EMPTY = ThreadKey(Scope("elsewhere"), "nobody", "nothing")


def test_every_operation_of_every_port_is_tried() -> None:
    declared = {
        f"{port}.{name}"
        for port, protocol in PORTS.items()
        for name, member in vars(protocol).items()
        if callable(member) and not name.startswith("_")
    }
    assert declared == {operation.name.partition(" ")[0] for operation in OPERATIONS} | set(OF_NO_THREAD)


@pytest.mark.parametrize("operation", OPERATIONS, ids=name_of)
async def test_an_operation_on_a_neighbour_finds_nothing_and_leaves_everything(
    stores: Stores, operation: Operation
) -> None:
    operation.skip_unless_possible(stores)
    await operation.prepare(stores, KEY)
    before = await view(stores, KEY)
    in_nothing = timeless(await operation.call(stores, EMPTY))
    # A list, or a count, is asked of a scope, and tells what its other agents and threads wait for.
    for neighbour in NEIGHBOURS[:1] if operation.name in {"threads.list", "threads.count_open"} else NEIGHBOURS:
        assert timeless(await operation.call(stores, neighbour)) == in_nothing
    assert await view(stores, KEY) == before

    # It would have found or changed something here.
    answer = timeless(await operation.call(stores, KEY))
    assert answer != in_nothing or await view(stores, KEY) != before


async def test_a_batch_and_a_freed_attempt_of_a_neighbour_leave_the_rows(stores: Stores) -> None:
    if not stores.shared:
        pytest.skip("these stores keep threads and effects apart")
    await thread_and_rows(stores, KEY)
    before = await view(stores, KEY)
    with_batch = next(each for each in OPERATIONS if each.name == "threads.save with a batch")
    for neighbour in NEIGHBOURS:
        await thread_and_rows(stores, neighbour)
        assert with_batch.is_yours(await with_batch.call(stores, neighbour))
    assert await view(stores, KEY) == before


async def test_two_scopes_with_equal_ids_share_no_name_of_a_blob(stores: Stores) -> None:
    mine, theirs = KEY, replace(KEY, scope=Scope(KEY.scope.upper()))
    for key, blob in ((mine, b"mine"), (theirs, b"theirs")):
        await stores.checkpoints.save(key, checkpoint_id="c", workflow="w", blob=blob, created_at=1.0)
    await stores.checkpoints.forget(theirs)
    assert await stores.checkpoints.load(mine, checkpoint_id="c") == b"mine"
