"""A target's threads in Redis with a replica, its effects in PostgreSQL: the threads may be lost, no effect doubled."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from loadtests.history import FaultKind
from loadtests.targets.backing import Backing
from loadtests.targets.network import Network
from loadtests.targets.postgres import SQL, crash_postgres, postgres_usage
from loadtests.targets.redis import KEEPS_ALL, REDIS, crash_redis, redis_settings, redis_usage
from tests.servers import Postgres, postgres
from tests.servers.redis_groups import Pair, fail_over, pair, wait_in_step


@contextmanager
def mixed_backing(network: Network) -> Iterator[Backing]:
    """Run both. `restart` crashes Redis and PostgreSQL in turns, Redis first.

    `fail_over` is how a managed Redis does it behind one address: the network leads to the replica when it has taken
    the primary's place.
    """
    with postgres() as ledger, pair(**KEEPS_ALL) as threads:
        network.connect(SQL, ledger.port)
        network.connect(REDIS, threads.primary.port)
        running = _Running(ledger, threads, network)
        yield Backing(
            faults=frozenset(FaultKind),
            slow=network.delay,
            measure=lambda: postgres_usage(ledger) + redis_usage(running.threads.primary),
            database_url=ledger.url,
            settings={**redis_settings(threads.primary), "AGUI_EFFECTS_STORE": "sql"},
            restart=running.crash_next,
            fail_over=running.fail_over,
        )


class _Running:
    """The servers, whichever Redis is the primary now."""

    def __init__(self, ledger: Postgres, threads: Pair, network: Network) -> None:
        self.threads = threads
        self._ledger = ledger
        self._network = network
        self._crashes = 0

    def crash_next(self) -> None:
        self._crashes += 1
        if self._crashes % 2 == 0:
            crash_postgres(self._ledger)
            return
        crash_redis(self.threads.primary)
        # Nobody promotes a replica that has only begun to read the primary anew: it would have next to nothing.
        wait_in_step(self.threads.replica)

    def fail_over(self) -> None:
        self.threads = fail_over(self.threads, lambda port: self._network.lead_to(REDIS, port))
