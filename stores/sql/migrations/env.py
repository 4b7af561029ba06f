"""What Alembic runs around the revisions; it works in the transaction that `migrate.py` has opened."""

from alembic import context

from stores.sql.tables import VERSION_TABLE, metadata

context.configure(
    connection=context.config.attributes["connection"], target_metadata=metadata, version_table=VERSION_TABLE
)
with context.begin_transaction():
    context.run_migrations()
