"""The few expressions that PostgreSQL and SQLite spell differently, and those that every statement shares."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sqlalchemy import (
    BigInteger,
    BindParameter,
    Boolean,
    Column,
    ColumnElement,
    Double,
    FromClause,
    ScalarSelect,
    Select,
    Table,
    TableValuedAlias,
    Text,
    and_,
    bindparam,
    cast,
    func,
    literal_column,
    select,
)
from sqlalchemy.dialects.postgresql import Insert, insert
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import FunctionElement
from sqlalchemy.types import NullType

from stores.records import ThreadKey
from stores.sql.tables import KEY

_SURROGATE = re.compile("[\ud800-\udfff]")


class Now(FunctionElement[float]):
    """The database's own clock when the row is worked on, in seconds since the epoch."""

    inherit_cache = True
    name = "now"
    type = Double()


@compiles(Now, "postgresql")
def _now_on_postgresql(_element: Now, _compiler: SQLCompiler, **_: Any) -> str:
    return "CAST(extract(epoch FROM clock_timestamp()) AS DOUBLE PRECISION)"


@compiles(Now, "sqlite")
def _now_on_sqlite(_element: Now, _compiler: SQLCompiler, **_: Any) -> str:
    # unixepoch('subsec') needs SQLite 3.42; Python 3.11 often brings 3.40.
    return "((julianday('now') - 2440587.5) * 86400.0)"


class _Elements(FunctionElement[Any]):
    inherit_cache = True
    name = "json_elements"


@compiles(_Elements, "postgresql")
def _elements_on_postgresql(element: _Elements, compiler: SQLCompiler, **options: Any) -> str:
    return f"json_array_elements(CAST({compiler.process(element.clauses, **options)} AS JSON))"


@compiles(_Elements, "sqlite")
def _elements_on_sqlite(element: _Elements, compiler: SQLCompiler, **options: Any) -> str:
    return f"json_each({compiler.process(element.clauses, **options)})"


class _Texts(FunctionElement[Any]):
    inherit_cache = True
    name = "json_texts"


@compiles(_Texts, "postgresql")
def _texts_on_postgresql(element: _Texts, compiler: SQLCompiler, **options: Any) -> str:
    return f"json_array_elements_text(CAST({compiler.process(element.clauses, **options)} AS JSON))"


@compiles(_Texts, "sqlite")
def _texts_on_sqlite(element: _Texts, compiler: SQLCompiler, **options: Any) -> str:
    return f"json_each({compiler.process(element.clauses, **options)})"


class _IsAmong(FunctionElement[Any]):
    inherit_cache = True
    name = "is_among"
    # Not Boolean: SQLite would be asked whether it equals 1, and would not search an index for that.
    type = NullType()


@compiles(_IsAmong, "postgresql")
def _is_among_on_postgresql(element: _IsAmong, compiler: SQLCompiler, **options: Any) -> str:
    # As an array, the names are searched in an index; joined, each row of the thread could be compared with them.
    column, names = (compiler.process(clause, **options) for clause in element.clauses)
    return f"({column} = ANY (ARRAY(SELECT json_array_elements_text(CAST({names} AS JSON)))))"


@compiles(_IsAmong, "sqlite")
def _is_among_on_sqlite(element: _IsAmong, compiler: SQLCompiler, **options: Any) -> str:
    column, names = (compiler.process(clause, **options) for clause in element.clauses)
    return f"({column} IN (SELECT value FROM json_each({names})))"


class _IsOneOf(FunctionElement[Any]):
    inherit_cache = True
    name = "is_one_of"
    type = NullType()


@compiles(_IsOneOf, "postgresql")
def _is_one_of_on_postgresql(element: _IsOneOf, compiler: SQLCompiler, **options: Any) -> str:
    # As an array, the rows are selected once; joined, PostgreSQL may select (and lock) them again for every other row.
    column, selected = (compiler.process(clause, **options) for clause in element.clauses)
    return f"({column} = ANY (ARRAY{selected}))"


@compiles(_IsOneOf, "sqlite")
def _is_one_of_on_sqlite(element: _IsOneOf, compiler: SQLCompiler, **options: Any) -> str:
    column, selected = (compiler.process(clause, **options) for clause in element.clauses)
    return f"({column} IN {selected})"


class _Array(FunctionElement[str]):
    inherit_cache = True
    name = "as_array"
    type = Text()


@compiles(_Array, "postgresql")
def _array_on_postgresql(element: _Array, compiler: SQLCompiler, **options: Any) -> str:
    return f"CAST(json_agg({compiler.process(element.clauses, **options)}) AS TEXT)"


@compiles(_Array, "sqlite")
def _array_on_sqlite(element: _Array, compiler: SQLCompiler, **options: Any) -> str:
    return f"json_group_array({compiler.process(element.clauses, **options)})"


def text_parameter(name: str) -> BindParameter[str]:
    """A parameter of a statement. Its name must not be a column's: SQLAlchemy keeps those for itself."""
    return bindparam(name, type_=Text())


def number_parameter(name: str) -> BindParameter[float]:
    """A parameter that is a number."""
    return bindparam(name, type_=Double())


def count_parameter(name: str) -> BindParameter[int]:
    """A parameter that is a whole number."""
    return bindparam(name, type_=BigInteger())


def flag_parameter(name: str) -> BindParameter[bool]:
    """A parameter that is true or false."""
    return bindparam(name, type_=Boolean())


def key_parameters() -> list[BindParameter[str]]:
    """The parameters of a thread's key, in the order of KEY."""
    return [text_parameter(f"key_{name}") for name in KEY]


def at_key(table: FromClause) -> ColumnElement[bool]:
    """Select the rows of one thread; every statement about a thread has this condition."""
    return and_(*(table.c[name] == parameter for name, parameter in zip(KEY, key_parameters(), strict=True)))


def of_key(key: ThreadKey, **parameters: object) -> Mapping[str, object]:
    """Return the values of `key_parameters` with others."""
    return {"key_scope": key.scope, "key_agent": key.agent, "key_thread_id": key.thread_id, **parameters}


def insert_into(table: Table) -> Insert:
    """An INSERT for both: SQLite took ON CONFLICT over from PostgreSQL, and its compiler takes this construct too."""
    return insert(table)


def rows_of(parameter: str) -> TableValuedAlias:
    """The objects of a JSON array, one per row: a statement with any number of rows is the same statement."""
    return _Elements(text_parameter(parameter)).table_valued("value", name="each")


def texts_of(parameter: str) -> TableValuedAlias:
    """The texts of a JSON array, one per row."""
    return _Texts(text_parameter(parameter)).table_valued(Column("value", Text()), name="text")


def field_in(rows: TableValuedAlias, column: Column[Any]) -> ColumnElement[Any]:
    """The field of each object of `rows_of` that is named like a column, as a value for it."""
    field = rows.c.value.op("->>", return_type=Text())(literal_column(f"'{column.name}'"))
    return field if isinstance(column.type, Text) else cast(field, column.type)


def is_among(column: ColumnElement[Any], parameter: str) -> ColumnElement[bool]:
    """Say whether a column has one of the texts of a JSON array."""
    return _IsAmong(column, text_parameter(parameter))


def is_one_of(column: ColumnElement[Any], selected: Select[tuple[Any]]) -> ColumnElement[bool]:
    """Say whether a column has one of the values that are selected, once and before anything else happens."""
    return _IsOneOf(column, selected.scalar_subquery())


def array_of(column: ColumnElement[Any]) -> ColumnElement[str]:
    """Collect a column's texts in a JSON array, in any order; null or an empty one if there are none."""
    return _Array(column)


def lines_of(ordered: Select[tuple[Any]]) -> ScalarSelect[str]:
    """Collect the JSON texts that are selected, in that order, one per line: JSON as we write it has no line breaks."""
    texts = ordered.subquery("texts")
    return select(func.aggregate_strings(texts.c[0], "\n")).scalar_subquery()


def current_time(before_seconds: ColumnElement[float] | None = None) -> ScalarSelect[float]:
    """The clock read once per statement, so that an index can be searched by it; or a time so long before."""
    return select(Now() if before_seconds is None else Now() - before_seconds).scalar_subquery()


def as_json(values: Iterable[object]) -> str:
    """Return the value of a parameter of `rows_of` or `is_among`."""
    return json.dumps(list(values), ensure_ascii=False, separators=(",", ":"))


def as_names(names: Iterable[str]) -> str:
    """Return the value of a parameter of `is_among` to look for; what no text column can hold is not there."""
    return as_json(name for name in names if "\0" not in name and not _SURROGATE.search(name))


def columns_of(table: FromClause, *names: str) -> Sequence[ColumnElement[Any]]:
    """Return columns by name, the key's first."""
    return [table.c[name] for name in (*KEY, *names)]
