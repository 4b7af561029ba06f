"""Real servers for tests and load tests, from wheels: each is a process of our own that ends with its starter."""

from __future__ import annotations

from tests.servers.postgresql import Postgres, postgres
from tests.servers.valkey import RedisServer, redis

__all__ = ["Postgres", "RedisServer", "postgres", "redis"]
