"""The network of a local target: each replica has a way of its own to each store, and it can be cut, slow or moved."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest
from redis import Redis

from deploy.waiting import wait_until
from loadtests.targets.network import Network, running_network
from tests.servers import RedisServer, redis

pytestmark = pytest.mark.external_service

ANSWER_SECONDS_MAX = 30.0
NO_ANSWER_SECONDS = 0.3
PONG = b"+PONG\r\n"

Connect = Callable[[str], socket.socket]


@pytest.fixture(scope="module")
def server() -> Iterator[RedisServer]:
    with redis() as running:
        yield running


@pytest.fixture
def network(server: RedisServer) -> Iterator[Network]:
    with running_network(["host-1", "host-2"]) as running:
        running.connect("redis", server.port)
        yield running


@pytest.fixture
def connect(network: Network) -> Iterator[Connect]:
    """Connect a replica to its store."""
    ports = json.loads(network.ports())
    with ExitStack() as stack:
        yield lambda replica: stack.enter_context(socket.create_connection(("127.0.0.1", ports[replica]["redis"])))


def ask(connection: socket.socket, words: bytes = b"PING", *, seconds: float = ANSWER_SECONDS_MAX) -> bytes:
    connection.settimeout(seconds)
    connection.sendall(words + b"\r\n")
    return connection.recv(64)


def connections(server: RedisServer) -> set[str]:
    with Redis(port=server.port) as client:
        return {str(each["id"]) for each in client.client_list()} - {str(client.client_id())}


def test_only_the_replica_that_is_cut_off_gets_no_answer(network: Network, connect: Connect) -> None:
    cut, other = connect("host-1"), connect("host-2")
    assert ask(cut) == ask(other) == PONG

    network.cut("host-1")

    for connection in (cut, connect("host-1")):
        with pytest.raises(TimeoutError):
            ask(connection, seconds=NO_ANSWER_SECONDS)
    assert ask(other) == PONG


def test_a_store_is_told_of_a_lost_client_when_the_cut_is_healed(
    network: Network, server: RedisServer, connect: Connect
) -> None:
    before, client = connections(server), connect("host-1")
    assert ask(client) == PONG
    [ours] = connections(server) - before

    network.cut("host-1")
    client.close()
    with pytest.raises(TimeoutError):
        # By now the network has seen the end of the connection before this one.
        ask(connect("host-1"), seconds=NO_ANSWER_SECONDS)
    assert connections(server) - before == {ours}

    network.heal("host-1")
    wait_until(lambda: ours not in connections(server), "the old connection is over")


def test_connections_of_before_a_cut_are_reset_when_it_is_healed_and_new_ones_serve(
    network: Network, connect: Connect
) -> None:
    before = connect("host-1")
    assert ask(before) == PONG
    network.cut("host-1")
    meanwhile = connect("host-1")
    with pytest.raises(TimeoutError):
        ask(meanwhile, seconds=NO_ANSWER_SECONDS)

    network.heal("host-1")

    for connection in (before, meanwhile):
        with pytest.raises(ConnectionError):
            ask(connection)
    assert ask(connect("host-1")) == PONG


def test_answers_come_as_much_later_as_was_said_also_after_a_cut(network: Network, connect: Connect) -> None:
    network.delay(NO_ANSWER_SECONDS)
    network.cut("host-1")
    network.heal("host-1")
    for replica in ("host-1", "host-2"):
        since = time.monotonic()
        assert ask(connect(replica)) == PONG
        assert time.monotonic() - since >= NO_ANSWER_SECONDS


def test_a_store_that_moved_is_reached_where_it_is_now(network: Network, connect: Connect) -> None:
    before = connect("host-1")
    assert ask(before, b"SET where first") == b"+OK\r\n"
    with redis() as second:
        network.lead_to("redis", second.port)

        with pytest.raises(ConnectionError):
            ask(before)
        for replica in ("host-1", "host-2"):
            assert ask(connect(replica), b"GET where") == b"$-1\r\n"


def test_a_replica_that_is_not_there_can_not_be_cut_off(network: Network) -> None:
    with pytest.raises(KeyError):
        network.cut("host-9")
