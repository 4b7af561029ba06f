"""A SQLite file that is slow for all its writers, as a local target makes it."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from deploy.waiting import wait_until
from loadtests.targets.sqlite import sqlite_backing


def test_a_slow_sqlite_file_is_locked_by_someone_else_until_that_is_ended(tmp_path: Path) -> None:
    file = tmp_path / "agui.db"
    with sqlite_backing(tmp_path, store_timeout_seconds=1.0) as backing:
        for _ in range(2):
            backing.slow(0.1)
            wait_until(lambda: is_locked(file), "someone else writes")
            wait_until(lambda: not is_locked(file), "it is someone's turn")
            wait_until(lambda: is_locked(file), "someone else writes again")

            backing.slow(0)

            assert not is_locked(file)
        with pytest.raises(ValueError, match="give up"):
            backing.slow(1.0)
        backing.slow(0.1)
    assert not is_locked(file)


def is_locked(file: Path) -> bool:
    with closing(sqlite3.connect(file, timeout=0, isolation_level=None)) as connection:
        try:
            connection.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError as error:
            return error.sqlite_errorname == "SQLITE_BUSY"
        connection.execute("ROLLBACK")
        return False
