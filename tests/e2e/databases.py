"""The databases that the clusters of these tests run on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tests.servers import postgres


@contextmanager
def database(store: str) -> Iterator[str | None]:
    """The URL of a fresh database; None is the cluster's own SQLite file."""
    if store == "sqlite":
        yield None
        return
    with postgres() as server:
        yield server.url
