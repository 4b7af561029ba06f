"""ReplicaRegistry on SQL."""

from __future__ import annotations

from collections.abc import Mapping

from sqlalchemy import delete, select, true

from stores.sql.engine import Database
from stores.sql.expressions import Now, insert_into, text_parameter
from stores.sql.tables import replicas

_put = insert_into(replicas).from_select(
    ["holder", "label", "beat_at"],
    select(text_parameter("who"), text_parameter("shown_as"), Now()).where(true()),
)
_HEARTBEAT = _put.on_conflict_do_update(
    index_elements=replicas.primary_key.columns,
    set_={name: _put.excluded[name] for name in ("label", "beat_at")},
).returning(replicas.c.holder)
_SEEN = select(replicas.c.holder, (Now() - replicas.c.beat_at).label("age_seconds"))
_FORGET = delete(replicas).where(replicas.c.holder == text_parameter("who")).returning(replicas.c.holder)


class SqlReplicaRegistry:
    """ReplicaRegistry over the replicas table."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._heartbeat = database.step(_HEARTBEAT)
        self._seen = database.statement(_SEEN)
        self._forget = database.step(_FORGET)

    async def heartbeat(self, holder: str, *, label: str) -> None:
        await self._database.write(self._heartbeat, {"who": holder, "shown_as": label})

    async def seen(self) -> Mapping[str, float]:
        return {row.holder: row.age_seconds for row in await self._database.read(self._seen, {})}

    async def forget(self, holder: str) -> None:
        await self._database.write(self._forget, {"who": holder})
