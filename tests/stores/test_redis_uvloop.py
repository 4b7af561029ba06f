"""Hosts run on uvloop where it is installed: a connection that the other side closed is a lost connection there too."""

from __future__ import annotations

import pytest

from tests.servers import redis
from tests.stores.redis_clients import GET, SET, opened

uvloop = pytest.importorskip("uvloop", reason="there is no uvloop for this platform")
KEY = ["key"]


@pytest.mark.external_service
def test_a_call_on_a_connection_that_was_closed_is_made_on_a_new_one() -> None:
    async def call_after_each_loss() -> None:
        with redis() as server:
            async with opened(server.url) as (client, connections):
                await client.write(SET, KEY, "value")
                for _ in range(20):
                    [connection] = connections.driver.connection_pool._available_connections
                    # As it is a moment after the other side has gone, before redis-py reads from it.
                    connection._writer.transport.abort()
                    assert await client.read(GET, KEY) == b"value"
                    assert await client.read_every(GET, [(KEY, ())]) == [b"value"]

    uvloop.run(call_after_each_loss())
