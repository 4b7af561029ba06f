"""Free local ports that stay the same over a replica's restarts."""

from __future__ import annotations

import random
import socket

# Below every system's range for outgoing connections (from 32768 on Linux, 49152 on macOS). A port from that range
# could be taken by someone's outgoing connection while its replica restarts, and a client that dials a dead replica
# there can even connect to itself.
_PORTS = range(20_000, 32_000)


def is_free(port: int) -> bool:
    """Tell whether a server could listen on this local port now."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        # As servers do it: connections of an earlier server that still linger do not count.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def find_free_ports(count: int) -> list[int]:
    """Return `count` different free local ports. Starts at random, so two clusters hardly ever look at the same one."""
    free = (port for port in random.sample(_PORTS, len(_PORTS)) if is_free(port))
    return [next(free) for _ in range(count)]
