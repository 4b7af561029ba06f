"""Every table of the SQL stores, with the constraints that hold whatever the code does."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    Double,
    ForeignKeyConstraint,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    PrimaryKeyConstraint,
    Table,
    Text,
)

REVISION = "0002"
"""The newest revision in `migrations/versions` that this code needs; a later one must stay compatible with it."""

VERSION_TABLE = "agui_schema"
"""Where Alembic notes the revision; a name of its own, so that it can share a database with the team's tables."""

KEY = ("scope", "agent", "thread_id")

# Compared byte by byte everywhere: another collation could take two keys for one, or order them otherwise.
NAME = Text().with_variant(Text(collation="C"), "postgresql")

metadata = MetaData()


def _key() -> list[Column[str]]:
    return [Column(name, NAME, nullable=False) for name in KEY]


threads = Table(
    "agui_threads",
    metadata,
    *_key(),
    Column("generation", BigInteger, nullable=False),
    Column("write_id", Text, nullable=False),
    Column("has_open", Boolean, nullable=False, doc="Whether the record has any occurrence."),
    Column("claim_attempt", Text, doc="This and the next three: null while the thread has no claim."),
    Column("claim_holder", Text),
    Column("claim_run_id", Text),
    Column("claim_until", Double),
    Column("due_at", Double, doc="Null: nothing to do until someone writes."),
    Column("record", Text, nullable=False),
    Column("snapshot", Text, doc="Null until a run has finished. Its sealed messages are in agui_history."),
    Column("bag", Text, doc="Null until a run has paused."),
    PrimaryKeyConstraint(*KEY, name="agui_threads_pk"),
    CheckConstraint("generation > 0", name="agui_threads_generation"),
    CheckConstraint(
        "(claim_attempt IS NULL) = (claim_holder IS NULL)"
        " AND (claim_attempt IS NULL) = (claim_run_id IS NULL)"
        " AND (claim_attempt IS NULL) = (claim_until IS NULL)",
        name="agui_threads_claim_is_whole",
    ),
)

# `due` reads these two and nothing else: it costs what is claimed or due, not what is stored.
_IS_CLAIMED = threads.c.claim_attempt.is_not(None)
_IS_WAITING = threads.c.claim_attempt.is_(None) & threads.c.due_at.is_not(None)
Index("agui_threads_claimed", threads.c.claim_until, postgresql_where=_IS_CLAIMED, sqlite_where=_IS_CLAIMED)
Index("agui_threads_due", threads.c.due_at, postgresql_where=_IS_WAITING, sqlite_where=_IS_WAITING)

history = Table(
    "agui_history",
    metadata,
    *_key(),
    Column("first", BigInteger, nullable=False, doc="The number of the chunk's first message in its thread."),
    Column("body", Text, nullable=False),
    PrimaryKeyConstraint(*KEY, "first", name="agui_history_pk"),
    ForeignKeyConstraint(KEY, [threads.c[name] for name in KEY], name="agui_history_thread", ondelete="CASCADE"),
)

runs = Table(
    "agui_runs",
    metadata,
    *_key(),
    Column("run_id", NAME, nullable=False),
    Column("state", Text, nullable=False),
    Column("body", Text, nullable=False),
    Column("written_at", Double, doc="Null: on SQLite, by a host older than revision 0002; never old."),
    PrimaryKeyConstraint(*KEY, "run_id", name="agui_runs_pk"),
    ForeignKeyConstraint(KEY, [threads.c[name] for name in KEY], name="agui_runs_thread", ondelete="CASCADE"),
    CheckConstraint("state IN ('running', 'finished', 'failed')", name="agui_runs_state"),
    Index("agui_runs_by_age", "written_at", *KEY, "run_id"),
)

outcomes = Table(
    "agui_outcomes",
    metadata,
    *_key(),
    Column("name", NAME, nullable=False, doc="An interrupt id or an alias that a finished run ended."),
    Column("is_alias", Integer, nullable=False),
    Column("run_id", NAME, nullable=False),
    PrimaryKeyConstraint(*KEY, "name", "is_alias", name="agui_outcomes_pk"),
    ForeignKeyConstraint(
        [*KEY, "run_id"],
        [runs.c[name] for name in (*KEY, "run_id")],
        name="agui_outcomes_run",
        ondelete="CASCADE",
    ),
    CheckConstraint("is_alias IN (0, 1)", name="agui_outcomes_is_alias"),
    # Not by the key first: it would be searched instead of the primary key, through all that a thread has ended.
    Index("agui_outcomes_of_run", "run_id", *KEY),
)

occurrences = Table(
    "agui_occurrences",
    metadata,
    *_key(),
    Column("interrupt_id", NAME, nullable=False, doc="Open ones only: what the inbox lists."),
    Column("state", Text, nullable=False),
    Column("tool", Text, nullable=False),
    Column("created_at", Double, nullable=False),
    Column("expires_at", Double, nullable=False),
    PrimaryKeyConstraint(*KEY, "interrupt_id", name="agui_occurrences_pk"),
    ForeignKeyConstraint(KEY, [threads.c[name] for name in KEY], name="agui_occurrences_thread", ondelete="CASCADE"),
    CheckConstraint("state IN ('pending', 'decided', 'indeterminate')", name="agui_occurrences_state"),
    Index("agui_occurrences_listed", "scope", "interrupt_id"),
)

effects = Table(
    "agui_effects",
    metadata,
    *_key(),
    Column("interrupt_id", NAME, nullable=False),
    Column("state", Text, nullable=False),
    Column("kind", Text, nullable=False),
    Column("digest", Text, nullable=False),
    Column("key_lifetime_seconds", Double, doc="Null: the far side promises nothing."),
    Column("attempt", Text, doc="The latest that reserved it; null if it was closed before any did."),
    Column("holder", Text, doc="Null: free."),
    Column("until", Double, nullable=False),
    Column("begun_at", Double, doc="When the first begin that still counts was; null: not begun."),
    Column("begun_by", Text, nullable=False, doc="Every attempt that may bring the result."),
    Column("refuted", Text, nullable=False, doc="Attempts whose begin an operator stated did not happen."),
    Column("result", Text, doc="Not null: settled."),
    Column("why", Text, doc="Not null: closed."),
    Column("resolved_by", Text),
    Column("evidence", Text),
    PrimaryKeyConstraint(*KEY, "interrupt_id", name="agui_effects_pk"),
    CheckConstraint("state IN ('reserved', 'begun', 'settled', 'closed')", name="agui_effects_state"),
    CheckConstraint("kind IN ('none', 'idempotent', 'transactional', 'unsafe')", name="agui_effects_kind"),
    CheckConstraint("(state = 'settled') = (result IS NOT NULL)", name="agui_effects_settled"),
    CheckConstraint("(state = 'closed') = (why IS NOT NULL)", name="agui_effects_closed"),
    CheckConstraint("state <> 'begun' OR begun_at IS NOT NULL", name="agui_effects_begun"),
)

_IS_UNSETTLED = effects.c.result.is_(None) & effects.c.why.is_(None)
Index(
    "agui_effects_unsettled",
    *(effects.c[name] for name in (*KEY, "attempt")),
    postgresql_where=_IS_UNSETTLED,
    sqlite_where=_IS_UNSETTLED,
)

checkpoints = Table(
    "agui_checkpoints",
    metadata,
    *_key(),
    Column("checkpoint_id", NAME, nullable=False),
    Column("workflow", NAME, nullable=False),
    Column("created_at", Double, nullable=False),
    Column("blob", LargeBinary, nullable=False),
    PrimaryKeyConstraint(*KEY, "checkpoint_id", name="agui_checkpoints_pk"),
    Index("agui_checkpoints_by_age", *KEY, "workflow", "created_at", "checkpoint_id"),
)

replicas = Table(
    "agui_replicas",
    metadata,
    Column("holder", NAME, nullable=False),
    Column("label", Text, nullable=False),
    Column("beat_at", Double, nullable=False),
    PrimaryKeyConstraint("holder", name="agui_replicas_pk"),
)

health = Table(
    "agui_health",
    metadata,
    Column("name", NAME, nullable=False),
    Column("checked_at", Double, nullable=False),
    PrimaryKeyConstraint("name", name="agui_health_pk"),
)
