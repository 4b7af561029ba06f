"""A target's approvals in a Redis of its own, which each replica reaches by a way of its own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from redis import Redis

from loadtests.history import FaultKind
from loadtests.targets.backing import EVERYWHERE, Backing, Usage
from loadtests.targets.network import Network
from tests.servers import RedisServer, redis

REDIS = "redis"
"""What a network calls the store in Redis."""
KEEPS_ALL = {"appendonly": "yes", "appendfsync": "always"}
"""A crash keeps every write that was acknowledged."""
_SECONDS_MAX = 5.0


@contextmanager
def redis_backing(network: Network) -> Iterator[Backing]:
    """Run a Redis that keeps everything. It has no replica: after a failover the ledger would lack the last writes."""
    with redis(**KEEPS_ALL) as server:
        network.connect(REDIS, server.port)
        yield Backing(
            faults=EVERYWHERE | {FaultKind.CUT, FaultKind.STORE_RESTART},
            slow=network.delay,
            measure=lambda: redis_usage(server),
            settings=redis_settings(server),
            restart=lambda: crash_redis(server),
        )


def redis_settings(server: RedisServer) -> Mapping[str, str]:
    """Tell hosts to keep everything there; the port is the server's, not that of a replica's way to it."""
    return {"AGUI_STORES": "redis", "AGUI_REDIS_URL": server.url}


def crash_redis(server: RedisServer) -> None:
    """Kill it and start it again: it reads what it had acknowledged."""
    server.kill()
    server.start()


def redis_usage(server: RedisServer) -> Usage:
    """Ask it. Raises redis.RedisError if it does not answer."""
    with Redis(port=server.port, socket_timeout=_SECONDS_MAX, socket_connect_timeout=_SECONDS_MAX) as client:
        return Usage(int(client.info("clients")["connected_clients"]) - 1, int(client.info("memory")["used_memory"]))
