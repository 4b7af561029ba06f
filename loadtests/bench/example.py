"""The thread that is stored many times, and what is added to threads while they are measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from random import Random
from uuid import uuid4

from stores.history import carried_on
from stores.ports import Batch, Began, Change, Loaded, Reservation, Reserved, Saved, Settled, Stores
from stores.records import (
    Bag,
    Claim,
    Decision,
    EffectKind,
    EffectState,
    Json,
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

CLAIM_SECONDS = 3600.0
HOLDER = "holder-of-the-bench"
MESSAGE_CHARACTERS = 300
RESULT = ToolResult(({"type": "text", "text": "Paid INV-1 to ACME."},))
SCOPES = 100
TEMPLATE = "template"
"""Stands for the number in every id of the thread that is copied; as long as a number is."""

_DECISION = Decision(Verdict.APPROVE, '{"invoice":"INV-1","payee":"ACME"}', "sha256:pay-INV-1")


def name_of(number: int) -> str:
    """Return what tells the ids of one stored thread from another's."""
    return f"{number:0{len(TEMPLATE)}}"


def key_of(name: str) -> ThreadKey:
    """Return a stored thread's key; they are spread over a hundred scopes."""
    return ThreadKey(Scope(f"tenant-{name[-2:]}"), "payments", f"thread-{name}")


def ended_interrupt(key: ThreadKey) -> str:
    """Return an interrupt that every stored thread has ended."""
    return f"interrupt-of-{key.thread_id}"


def message(number: int, random: Random) -> Json:
    """Return a message of the usual length, that does not compress better than words do."""
    text = random.randbytes(MESSAGE_CHARACTERS // 2).hex()
    return {"id": f"message-{number}", "role": "assistant" if number % 2 else "user", "content": text}


def _snapshot(key: ThreadKey) -> Snapshot:
    texts = ("pay INV-1 to ACME", "I need an approval for that.", "approved", "Paid INV-1 to ACME.")
    messages = [
        {"id": f"m{number}-of-{key.thread_id}", "role": "assistant" if number % 2 else "user", "content": text}
        for number, text in enumerate(texts)
    ]
    return Snapshot(tuple(messages), {"step": 2})


def occurrence(interrupt_id: str, run_id: str, state: OccurrenceState, now: float) -> Occurrence:
    """Return an open occurrence."""
    decision = _DECISION if state is OccurrenceState.DECIDED else None
    return Occurrence(
        interrupt_id=interrupt_id,
        call_id=f"call-of-{interrupt_id}",
        tool="pay",
        kind=EffectKind.UNSAFE,
        arguments=_DECISION.arguments,
        digest=_DECISION.digest,
        run_id=run_id,
        created_at=now,
        expires_at=now + CLAIM_SECONDS,
        aliases=(f"alias-of-{interrupt_id}",),
        state=state,
        decision=decision,
    )


def outcome(interrupt_id: str) -> Outcome:
    """Return the end of an occurrence."""
    return Outcome(
        interrupt_id=interrupt_id,
        call_id=f"call-of-{interrupt_id}",
        tool="pay",
        arguments=_DECISION.arguments,
        state=OccurrenceState.FINISHED,
        decision=_DECISION,
        aliases=(f"alias-of-{interrupt_id}",),
    )


def run(run_id: str, state: RunState, *ended: str, attempt: str = "attempt-1") -> Run:
    """Return a run; `ended` are the interrupts it brought to their end."""
    events = ({"type": "TEXT_MESSAGE_CONTENT", "messageId": f"m-of-{run_id}", "delta": "Paid INV-1 to ACME."},)
    return Run(run_id, f"sha256:input-of-{run_id}", state, attempt, tuple(map(outcome, ended)), events)


async def save(stores: Stores, key: ThreadKey, change: Change) -> Version:
    """Save what nobody else writes. Raises AssertionError if it was not saved."""
    saved = await stores.threads.save(key, change=change)
    assert isinstance(saved, Saved), saved
    return saved.version


async def claim(stores: Stores, key: ThreadKey, change: Change, batch: Batch) -> Version:
    """Reserve and claim as the host does: in one step if both are one database, else the ledger first."""
    if stores.shared:
        return await save(stores, key, replace(change, batch=batch))
    answers = await stores.effects.reserve(key, batch=batch)
    assert all(isinstance(answer, Reserved) for answer in answers.values()), answers
    return await save(stores, key, change)


def claiming(loaded: Loaded, *, run_id: str, interrupt_id: str, write_id: str) -> tuple[Change, Batch]:
    """Return the change with which a resume takes a thread, and its one reservation."""
    taken = Claim(f"attempt-of-{run_id}", HOLDER, run_id, loaded.now + CLAIM_SECONDS)
    decided = occurrence(interrupt_id, run_id, OccurrenceState.DECIDED, loaded.now)
    record = Record(occurrences=(decided,), claim=taken, resume_run_id=run_id)
    started = run(run_id, RunState.RUNNING, attempt=taken.attempt)
    batch = Batch(taken.attempt, HOLDER, taken.until, (Reservation(interrupt_id, EffectKind.UNSAFE, _DECISION.digest),))
    return Change(loaded.record.version, write_id, record, runs=(started,)), batch


async def settle(stores: Stores, key: ThreadKey, *, run_id: str, interrupt_id: str) -> None:
    """Begin and settle the one effect of a resume."""
    attempt = f"attempt-of-{run_id}"
    began = await stores.effects.begin(key, interrupt_id=interrupt_id, attempt=attempt)
    assert began == Began(), began
    settled = await stores.effects.settle(key, interrupt_id=interrupt_id, attempt=attempt, result=RESULT)
    assert settled == Settled(RESULT), settled


async def put(stores: Stores, key: ThreadKey) -> None:
    """Store a thread as a person's approval leaves it: a paused run, a resume, its outcome, a settled effect."""
    paused, resumed, interrupt_id = f"pausing-{key.thread_id}", f"resuming-{key.thread_id}", ended_interrupt(key)
    before = await stores.threads.load(key)
    pending = Record(
        pause_id=f"pause-of-{key.thread_id}",
        occurrences=(occurrence(interrupt_id, paused, OccurrenceState.PENDING, before.now),),
    )
    pausing = run(paused, RunState.FINISHED)
    asked = Change(before.record.version, f"first-of-{key.thread_id}", pending, _snapshot(key), Bag(), (pausing,))
    await save(stores, key, asked)
    between = await stores.threads.load(key)
    change, batch = claiming(between, run_id=resumed, interrupt_id=interrupt_id, write_id=f"second-of-{key.thread_id}")
    version = await claim(stores, key, change, batch)
    await settle(stores, key, run_id=resumed, interrupt_id=interrupt_id)
    ended = run(resumed, RunState.FINISHED, interrupt_id)
    done = Change(version, f"last-of-{key.thread_id}", Record(), _snapshot(key), Bag(), (ended,))
    await save(stores, key, done)


async def require_whole(stores: Stores, key: ThreadKey) -> None:
    """Raise AssertionError unless the thread that the stores have is the one that `put` stores, in every part."""
    interrupt_id, resumed = ended_interrupt(key), f"resuming-{key.thread_id}"
    loaded = await stores.threads.load(key, interrupts=[f"alias-of-{interrupt_id}"])
    expected = Loaded(
        record=Record(version=Version(3, f"last-of-{key.thread_id}")),
        now=loaded.now,
        snapshot=_snapshot(key),
        bag=Bag(),
        known=run(resumed, RunState.FINISHED, interrupt_id),
        snapshot_bytes=loaded.snapshot_bytes,
    )
    assert loaded == expected, (loaded, expected)
    pausing = await stores.threads.outcome(key, run_id=f"pausing-{key.thread_id}")
    assert pausing == run(f"pausing-{key.thread_id}", RunState.FINISHED), pausing
    row = (await stores.effects.read(key, interrupts=[interrupt_id]))[interrupt_id]
    assert (row.state, row.attempt, row.result) == (EffectState.SETTLED, f"attempt-of-{resumed}", RESULT), row


async def put_ended(stores: Stores, key: ThreadKey, count: int) -> None:
    """Add so many terminal occurrences, each with its run and its row of the ledger."""
    loaded = await stores.threads.load(key)
    names = [f"{number}-{ended_interrupt(key)}" for number in range(count)]
    runs = tuple(run(f"run-of-{name}", RunState.FINISHED, name) for name in names)
    await stores.effects.close(key, interrupts=dict.fromkeys(names, "rejected"))
    await save(stores, key, Change(loaded.record.version, uuid4().hex, loaded.record, runs=runs))


async def put_open(stores: Stores, key: ThreadKey, count: int, *, due_in_seconds: float) -> None:
    """Store a thread with so many open occurrences."""
    loaded = await stores.threads.load(key)
    names = [f"open-{number}-{ended_interrupt(key)}" for number in range(count)]
    pending = tuple(occurrence(name, "run-1", OccurrenceState.PENDING, loaded.now) for name in names)
    record = Record(pause_id="pause-1", occurrences=pending)
    change = Change(loaded.record.version, uuid4().hex, record, due_at=loaded.now + due_in_seconds)
    await save(stores, key, change)


async def put_claimed(stores: Stores, key: ThreadKey) -> None:
    """Store a thread that a living holder has."""
    started = run("run-1", RunState.RUNNING)
    opened = await stores.threads.open(
        key, run=started, holder=HOLDER, claim_seconds=CLAIM_SECONDS, write_id=uuid4().hex
    )
    assert opened.claimed, opened


async def talk(stores: Stores, key: ThreadKey, added: Sequence[Json]) -> None:
    """Add messages to a thread."""
    loaded = await stores.threads.load(key)
    change = Change(loaded.record.version, uuid4().hex, Record(), talked(loaded.snapshot, added))
    await save(stores, key, change)


def talked(before: Snapshot | None, added: Sequence[Json]) -> Snapshot:
    """Return the snapshot that follows, with these messages more."""
    said = before.messages if before else ()
    return carried_on(before, Snapshot((*said, *added)))
