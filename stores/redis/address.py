"""Reads and checks what a host says about its Redis: a wrong setting is named before anything is connected to."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from redis.asyncio.connection import parse_url

from stores.options import RedisOptions

DEFAULT_PORT = 6379
DEFAULT_SENTINEL_PORT = 26379


@dataclass(frozen=True, slots=True)
class Address:
    """Where a Redis is and who we are there; `path` is a unix socket's. With Sentinels nothing here says where."""

    host: str
    port: int
    path: str
    database: int
    is_tls: bool
    username: str | None
    password: str | None = field(repr=False)


def address_of(options: RedisOptions) -> Address:
    """Return the address that the options name. Raises ValueError that names the setting which is wrong."""
    if bool(options.sentinels) != bool(options.sentinel_service):
        raise ValueError("AGUI_REDIS_SENTINELS and AGUI_REDIS_SENTINEL_SERVICE belong together: one of them is empty.")
    if not options.sentinels and (options.sentinel_username or options.sentinel_password):
        raise ValueError("AGUI_REDIS_SENTINEL_USERNAME and _PASSWORD are for AGUI_REDIS_SENTINELS, which is empty.")
    if not options.sentinels and not options.url:
        raise ValueError("AGUI_REDIS_URL is empty: redis://host:6379/0, rediss:// for TLS, or unix:///path.")
    address = _parsed(options)
    _check_place(options, address)
    _check_files(options, address)
    return address


def sentinel_addresses(options: RedisOptions) -> list[tuple[str, int]]:
    """Return host and port of every Sentinel. Raises ValueError if a text is not that."""
    return [_host_and_port(text) for text in options.sentinels]


def _parsed(options: RedisOptions) -> Address:
    url = options.url or "redis://"
    try:
        parts = urlsplit(url)
        parsed: dict[str, Any] = {**parse_url(url)}
    except ValueError:
        # Without the library's words, which may quote the URL and its password.
        raise ValueError("AGUI_REDIS_URL can not be read: redis://, rediss:// or unix:// and an address.") from None
    if set(parse_qs(parts.query, keep_blank_values=True)) - {"db"}:
        # They would go before what is stated here: time-outs, pool size, how certificates are checked.
        raise ValueError("AGUI_REDIS_URL can have no options but db: there are settings for them.")
    if parts.scheme != "unix" and parts.path.strip("/") and not parts.path.strip("/").isdecimal():
        raise ValueError("AGUI_REDIS_URL names a database that is no number.")
    return Address(
        host=str(parsed.get("host", "")),
        port=int(parsed.get("port", DEFAULT_PORT)),
        path=str(parsed.get("path", "")),
        database=int(parsed.get("db", 0)),
        is_tls=parts.scheme == "rediss",
        username=options.username or parsed.get("username"),
        password=options.password or parsed.get("password"),
    )


def _check_place(options: RedisOptions, address: Address) -> None:
    if not options.sentinels and not address.host and not address.path:
        raise ValueError("AGUI_REDIS_URL names neither a host nor a path.")
    if options.sentinels and address.path:
        raise ValueError("AGUI_REDIS_URL is a unix socket: AGUI_REDIS_SENTINELS, which say where to go, can not be.")
    if options.is_cluster and options.sentinels:
        raise ValueError("AGUI_REDIS_CLUSTER and AGUI_REDIS_SENTINELS exclude each other.")
    if options.is_cluster and address.path:
        raise ValueError("AGUI_REDIS_URL is a unix socket: with AGUI_REDIS_CLUSTER it must be a node's host and port.")
    if options.is_cluster and address.database:
        raise ValueError("AGUI_REDIS_URL names a database: with AGUI_REDIS_CLUSTER there is only 0.")


def _check_files(options: RedisOptions, address: Address) -> None:
    files = {
        "AGUI_REDIS_CA_FILE": options.ca_file,
        "AGUI_REDIS_CERTIFICATE_FILE": options.certificate_file,
        "AGUI_REDIS_KEY_FILE": options.key_file,
    }
    for setting, name in files.items():
        if name and not address.is_tls:
            raise ValueError(f"{setting} is for TLS: AGUI_REDIS_URL must be rediss://.")
        if name and not Path(name).is_file():
            raise ValueError(f"{setting} names no file.")
    if options.key_file and not options.certificate_file:
        raise ValueError("AGUI_REDIS_KEY_FILE is the key of AGUI_REDIS_CERTIFICATE_FILE, which is empty.")


def _host_and_port(text: str) -> tuple[str, int]:
    try:
        parts = urlsplit(f"//{text}")
        host, port = parts.hostname, parts.port or DEFAULT_SENTINEL_PORT
    except ValueError:
        host, port = None, 0
    # What is left out or too much (a scheme, a password, a path) makes the address another text than it was given as.
    if (
        not host
        or text.split() != [text]
        or text.lower() not in {host, f"{host}:{port}", f"[{host}]:{port}", f"[{host}]"}
    ):
        raise ValueError("AGUI_REDIS_SENTINELS must be host:port, separated by commas.")
    return host, port
