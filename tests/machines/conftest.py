"""What the machines need around them: a fresh world for every example, and no certificates."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from itertools import count
from pathlib import Path

import pytest

from tests.host.worlds import World, memory_world, postgres_world, redis_world, sqlite_world

SEED = "MACHINES_SEED"
"""The environment variable that names the seed of all examples."""

MakeWorld = Callable[[], AbstractAsyncContextManager[World]]


@pytest.fixture(
    params=[
        "memory",
        pytest.param("sqlite", marks=pytest.mark.slow),
        pytest.param("postgres", marks=[pytest.mark.external_service, pytest.mark.slow]),
        pytest.param("redis", marks=pytest.mark.external_service),
    ]
)
def make_world(request: pytest.FixtureRequest, tmp_path: Path) -> MakeWorld:
    """What opens a fresh world, as often as there are examples."""
    if request.param == "memory":
        return memory_world
    if request.param == "sqlite":
        template, numbers = request.getfixturevalue("sqlite_template"), count()

        def make_sqlite() -> AbstractAsyncContextManager[World]:
            folder = tmp_path / str(next(numbers))
            folder.mkdir()
            return sqlite_world(template, folder)

        return make_sqlite
    if request.param == "redis":
        redis_url = request.getfixturevalue("redis_url")
        return lambda: redis_world(redis_url)
    database_url = request.getfixturevalue("postgres_database")
    return lambda: postgres_world(database_url)


@pytest.fixture
def machines_seed(request: pytest.FixtureRequest) -> int:
    """What examples are drawn from: the same in every `make test`, new ones in `make prove`. Printed if one fails."""
    drawn = secrets.randbelow(2**32) if request.node.get_closest_marker("slow") else 1
    seed = int(os.environ.get(SEED, drawn))
    print(f"{SEED}={seed}")
    return seed


@pytest.fixture(autouse=True)
def _no_certificates(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """All is plain HTTP here; reading every certificate authority there is takes 40 ms per client."""
    monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    monkeypatch.setenv("SSL_CERT_DIR", str(tmp_path))
