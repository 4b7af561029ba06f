"""Every response names the replica that served it, refusals too; a host without a name adds nothing."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
import pytest

from app.main import create_app
from app.settings import Environment, ScopeResolver, Settings


@asynccontextmanager
async def client_of(replica_name: str) -> AsyncIterator[httpx.AsyncClient]:
    settings = Settings(
        environment=Environment.DEVELOPMENT, scope=ScopeResolver.FIXED, replica_name=replica_name, body_bytes_max=10
    )
    # Not started: no agents and no stores, which these answers do not need.
    transport = httpx.ASGITransport(create_app(settings))
    async with httpx.AsyncClient(transport=transport, base_url="http://host") as client:
        yield client


@pytest.mark.parametrize(("path", "status"), [("/no-such-path", 404), ("/openapi.json", 200)])
async def test_response_names_the_replica(path: str, status: int) -> None:
    async with client_of("host-7") as client:
        response = await client.get(path)

    assert (response.status_code, response.headers["x-agui-replica"]) == (status, "host-7")


async def test_host_without_a_name_adds_no_header() -> None:
    async with client_of("") as client:
        assert "x-agui-replica" not in (await client.get("/openapi.json")).headers
