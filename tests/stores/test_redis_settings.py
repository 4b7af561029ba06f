"""What a host may say about its Redis, and how it is told that it can not."""

from __future__ import annotations

from pathlib import Path

import pytest

from stores import open_stores
from stores.options import RedisOptions, StoreOptions
from stores.redis.address import address_of, sentinel_addresses
from tests.servers import RedisServer, redis
from tests.stores.redis_clients import GET, SET, client_of

HERE = str(Path(__file__))
SENTINELS = {"sentinels": ("s1:26379",), "sentinel_service": "main"}


@pytest.mark.parametrize(
    ("options", "setting"),
    [
        ({"url": ""}, "AGUI_REDIS_URL"),
        ({"url": "redis://"}, "AGUI_REDIS_URL"),
        ({"url": "unix://"}, "AGUI_REDIS_URL"),
        ({"url": "http://h"}, "AGUI_REDIS_URL"),
        ({"url": "h:6379"}, "AGUI_REDIS_URL"),
        ({"url": "redis://h:port"}, "AGUI_REDIS_URL"),
        ({"url": "redis://h/first"}, "AGUI_REDIS_URL"),
        ({"url": "redis://h?db=first"}, "AGUI_REDIS_URL"),
        ({"url": "redis://h?socket_timeout=99"}, "AGUI_REDIS_URL"),
        ({"url": "rediss://h?ssl_cert_reqs=none"}, "AGUI_REDIS_URL"),
        ({"url": "redis://h?max_connections="}, "AGUI_REDIS_URL"),
        ({"url": "redis://h", "sentinels": ("s1:26379",)}, "AGUI_REDIS_SENTINEL_SERVICE"),
        ({"url": "redis://h", "sentinel_service": "main"}, "AGUI_REDIS_SENTINELS"),
        ({"url": "redis://h", "sentinel_password": "p"}, "AGUI_REDIS_SENTINELS"),
        ({"url": "unix:///s", **SENTINELS}, "AGUI_REDIS_URL"),
        ({"url": "redis://h", **SENTINELS, "is_cluster": True}, "AGUI_REDIS_CLUSTER"),
        ({"url": "redis://h/1", "is_cluster": True}, "AGUI_REDIS_CLUSTER"),
        ({"url": "redis://h?db=1", "is_cluster": True}, "AGUI_REDIS_CLUSTER"),
        ({"url": "unix:///s", "is_cluster": True}, "AGUI_REDIS_CLUSTER"),
        ({"url": "redis://h", "ca_file": HERE}, "AGUI_REDIS_CA_FILE"),
        ({"url": "rediss://h", "ca_file": "/no/such/file"}, "AGUI_REDIS_CA_FILE"),
        ({"url": "redis://h", "certificate_file": HERE}, "AGUI_REDIS_CERTIFICATE_FILE"),
        ({"url": "rediss://h", "certificate_file": "/no/such/file"}, "AGUI_REDIS_CERTIFICATE_FILE"),
        ({"url": "rediss://h", "key_file": HERE}, "AGUI_REDIS_KEY_FILE"),
    ],
)
async def test_what_can_not_be_meant_is_refused_before_anything_is_connected_to(
    options: dict[str, object], setting: str
) -> None:
    with pytest.raises(ValueError, match=setting):
        async with open_stores(StoreOptions("redis", redis=RedisOptions(**options))):  # type: ignore[arg-type]  # options by name
            pass


@pytest.mark.parametrize("text", ["", ":26379", "s1:port", "redis://s1", "user@s1:1", "s1:1/x", "s1 s2:1", "s1:1?a=b"])
def test_a_sentinel_is_a_host_and_a_port(text: str) -> None:
    with pytest.raises(ValueError, match="AGUI_REDIS_SENTINELS"):
        sentinel_addresses(RedisOptions(sentinels=(text,), sentinel_service="main"))


def test_sentinels_are_found_by_name_number_and_default_port() -> None:
    options = RedisOptions(sentinels=("s1", "s2:1234", "10.0.0.1:5", "[::1]:7"), sentinel_service="main")
    assert sentinel_addresses(options) == [("s1", 26379), ("s2", 1234), ("10.0.0.1", 5), ("::1", 7)]


@pytest.mark.parametrize("url", ["redis://:sesame@h:port", "redis://u:sesame@[h", "sesame", "redis://h/sesame"])
def test_a_refusal_does_not_repeat_the_url_and_its_password(url: str) -> None:
    with pytest.raises(ValueError, match="AGUI_REDIS_URL") as refused:
        address_of(RedisOptions(url=url))
    assert "sesame" not in str(refused.value)


def test_a_password_of_its_own_goes_before_that_of_the_url_and_neither_is_shown() -> None:
    address = address_of(RedisOptions(url="redis://u%40:s%2Fp@h:1/2", password="other", username=""))
    assert (address.username, address.password, address.host, address.port, address.database) == (
        "u@",
        "other",
        "h",
        1,
        2,
    )
    assert "other" not in repr(address)
    assert address_of(RedisOptions(url="redis://u%40:s%2Fp@h")).password == "s/p"


def test_with_sentinels_the_url_may_be_left_out() -> None:
    address = address_of(RedisOptions(**SENTINELS))  # type: ignore[arg-type]  # options by name
    assert (address.host, address.path, address.database, address.is_tls) == ("", "", 0, False)


@pytest.mark.external_service
async def test_a_unix_socket_and_a_number_of_a_database_are_followed(tmp_path: Path) -> None:
    path = tmp_path / "redis.sock"
    with redis(unixsocket=str(path)) as server:
        async with client_of(f"unix://{path}?db=3") as by_socket, client_of(_database(server, 3)) as by_port:
            await by_socket.write(SET, ["key"], "value")
            assert await by_port.read(GET, ["key"]) == b"value"
        async with client_of(server.url) as elsewhere:
            assert await elsewhere.read(GET, ["key"]) is None


def _database(server: RedisServer, number: int) -> str:
    return f"redis://127.0.0.1:{server.port}/{number}"
