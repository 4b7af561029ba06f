"""Every operation of every port, each on a thread where it finds something: what faults are tried with."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import pytest

from stores.ports import (
    AlreadySettled,
    Batch,
    Began,
    Change,
    CheckpointStore,
    Closed,
    EffectLedger,
    Fenced,
    Loaded,
    Lost,
    Opened,
    ReplicaRegistry,
    Reserved,
    Saved,
    Settled,
    Stores,
    ThreadStore,
)
from stores.records import Bag, EffectKind, Record, Snapshot, ThreadKey, ToolResult, Version
from tests.conformance.examples import (
    BAG,
    OTHER_RESULT,
    RESULT,
    SNAPSHOT,
    begin,
    finished,
    record,
    reservation,
    resolve,
    rows_of,
    run,
    settle,
)

PORTS = {
    "threads": ThreadStore,
    "effects": EffectLedger,
    "checkpoints": CheckpointStore,
    "replicas": ReplicaRegistry,
}
FAR = 4_000_000_000.0
FIRST = Version(1, "write-1")
ROWS = ("reserved", "begun", "settled", "free", "new", "closed")
CHECKPOINTS = ("c1", "c2")

Call = Callable[[Stores, ThreadKey], Awaitable[Any]]


@dataclass(frozen=True, slots=True)
class Operation:
    """One call with the thread it wants to find; `is_yours` says of an answer that the caller's wish came true."""

    name: str
    prepare: Call
    call: Call
    is_yours: Callable[[Any], bool] = lambda answer: True
    is_read: bool = False
    needs: str | None = None

    def skip_unless_possible(self, stores: Stores) -> None:
        """Skip the test where the stores lack the capability that this needs."""
        if self.needs is not None and not getattr(stores, self.needs):
            pytest.skip(f"these stores are not {self.needs}")


async def quiet_thread(stores: Stores, key: ThreadKey) -> None:
    """A thread that has two finished runs and nothing open."""
    runs = [finished("run-1", "interrupt-0"), finished("run-2")]
    await stores.threads.save(key, change=Change(Version(), FIRST.write_id, Record(), SNAPSHOT, BAG, runs))


async def open_thread(stores: Stores, key: ThreadKey) -> None:
    """A thread that waits for a decision."""
    await stores.threads.save(key, change=Change(Version(), FIRST.write_id, record("interrupt-1"), SNAPSHOT, BAG))


async def rows(stores: Stores, key: ThreadKey) -> None:
    """One row of the ledger in every state; attempt-1 holds all but the one that is free."""
    held = tuple(map(reservation, ("reserved", "begun", "settled")))
    await stores.effects.reserve(key, batch=Batch("attempt-1", "holder-1", FAR, held))
    await stores.effects.reserve(key, batch=Batch("attempt-0", "holder-0", 0.0, (reservation("free"),)))
    for name in ("begun", "settled"):
        await begin(stores, "attempt-1", name, key)
    await settle(stores, "attempt-1", RESULT, "settled", key)


async def transactional_row(stores: Stores, key: ThreadKey) -> None:
    """A row that is reserved for a tool that writes in the ledger's database."""
    wanted = reservation("reserved", kind=EffectKind.TRANSACTIONAL)
    await stores.effects.reserve(key, batch=Batch("attempt-1", "holder-1", FAR, (wanted,)))


async def thread_and_rows(stores: Stores, key: ThreadKey) -> None:
    """A quiet thread with its ledger."""
    await quiet_thread(stores, key)
    await rows(stores, key)


async def checkpoints(stores: Stores, key: ThreadKey) -> None:
    """Two checkpoints of one workflow."""
    for n, name in enumerate(CHECKPOINTS):
        blob = name.encode()
        await stores.checkpoints.save(key, checkpoint_id=name, workflow="w", blob=blob, created_at=float(n))


async def view(stores: Stores, key: ThreadKey) -> Mapping[str, object]:
    """Everything that the ports show of a thread, but for what grows older by itself."""
    listed = await stores.threads.list(key.scope, limit=100)
    names = await stores.checkpoints.list(key, workflow="w")
    return {
        "thread": timeless(await stores.threads.load(key, interrupts=["interrupt-0"])),
        "runs": [await stores.threads.outcome(key, run_id=f"run-{n}") for n in (1, 2, 3)],
        "listed": [(each.interrupt_id, each.state) for each in listed if each.key == key],
        "rows": await rows_of(stores, *ROWS, key=key),
        "checkpoints": {name: await stores.checkpoints.load(key, checkpoint_id=name) for name in names},
    }


async def glance(stores: Stores, key: ThreadKey) -> tuple[object, ...]:
    """What one read of each port shows of a thread; each of them is one consistent view."""
    return (
        timeless(await stores.threads.load(key, interrupts=["interrupt-0"], run_id="run-3")),
        await rows_of(stores, *ROWS, key=key),
        await stores.checkpoints.list(key, workflow="w"),
    )


def timeless(answer: Any) -> Any:
    """Return an answer without what the time of the call put into it."""
    match answer:
        case Opened():
            return replace(answer, loaded=timeless(answer.loaded))
        case Loaded(record=Record(claim=claim)):
            claim = None if claim is None else replace(claim, until=0.0)
            return replace(answer, now=0.0, record=replace(answer.record, claim=claim))
        case {"begun": begun, **others}:
            return {**others, "begun": replace(begun, begun_age_seconds=None)}
        case _:
            return answer


CHANGE = Change(FIRST, "write-2", record("interrupt-1"), Snapshot(pause_id="2"), Bag("2"), [run("run-3")], due_at=1.0)
BATCH = Batch("attempt-2", "holder-2", FAR, (reservation("free"), reservation("new")), {"closed": "rejected"})


async def pay(connection: object) -> ToolResult:
    """A tool that writes nothing of its own."""
    return RESULT


def _open(stores: Stores, key: ThreadKey) -> Awaitable[Opened]:
    wanted = run("run-3", attempt="attempt-3")
    return stores.threads.open(key, run=wanted, holder="holder-1", claim_seconds=60.0, write_id="open-1")


def _save(change: Change) -> Call:
    return lambda stores, key: stores.threads.save(key, change=change)


def _is(*kinds: type) -> Callable[[Any], bool]:
    return lambda answer: isinstance(answer, kinds)


def _are_reserved(answers: Mapping[str, object]) -> bool:
    return {type(answer) for answer in answers.values()} == {Reserved, Closed}


OPERATIONS = (
    Operation("threads.open", quiet_thread, _open, lambda answer: answer.claimed),
    Operation(
        "threads.load",
        quiet_thread,
        lambda s, k: s.threads.load(k, interrupts=["interrupt-0"], run_id="run-2"),
        is_read=True,
    ),
    Operation("threads.save", quiet_thread, _save(CHANGE), _is(Saved)),
    Operation(
        "threads.save with a batch",
        thread_and_rows,
        _save(replace(CHANGE, batch=BATCH, free="attempt-1")),
        lambda answer: isinstance(answer, Saved) and _are_reserved(answer.answers),
        needs="shared",
    ),
    Operation(
        "threads.outcome", quiet_thread, lambda s, k: s.threads.outcome(k, interrupt="interrupt-0"), is_read=True
    ),
    Operation("threads.list", open_thread, lambda s, k: s.threads.list(k.scope, limit=9), is_read=True),
    Operation("threads.count_open", open_thread, lambda s, k: s.threads.count_open(k.scope, at_most=9), is_read=True),
    # A repeat finds no thread at that version, and that is what was wanted.
    Operation("threads.delete", open_thread, lambda s, k: s.threads.delete(k, expected=FIRST), _is(Saved, Lost)),
    Operation("threads.purge", quiet_thread, lambda s, k: s.threads.purge(k, run_ids=["run-1"])),
    Operation("threads.purge all", quiet_thread, lambda s, k: s.threads.purge(k, run_ids=["run-1", "run-2"])),
    Operation("effects.reserve", rows, lambda s, k: s.effects.reserve(k, batch=BATCH), _are_reserved),
    Operation("effects.begin", rows, lambda s, k: begin(s, "attempt-1", "reserved", k), _is(Began)),
    Operation(
        "effects.settle",
        rows,
        lambda s, k: settle(s, "attempt-1", OTHER_RESULT, "begun", k),
        lambda answer: answer in (Settled(OTHER_RESULT), AlreadySettled(OTHER_RESULT)),
    ),
    Operation(
        "effects.close",
        rows,
        lambda s, k: s.effects.close(k, interrupts={"free": "expired", "new": "expired"}),
        _is(Closed),
    ),
    Operation("effects.free", rows, lambda s, k: s.effects.free(k, attempt="attempt-1")),
    Operation("effects.read", rows, lambda s, k: s.effects.read(k, interrupts=ROWS), is_read=True),
    Operation("effects.forget", rows, lambda s, k: s.effects.forget(k, interrupts=ROWS)),
    Operation("effects.resolve", rows, lambda s, k: resolve(s, OTHER_RESULT, "begun", k, "attempt-1"), _is(Settled)),
    # A repeat finds a row that is not begun any more.
    Operation(
        "effects.resolve as not happened",
        rows,
        lambda s, k: resolve(s, None, "begun", k, "attempt-1"),
        _is(Reserved, Fenced),
    ),
    Operation(
        "effects.transact",
        transactional_row,
        lambda s, k: s.effects.transact(k, interrupt_id="reserved", attempt="attempt-1", call=pay, seconds=20.0),
        # A repeat finds a row that is settled: nothing runs, and `read` has the result.
        lambda answer: answer in (RESULT, Fenced()),
        needs="transactional",
    ),
    Operation(
        "checkpoints.save",
        checkpoints,
        lambda s, k: s.checkpoints.save(k, checkpoint_id="c1", workflow="w", blob=b"new", created_at=9.0),
    ),
    Operation("checkpoints.load", checkpoints, lambda s, k: s.checkpoints.load(k, checkpoint_id="c1"), is_read=True),
    Operation("checkpoints.list", checkpoints, lambda s, k: s.checkpoints.list(k, workflow="w"), is_read=True),
    Operation("checkpoints.delete", checkpoints, lambda s, k: s.checkpoints.delete(k, checkpoint_id="c1")),
    Operation("checkpoints.prune", checkpoints, lambda s, k: s.checkpoints.prune(k, workflow="w", keep=1)),
    Operation("checkpoints.forget", checkpoints, lambda s, k: s.checkpoints.forget(k)),
)
OF_NO_THREAD = {
    "threads.due": "the host's own pass over all scopes, which hands whole keys on",
    "threads.old": "the host's own pass over all scopes, which hands whole keys on",
    "replicas.heartbeat": "a process is no scope's",
    "replicas.seen": "a process is no scope's",
    "replicas.forget": "a process is no scope's",
}
"""Operations that know no scope, and why."""


def name_of(operation: Operation) -> str:
    """Return its name, for the ids of tests."""
    return operation.name
