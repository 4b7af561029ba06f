"""Says whether the database serves: its schema is new enough, and it takes a write."""

from __future__ import annotations

from sqlalchemy import Connection, Text, column, inspect, select, table, true

from stores.errors import SchemaOutdated, StoreUnavailable
from stores.sql.engine import Database
from stores.sql.expressions import Now, insert_into, text_parameter
from stores.sql.tables import REVISION, VERSION_TABLE, health

_put = insert_into(health).from_select(["name", "checked_at"], select(text_parameter("what"), Now()).where(true()))
_CHECK = _put.on_conflict_do_update(
    index_elements=health.primary_key.columns, set_={"checked_at": _put.excluded.checked_at}
).returning(health.c.checked_at)

_REVISIONS = select(column("version_num", Text)).select_from(table(VERSION_TABLE))


def revisions(connection: Connection) -> frozenset[str]:
    """Return the migrations' revisions that a database is at; none if it was never migrated."""
    if not inspect(connection).has_table(VERSION_TABLE):
        return frozenset()
    return frozenset(connection.scalars(_REVISIONS))


class SqlHealth:
    """The check behind a host's readiness."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._check = database.step(_CHECK)
        self._is_migrated = False

    async def require_schema(self) -> None:
        """Raise SchemaOutdated for a schema that is missing or older; a newer one keeps serving this code."""
        async with self._database.reading() as connection:
            found = await connection.run_sync(revisions)
        # Our revisions are numbers; the demo's, which is not needed, is none.
        newest = max((revision for revision in found if revision.isdigit()), default="none")
        if not newest.isdigit() or newest < REVISION:
            raise SchemaOutdated(
                f"{self._database.technology} is at schema {newest}, this version needs {REVISION}: "
                "run `python -m stores.sql.migrate --database-url URL` once."
            )
        self._is_migrated = True

    async def check(self) -> None:
        """Write and read back. Raises StoreUnavailable naming the technology."""
        if not self._is_migrated:
            await self.require_schema()
        if await self._database.write(self._check, {"what": "check"}) is None:
            raise StoreUnavailable(f"{self._database.technology} took a write and did not return it.")
