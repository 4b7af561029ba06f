"""Values to store, and the few steps with which most tests of the stores begin."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any
from uuid import uuid4

from stores.ports import (
    AlreadySettled,
    Batch,
    Began,
    Change,
    Fenced,
    Reservation,
    ReserveAnswer,
    Reserved,
    Saved,
    SecondEffect,
    Settled,
    Stores,
)
from stores.records import (
    Bag,
    Claim,
    Decision,
    Effect,
    EffectKind,
    Occurrence,
    OccurrenceState,
    Outcome,
    Record,
    Run,
    RunState,
    Scope,
    Snapshot,
    ThreadKey,
    ToolResult,
    Verdict,
    Version,
)

DAY = 86_400.0
KEY = ThreadKey(Scope("tenant-1"), "payments", "thread-1")
NEIGHBOURS = (
    replace(KEY, scope=Scope("tenant-2")),
    replace(KEY, agent="refunds"),
    replace(KEY, thread_id="thread-2"),
)
"""Keys that differ from KEY in one part each: what happens to KEY must never show in them."""
RESULT = ToolResult(({"type": "text", "text": "paid"},))
OTHER_RESULT = ToolResult(({"type": "text", "text": "paid again"},), is_error=True)
DIGEST = "sha256:pay-INV-1"

CLAIMANTS = 16
ROUNDS = 8
"""How often a race of two is run: once finds little, since both must be in the same few milliseconds."""


def fresh(prefix: str = "id") -> str:
    """Return an id that nothing else has."""
    return f"{prefix}-{uuid4().hex}"


def kinds(answers: Iterable[object]) -> Counter[type]:
    """Count answers by their kind."""
    return Counter(map(type, answers))


def occurrence(interrupt_id: str = "interrupt-1", **changes: Any) -> Occurrence:
    """Return a pending occurrence."""
    pending = Occurrence(
        interrupt_id=interrupt_id,
        call_id=f"call-of-{interrupt_id}",
        tool="pay",
        kind=EffectKind.UNSAFE,
        arguments='{"invoice":"INV-1"}',
        digest=DIGEST,
        run_id="run-1",
        created_at=1_000.5,
        expires_at=2_000.25,
        aliases=(f"alias-of-{interrupt_id}",),
    )
    return replace(pending, **changes)


def record(*interrupts: str, **changes: Any) -> Record:
    """Return a record of a pause with one pending occurrence per interrupt."""
    return replace(Record(pause_id="pause-1", occurrences=tuple(map(occurrence, interrupts))), **changes)


def claim(*, until: float, holder: str = "holder-1", attempt: str = "attempt-1") -> Claim:
    """Return a claim of run-1."""
    return Claim(attempt, holder, "run-1", until)


def run(run_id: str = "run-1", state: RunState = RunState.RUNNING, *ended: str, **changes: Any) -> Run:
    """Return a run; `ended` are the interrupts it brought to their end."""
    outcomes = tuple(
        Outcome(name, f"call-of-{name}", "pay", "{}", OccurrenceState.FINISHED, aliases=(f"alias-of-{name}",))
        for name in ended
    )
    return replace(Run(run_id, f"input-of-{run_id}", state, "attempt-1", outcomes), **changes)


def finished(run_id: str, *ended: str, **changes: Any) -> Run:
    """Return a finished run."""
    return run(run_id, RunState.FINISHED, *ended, **changes)


def full_record() -> Record:
    """Return a record in which no field has its default, but for version and claim."""
    decision = Decision(Verdict.APPROVE, '{"invoice":"INV-1","note":"édité"}', "sha256:edited")
    decided = occurrence(
        "interrupt-2",
        kind=EffectKind.IDEMPOTENT,
        key_lifetime_seconds=3_600.5,
        aliases=("alias-2a", "alias-2b"),
        state=OccurrenceState.DECIDED,
        decision=decision,
        upstream={"nested": [{"deep": [1, 2.5, None, True, "text"]}], "empty": {}},
    )
    return Record(pause_id="pause-2", occurrences=(occurrence("interrupt-1"), decided), retries=3, retry_at=1_234.5)


SNAPSHOT = Snapshot(
    messages=({"id": "m1", "role": "user", "content": "pay INV-1 — “now” 🧾"}, {"id": "m2", "role": "assistant"}),
    state={"step": 1, "list": [1, [2, None]]},
    interrupts=({"id": "interrupt-1", "reason": "tool_call"},),
    session_state={"service": "x"},
    pause_id="pause-1",
)
BAG = Bag(pause_id="pause-1", state={"queue": [{"call": "call-1"}], "rules": []})


async def version_of(stores: Stores, key: ThreadKey = KEY) -> Version:
    """Return where a thread stands."""
    return (await stores.threads.load(key)).record.version


async def now_of(stores: Stores) -> float:
    """Return the store's own time."""
    return (await stores.threads.load(KEY)).now


async def tick(stores: Stores) -> None:
    """Wait until the store's clock has moved on, however coarse it is."""
    before = await now_of(stores)
    while await now_of(stores) <= before:
        pass


async def saved(stores: Stores, changed: Record, *, key: ThreadKey = KEY, **parts: Any) -> Version:
    """Save on top of whatever is there, and return the new version."""
    change = Change(await version_of(stores, key), fresh("write"), changed, **parts)
    answer = await stores.threads.save(key, change=change)
    assert isinstance(answer, Saved)
    return answer.version


def reservation(interrupt_id: str = "interrupt-1", **changes: Any) -> Reservation:
    """Return a reservation of an unsafe call."""
    return replace(Reservation(interrupt_id, EffectKind.UNSAFE, DIGEST), **changes)


def idempotent(interrupt_id: str = "interrupt-1", *, key_lifetime_seconds: float = DAY, **changes: Any) -> Reservation:
    """Return a reservation of an idempotent call."""
    kind = EffectKind.IDEMPOTENT
    return reservation(interrupt_id, kind=kind, key_lifetime_seconds=key_lifetime_seconds, **changes)


async def batch(stores: Stores, attempt: str, *approve: Reservation, lasts: float = DAY, **parts: Any) -> Batch:
    """Return a batch whose holder is named after its attempt and whose hold lasts so many seconds from now."""
    return Batch(attempt, f"holder-of-{attempt}", await now_of(stores) + lasts, approve, **parts)


async def reserve_all(
    stores: Stores, attempt: str, *approve: Reservation, key: ThreadKey = KEY, lasts: float = DAY, **parts: Any
) -> Mapping[str, ReserveAnswer]:
    """Reserve a whole batch; answers per interrupt."""
    return await stores.effects.reserve(key, batch=await batch(stores, attempt, *approve, lasts=lasts, **parts))


async def reserve(stores: Stores, attempt: str, wanted: Reservation | None = None, **parts: Any) -> ReserveAnswer:
    """Reserve one row; its answer."""
    wanted = wanted or reservation()
    return (await reserve_all(stores, attempt, wanted, **parts))[wanted.interrupt_id]


async def begin(
    stores: Stores, attempt: str, interrupt_id: str = "interrupt-1", key: ThreadKey = KEY
) -> Began | Fenced:
    """Begin one row."""
    return await stores.effects.begin(key, interrupt_id=interrupt_id, attempt=attempt)


async def settle(
    stores: Stores, attempt: str, result: ToolResult = RESULT, interrupt_id: str = "interrupt-1", key: ThreadKey = KEY
) -> Settled | AlreadySettled | SecondEffect | Fenced:
    """Settle one row."""
    return await stores.effects.settle(key, interrupt_id=interrupt_id, attempt=attempt, result=result)


async def resolve(
    stores: Stores,
    result: ToolResult | None,
    interrupt_id: str = "interrupt-1",
    key: ThreadKey = KEY,
    attempt: str = "attempt-A",
) -> Settled | Reserved | Fenced:
    """Resolve one row as an operator."""
    by, evidence = "operator-1", "its process ended, says the log"
    return await stores.effects.resolve(
        key, interrupt_id=interrupt_id, attempt=attempt, result=result, by=by, evidence=evidence
    )


async def read(stores: Stores, interrupt_id: str = "interrupt-1", key: ThreadKey = KEY) -> Effect | None:
    """Read one row."""
    return (await stores.effects.read(key, interrupts=[interrupt_id])).get(interrupt_id)


async def rows_of(stores: Stores, *interrupts: str, key: ThreadKey = KEY) -> Mapping[str, Effect]:
    """Read rows, but for the ages of their begins, which grow."""
    rows = await stores.effects.read(key, interrupts=interrupts)
    return {name: replace(row, begun_age_seconds=None) for name, row in rows.items()}


async def begun(stores: Stores, attempt: str, wanted: Reservation | None = None, **parts: Any) -> None:
    """Reserve and begin one row."""
    wanted = wanted or reservation()
    await reserve(stores, attempt, wanted, **parts)
    assert await begin(stores, attempt, wanted.interrupt_id) == Began()


async def settled(stores: Stores, attempt: str, interrupt_id: str = "interrupt-1") -> None:
    """Reserve, begin and settle one row."""
    await begun(stores, attempt, reservation(interrupt_id))
    assert await settle(stores, attempt, interrupt_id=interrupt_id) == Settled(RESULT)
