"""The composition root: builds everything from the settings and hands it down. Read this file first."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, nullcontext, suppress
from functools import partial

import httpx
from agent_framework_ag_ui import add_agent_framework_fastapi_endpoint
from fastapi import Depends, FastAPI
from sse_starlette.sse import AppStatus

from app import upstream
from app.agents.models import make_model
from app.agents.payments import build_agent
from app.assembly import approval_authority, run_limits
from app.body_limit import BodyLimit
from app.concurrency import ConcurrencyLimits, RunSlots, door
from app.drain import Drain, on_stop_signal
from app.health import health_routes, not_draining
from app.metrics import Metrics
from app.reconciler import Reconciler
from app.releases import Releases
from app.replica_header import ReplicaHeader
from app.replicas import Replica
from app.retention import Retention
from app.runner import HostAgent
from app.scope import scope_resolver
from app.send_limit import SendLimit
from app.settings import Environment, Settings
from app.steps import OnStep, no_step
from app.storable_text import storable_text
from stores import open_stores
from stores.errors import StoreError
from stores.ports import Stores

_log = logging.getLogger(__name__)


def create_app_from_environment() -> FastAPI:
    """Return a host configured by AGUI_* variables alone: what uvicorn's --factory is given."""
    return create_app(Settings())


def create_app(
    settings: Settings, *, stores: Stores | None = None, on_step: OnStep = no_step, metrics: Metrics | None = None
) -> FastAPI:
    """Return the host. `stores` that are given are used and not closed; `on_step` is for tests alone.

    `metrics` None: what is counted goes to the process's own OpenTelemetry provider.
    """
    counted = metrics or Metrics()
    upstream.share_histograms()

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        # sse-starlette cuts every stream at SIGTERM; ours end when their runs do, within the drain's grace period.
        AppStatus.enable_automatic_graceful_drain = False
        # Tools that are plain functions run in these, and so do look-ups of names: asyncio's own would be far too few.
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(settings.tool_threads_max, "tool"))
        async with AsyncExitStack() as stack:
            opened = await stack.enter_async_context(_stores(settings) if stores is None else nullcontext(stores))
            # Servers close idle connections after 5 s or more; a call on one that is just closing would be in doubt.
            limits = httpx.Limits(max_connections=100, max_keepalive_connections=20, keepalive_expiry=2.0)
            client = httpx.AsyncClient(base_url=settings.bank_url, timeout=settings.tool_seconds, limits=limits)
            bank = await stack.enter_async_context(client)
            await stack.enter_async_context(_serving(app, settings, opened, bank, on_step, counted))
            yield

    app = FastAPI(title="AG-UI replicas", lifespan=lifespan)
    app.add_middleware(BodyLimit, bytes_max=settings.body_bytes_max)
    app.add_middleware(ReplicaHeader, name=settings.replica_name)
    app.add_middleware(SendLimit, seconds=settings.send_seconds)
    return app


def _stores(settings: Settings) -> AbstractAsyncContextManager[Stores]:
    return open_stores(settings.store_options())


@asynccontextmanager
async def _serving(
    app: FastAPI, settings: Settings, stores: Stores, bank: httpx.AsyncClient, on_step: OnStep, metrics: Metrics
) -> AsyncIterator[None]:
    """Register the agents, keep house while the host serves, and drain before it ends."""
    drain = Drain()
    replica = Replica(stores.replicas, lease_seconds=settings.lease_seconds, label=settings.replica_name)
    retries_max = settings.reconcile_retries_max
    releases = Releases(stores, holder=replica.holder, retries_max=retries_max, on_step=on_step, metrics=metrics)
    authority = approval_authority(settings, stores, replica, releases, on_step, metrics)
    model = make_model(settings)
    payments = HostAgent(
        "payments",
        lambda: build_agent(model, bank=bank, transactional=stores.transactional),
        authority=authority,
        releases=releases,
        stores=stores,
        limits=run_limits(settings),
        drain=drain,
        on_step=on_step,
        is_development=settings.environment is Environment.DEVELOPMENT,
        metrics=metrics,
    )
    agents = {payments.host_name: payments}
    resolver = scope_resolver(settings)
    enter = door(RunSlots(_concurrency(settings), on_refusal=metrics.limit_refused), resolver)
    app.include_router(health_routes(drain, stores.check))
    for name, agent in agents.items():
        add_agent_framework_fastapi_endpoint(
            app,
            agent,
            f"/agents/{name}",
            dependencies=[Depends(not_draining(drain)), Depends(storable_text), Depends(enter)],
            authorization_scope_resolver=resolver,
            keepalive_seconds=settings.keepalive_seconds,
        )
    reconciler = Reconciler(
        stores.threads,
        replica,
        agents,
        drain=drain,
        batch=settings.reconcile_batch,
        pause_seconds=settings.reconcile_seconds,
    )
    retention = Retention(
        stores,
        drain=drain,
        age_seconds=settings.retention_terminal_seconds,
        batch=settings.purge_batch,
        pause_seconds=settings.purge_seconds,
    )
    housekeeping = [asyncio.create_task(reconciler.run()), asyncio.create_task(retention.run())]
    # These two go on while the host drains.
    living = [asyncio.create_task(replica.run()), asyncio.create_task(releases.run(replica.heartbeat_seconds))]
    for task in (*housekeeping, *living):
        task.add_done_callback(partial(_drain_if_dead, drain, settings.drain_seconds))
    try:
        with on_stop_signal(lambda: drain.begin(settings.drain_seconds)):
            yield
    finally:
        for task in housekeeping:
            task.cancel()
        await drain.close(settings.drain_seconds)
        for task in living:
            task.cancel()
        await asyncio.gather(*housekeeping, *living, return_exceptions=True)
        with suppress(StoreError):
            await replica.leave()


def _drain_if_dead(drain: Drain, grace_seconds: float, task: asyncio.Task[None]) -> None:
    """Take no more runs where something that must go on has ended: others would take this host for dead."""
    if not task.cancelled():
        _log.critical("Housekeeping ended; this host drains", exc_info=task.exception())
        drain.begin(grace_seconds)


def _concurrency(settings: Settings) -> ConcurrencyLimits:
    return ConcurrencyLimits(settings.runs_max, settings.runs_per_scope_max, settings.runs_resume_share)
