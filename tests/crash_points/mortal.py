"""A host that dies at a point: from then on nothing of it takes a step further or reaches a store.

What still runs of it, clean-up included, ends at its next step or call of a store; a transaction that was open is
rolled back, as a server does with the connection of a process that is gone.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any

from stores.ports import Stores
from stores.records import ThreadKey
from tests.host.answers import Json
from tests.host.hosts import Host, Hosts, Steps


class Crashed(BaseException):
    """The process is gone. No code of the host can tell it from being cut off for good."""


class Life(Steps):
    """The steps of one process, which is over at a point."""

    def __init__(self, point: str) -> None:
        super().__init__()
        self._point = point
        self.is_over = False

    async def __call__(self, name: str, key: ThreadKey) -> None:
        self.check()
        await super().__call__(name, key)
        self.is_over = name == self._point
        self.check()

    def check(self) -> None:
        """Raise Crashed if it is over."""
        if self.is_over:
            raise Crashed

    def cut_off(self, stores: Stores) -> Stores:
        """Return stores that nobody reaches any more once it is over."""
        ports = ("threads", "effects", "checkpoints", "replicas")
        changed: dict[str, Any] = {port: _CutOff(getattr(stores, port), self) for port in ports}
        return replace(stores, **changed)


@dataclass
class _CutOff:
    inner: Any
    life: Life

    def __getattr__(self, name: str) -> Any:
        call = getattr(self.inner, name)

        async def cut_off(*arguments: Any, **named: Any) -> Any:
            self.life.check()
            answer = await call(*arguments, **named)
            self.life.check()
            return answer

        return cut_off


@dataclass(frozen=True, slots=True)
class Mortal:
    """A host and its life."""

    host: Host
    life: Life

    async def sends(self, body: Json) -> None:
        """Send this; if it dies meanwhile, its client gets nothing that it could rely on."""
        with suppress(Crashed):
            await self.host.post(body)

    async def dies_of(self, body: Json) -> None:
        """Send what it must die of."""
        await self.sends(body)
        assert self.life.is_over, self.life.passed


@asynccontextmanager
async def mortal(hosts: Hosts, point: str, **changes: Any) -> AsyncIterator[Mortal]:
    """Start a host that dies at this point. It says once that it lives and is dead to the others a lease later."""
    life = Life(point)
    stack = AsyncExitStack()
    try:
        host = await hosts.beside(stack).start(like=hosts.a, decorate=life.cut_off, steps=life, **changes)
        yield Mortal(host, life)
    finally:
        with suppress(Crashed):
            await stack.aclose()
