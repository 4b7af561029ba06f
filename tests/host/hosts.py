"""Several hosts in this process over one world, spoken to over HTTP as clients do."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

import httpx
from fastapi import FastAPI

from app.main import create_app
from app.metrics import Metrics
from app.settings import Environment, ScopeResolver, Settings
from stores.ports import Change, Loaded, Saved, Stores
from stores.records import Scope, ThreadKey
from tests.host.answers import Answer, Json, read_answer
from tests.host.bodies import looks
from tests.host.worlds import World

PEER = "127.0.0.1"
SCOPE_HEADER = "x-agui-scope"
AGENT_PATH = "/agents/payments"
WAIT_SECONDS_MAX = 30.0
"""How long a test waits for what it expects, on a busy machine."""
POLL_SECONDS = 0.01
STILL_SECONDS = 3600.0
"""A pause that does not end within a test: hosts then write nothing by themselves after their start."""


@dataclass(slots=True)
class Stop:
    """A step at which a host is frozen."""

    name: str
    reached: asyncio.Event = field(default_factory=asyncio.Event)
    go: asyncio.Event = field(default_factory=asyncio.Event)

    async def wait(self) -> None:
        """Wait until the host has come here."""
        await asyncio.wait_for(self.reached.wait(), WAIT_SECONDS_MAX)


class Steps:
    """Records the named steps that a host passes, and freezes it at one until it is let go."""

    def __init__(self) -> None:
        self.passed: list[str] = []
        self._stops: list[Stop] = []

    async def __call__(self, name: str, key: ThreadKey) -> None:
        self.passed.append(name)
        for stop in [stop for stop in self._stops if stop.name == name and not stop.reached.is_set()]:
            stop.reached.set()
            await stop.go.wait()

    def stop_at(self, name: str) -> Stop:
        """Freeze the host the next time it comes to this step."""
        stop = Stop(name)
        self._stops.append(stop)
        return stop

    def let_go(self) -> None:
        """Let every frozen run go on."""
        for stop in self._stops:
            stop.reached.set()
            stop.go.set()


@dataclass(frozen=True, slots=True)
class Host:
    """One replica, with a client of its own."""

    app: FastAPI
    client: httpx.AsyncClient
    stores: Stores
    steps: Steps

    async def post(self, content: bytes | Json, *, scope: str = "alice", path: str = AGENT_PATH) -> httpx.Response:
        """Post any body and return the whole response."""
        body: dict[str, Any] = {"content": content} if isinstance(content, bytes) else {"json": content}
        return await self.client.post(path, headers={SCOPE_HEADER: scope, "content-type": "application/json"}, **body)

    async def send(self, body: Json, *, scope: str = "alice") -> Answer:
        """Post a run and read its stream."""
        return read_answer(await self.post(body, scope=scope), body)

    async def show(self, thread: str, *, scope: str = "alice") -> Answer:
        """Hydrate a thread."""
        return await self.send(looks(thread), scope=scope)


class Hosts:
    """Starts hosts over one world. `a`, `b` and `c` are there from the beginning and do nothing by themselves."""

    a: Host
    b: Host
    c: Host

    def __init__(self, world: World, bank_url: str, stack: AsyncExitStack) -> None:
        self._world = world
        self._bank_url = bank_url
        self._stack = stack

    def beside(self, stack: AsyncExitStack) -> Hosts:
        """Return an empty set of hosts over the same world, which end with `stack`."""
        return Hosts(self._world, self._bank_url, stack)

    @property
    def is_transactional(self) -> bool:
        """Whether the stores of this world can run a tool in their own transaction."""
        return self._world.is_transactional

    @property
    def is_certain(self) -> bool:
        """Whether this world's ledger keeps what it acknowledged: only then a refusal can be definite."""
        return self.a.stores.durable

    async def start(
        self,
        *,
        like: Host | None = None,
        decorate: Callable[[Stores], Stores] = lambda stores: stores,
        steps: Steps | None = None,
        metrics: Metrics | None = None,
        **changes: Any,
    ) -> Host:
        """Start one more host; `changes` are settings. Answers when it has said that it lives.

        It has connections of its own, unless it shall share those of another.
        """
        stores = like.stores if like else await self._stack.enter_async_context(self._world.open_another())
        stores = decorate(stores)
        steps = steps or Steps()
        app = create_app(self.settings(**changes), stores=stores, on_step=steps, metrics=metrics)
        before = len(await stores.replicas.seen())
        await self._stack.enter_async_context(app.router.lifespan_context(app))
        self._stack.callback(steps.let_go)
        transport = httpx.ASGITransport(app, client=(PEER, 1))
        client = await self._stack.enter_async_context(httpx.AsyncClient(transport=transport, base_url="http://host"))
        await self.until(lambda: _has_more_than(before, stores))
        return Host(app, client, stores, steps)

    async def until(self, is_so: Callable[[], Awaitable[object]]) -> None:
        """Wait for a condition."""
        async with asyncio.timeout(WAIT_SECONDS_MAX):
            while not await is_so():
                await asyncio.sleep(POLL_SECONDS)

    async def loaded(self, thread: str) -> Loaded:
        """Read alice's thread from the store."""
        return await self.a.stores.threads.load(key_of(thread))

    async def is_closed(self, thread: str) -> bool:
        """Whether nothing of a thread is open and nobody works on it."""
        record = (await self.loaded(thread)).record
        return not record.occurrences and record.claim is None

    async def make_due(self, thread: str) -> None:
        """Bring the time forward at which a reconciler next looks at a thread."""
        loaded = await self.loaded(thread)
        change = Change(loaded.record.version, uuid4().hex, loaded.record, due_at=loaded.now)
        assert isinstance(await self.a.stores.threads.save(key_of(thread), change=change), Saved)

    async def dump(self) -> str:
        """Return everything that is stored, as text."""
        return await self._world.dump()

    async def dump_threads(self) -> str:
        """Return everything but who said when that it lives."""
        lines = (await self.dump()).splitlines()
        return "\n".join(line for line in lines if not line.startswith(("replicas: ", "agui_replicas: ")))

    async def answered(self, host: Host, body: Json, *, unless: str) -> Answer:
        """Send the same again, as clients do, until the answer has another code than `unless`."""
        found: list[Answer] = []

        async def is_answered() -> bool:
            found.append(await host.send(body))
            return found[-1].code != unless

        await self.until(is_answered)
        return found[-1]

    def settings(self, **changes: Any) -> Settings:
        """Return what a host of this world is started with."""
        defaults: dict[str, Any] = {
            "environment": Environment.DEVELOPMENT,
            "scope": ScopeResolver.HEADER,
            "scope_header": SCOPE_HEADER,
            "trusted_proxies": f"{PEER}/32",
            "bank_url": self._bank_url,
            "lease_seconds": STILL_SECONDS,
            "reconcile_seconds": STILL_SECONDS,
            "keepalive_seconds": STILL_SECONDS,
            "drain_seconds": WAIT_SECONDS_MAX,
        }
        return Settings(**{**defaults, **changes})


def key_of(thread: str) -> ThreadKey:
    """Return the key of alice's thread."""
    return ThreadKey(Scope("alice"), "payments", thread)


async def _has_more_than(count: int, stores: Stores) -> bool:
    return len(await stores.replicas.seen()) > count
