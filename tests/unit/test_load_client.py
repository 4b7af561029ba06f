"""What the users' HTTP client does when a connection dies or is left: a POST is written once, and its reply as seen."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

# Locust changes the whole process that imports it, so it is not this one.
POSTS = """
import json, sys
from itertools import count
import gevent
from locust.contrib.fasthttp import FastHttpSession
from locust.event import EventHook
from deploy.agui_client import ask, hydrate
from loadtests.client import Client
from loadtests.history import Intent
written, counted = [], []
fire = EventHook()
fire.add_listener(lambda request_type, exception, **_: counted.append([request_type, exception is None]))
session = FastHttpSession(sys.argv[1], EventHook(), None, max_retries=0, max_redirects=0)
client = Client(session, fire, written.append, user="u", scope="s", numbers=count(), patience_seconds=1.0)
client.post(ask("t", "answered: pay INV-1 and pay INV-2 then pay INV-3"), Intent.ASK)
client.post(hydrate("hung up on"), Intent.LOOK)
client.post(ask("t", "refused"), Intent.ASK)
client.post(ask("t", "left"), Intent.ASK, leave_after_seconds=0.2)
killed = gevent.spawn(client.post, ask("t", "killed"), Intent.ASK)
while len(written) < 9:
    gevent.sleep(0)
killed.kill()
replies = [each for each in written if type(each).__name__ == "Replied"]
print(json.dumps([[each.code, each.is_cut, each.first_event_at is not None, each.has_left] for each in replies]))
print(json.dumps([[each.calls, each.names] for each in written if type(each).__name__ == "Sent"]))
print(json.dumps(counted))
print(len(written))
"""
HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
WORDS = [b"answered", b"hung up on", b"refused", b"left", b"killed"]
REFUSAL = b"HTTP/1.1 500 Internal Server Error\r\ncontent-length: 2\r\n\r\n{}"


class Server:
    """Answers the first POST, hangs up on the second, refuses the third, is silent to the fourth, begins a fifth."""

    def __init__(self, listener: socket.socket) -> None:
        self.url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        self.requests: list[bytes] = []
        self._listener = listener

    def serve(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            with connection, suppress(ConnectionError):  # a client that leaves may leave something unread
                while request := connection.recv(65_536):
                    self.requests.append(request)
                    if (answer := self._answer()) is None:
                        break
                    connection.sendall(answer)

    def _answer(self) -> bytes | None:
        match len(self.requests):
            case 1:
                return HEAD + _chunk("RUN_FINISHED") + b"0\r\n\r\n"
            case 2:
                return None
            case 3:
                return REFUSAL
            case 4:
                return b""
            case _:
                return HEAD + _chunk("RUN_STARTED")


@pytest.fixture
def server() -> Iterator[Server]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        served = Server(listener)
        thread = threading.Thread(target=served.serve, daemon=True)
        thread.start()
        yield served
        listener.shutdown(socket.SHUT_RDWR)
    thread.join()


def test_a_post_is_sent_once_and_its_reply_is_what_was_seen_of_it(server: Server) -> None:
    command = [sys.executable, "-c", POSTS, server.url]
    told = subprocess.run(command, cwd=Path(__file__).parents[2], check=True, capture_output=True, text=True)
    replies, asked, counted, written = map(json.loads, told.stdout.splitlines())

    assert replies == [
        [None, False, True, False],
        [None, True, False, False],
        ["HTTP 500", False, False, False],
        [None, True, False, True],
    ]
    assert asked == [[2, ["INV-1", "INV-2", "INV-3"]], [None, []], *[[0, []]] * 3]
    ends = [each for each in counted if each[0] != "first event"]
    assert ends == [["finish", True], ["cut", True], ["refused", False], ["left", True]]
    assert written == 9, "a client that was killed has seen no reply"
    sent = [words for request in server.requests for words in WORDS if words in request]
    assert sent[:3] == WORDS[:3]
    assert len(sent) == len(set(sent))


def _chunk(event: str) -> bytes:
    data = f'data: {{"type": "{event}"}}\n\n'.encode()
    return f"{len(data):x}\r\n".encode() + data + b"\r\n"
