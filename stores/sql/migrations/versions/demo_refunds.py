"""The demo's table: delete this file with the demo's agent, before your first real database is migrated.

A branch of its own, so that the revisions of the stores go on without it. In a database that has it already:
`DROP TABLE demo_refunds; DELETE FROM agui_schema WHERE version_num = 'demo_refunds'`.
"""

import sqlalchemy as sa
from alembic import op

revision = "demo_refunds"
down_revision = None
branch_labels = ("demo",)
depends_on = None


def upgrade() -> None:
    op.create_table(
        "demo_refunds",
        # The key is not unique, on purpose: a second refund must be there to be counted, not be hidden by a constraint.
        sa.Column("number", sa.Integer, primary_key=True),
        sa.Column("key", sa.Text, nullable=False),
        sa.Column("invoice", sa.Text, nullable=False),
        sa.Column("created_at", sa.Double, nullable=False),
    )


def downgrade() -> None:
    op.drop_table("demo_refunds")
