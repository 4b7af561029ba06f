"""The network between the replicas of a local target and their stores: a TCP proxy for each pair, in a thread."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Coroutine, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from tests.proxy import Proxy

_CALL_SECONDS_MAX = 30.0

T = TypeVar("T")


class Network:
    """Lets everything pass until it is told otherwise. Its methods may be called from any thread but its own."""

    def __init__(self, loop: asyncio.AbstractEventLoop, replicas: Sequence[str]) -> None:
        self._loop = loop
        self._replicas = tuple(replicas)
        self._proxies: dict[tuple[str, str], Proxy] = {}
        self._delay_seconds = 0.0

    def connect(self, store: str, port: int) -> None:
        """Give each replica a way of its own to a store that listens on a local port."""
        self._wait(self._connect(store, port))

    def ports(self) -> str:
        """Return where each replica reaches its stores, as JSON: {replica: {store: port}}."""
        found: dict[str, dict[str, int]] = {replica: {} for replica in self._replicas}
        for (replica, store), proxy in self._proxies.items():
            found[replica][store] = proxy.port
        return json.dumps(found)

    def cut(self, replica: str) -> None:
        """Let nothing pass between a replica and its stores, and tell neither."""
        self._wait(self._cut(replica))

    def heal(self, replica: str) -> None:
        """Let everything pass again; connections from before the cut are reset, as they miss what was lost."""
        self._wait(self._heal(replica))

    def delay(self, seconds: float) -> None:
        """Let each answer of a store come so much later: half of it on the way there, half on the way back."""
        self._wait(self._delay(seconds))

    def lead_to(self, store: str, port: int) -> None:
        """Let a store be at another port from now on; connections to where it was are reset."""
        self._wait(self._lead_to(store, port))

    def close(self) -> None:
        """End all connections and take no more."""
        self._wait(self._close())

    async def _connect(self, store: str, port: int) -> None:
        for replica in self._replicas:
            proxy = Proxy(port)
            await proxy.pass_on()
            self._proxies[replica, store] = proxy

    async def _cut(self, replica: str) -> None:
        for proxy in self._of(replica):
            proxy.swallow()

    async def _heal(self, replica: str) -> None:
        for proxy in self._of(replica):
            await proxy.pass_on()
            proxy.delay(self._delay_seconds / 2)
            proxy.reset()

    async def _delay(self, seconds: float) -> None:
        self._delay_seconds = seconds
        for proxy in self._proxies.values():
            proxy.delay(seconds / 2)

    async def _lead_to(self, store: str, port: int) -> None:
        for (_, name), proxy in self._proxies.items():
            if name == store:
                proxy.target_port = port
                proxy.reset()

    async def _close(self) -> None:
        for proxy in self._proxies.values():
            await proxy.close()

    def _of(self, replica: str) -> list[Proxy]:
        if replica not in self._replicas:
            raise KeyError(replica)
        return [proxy for (name, _), proxy in self._proxies.items() if name == replica]

    def _wait(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(_CALL_SECONDS_MAX)


@contextmanager
def running_network(replicas: Sequence[str]) -> Iterator[Network]:
    """Run a network for these replicas; no store is connected yet."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="network", daemon=True)
    thread.start()
    network = Network(loop, replicas)
    try:
        yield network
    finally:
        try:
            network.close()
        finally:
            loop.call_soon_threadsafe(loop.stop)
            thread.join()
            loop.close()
