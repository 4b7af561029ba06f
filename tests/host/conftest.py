"""Three hosts over one fresh world of every kind, and a bank of their own."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from pathlib import Path

import pytest

from tests.host.bank import Bank, open_bank
from tests.host.hosts import Hosts
from tests.host.worlds import World, memory_world, postgres_world, redis_world, sqlite_world

ON_REDIS_TOO = {
    "test_duplicates_at_once",
    "test_lost_parts",
    "test_store_failures",
    "test_timelines_lost_writes",
}
ABOUT_THE_ROAD = {
    *("test_more_input", "test_siblings", "test_standing_rules"),
    *("test_doubts_command", "test_one_id", "test_open_interrupts_shown"),
    *("test_bad_bodies", "test_bad_input", "test_busy_threads", "test_decisions", "test_detached_runs", "test_expiry"),
    *("test_context_providers", "test_edited_arguments", "test_expiry_per_tool", "test_foreign_answers"),
    *("test_hold_back", "test_hosted_tools", "test_hostile_clients", "test_hydration", "test_model_failures"),
    *("test_draining", "test_open_approvals_limit"),
    *("test_answers_in_turn", "test_scenarios_approvals", "test_scenarios_streaming", "test_tool_failures"),
}
"""What these try depends on a store in nothing that tests/conformance does not try: `make test` has them on PostgreSQL.
The others it has on memory too, and some on Redis, whose every step tests/conformance tries; on SQLite tests/e2e kills
replicas. `make prove` has everything on everything."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark as slow what is tried elsewhere too."""
    for item in items:
        world = getattr(item, "callspec", None) and item.callspec.params.get("_fresh_world")  # type: ignore[attr-defined]  # only where parametrized
        if world and _is_tried_elsewhere(world, item.path.stem):
            item.add_marker(pytest.mark.slow)


def _is_tried_elsewhere(world: str, file: str) -> bool:
    match world:
        case "postgres":
            return False
        case "memory":
            return file in ABOUT_THE_ROAD
        case "redis":
            return file not in ON_REDIS_TOO
    return True


@pytest.fixture(
    params=[
        "memory",
        "sqlite",
        pytest.param("postgres", marks=pytest.mark.external_service),
        pytest.param("redis", marks=pytest.mark.external_service),
    ]
)
def _fresh_world(request: pytest.FixtureRequest, tmp_path: Path) -> AbstractAsyncContextManager[World]:
    if request.param == "memory":
        return memory_world()
    if request.param == "sqlite":
        return sqlite_world(request.getfixturevalue("sqlite_template"), tmp_path)
    if request.param == "redis":
        return redis_world(request.getfixturevalue("redis_url"))
    return postgres_world(request.getfixturevalue("postgres_database"))


@pytest.fixture(autouse=True)
def _no_certificates(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """All is plain HTTP here; reading every certificate authority there is takes 40 ms per client."""
    monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    monkeypatch.setenv("SSL_CERT_DIR", str(tmp_path))


@pytest.fixture
async def bank(_no_certificates: None) -> AsyncIterator[Bank]:
    """A bank that nobody else uses."""
    async with open_bank() as bank:
        yield bank


@pytest.fixture
async def hosts(_fresh_world: AbstractAsyncContextManager[World], bank: Bank) -> AsyncIterator[Hosts]:
    """Three hosts: A is asked, B is answered to, C gets what comes twice. C shares its connections with A."""
    async with _fresh_world as world, AsyncExitStack() as stack:
        hosts = Hosts(world, bank.url, stack)
        hosts.a, hosts.b = await hosts.start(), await hosts.start()
        hosts.c = await hosts.start(like=hosts.a)
        yield hosts
