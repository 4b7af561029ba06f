"""The contract: four ports that every adapter satisfies structurally. The docstrings are the contract.

Every operation is async, takes the thread's key first and everything else by keyword, and answers with a
value. What is named atomic happens whole or not at all, also when the process or the connection dies in the
middle. A store raises only what `stores/errors.py` names: a read that got no answer is `StoreUnavailable`, a
write that got none is `WriteInDoubt` and may be repeated, unchanged, to learn what became of it.
Times are seconds since the epoch on the store's own clock, never the caller's.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from stores.records import Bag, Effect, EffectKind, Record, Run, Scope, Snapshot, ThreadKey, ToolResult, Version

# What a thread store answers ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Loaded:
    """A thread as it stands at `now`. A thread never written has an empty record of generation 0.

    `known` is the run that a duplicate would be answered from: the finished run that ended one of the
    interrupts asked for, else the run with the run id asked for, in any state. `snapshot_bytes` is what the snapshot
    takes in the store.
    """

    record: Record
    now: float
    snapshot: Snapshot | None = None
    bag: Bag | None = None
    known: Run | None = None
    snapshot_bytes: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class Opened:
    """What `open` found; `claimed` says whether this run has the thread now (then `record` holds its claim)."""

    loaded: Loaded
    claimed: bool


@dataclass(frozen=True, slots=True)
class Saved:
    """The change is committed, by this call or by an earlier one with the same `write_id`.

    `answers` are the ledger's for the change's batch, also when it was an earlier call that reserved it.
    """

    version: Version
    answers: Mapping[str, ReserveAnswer] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Lost:
    """The record is not at the expected version: nothing was written, another writer was first. Reload."""


@dataclass(frozen=True, slots=True)
class NotReserved:
    """The ledger refused the batch: nothing was written, in either. The answers say why, per interrupt."""

    answers: Mapping[str, ReserveAnswer]


@dataclass(frozen=True, slots=True)
class OldRun:
    """A run nobody has written for long, with the interrupts whose rows of the ledger may go with it."""

    key: ThreadKey
    run_id: str
    interrupts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class OldRuns:
    """Runs that may be purged, of those that were looked at, and where to look on (None: that was all)."""

    runs: tuple[OldRun, ...]
    after: str | None = None


@dataclass(frozen=True, slots=True)
class Purged:
    """How many runs are gone; `is_whole`: the thread had no other and is gone too, with its snapshot."""

    runs: int
    is_whole: bool = False


# What a ledger answers ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Reserved:
    """The row is this attempt's now. `begun`: it is also begun (an idempotent call may repeat)."""

    begun: bool = False


@dataclass(frozen=True, slots=True)
class Held:
    """Another attempt holds the row and its holder is not known to be dead. `same`: for the same digest."""

    same: bool


@dataclass(frozen=True, slots=True)
class Begun:
    """Begun by an earlier attempt, `age_seconds` ago on the ledger's clock, and not to be repeated by itself."""

    age_seconds: float


@dataclass(frozen=True, slots=True)
class Settled:
    """The effect has this result; it is the one to use."""

    result: ToolResult


@dataclass(frozen=True, slots=True)
class Closed:
    """No effect happened or will: the row was closed for this reason."""

    why: str


@dataclass(frozen=True, slots=True)
class DigestMismatch:
    """Begun under another digest of tool and arguments than the one asked for."""


ReserveAnswer = Reserved | Held | Begun | Settled | Closed | DigestMismatch


@dataclass(frozen=True, slots=True)
class Began:
    """The effect may start now: the row is begun under this attempt."""


@dataclass(frozen=True, slots=True)
class Fenced:
    """The row is not this attempt's to begin or to settle: another attempt has it, or it is closed or missing."""


@dataclass(frozen=True, slots=True)
class AlreadySettled:
    """The effect had a result before; the first one stands, and this is it."""

    result: ToolResult


@dataclass(frozen=True, slots=True)
class SecondEffect:
    """An effect happened beside what is recorded: an operator had stated that it did not, and others went on. Alarm."""


@dataclass(frozen=True, slots=True)
class CannotClose:
    """At least one row is held, begun or settled; nothing was closed. The states say which."""

    rows: Mapping[str, Held | Begun | Settled]


# What goes in ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Reservation:
    """One approved call to reserve. `begin`: insert it as begun at once (idempotent tools, shared database).

    `key_lifetime_seconds` None: of unknown lifetime, never repeated; a row keeps what it was inserted with.
    """

    interrupt_id: str
    kind: EffectKind
    digest: str
    key_lifetime_seconds: float | None = None
    begin: bool = False


@dataclass(frozen=True, slots=True)
class Batch:
    """All rows of one claim, reserved or closed in one atomic step.

    `close` maps interrupt ids to the reason they end without an effect (`rejected`, `cancelled`, `expired`).
    `until` is the claim's; `dead` are the holders the caller has found dead.
    """

    attempt: str
    holder: str
    until: float
    approve: Sequence[Reservation] = ()
    close: Mapping[str, str] = field(default_factory=dict)
    dead: Collection[str] = ()


@dataclass(frozen=True, slots=True)
class Change:
    """One compare-and-set of a thread. A `snapshot` or `bag` that is None stays as it is in the store.

    A snapshot whose `sealed` is what the store gave for `expected` begins with the same messages, which are not written
    again. `record.version` is ignored; the store sets generation + 1 and `write_id`. `write_id` is new per change and
    reused only to repeat that very change. `runs` are inserted or replaced by run id; the outcomes of a finished
    one become findable by interrupt id and alias. `due_at` is when `due` shall name the thread if it has no claim
    (None: never); like the record it is replaced by every change.
    `batch` and `free` are for a store that shares its database with the ledger (`Stores.shared`) and are part of
    the same atomic step: `free` is the attempt whose unsettled rows become free, then `batch` reserves.
    """

    expected: Version
    write_id: str
    record: Record
    snapshot: Snapshot | None = None
    bag: Bag | None = None
    runs: Sequence[Run] = ()
    due_at: float | None = None
    batch: Batch | None = None
    free: str | None = None


@dataclass(frozen=True, slots=True)
class Listed:
    """One open occurrence in a list, with the thread it belongs to."""

    key: ThreadKey
    interrupt_id: str
    state: str
    tool: str
    created_at: float
    expires_at: float


# The ports ------------------------------------------------------------------------------------------------


class ThreadStore(Protocol):
    """Durable approval state and snapshot of every thread, committed together or not at all."""

    async def open(self, key: ThreadKey, *, run: Run, holder: str, claim_seconds: float, write_id: str) -> Opened:
        """Take the claim for a run that decides nothing, if nothing stands in its way.

        Atomic. Claims (until = the store's now + `claim_seconds`, under `run.attempt`) and inserts `run` only if the
        record has no claim, no occurrence at all, and no run with this run id is known. Otherwise writes nothing and
        answers what stands there. A repeat with the same `write_id` after a lost reply answers `claimed`.
        """
        ...

    async def load(self, key: ThreadKey, *, interrupts: Collection[str] = (), run_id: str | None = None) -> Loaded:
        """Read a thread in one consistent view, with the run that `interrupts` or `run_id` point to."""
        ...

    async def save(self, key: ThreadKey, *, change: Change) -> Saved | Lost | NotReserved:
        """Compare and set. Atomic over all parts of the change.

        `Saved` if the record was at `expected`, or already is at the version this very `write_id` made. `Lost`
        otherwise. `NotReserved` if the change has a batch that the ledger refuses (see `EffectLedger.reserve`).
        """
        ...

    async def outcome(self, key: ThreadKey, *, interrupt: str | None = None, run_id: str | None = None) -> Run | None:
        """Return the retained run that ended `interrupt`, or the run with that id."""
        ...

    async def list(self, scope: Scope, *, limit: int, after: str | None = None) -> Sequence[Listed]:
        """Return open occurrences of a scope, ordered by interrupt id, after the one named."""
        ...

    async def count_open(self, scope: Scope, *, at_most: int) -> int:
        """Return how many open occurrences a scope has, in all its threads; `at_most` if there are as many or more.

        The cost grows with `at_most`, not with what is stored, and not with what other scopes have open.
        """
        ...

    async def due(self, *, alive: Collection[str], limit: int) -> Sequence[ThreadKey]:
        """Return threads that want attention, those waiting longest first.

        A thread is due if it has a claim whose `until` has passed or whose holder is not in `alive`, or if it
        has no claim and its `due_at` has passed. The order is by `until` or `due_at`, so a dead holder's claim that has
        not ended comes last. The cost grows with what is claimed or due, not with what is stored.
        """
        ...

    async def delete(self, key: ThreadKey, *, expected: Version) -> Saved | Lost:
        """Remove a thread with its runs, snapshot and bag if it is at `expected` and has no claim.

        A thread that is not there is at `Version()`; so a repeat after the thread was removed answers Lost.
        """
        ...

    async def old(self, *, age_seconds: float, limit: int, after: str | None = None) -> OldRuns:
        """Return runs last written more than `age_seconds` ago, those first that are oldest.

        Looks at no more than `limit` of them, from where `after` (an earlier answer's) left off, and leaves out those
        of threads with a claim or an open occurrence. The cost grows with `limit`, not with what is stored.
        """
        ...

    async def purge(self, key: ThreadKey, *, run_ids: Collection[str], age_seconds: float = 0.0) -> Purged:
        """Remove runs of a thread, and the thread itself if it has no other. Atomic.

        A run that was written less than `age_seconds` ago stays. Nothing is removed while the thread has a claim or an
        open occurrence. A repeat removes nothing more.
        """
        ...


class EffectLedger(Protocol):
    """One row per answered interrupt: reserved, begun, settled or closed. It keeps acknowledged writes.

    A row is *free* if it has no holder, its holder is in the batch's `dead`, or its `until` has passed.
    """

    async def reserve(self, key: ThreadKey, *, batch: Batch) -> Mapping[str, ReserveAnswer]:
        """Reserve and close all rows of a batch in one atomic step, all or nothing.

        Written only if every answer for `approve` is Reserved or Settled and every row in `close` is missing,
        closed, or free and reserved. Per row of `approve`: missing: inserted (begun if `begin`). Reserved and free, or
        this attempt's: attempt, holder, until, digest replaced (begun if `begin`). Begun, free and idempotent, same
        digest, younger than its key lifetime: attempt, holder, until replaced, never the time of the first begin;
        answer Reserved(begun=True). Begun and free otherwise: Begun, or DigestMismatch. Not free: Held. Settled:
        Settled. Closed: Closed. For `close`, answers are Closed, Held, Begun or Settled.
        """
        ...

    async def begin(self, key: ThreadKey, *, interrupt_id: str, attempt: str) -> Began | Fenced:
        """Record that the effect may start.

        Began if the row is reserved under this attempt and was not freed since, or is begun by it already. A row whose
        `until` has passed is this attempt's until another one reserves it.
        """
        ...

    async def settle(
        self, key: ThreadKey, *, interrupt_id: str, attempt: str, result: ToolResult
    ) -> Settled | AlreadySettled | SecondEffect | Fenced:
        """Record the result. Taken from any attempt that began the row while it has no result; the first stands.

        `SecondEffect` if this attempt's begin was resolved as "did not happen", and another attempt began or the row
        was closed since.
        """
        ...

    async def close(self, key: ThreadKey, *, interrupts: Mapping[str, str]) -> Closed | CannotClose:
        """End open occurrences without an effect, all or none. Missing or free and reserved rows become closed.

        A row that is held is answered Held, begun or not, also to the attempt that holds it.
        """
        ...

    async def free(self, key: ThreadKey, *, attempt: str) -> None:
        """Drop the hold of an attempt on its rows that are not settled; they stay as they are and become free."""
        ...

    async def read(self, key: ThreadKey, *, interrupts: Collection[str]) -> Mapping[str, Effect]:
        """Return the rows of these interrupts; a missing one is left out."""
        ...

    async def forget(self, key: ThreadKey, *, interrupts: Collection[str]) -> int:
        """Remove the rows of these interrupts that are settled or closed; answers how many. Others stay."""
        ...

    async def resolve(
        self, key: ThreadKey, *, interrupt_id: str, attempt: str, result: ToolResult | None, by: str, evidence: str
    ) -> Settled | Reserved | Fenced:
        """State the truth about a begun row that no one will settle: it happened with `result`, or (None) it did not.

        The truth is about the begin of one `attempt`. "Did not happen" makes the row reserved and free; said again
        while it is still so, it is answered Reserved too. A result that came first stands and is answered, whoever
        brought it. Fenced if the row is not begun, or is another attempt's by now: what is stated is not about that.
        """
        ...

    async def transact(
        self,
        key: ThreadKey,
        *,
        interrupt_id: str,
        attempt: str,
        call: Callable[[Any], Awaitable[ToolResult]],
        seconds: float,
    ) -> ToolResult | Fenced:
        """Run `call(connection)` and the settle of its result in one database transaction.

        The settle is the last statement and applies only where the row is reserved under this attempt; else the whole
        transaction is rolled back and the answer is Fenced. An exception of `call` rolls back and is raised as it is.
        A repeat after a lost reply is Fenced: the row has the result. No lock is kept longer than `seconds`. Raises
        NotSupported where `Stores.transactional` is false.
        """
        ...


class CheckpointStore(Protocol):
    """Workflow checkpoints: opaque authenticated blobs with the few fields they are looked up by."""

    async def save(self, key: ThreadKey, *, checkpoint_id: str, workflow: str, blob: bytes, created_at: float) -> None:
        """Insert or replace one checkpoint. `created_at` says where it stands among those of its workflow, no more."""
        ...

    async def load(self, key: ThreadKey, *, checkpoint_id: str) -> bytes | None:
        """Return one checkpoint's blob, or None."""
        ...

    async def list(self, key: ThreadKey, *, workflow: str) -> Sequence[str]:
        """Return the ids of a workflow's checkpoints, oldest first."""
        ...

    async def delete(self, key: ThreadKey, *, checkpoint_id: str) -> bool:
        """Remove one checkpoint; False if there was none."""
        ...

    async def prune(self, key: ThreadKey, *, workflow: str, keep: int) -> int:
        """Remove all but the newest `keep` checkpoints of a workflow; answers how many went."""
        ...

    async def forget(self, key: ThreadKey) -> int:
        """Remove all checkpoints of a thread; answers how many went."""
        ...


class ReplicaRegistry(Protocol):
    """Which holders said that they live, and how long ago, on the store's clock. Kept beside the ledger."""

    async def heartbeat(self, holder: str, *, label: str) -> None:
        """Say that `holder` lives. One row per process, whatever number of runs it has."""
        ...

    async def seen(self) -> Mapping[str, float]:
        """Return, per holder that has a row, the seconds since its last heartbeat."""
        ...

    async def forget(self, holder: str) -> None:
        """Remove a holder's row: it ended in order, or it has been dead for long."""
        ...


@dataclass(frozen=True, slots=True)
class Stores:
    """The four ports of a running host.

    `shared`: threads and effects are one database, so a `Change` may carry a batch. `transactional`: the ledger
    can run a tool's statements in its own transaction. `durable`: the ledger loses no write that it acknowledged, also
    not in a failover. `check` is a real write and read of every technology in use:
    it raises `StoreUnavailable` naming the one that fails.
    """

    threads: ThreadStore
    effects: EffectLedger
    checkpoints: CheckpointStore
    replicas: ReplicaRegistry
    check: Callable[[], Awaitable[None]]
    shared: bool = False
    transactional: bool = False
    durable: bool = False
