"""The tables of the stores. What stands here was run on real databases: change it by a new revision only."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

KEY = ("scope", "agent", "thread_id")
NAME = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    op.create_table(
        "agui_threads",
        *_key(),
        sa.Column("generation", sa.BigInteger, nullable=False),
        sa.Column("write_id", sa.Text, nullable=False),
        sa.Column("has_open", sa.Boolean, nullable=False),
        sa.Column("claim_attempt", sa.Text),
        sa.Column("claim_holder", sa.Text),
        sa.Column("claim_run_id", sa.Text),
        sa.Column("claim_until", sa.Double),
        sa.Column("due_at", sa.Double),
        sa.Column("record", sa.Text, nullable=False),
        sa.Column("snapshot", sa.Text),
        sa.Column("bag", sa.Text),
        sa.PrimaryKeyConstraint(*KEY, name="agui_threads_pk"),
        sa.CheckConstraint("generation > 0", name="agui_threads_generation"),
        sa.CheckConstraint(
            "(claim_attempt IS NULL) = (claim_holder IS NULL)"
            " AND (claim_attempt IS NULL) = (claim_run_id IS NULL)"
            " AND (claim_attempt IS NULL) = (claim_until IS NULL)",
            name="agui_threads_claim_is_whole",
        ),
    )
    _partial_index("agui_threads_claimed", "agui_threads", ["claim_until"], "claim_attempt IS NOT NULL")
    _partial_index("agui_threads_due", "agui_threads", ["due_at"], "claim_attempt IS NULL AND due_at IS NOT NULL")
    op.create_table(
        "agui_runs",
        *_key(),
        sa.Column("run_id", NAME, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("body", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint(*KEY, "run_id", name="agui_runs_pk"),
        _references("agui_runs_thread", "agui_threads", KEY),
        sa.CheckConstraint("state IN ('running', 'finished', 'failed')", name="agui_runs_state"),
    )
    op.create_table(
        "agui_outcomes",
        *_key(),
        sa.Column("name", NAME, nullable=False),
        sa.Column("is_alias", sa.Integer, nullable=False),
        sa.Column("run_id", NAME, nullable=False),
        sa.PrimaryKeyConstraint(*KEY, "name", "is_alias", name="agui_outcomes_pk"),
        _references("agui_outcomes_run", "agui_runs", (*KEY, "run_id")),
        sa.CheckConstraint("is_alias IN (0, 1)", name="agui_outcomes_is_alias"),
    )
    op.create_table(
        "agui_occurrences",
        *_key(),
        sa.Column("interrupt_id", NAME, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("tool", sa.Text, nullable=False),
        sa.Column("created_at", sa.Double, nullable=False),
        sa.Column("expires_at", sa.Double, nullable=False),
        sa.PrimaryKeyConstraint(*KEY, "interrupt_id", name="agui_occurrences_pk"),
        _references("agui_occurrences_thread", "agui_threads", KEY),
        sa.CheckConstraint("state IN ('pending', 'decided', 'indeterminate')", name="agui_occurrences_state"),
    )
    op.create_index("agui_occurrences_listed", "agui_occurrences", ["scope", "interrupt_id"])
    op.create_table(
        "agui_effects",
        *_key(),
        sa.Column("interrupt_id", NAME, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("digest", sa.Text, nullable=False),
        sa.Column("key_lifetime_seconds", sa.Double),
        sa.Column("attempt", sa.Text),
        sa.Column("holder", sa.Text),
        sa.Column("until", sa.Double, nullable=False),
        sa.Column("begun_at", sa.Double),
        sa.Column("begun_by", sa.Text, nullable=False),
        sa.Column("refuted", sa.Text, nullable=False),
        sa.Column("result", sa.Text),
        sa.Column("why", sa.Text),
        sa.Column("resolved_by", sa.Text),
        sa.Column("evidence", sa.Text),
        sa.PrimaryKeyConstraint(*KEY, "interrupt_id", name="agui_effects_pk"),
        sa.CheckConstraint("state IN ('reserved', 'begun', 'settled', 'closed')", name="agui_effects_state"),
        sa.CheckConstraint("kind IN ('none', 'idempotent', 'transactional', 'unsafe')", name="agui_effects_kind"),
        sa.CheckConstraint("(state = 'settled') = (result IS NOT NULL)", name="agui_effects_settled"),
        sa.CheckConstraint("(state = 'closed') = (why IS NOT NULL)", name="agui_effects_closed"),
        sa.CheckConstraint("state <> 'begun' OR begun_at IS NOT NULL", name="agui_effects_begun"),
    )
    _partial_index("agui_effects_unsettled", "agui_effects", [*KEY, "attempt"], "result IS NULL AND why IS NULL")
    op.create_table(
        "agui_checkpoints",
        *_key(),
        sa.Column("checkpoint_id", NAME, nullable=False),
        sa.Column("workflow", NAME, nullable=False),
        sa.Column("created_at", sa.Double, nullable=False),
        sa.Column("blob", sa.LargeBinary, nullable=False),
        sa.PrimaryKeyConstraint(*KEY, "checkpoint_id", name="agui_checkpoints_pk"),
    )
    op.create_index("agui_checkpoints_by_age", "agui_checkpoints", [*KEY, "workflow", "created_at", "checkpoint_id"])
    op.create_table(
        "agui_replicas",
        sa.Column("holder", NAME, nullable=False),
        sa.Column("label", sa.Text, nullable=False),
        sa.Column("beat_at", sa.Double, nullable=False),
        sa.PrimaryKeyConstraint("holder", name="agui_replicas_pk"),
    )
    op.create_table(
        "agui_health",
        sa.Column("name", NAME, nullable=False),
        sa.Column("checked_at", sa.Double, nullable=False),
        sa.PrimaryKeyConstraint("name", name="agui_health_pk"),
    )


def downgrade() -> None:
    raise NotImplementedError("Going back would drop the ledger, and with it the proof of what was done.")


def _key() -> list[sa.Column[str]]:
    return [sa.Column(name, NAME, nullable=False) for name in KEY]


def _references(name: str, table: str, columns: tuple[str, ...]) -> sa.ForeignKeyConstraint:
    return sa.ForeignKeyConstraint(columns, [f"{table}.{column}" for column in columns], name=name, ondelete="CASCADE")


def _partial_index(name: str, table: str, columns: list[str], condition: str) -> None:
    where = sa.text(condition)
    op.create_index(name, table, columns, postgresql_where=where, sqlite_where=where)
