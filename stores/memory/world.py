"""The world that the memory stores of one process share: plain dicts, indexes in order, and a clock."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from stores.effect_row import EffectRow
from stores.memory.ordered import Ordered, ordered
from stores.ports import Listed
from stores.records import Claim, EffectState, ThreadKey, Version

Appointment = tuple[float, str, str, str]
"""When a thread is due, and the parts of its key, in the order `due` answers."""

RunEntry = tuple[float, str, str, str, str]
"""When a run was last written, the parts of its thread's key, and its id, in the order `old` answers."""

ListEntry = tuple[str, str, str, str, int]
"""Scope and interrupt id of an open occurrence, the rest of its thread's key, and its place there: `list`'s order."""

_UNSETTLED = (EffectState.RESERVED, EffectState.BEGUN)


@dataclass(slots=True)
class ThreadRow:
    """One thread. Its parts are kept as the JSON texts a database would keep, never as live objects.

    `ended_by` has, by run id, the interrupts and aliases that the run ended: they go with it.
    """

    record: str
    version: Version = field(default_factory=Version)
    claim: Claim | None = None
    snapshot: str | None = None
    bag: str | None = None
    due_at: float | None = None
    open: tuple[Listed, ...] = ()
    chunks: list[str] = field(default_factory=list)
    runs: dict[str, str] = field(default_factory=dict)
    written_at: dict[str, float] = field(default_factory=dict)
    ended_interrupts: dict[str, str] = field(default_factory=dict)
    ended_aliases: dict[str, str] = field(default_factory=dict)
    ended_by: dict[str, frozenset[str]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CheckpointRow:
    """One checkpoint."""

    workflow: str
    blob: bytes
    created_at: float


@dataclass(frozen=True, slots=True)
class ReplicaRow:
    """One process that said it lives."""

    label: str
    beat_at: float


@dataclass(slots=True)
class MemoryWorld:
    """What several hosts in one process share. It lives and dies with the process; `clock` gives epoch seconds.

    A step of an adapter is atomic because nothing in it awaits.
    """

    clock: Callable[[], float]
    threads: dict[ThreadKey, ThreadRow] = field(default_factory=dict)
    effects: dict[ThreadKey, dict[str, EffectRow]] = field(default_factory=dict)
    unsettled: dict[ThreadKey, set[str]] = field(default_factory=dict)
    checkpoints: dict[ThreadKey, dict[str, CheckpointRow]] = field(default_factory=dict)
    replicas: dict[str, ReplicaRow] = field(default_factory=dict)
    claimed: set[ThreadKey] = field(default_factory=set)
    with_open: Ordered[ListEntry] = field(default_factory=ordered)
    appointments: Ordered[Appointment] = field(default_factory=ordered)
    runs: Ordered[RunEntry] = field(default_factory=ordered)

    def rows(self, key: ThreadKey) -> dict[str, EffectRow]:
        """Return a thread's rows of the ledger."""
        return self.effects.get(key, {})

    def put(self, key: ThreadKey, rows: Mapping[str, EffectRow]) -> None:
        """Insert or replace rows of the ledger."""
        if rows:
            self.effects.setdefault(key, {}).update(rows)
            unsettled = {name for name, row in rows.items() if row.state in _UNSETTLED}
            self.unsettled[key] = self.unsettled.get(key, set()).difference(rows) | unsettled

    def freed(self, key: ThreadKey, attempt: str) -> dict[str, EffectRow]:
        """Return an attempt's rows that are not settled or closed, without its hold."""
        rows = self.rows(key)
        unsettled = (rows[name] for name in self.unsettled.get(key, ()) if name in rows)
        return {row.interrupt_id: row.freed() for row in unsettled if row.attempt == attempt}

    def unindex(self, key: ThreadKey) -> None:
        """Take a thread out of the indexes that `due` and `list` read; call it before its row changes."""
        row = self.threads.get(key)
        if row is None:
            return
        self.claimed.discard(key)
        for entry in _list_entries(key, row.open):
            self.with_open.remove(entry)
        if row.claim is None and row.due_at is not None:
            self.appointments.remove(_appointment(row.due_at, key))

    def index(self, key: ThreadKey) -> None:
        """Put a thread into the indexes again; call it after its row changed."""
        row = self.threads[key]
        for entry in _list_entries(key, row.open):
            self.with_open.add(entry)
        if row.claim is not None:
            self.claimed.add(key)
        elif row.due_at is not None:
            self.appointments.add(_appointment(row.due_at, key))

    def note_run(self, key: ThreadKey, run_id: str) -> None:
        """Note that a run is written now."""
        self.forget_run(key, run_id)
        row, now = self.threads[key], self.clock()
        row.written_at[run_id] = now
        self.runs.add(_run_entry(now, key, run_id))

    def forget_run(self, key: ThreadKey, run_id: str) -> None:
        """Take a run out of the index that `old` reads."""
        written_at = self.threads[key].written_at.pop(run_id, None)
        if written_at is not None:
            self.runs.remove(_run_entry(written_at, key, run_id))


def _run_entry(written_at: float, key: ThreadKey, run_id: str) -> RunEntry:
    return (written_at, key.scope, key.agent, key.thread_id, run_id)


def _appointment(due_at: float, key: ThreadKey) -> Appointment:
    return (due_at, key.scope, key.agent, key.thread_id)


def _list_entries(key: ThreadKey, listed: tuple[Listed, ...]) -> Iterator[ListEntry]:
    return ((key.scope, each.interrupt_id, key.agent, key.thread_id, place) for place, each in enumerate(listed))
