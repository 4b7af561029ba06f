"""The back door of SQL: the tables as the database itself describes them, and one more for what a tool writes."""

from __future__ import annotations

import re
from typing import Any

from sqlalchemy import Connection, MetaData, String, select, text, update
from sqlalchemy.ext.asyncio import AsyncEngine

from stores.records import ThreadKey
from tests.conformance.back_doors.port import NOTHING_OPEN, UNKNOWN, Part

CREATE_TOOL_WRITES = """
create table if not exists tool_writes (
    name varchar(200) primary key,
    needs varchar(200) references tool_writes (name) deferrable initially deferred
)
"""

_OF_KEY = "where scope = :scope and agent = :agent and thread_id = :thread_id"
_LOSE: dict[Part, str] = {
    "snapshot": f"update agui_threads set snapshot = null {_OF_KEY} and snapshot is not null",
    "record": f"update agui_threads set record = :record {_OF_KEY}",
    "bag": f"update agui_threads set bag = null {_OF_KEY} and bag is not null",
    "effect": f"delete from agui_effects {_OF_KEY}",
    "chunk": f"delete from agui_history {_OF_KEY} and first = (select min(first) from agui_history {_OF_KEY})",
    "checkpoints": f"delete from agui_checkpoints {_OF_KEY}",
}
_LOSE_CHUNKS = f"delete from agui_history {_OF_KEY}"


class SqlBackDoor:
    """BackDoor to one database."""

    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine

    async def age_format(self, marker: str) -> int:
        async with self._engine.begin() as connection:
            return await connection.run_sync(_age_format, marker)

    async def lose(self, key: ThreadKey, part: Part) -> None:
        values = {"scope": key.scope, "agent": key.agent, "thread_id": key.thread_id}
        record = {"record": NOTHING_OPEN} if part == "record" else {}
        async with self._engine.begin() as connection:
            lost = await connection.execute(text(_LOSE[part]), values | record)
            assert lost.rowcount, f"there was no {part}"
            if part == "snapshot":
                await connection.execute(text(_LOSE_CHUNKS), values)

    async def write(self, connection: Any, name: str, needs: str | None = None) -> None:
        insert = text("insert into tool_writes (name, needs) values (:name, :needs)")
        await connection.execute(insert, {"name": name, "needs": needs})

    async def written(self) -> list[str]:
        async with self._engine.connect() as connection:
            return list(await connection.scalars(text("select name from tool_writes order by name")))


def _age_format(connection: Connection, marker: str) -> int:
    metadata = MetaData()
    metadata.reflect(connection)
    count = 0
    for table in metadata.sorted_tables:
        for column in table.columns:
            if isinstance(column.type, String):
                for stored in set(connection.scalars(select(column).where(column.contains(marker, autoescape=True)))):
                    changed = update(table).where(column == stored).values({column: _aged(stored)})
                    count += connection.execute(changed).rowcount if _aged(stored) != stored else 0
    return count


def _aged(stored: str) -> str:
    return re.sub(r'"format": ?\d+', UNKNOWN, stored)
