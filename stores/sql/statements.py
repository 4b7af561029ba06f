"""Statements as they are written, and as they are executed: compiled once for one database."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ClauseElement, FromClause, select
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.dml import ReturningDelete, ReturningInsert, ReturningUpdate, UpdateBase

from stores.sql.backend import Backend
from stores.sql.expressions import at_key, columns_of
from stores.sql.tables import threads

Parameters = Mapping[str, object]
Deciding = ReturningInsert[Any] | ReturningUpdate[Any] | ReturningDelete[Any]


@dataclass(frozen=True, slots=True)
class Statement:
    """SQL text for one database, with the names of its parameters in the order that the driver wants."""

    text: str
    names: tuple[str, ...]
    constants: Parameters

    def values(self, parameters: Parameters) -> tuple[object, ...]:
        """Return what the driver is given."""
        return tuple(parameters[name] if name in parameters else self.constants[name] for name in self.names)


@dataclass(frozen=True, slots=True)
class Follow:
    """A statement of a step that was won. `what` names its parameter: where that is empty, there is nothing to do."""

    statement: UpdateBase
    what: str | None = None


@dataclass(frozen=True, slots=True)
class Step:
    """Statements that are atomic together: the first decides, by returning a row, whether the others happen."""

    first: Statement
    follows: tuple[tuple[Statement, str | None], ...] = ()

    @property
    def is_one_statement(self) -> bool:
        """Whether nothing follows: then it is atomic without a transaction around it."""
        return not self.follows


def compiled(clause: ClauseElement, backend: Backend) -> Statement:
    """Compile once; executing is then no more than handing a text and its values to the driver."""
    built = clause.compile(dialect=backend.single.dialect)
    assert isinstance(built, SQLCompiler)
    constants = {name: value for name, value in built.params.items() if not built.binds[name].required}
    return Statement(str(built), tuple(built.positiontup or ()), constants)


def compiled_step(
    first: Deciding, backend: Backend, *, follow: Callable[[FromClause], Sequence[Follow]] | None = None
) -> Step:
    """Compile a step. `follow` is given the row that the first statement returned, with the thread's key in it.

    Where writes can be parts of one statement, each of `follow` must read that row, or it would happen without it.
    """
    if follow is None:
        return Step(compiled(first, backend))
    if backend.has_writing_ctes:
        won = first.cte("won")
        parts = [each.statement.cte(f"follow_{number}") for number, each in enumerate(follow(won))]
        return Step(compiled(select(won).add_cte(*parts), backend))
    thread = select(*columns_of(threads)).where(at_key(threads)).subquery("won")
    return Step(
        compiled(first, backend), tuple((compiled(each.statement, backend), each.what) for each in follow(thread))
    )
