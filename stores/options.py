"""What a host says about its stores: which technology keeps what, and how it is reached."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class RedisOptions:
    """How Redis is reached.

    `url` is redis://, rediss:// (TLS) or unix://, with user and password or without. `sentinels` are host:port of the
    Sentinels that know where the primary of `sentinel_service` is; the URL's address is not used then, all else of it
    is. `is_cluster`: the URL's address is one node of a Redis Cluster. `username` and `password` are for ACLs and go
    before those of the URL; the Sentinels are given `sentinel_username` and `sentinel_password`. The files are PEM:
    the authority that signed the server's certificate, and our own certificate where the server asks for one.
    """

    url: str = field(default="", repr=False)
    username: str = ""
    password: str = field(default="", repr=False)
    sentinels: tuple[str, ...] = ()
    sentinel_service: str = ""
    sentinel_username: str = ""
    sentinel_password: str = field(default="", repr=False)
    is_cluster: bool = False
    ca_file: str = ""
    certificate_file: str = ""
    key_file: str = ""


@dataclass(frozen=True, slots=True)
class StoreOptions:
    """Where threads, effects and checkpoints are kept, and the limits of every connection.

    `threads`, `effects` and `checkpoints` each name a technology (`memory`, `sql`, `redis`) or your own
    (`package.module:name`); the last two, if empty, are where the threads are. `timeout_seconds` is after how long a
    call counts as unanswered, `pool_size` how many connections a technology keeps, twice if tools use transactions.
    `is_pooled`: between us and PostgreSQL is a pooler in transaction mode. `clock` is for memory alone: every other
    store goes by its own.
    """

    threads: str
    effects: str = ""
    checkpoints: str = ""
    database_url: str = field(default="", repr=False)
    is_pooled: bool = False
    redis: RedisOptions = RedisOptions()
    timeout_seconds: float = 5.0
    pool_size: int = 10
    clock: Callable[[], float] | None = None
