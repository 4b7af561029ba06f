"""Answers one run of an agent of upstream's tests as this project's host does, on a replica of its own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import Any

from ag_ui.core import BaseEvent
from agent_framework_ag_ui import AgentFrameworkAgent
from agent_framework_ag_ui._snapshots import _SNAPSHOT_SCOPE_INPUT_KEY  # noqa: PLC2701  # what an endpoint gives `run`

from app.agents.models import make_model
from app.assembly import approval_authority, run_limits
from app.drain import Drain
from app.metrics import Metrics
from app.releases import Releases
from app.replicas import Replica
from app.run_request import named
from app.runner import HostAgent
from app.settings import Environment, ScopeResolver, Settings
from app.steps import no_step
from stores.ports import Stores
from tests.upstream_suite.doubles import builder
from tests.upstream_suite.joined_threads import JoinedThreads
from tests.upstream_suite.local_state import LocalState
from tests.upstream_suite.worlds import Opener, World

NAME = "upstream-suite"
NO_SCOPE = NAME
"""The scope of a test that calls `run` by itself, where no endpoint has resolved one."""
OURS = {"require_confirmation", "snapshot_store"}
"""What this host settles for every agent; the rest of a test's configuration is kept."""
SETTINGS = Settings(environment=Environment.DEVELOPMENT, scope=ScopeResolver.FIXED)
METRICS = Metrics()


class Served:
    """The runs of one test. What they leave running is kept until the test ends."""

    def __init__(self, new_world: Opener) -> None:
        self._new_world = new_world
        self._worlds: dict[int, tuple[object, World]] = {}
        self._closing: list[asyncio.Task[None]] = []

    async def run(
        self,
        upstreams: AgentFrameworkAgent,
        input_data: dict[str, Any],
        function_invocation_kwargs: Mapping[str, Any] | None,
    ) -> AsyncGenerator[BaseEvent, None]:
        """Yield what a new replica answers; the run and its stores outlive a reader that leaves."""
        stack, drain = AsyncExitStack(), Drain()
        stores = _joined(await stack.enter_async_context(self._world(upstreams)()), upstreams)
        try:
            scoped = {_SNAPSHOT_SCOPE_INPUT_KEY: NO_SCOPE, **input_data}
            local = LocalState(upstreams, named(scoped, NAME)[0], input_data)
            host = await _host(upstreams, stores, drain, is_asked=local.is_put_in)
            await local.put_in(stores, host._tools)
            async for event in host.run(scoped, function_invocation_kwargs=function_invocation_kwargs):
                yield event
            await local.show(stores)
        finally:
            self._closing.append(asyncio.create_task(_close(stack, drain)))

    def _world(self, upstreams: AgentFrameworkAgent) -> World:
        """Return the stores of an agent: those who share a snapshot store are replicas, and share the rest too."""
        owner: object = upstreams.snapshot_store or upstreams
        return self._worlds.setdefault(id(owner), (owner, self._new_world()))[1]


async def _close(stack: AsyncExitStack, drain: Drain) -> None:
    while drain.tasks:
        await asyncio.wait(drain.tasks)
    await stack.aclose()


async def _host(upstreams: AgentFrameworkAgent, stores: Stores, drain: Drain, *, is_asked: bool) -> HostAgent:
    replica = Replica(stores.replicas, lease_seconds=SETTINGS.lease_seconds, label=NAME)
    await replica.heartbeat()
    retries_max = SETTINGS.reconcile_retries_max
    releases = Releases(stores, holder=replica.holder, retries_max=retries_max, on_step=no_step, metrics=METRICS)
    host = HostAgent(
        NAME,
        builder(upstreams.agent, make_model(SETTINGS), is_asked=is_asked),
        authority=approval_authority(SETTINGS, stores, replica, releases, no_step, METRICS),
        releases=releases,
        stores=stores,
        limits=run_limits(SETTINGS),
        drain=drain,
        on_step=no_step,
        is_development=False,
        metrics=METRICS,
    )
    for name, value in vars(upstreams.config).items():
        if name not in OURS:
            setattr(host.config, name, value)
    return host


def _joined(stores: Stores, upstreams: AgentFrameworkAgent) -> Stores:
    snapshots = upstreams.snapshot_store
    return stores if snapshots is None else replace(stores, threads=JoinedThreads(stores.threads, snapshots))
