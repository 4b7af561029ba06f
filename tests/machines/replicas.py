"""Replicas in this process that crash and freeze at named steps, lose replies, and have clocks of their own."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any
from unittest.mock import patch

import httpx

from app import main
from app.reconciler import Reconciler
from app.replicas import Replica
from app.settings import Environment, ScopeResolver, Settings
from stores.errors import StoreUnavailable, WriteInDoubt
from stores.ports import Stores
from stores.records import EffectState, ThreadKey
from tests.host.hosts import PEER, SCOPE_HEADER, STILL_SECONDS, WAIT_SECONDS_MAX, Host, Steps
from tests.host.worlds import World

LEASE_SECONDS = STILL_SECONDS
"""Time passes here only where a test says so: on the clocks of the replicas, by leases."""


class Pulse(Enum):
    """How a replica is. One that is gone is being cleared away, after the test."""

    UP = "up"
    FROZEN = "frozen"
    DEAD = "dead"
    GONE = "gone"


class Clock:
    """The time of one replica: what passed for all, and by how much it is wrong."""

    def __init__(self, passed: Clock | None = None) -> None:
        self._passed = passed
        self.seconds = 0.0

    def __call__(self) -> float:
        return self.seconds + (self._passed() if self._passed else 0.0)


@dataclass(slots=True, eq=False)
class Living:
    """One replica: its host, and the gate that every step and every store call of it passes, before and after."""

    name: str
    clock: Clock
    on_death: Callable[[Living], Awaitable[None]]
    pulse: Pulse = Pulse.UP
    trouble: tuple[str, Pulse] | None = None
    stopped: asyncio.Event = field(default_factory=asyncio.Event)
    lost: dict[str, int] = field(default_factory=dict)
    begun: list[tuple[ThreadKey, str]] = field(default_factory=list)
    in_flight: int = 0
    host: Host = field(init=False)
    replica: Replica = field(init=False)
    reconciler: Reconciler = field(init=False)
    _thawed: asyncio.Event = field(default_factory=asyncio.Event)

    async def on_step(self, name: str, _key: ThreadKey) -> None:
        self.in_flight -= name == "after-effect"
        await self.pass_gate()
        if self.trouble is not None and self.trouble[0] == name:
            pulse, self.trouble = self.trouble[1], None
            await (self.crash() if pulse is Pulse.DEAD else self.freeze())
            await self.pass_gate()
        self.in_flight += name == "before-effect"

    async def pass_gate(self) -> None:
        """Go on, if and when it may: a process that is frozen stands still, one that is dead does nothing more."""
        while self.pulse is Pulse.FROZEN:
            await self._thawed.wait()
        if self.pulse is Pulse.DEAD:
            raise asyncio.CancelledError
        if self.pulse is Pulse.GONE:
            raise StoreUnavailable("the replica is gone")

    async def freeze(self) -> None:
        self.pulse = Pulse.FROZEN
        self._thawed.clear()
        await self.on_death(self)
        self.stopped.set()

    async def crash(self) -> None:
        """Do nothing more from now on; what is on its way to a store or to the bank gets there."""
        self._become(Pulse.DEAD)
        await self.on_death(self)
        self.stopped.set()

    def thaw(self) -> None:
        self.stopped.clear()
        self._become(Pulse.UP)

    def clear_away(self) -> None:
        self._become(Pulse.GONE)

    def _become(self, pulse: Pulse) -> None:
        self.pulse = pulse
        self._thawed.set()


@dataclass(frozen=True, slots=True)
class Gated:
    """A port as one replica reaches it: through its gate, and not every reply comes back."""

    inner: Any
    living: Living

    def __getattr__(self, name: str) -> Any:
        call = getattr(self.inner, name)
        living = self.living

        async def gated(*arguments: Any, **named: Any) -> Any:
            await living.pass_gate()
            if name == "begin":
                living.begun.append((arguments[0], named["interrupt_id"]))
            living.in_flight += name == "settle"
            try:
                answer = await call(*arguments, **named)
            finally:
                living.in_flight -= name == "settle"
            await living.pass_gate()
            step = "claim" if name == "save" and named["change"].record.claim is not None else name
            living.lost[step] = living.lost.get(step, 0) - 1
            if living.lost[step] >= 0:
                raise WriteInDoubt("no reply")
            return answer

        return gated


@dataclass(frozen=True, slots=True)
class Judging:
    """The registry as one replica sees it: how long the others were silent, by its own clock."""

    inner: Any
    living: Living
    passed: Clock
    beats: dict[str, float]

    async def heartbeat(self, holder: str, *, label: str) -> None:
        await self.living.pass_gate()
        self.beats[holder] = self.passed()
        await self.inner.heartbeat(holder, label=label)

    async def seen(self) -> dict[str, float]:
        await self.living.pass_gate()
        return {holder: self.living.clock() - self.beats[holder] for holder in await self.inner.seen()}

    async def forget(self, holder: str) -> None:
        await self.living.pass_gate()
        await self.inner.forget(holder)


class Replicas:
    """Starts replicas over one world, and lets time pass for them. `raw` reads the stores past every gate."""

    def __init__(
        self,
        world: World,
        raw: Stores,
        bank_url: str,
        stack: AsyncExitStack,
        on_fault: Callable[[Living], Awaitable[None]],
    ) -> None:
        self.raw = raw
        self.all: list[Living] = []
        self._world = world
        self._bank_url = bank_url
        self._stack = stack
        self._on_fault = on_fault
        self._passed = Clock()
        self._beats: dict[str, float] = {}

    def up(self) -> list[Living]:
        return [each for each in self.all if each.pulse is Pulse.UP]

    async def start(self, *, is_apart: bool) -> Living:
        """Start one more; `is_apart`: it writes the ledger in steps of its own, as where that is another store."""
        stores = await self._stack.enter_async_context(self._world.open_another())
        living = Living(f"replica-{len(self.all)}", Clock(self._passed), self._on_fault)
        gated = replace(
            stores,
            threads=Gated(stores.threads, living),
            effects=Gated(stores.effects, living),
            replicas=Judging(stores.replicas, living, self._passed, self._beats),
            shared=stores.shared and not is_apart,
        )
        with _noted(living):
            app = main.create_app(_settings(self._bank_url), stores=gated, on_step=living.on_step)
            await self._stack.enter_async_context(app.router.lifespan_context(app))
        self._stack.callback(living.clear_away)
        transport = httpx.ASGITransport(app, client=(PEER, 1))
        client = await self._stack.enter_async_context(httpx.AsyncClient(transport=transport, base_url="http://host"))
        living.host = Host(app, client, stores, Steps())
        self.all.append(living)
        await living.replica.heartbeat()
        return living

    @property
    def is_anyone_silent(self) -> bool:
        """Whether one does nothing any more, and the others do not know it yet."""
        stopped = (each for each in self.all if each.pulse in (Pulse.DEAD, Pulse.FROZEN))
        return any(self._passed() - self._beats[each.replica.holder] <= LEASE_SECONDS for each in stopped)

    async def let_lease_pass(self) -> None:
        """Whoever is silent is dead to the others afterwards."""
        for _ in range(5):
            self._passed.seconds += LEASE_SECONDS / 2
            for each in self.up():
                await each.replica.heartbeat()

    async def misjudge(self, living: Living) -> None:
        """Let the clock of one run so fast that it takes all others for dead."""
        for _ in range(5):
            living.clock.seconds += LEASE_SECONDS / 2
            await living.replica.heartbeat()

    async def left_begun(self, living: Living) -> frozenset[str]:
        """Return the calls that a replica, dead now, began and did not settle."""
        async with asyncio.timeout(WAIT_SECONDS_MAX):
            while living.in_flight > 0:
                await asyncio.sleep(0)
        rows = [(await self.raw.effects.read(key, interrupts=[name])).get(name) for key, name in living.begun]
        return frozenset(row.interrupt_id for row in rows if row is not None and row.state is EffectState.BEGUN)


@contextmanager
def _noted(living: Living) -> Iterator[None]:
    """Let a host be made of its real parts, and note two of them: the one that judges, and the one that takes over."""

    def make_replica(*arguments: Any, **named: Any) -> Replica:
        living.replica = Replica(*arguments, **named, clock=living.clock)
        return living.replica

    def make_reconciler(*arguments: Any, **named: Any) -> Reconciler:
        living.reconciler = Reconciler(*arguments, **named, clock=living.clock)
        return living.reconciler

    with patch.object(main, "Replica", make_replica), patch.object(main, "Reconciler", make_reconciler):
        yield


def _settings(bank_url: str) -> Settings:
    return Settings(
        environment=Environment.DEVELOPMENT,
        scope=ScopeResolver.HEADER,
        scope_header=SCOPE_HEADER,
        trusted_proxies=f"{PEER}/32",
        bank_url=bank_url,
        lease_seconds=LEASE_SECONDS,
        reconcile_seconds=STILL_SECONDS,
        keepalive_seconds=STILL_SECONDS,
        drain_seconds=WAIT_SECONDS_MAX,
        tool_seconds=WAIT_SECONDS_MAX,
        run_seconds=10 * WAIT_SECONDS_MAX,
    )
