"""Sealed messages in a table of their own, and the age of runs. Hosts of revision 0001 keep running on it."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

KEY = ("scope", "agent", "thread_id")
NAME = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
CLOCK_TIMES = {
    "postgresql": "CAST(extract(epoch FROM clock_timestamp()) AS DOUBLE PRECISION)",
    "sqlite": "(julianday('now') - 2440587.5) * 86400.0",
}


def upgrade() -> None:
    # Parents before children, as the hosts lock them that go on meanwhile.
    op.create_table(
        "agui_history",
        *(sa.Column(name, NAME, nullable=False) for name in KEY),
        sa.Column("first", sa.BigInteger, nullable=False),
        sa.Column("body", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint(*KEY, "first", name="agui_history_pk"),
        sa.ForeignKeyConstraint(
            KEY, [f"agui_threads.{name}" for name in KEY], name="agui_history_thread", ondelete="CASCADE"
        ),
    )
    _add_written_at()
    op.create_index("agui_runs_by_age", "agui_runs", ["written_at", *KEY, "run_id"])
    op.create_index("agui_outcomes_of_run", "agui_outcomes", ["run_id", *KEY])


def _add_written_at() -> None:
    """Say of every run that is there that it was written now: it answers duplicates longer than promised, not shorter.

    On PostgreSQL a constant default does so without touching a row, and the default that follows it dates what hosts
    of revision 0001 go on to insert. SQLite knows neither: its rows are updated, and what such hosts insert has no age.
    """
    dialect = op.get_bind().dialect.name
    clock_time = CLOCK_TIMES[dialect]
    if dialect == "postgresql":
        now = op.get_bind().execute(sa.text(f"SELECT {clock_time}")).scalar_one()
        op.execute(f"ALTER TABLE agui_runs ADD COLUMN written_at DOUBLE PRECISION DEFAULT {now!r}")
        op.execute(f"ALTER TABLE agui_runs ALTER COLUMN written_at SET DEFAULT {clock_time}")
    else:
        op.add_column("agui_runs", sa.Column("written_at", sa.Double))
        op.execute(f"UPDATE agui_runs SET written_at = {clock_time}")


def downgrade() -> None:
    raise NotImplementedError("Going back would drop what was said in every long thread.")
