"""Redis servers that belong together: a primary with a replica, Sentinels over them, a Cluster of three."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

from redis import Redis

from tests.servers.process import free_port, wait_until
from tests.servers.valkey import RedisServer, redis, running

SERVICE = "main"
"""What the Sentinels of a test call the primary."""
DOWN_AFTER_MILLISECONDS = "300"
SLOTS = 16_384
NODES = 3


@dataclass(frozen=True, slots=True)
class Pair:
    """A primary and its replica, which has all that the primary had when it was started."""

    primary: RedisServer
    replica: RedisServer


@contextmanager
def pair(**options: str) -> Iterator[Pair]:
    """Run a primary and a replica that is in step with it."""
    # By default a primary waits 5 s for more replicas before it serves the first.
    options = {"repl_diskless_sync_delay": "0", **options}
    with redis(**options) as primary, redis(**options, replicaof=f"127.0.0.1 {primary.port}") as replica:
        wait_in_step(replica)
        yield Pair(primary, replica)


def wait_in_step(replica: RedisServer) -> None:
    """Wait until a replica has all that its primary had, and follows."""
    with Redis(port=replica.port) as client:
        wait_until(lambda: _info(client, "replication")["master_link_status"] == "up", "The replica did not follow")


def fail_over(servers: Pair, lead: Callable[[int], None]) -> Pair:
    """Kill the primary, promote its replica, tell clients its port, and give it the old primary as its replica.

    What the replica had not yet got is gone, as it is for good when a primary is lost.
    """
    wait_in_step(servers.replica)
    servers.primary.kill()
    _follow(servers.replica, "NO", "ONE")
    lead(servers.replica.port)
    servers.primary.start()
    _follow(servers.primary, "127.0.0.1", str(servers.replica.port))
    wait_in_step(servers.primary)
    return Pair(primary=servers.replica, replica=servers.primary)


def _follow(server: RedisServer, host: str, port: str) -> None:
    with Redis(port=server.port) as client:
        client.replicaof(host, port)
        # Its settings are read when it starts again, and must not bring the old role back.
        client.config_rewrite()


@contextmanager
def sentinel(watched: RedisServer) -> Iterator[RedisServer]:
    """Run a Sentinel over a primary; it alone decides, and makes the replica the primary in about a second."""
    options = {
        f"sentinel monitor {SERVICE}": f"127.0.0.1 {watched.port} 1",
        f"sentinel down-after-milliseconds {SERVICE}": DOWN_AFTER_MILLISECONDS,
        f"sentinel failover-timeout {SERVICE}": "2000",
    }
    with running(options, is_sentinel=True) as server, Redis(port=server.port) as client:
        wait_until(lambda: _info(client, "sentinel")["master0"]["slaves"] == 1, "The Sentinel found no replica")
        yield server


@contextmanager
def cluster() -> Iterator[Sequence[RedisServer]]:
    """Run a Cluster of three primaries with a third of the slots each."""
    with ExitStack() as stack:
        nodes = [stack.enter_context(redis(**_of_cluster())) for _ in range(NODES)]
        clients = [stack.enter_context(Redis(port=node.port)) for node in nodes]
        for number, client in enumerate(clients):
            first, last = SLOTS * number // NODES, SLOTS * (number + 1) // NODES - 1
            client.execute_command("CLUSTER ADDSLOTSRANGE", first, last)
            client.execute_command("CLUSTER SET-CONFIG-EPOCH", number + 1)
        for node, client in zip(nodes[1:], clients[1:], strict=True):
            bus = client.config_get("cluster-port")["cluster-port"]
            clients[0].execute_command("CLUSTER MEET", "127.0.0.1", node.port, bus)
        for client in clients:
            wait_until(partial(_is_whole, client), "The Cluster did not get ready")
        yield nodes


def _of_cluster() -> dict[str, str]:
    # Without this the nodes talk on their port + 10,000, which a free port may not have.
    return {"cluster_enabled": "yes", "cluster_port": str(free_port())}


def _is_whole(client: Redis) -> bool:
    told = client.execute_command("CLUSTER INFO")
    return bool(told["cluster_state"] == "ok" and told["cluster_known_nodes"] == str(NODES))


def _info(client: Redis, section: str) -> dict[str, Any]:
    info: dict[str, Any] = client.info(section)
    return info
