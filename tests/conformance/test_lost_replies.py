"""All ports of stores behind a socket: a reply that is lost costs no write, and none is written twice."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial

import pytest
from sqlalchemy import URL, make_url

from stores import open_stores
from stores.errors import StoreUnavailable, WriteInDoubt
from stores.options import StoreOptions
from stores.ports import Stores
from tests.conformance.adapters import STORE_TIMEOUT_SECONDS
from tests.conformance.examples import KEY, fresh
from tests.conformance.operations import (
    OPERATIONS,
    Operation,
    checkpoints,
    glance,
    name_of,
    thread_and_rows,
    view,
)
from tests.proxy import CHUNK_BYTES, Proxy

WRITING = [operation for operation in OPERATIONS if not operation.is_read]
REQUESTS_MAX = 40
"""Far more than any call takes, with a handshake and its statements prepared."""
LOCAL = ("127.0.0.1", "localhost")
SERVERS = [pytest.param(name, marks=pytest.mark.external_service) for name in ("postgres", "redis")]


class LosingProxy(Proxy):
    """Loses the reply to one request: the one of that number since it was told."""

    _requests_left = 0

    def lose_reply(self, number: int) -> None:
        """Lose the reply to this request, counted from 1; the server does what it asks for."""
        self._requests_left = number

    async def _pass_requests(self, link: object, reader: asyncio.StreamReader) -> None:
        counted = asyncio.StreamReader()
        passing = asyncio.ensure_future(super()._pass_requests(link, counted))  # type: ignore[arg-type]  # as it came
        try:
            while data := await reader.read(CHUNK_BYTES):
                self._requests_left -= 1
                if self._requests_left == 0:
                    self.drop_next_reply()
                counted.feed_data(data)
        finally:
            counted.feed_eof()
            await passing


@asynccontextmanager
async def through_proxy(served: StoreOptions) -> AsyncIterator[tuple[LosingProxy, Stores]]:
    """Open the stores through a proxy that loses replies."""
    address = make_url(served.redis.url or served.database_url)
    if address.port is None or address.host not in LOCAL:
        pytest.skip("the proxy leads to servers of this machine only")
    losing = LosingProxy(address.port)
    await losing.pass_on()
    try:
        async with open_stores(_led_to(served, address.set(port=losing.port))) as stores:
            yield losing, stores
    finally:
        losing.refuse()


@pytest.mark.parametrize("operation", WRITING, ids=name_of)
@pytest.mark.parametrize("served", SERVERS, indirect=True)
async def test_a_call_whose_reply_was_lost_is_yours_or_in_doubt_and_then_yours(
    served: StoreOptions, operation: Operation
) -> None:
    async with open_stores(served) as direct, through_proxy(served) as (losing, stores):
        operation.skip_unless_possible(direct)
        name = fresh("thread")
        whole, bystander = replace(KEY, thread_id=f"{name} whole"), replace(KEY, thread_id=f"{name} other")
        await operation.prepare(direct, whole)
        before = await glance(direct, whole)
        await operation.call(direct, whole)
        after, in_the_end = await glance(direct, whole), await view(direct, whole)
        await thread_and_rows(direct, bystander)
        await checkpoints(direct, bystander)
        untouched = await view(direct, bystander)
        written_unheard = 0
        for number in range(1, REQUESTS_MAX):
            key = replace(KEY, thread_id=f"{name} {number}")
            await operation.prepare(direct, key)
            await stores.threads.load(key)
            lost_so_far = losing.replies_dropped
            losing.lose_reply(number)
            (answer,) = await asyncio.gather(operation.call(stores, key), return_exceptions=True)
            if isinstance(answer, BaseException):
                is_surely_unwritten = isinstance(answer, StoreUnavailable) and await glance(direct, key) == before
                assert isinstance(answer, WriteInDoubt) or is_surely_unwritten
            else:
                assert operation.is_yours(answer)
            if losing.replies_dropped == lost_so_far:
                break
            written_unheard += await glance(direct, key) == after
            assert operation.is_yours(await operation.call(stores, key))
            assert await view(direct, key) == in_the_end
        else:
            pytest.fail("no call takes so many requests")
        assert written_unheard >= 1
        assert await view(direct, bystander) == untouched


@pytest.mark.parametrize("served", SERVERS, indirect=True)
async def test_a_heartbeat_and_a_farewell_whose_replies_were_lost_are_heard(served: StoreOptions) -> None:
    async with open_stores(served) as direct, through_proxy(served) as (losing, stores):
        holder = fresh("holder")
        for call, is_seen in (
            (partial(stores.replicas.heartbeat, holder, label="a"), True),
            (partial(stores.replicas.forget, holder), False),
        ):
            await stores.replicas.seen()
            lost_so_far = losing.replies_dropped
            losing.lose_reply(1)
            (answer,) = await asyncio.gather(call(), return_exceptions=True)
            assert answer is None or isinstance(answer, WriteInDoubt)
            assert losing.replies_dropped == lost_so_far + 1
            await call()
            assert (holder in await direct.replicas.seen()) == is_seen


def _led_to(served: StoreOptions, address: URL) -> StoreOptions:
    """Return the options with another address, and one connection, so that it is known which one is used."""
    limits = replace(served, timeout_seconds=STORE_TIMEOUT_SECONDS, pool_size=1)
    url = address.render_as_string(hide_password=False)
    if served.redis.url:
        return replace(limits, redis=replace(served.redis, url=url))
    return replace(limits, database_url=url)
