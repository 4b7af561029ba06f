"""A target's approvals in a PostgreSQL of its own, which each replica reaches by a way of its own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg

from loadtests.history import FaultKind
from loadtests.targets.backing import EVERYWHERE, Backing, Usage
from loadtests.targets.network import Network
from tests.servers import Postgres, postgres

SQL = "sql"
"""What a network calls the store in SQL."""
_USAGE = """
    select count(*), pg_database_size(current_database())
    from pg_stat_activity where backend_type = 'client backend' and pid <> pg_backend_pid()
"""
_SECONDS_MAX = 5


@contextmanager
def postgres_backing(network: Network) -> Iterator[Backing]:
    """Run a PostgreSQL that keeps everything."""
    with postgres() as server:
        network.connect(SQL, server.port)
        yield Backing(
            faults=EVERYWHERE | {FaultKind.CUT, FaultKind.STORE_RESTART},
            slow=network.delay,
            measure=lambda: postgres_usage(server),
            database_url=server.url,
            restart=lambda: crash_postgres(server),
        )


def crash_postgres(server: Postgres) -> None:
    """Kill all its processes and start it again: it recovers what it had acknowledged."""
    server.kill()
    server.start()


def postgres_usage(server: Postgres) -> Usage:
    """Ask it. Raises psycopg.Error if it does not answer."""
    address = f"host=127.0.0.1 port={server.port} user=agui dbname=postgres connect_timeout={_SECONDS_MAX}"
    with psycopg.connect(address) as connection:
        row = connection.execute(_USAGE).fetchone()
    assert row is not None, "an aggregate has one row"
    return Usage(*row)
