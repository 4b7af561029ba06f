"""The table of scenarios in tests/README.md names tests that exist, and says of every case where it is tried."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
NAMED = re.compile(r"`((?:[\w-]+/)+test_\w+\.py)(?:::(test_\w+))?`")
ROW = re.compile(r"^\| (\d[^|]*) \| (?:[^|]+ \| )?([^|]+) \|$", re.MULTILINE)
EXCUSES = ("does not apply: ", "later: ")


@cache
def table() -> str:
    return (TESTS / "README.md").read_text().partition("\n## Scenarios\n")[2]


@cache
def names_in(path: str) -> frozenset[str]:
    """Return the names of the tests of a file, as they are written there."""
    tree = ast.parse((TESTS / path).read_text())
    return frozenset(each.name for each in ast.walk(tree) if isinstance(each, ast.AsyncFunctionDef | ast.FunctionDef))


@pytest.mark.parametrize(("path", "name"), sorted(set(NAMED.findall(table()))))
def test_every_test_that_the_table_names_exists(path: str, name: str) -> None:
    assert (TESTS / path).is_file()
    assert not name or name in names_in(path)


def test_every_case_is_there_once_and_in_order() -> None:
    named = [numbers.partition("(")[0] for numbers, _ in ROW.findall(table())]
    rows = [[int(number) for number in re.findall(r"\d+", numbers)] for numbers in named]
    numbers = [number for row in rows for number in row]

    assert len(rows) > 40
    assert len(set(numbers)) == len(numbers)
    assert all(row == sorted(row) for row in rows)


def test_every_row_names_a_test_or_says_why_there_is_none() -> None:
    silent = [
        numbers
        for numbers, where in ROW.findall(table())
        if not NAMED.search(where) and not any(where.startswith(excuse) for excuse in EXCUSES)
    ]

    assert silent == []
