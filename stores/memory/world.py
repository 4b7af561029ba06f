"""The world that the memory stores of one process share: plain dicts and a clock."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from stores.ports import Listed
from stores.records import Claim, EffectKind, EffectState, ThreadKey, Version

Appointment = tuple[float, str, str, str]
"""When a thread is due, and the parts of its key, in the order `due` answers."""


@dataclass(slots=True)
class ThreadRow:
    """One thread. Its parts are kept as the JSON texts a database would keep, never as live objects."""

    record: str
    version: Version = field(default_factory=Version)
    claim: Claim | None = None
    snapshot: str | None = None
    bag: str | None = None
    due_at: float | None = None
    open: tuple[Listed, ...] = ()
    runs: dict[str, str] = field(default_factory=dict)
    ended_interrupts: dict[str, str] = field(default_factory=dict)
    ended_aliases: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class EffectRow:
    """One row of the ledger.

    `begun_by` are the attempts that may bring its result; `refuted` those whose begin was resolved as "did not
    happen".
    """

    state: EffectState
    kind: EffectKind = EffectKind.NONE
    digest: str = ""
    key_lifetime_seconds: float | None = None
    attempt: str | None = None
    holder: str | None = None
    until: float = 0.0
    begun_at: float | None = None
    begun_by: frozenset[str] = frozenset()
    refuted: frozenset[str] = frozenset()
    result: str | None = None
    why: str | None = None
    resolved_by: str | None = None
    evidence: str | None = None


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
    checkpoints: dict[ThreadKey, dict[str, CheckpointRow]] = field(default_factory=dict)
    replicas: dict[str, ReplicaRow] = field(default_factory=dict)
    claimed: set[ThreadKey] = field(default_factory=set)
    with_open: set[ThreadKey] = field(default_factory=set)
    appointments: list[Appointment] = field(default_factory=list)

    def rows(self, key: ThreadKey) -> Mapping[str, EffectRow]:
        """Return a thread's rows of the ledger."""
        return self.effects.get(key, {})

    def put(self, key: ThreadKey, rows: Mapping[str, EffectRow]) -> None:
        """Insert or replace rows of the ledger."""
        if rows:
            self.effects.setdefault(key, {}).update(rows)

    def unindex(self, key: ThreadKey) -> None:
        """Take a thread out of the indexes that `due` and `list` read; call it before its row changes."""
        self.claimed.discard(key)
        self.with_open.discard(key)
        row = self.threads.get(key)
        if row is not None and row.claim is None and row.due_at is not None:
            del self.appointments[bisect_left(self.appointments, _appointment(row.due_at, key))]

    def index(self, key: ThreadKey) -> None:
        """Put a thread into the indexes again; call it after its row changed."""
        row = self.threads[key]
        if row.open:
            self.with_open.add(key)
        if row.claim is not None:
            self.claimed.add(key)
        elif row.due_at is not None:
            insort(self.appointments, _appointment(row.due_at, key))


def _appointment(due_at: float, key: ThreadKey) -> Appointment:
    return (due_at, key.scope, key.agent, key.thread_id)
