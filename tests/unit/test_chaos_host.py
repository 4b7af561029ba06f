"""The host of chaos runs: each replica reaches its stores by a way of its own."""

from __future__ import annotations

import json

import pytest

from loadtests.host import PORTS_VARIABLE, own_urls

ENVIRONMENT = {
    "AGUI_REPLICA_NAME": "host-1",
    "AGUI_DATABASE_URL": "postgresql+psycopg://agui:se%40cret@127.0.0.1:5432/approvals?sslmode=disable",
    "AGUI_REDIS_URL": "redis://127.0.0.1:6379/3",
}


def ports(**of_replicas: dict[str, int]) -> dict[str, str]:
    return {PORTS_VARIABLE: json.dumps({name.replace("_", "-"): stores for name, stores in of_replicas.items()})}


def test_only_the_port_of_a_url_is_another() -> None:
    assert own_urls({**ENVIRONMENT, **ports(host_1={"sql": 5001, "redis": 5002}, host_2={"sql": 6001})}) == {
        "database_url": "postgresql+psycopg://agui:se%40cret@127.0.0.1:5001/approvals?sslmode=disable",
        "redis_url": "redis://127.0.0.1:5002/3",
    }


def test_a_store_without_a_way_of_its_own_is_reached_as_its_url_says() -> None:
    assert set(own_urls({**ENVIRONMENT, **ports(host_1={"redis": 5002})})) == {"redis_url"}


@pytest.mark.parametrize("environment", [{}, ports(), ports(host_2={"sql": 6001})])
def test_a_replica_that_is_not_named_changes_nothing(environment: dict[str, str]) -> None:
    assert own_urls({**ENVIRONMENT, **environment}) == {}


@pytest.mark.parametrize(
    "url", ["", "sqlite+aiosqlite:///agui.db", "postgresql+psycopg://a@one:5432,two:5432/approvals"]
)
def test_a_url_without_one_host_can_not_have_another_port(url: str) -> None:
    with pytest.raises(ValueError, match="does not name one host"):
        own_urls({**ENVIRONMENT, "AGUI_DATABASE_URL": url, **ports(host_1={"sql": 5001})})
