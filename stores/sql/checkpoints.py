"""CheckpointStore on SQL."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import LargeBinary, bindparam, delete, select, true

from stores.records import ThreadKey
from stores.sql.engine import Database
from stores.sql.expressions import (
    at_key,
    count_parameter,
    insert_into,
    key_parameters,
    number_parameter,
    of_key,
    text_parameter,
)
from stores.sql.statements import Parameters, Statement
from stores.sql.tables import KEY, checkpoints

_put = insert_into(checkpoints).from_select(
    [*KEY, "checkpoint_id", "workflow", "created_at", "blob"],
    select(
        *key_parameters(),
        text_parameter("named"),
        text_parameter("of_workflow"),
        number_parameter("since"),
        bindparam("content", type_=LargeBinary()),
    ).where(true()),
)
_SAVE = _put.on_conflict_do_update(
    index_elements=checkpoints.primary_key.columns,
    set_={name: _put.excluded[name] for name in ("workflow", "created_at", "blob")},
).returning(checkpoints.c.checkpoint_id)

_IS_NAMED = checkpoints.c.checkpoint_id == text_parameter("named")
_IS_OF_WORKFLOW = checkpoints.c.workflow == text_parameter("of_workflow")

_LOAD = select(checkpoints.c.blob).where(at_key(checkpoints), _IS_NAMED)
_LIST = (
    select(checkpoints.c.checkpoint_id)
    .where(at_key(checkpoints), _IS_OF_WORKFLOW)
    .order_by(checkpoints.c.created_at, checkpoints.c.checkpoint_id)
)
_DELETE = delete(checkpoints).where(at_key(checkpoints), _IS_NAMED).returning(checkpoints.c.checkpoint_id)
# Locked in one order by all who remove several, so that none of them waits for another that waits for it.
_newest_first = (
    select(checkpoints.c.checkpoint_id)
    .where(at_key(checkpoints))
    .order_by(checkpoints.c.created_at.desc(), checkpoints.c.checkpoint_id.desc())
    .with_for_update()
)
_PRUNE = (
    delete(checkpoints)
    .where(
        at_key(checkpoints),
        checkpoints.c.checkpoint_id.in_(_newest_first.where(_IS_OF_WORKFLOW).offset(count_parameter("keep"))),
    )
    .returning(checkpoints.c.checkpoint_id)
)
_FORGET = (
    delete(checkpoints)
    .where(at_key(checkpoints), checkpoints.c.checkpoint_id.in_(_newest_first))
    .returning(checkpoints.c.checkpoint_id)
)


class SqlCheckpointStore:
    """CheckpointStore over the checkpoints table."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._save = database.step(_SAVE)
        self._load = database.statement(_LOAD)
        self._list = database.statement(_LIST)
        self._delete = database.step(_DELETE)
        self._prune = database.statement(_PRUNE)
        self._forget = database.statement(_FORGET)

    async def save(self, key: ThreadKey, *, checkpoint_id: str, workflow: str, blob: bytes, created_at: float) -> None:
        parameters = of_key(key, named=checkpoint_id, of_workflow=workflow, since=created_at, content=blob)
        await self._database.write(self._save, parameters)

    async def load(self, key: ThreadKey, *, checkpoint_id: str) -> bytes | None:
        rows = await self._database.read(self._load, of_key(key, named=checkpoint_id))
        return bytes(rows[0].blob) if rows else None

    async def list(self, key: ThreadKey, *, workflow: str) -> Sequence[str]:
        rows = await self._database.read(self._list, of_key(key, of_workflow=workflow))
        return [row.checkpoint_id for row in rows]

    async def delete(self, key: ThreadKey, *, checkpoint_id: str) -> bool:
        return await self._database.write(self._delete, of_key(key, named=checkpoint_id)) is not None

    async def prune(self, key: ThreadKey, *, workflow: str, keep: int) -> int:
        return await self._removed(self._prune, of_key(key, of_workflow=workflow, keep=keep))

    async def forget(self, key: ThreadKey) -> int:
        return await self._removed(self._forget, of_key(key))

    async def _removed(self, statement: Statement, parameters: Parameters) -> int:
        async with self._database.writing() as connection:
            return len(await connection.all(statement, parameters))
