"""A cluster whose replicas are killed or frozen where a test orders it, and take nothing over by themselves."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from deploy.running import RunningCluster, running_cluster
from loadtests.host import ORDERS_VARIABLE
from loadtests.orders import Orders
from tests.e2e.databases import database

LEASE_SECONDS = 1.0
"""Nobody takes a thread over before its client sends again, and a client does when its replica is gone: a replica that
is starved for longer than this is waited for, and changes no outcome."""
NEVER_SECONDS = "3600"


@contextmanager
def ordered_cluster(directory: Path, store: str) -> Iterator[tuple[RunningCluster, Orders]]:
    """Run it on a fresh database of this store; a replica that was killed comes back."""
    orders = directory / "orders"
    environment = {
        ORDERS_VARIABLE: str(orders),
        "AGUI_RECONCILE_SECONDS": NEVER_SECONDS,
        # Each start costs a third with the bytecode that the first one leaves.
        "PYTHONDONTWRITEBYTECODE": "",
    }
    with (
        database(store) as url,
        running_cluster(
            directory,
            app="loadtests.host:create_chaos_app",
            database_url=url,
            lease_seconds=LEASE_SECONDS,
            environment=environment,
        ) as cluster,
    ):
        yield cluster, Orders(orders)
