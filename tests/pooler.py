"""A pooler in transaction mode in front of a real PostgreSQL, as rude as one may be: no transaction finds the server of
the one before, and nothing is known of prepared statements. It speaks the protocol of PgBouncer before 1.21."""

from __future__ import annotations

import asyncio
import secrets
import struct
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

from sqlalchemy import URL, make_url

SSL, GSS, CANCEL = 80877103, 80877104, 80877102
PROTOCOL = 196608
TRACKED = {"user", "database", "client_encoding", "datestyle", "timezone", "application_name"}
"""The settings of a client that PgBouncer takes; with any other it refuses it, or is told to ignore it."""
ANSWERED = b"QSF"
"""Messages of a client that the server ends with ReadyForQuery: a query, a sync, a function call."""


@dataclass(slots=True, eq=False)
class ServerConnection:
    """A connection to PostgreSQL, of one client at a time."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    greeting: list[bytes] = field(default_factory=list)
    key: bytes = b""


@dataclass(slots=True)
class Client:
    """A client, with the server its transaction is on, if it is in one."""

    writer: asyncio.StreamWriter
    server: ServerConnection | None = None
    last: ServerConnection | None = None
    relaying: asyncio.Task[None] | None = None
    unanswered: int = 0


class Pooler:
    """Hands each transaction to a server connection other than the last; `switches` counts how often."""

    def __init__(self, target: URL, *, servers: int, ignores_settings: bool) -> None:
        self._target = target
        self._ignores_settings = ignores_settings
        self._room = asyncio.Semaphore(servers)
        self._idle: deque[ServerConnection] = deque()
        self._clients: dict[bytes, Client] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self.switches = 0
        self.cancels = 0
        self.port = 0

    @property
    def url(self) -> str:
        """The URL of the database behind the pooler."""
        return self._target.set(host="127.0.0.1", port=self.port).render_as_string(hide_password=False)

    async def answers(self, query: str) -> list[bytes]:
        """Ask every idle server one question that it answers with one value."""
        return [await _answer(server, query) for server in self._idle]

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one client until it goes."""
        key = secrets.token_bytes(8)
        client = Client(writer)
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            if await self._greet(client, reader, key):
                await self._pass_on(client, reader)
        except (OSError, EOFError):
            pass
        finally:
            self._tasks.discard(task)
            self._clients.pop(key, None)
            if client.relaying is not None:
                client.relaying.cancel()
            if client.server is not None:
                # It may be in the middle of something: nobody else can have it.
                client.server.writer.close()
                self._room.release()
            writer.close()

    async def close(self) -> None:
        """Drop all clients and servers."""
        tasks = tuple(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for server in self._idle:
            server.writer.close()
            with suppress(OSError):
                await server.writer.wait_closed()

    async def _greet(self, client: Client, reader: asyncio.StreamReader, key: bytes) -> bool:
        code, body = await _first(reader)
        while code in (SSL, GSS):
            client.writer.write(b"N")
            code, body = await _first(reader)
        if code == CANCEL:
            await self._cancel(body)
            return False
        words = body.split(b"\0")
        settings = dict(zip(words[0:-2:2], words[1:-2:2], strict=True))
        unknown = [name.decode() for name in settings if name.decode().lower() not in TRACKED]
        if unknown and not self._ignores_settings:
            client.writer.write(_refusal(f"unsupported startup parameter: {unknown[0]}"))
            return False
        server = await self._take(client)
        for message in server.greeting:
            client.writer.write(message)
        self._give(server)
        self._clients[key] = client
        client.writer.write(_message(b"K", key) + _message(b"Z", b"I"))
        return True

    async def _pass_on(self, client: Client, reader: asyncio.StreamReader) -> None:
        while True:
            message = await _read(reader)
            if message[:1] == b"X":
                return
            if client.server is None:
                client.server = await self._take(client)
                client.relaying = asyncio.create_task(self._relay(client, client.server))
            client.unanswered += message[:1] in ANSWERED
            client.server.writer.write(message)
            await client.server.writer.drain()

    async def _relay(self, client: Client, server: ServerConnection) -> None:
        try:
            while True:
                message = await _read(server.reader)
                if message[:1] == b"Z":
                    client.unanswered -= 1
                    if message[5:] == b"I" and not client.unanswered:
                        client.server, client.last = None, server
                        self._give(server)
                        client.writer.write(message)
                        return
                client.writer.write(message)
                await client.writer.drain()
        except (OSError, EOFError):
            client.writer.close()

    async def _take(self, client: Client) -> ServerConnection:
        await self._room.acquire()
        others = [server for server in self._idle if server is not client.last]
        server = others[0] if others else await self._connect()
        if others:
            self._idle.remove(server)
        self.switches += client.last is not None and server is not client.last
        return server

    def _give(self, server: ServerConnection) -> None:
        self._idle.append(server)
        self._room.release()

    async def _connect(self) -> ServerConnection:
        server = ServerConnection(*await asyncio.open_connection(self._target.host, self._target.port))
        settings = {"user": self._target.username, "database": self._target.database}
        words = b"".join(f"{name}\0{value}\0".encode() for name, value in settings.items())
        server.writer.write(struct.pack("!ii", len(words) + 9, PROTOCOL) + words + b"\0")
        while True:
            message = await _read(server.reader)
            if message[:1] == b"E":
                raise OSError(message.decode(errors="replace"))
            if message[:1] == b"Z":
                return server
            if message[:1] == b"K":
                server.key = message[5:]
            else:
                server.greeting.append(message)

    async def _cancel(self, key: bytes) -> None:
        client = self._clients.get(key)
        if client is not None and client.server is not None:
            self.cancels += 1
            _, writer = await asyncio.open_connection(self._target.host, self._target.port)
            writer.write(struct.pack("!ii", 16, CANCEL) + client.server.key)
            writer.close()


@asynccontextmanager
async def pooler(
    target: str, *, servers: int = 4, ignores_settings: bool = False, port: int = 0
) -> AsyncIterator[Pooler]:
    """Run a pooler before the database of a URL; `ignores_settings`: those of a client, instead of refusing it."""
    front = Pooler(make_url(target), servers=servers, ignores_settings=ignores_settings)
    listening = await asyncio.start_server(front.serve, "127.0.0.1", port)
    front.port = listening.sockets[0].getsockname()[1]
    try:
        yield front
    finally:
        listening.close()
        await front.close()


async def _first(reader: asyncio.StreamReader) -> tuple[int, bytes]:
    length, code = struct.unpack("!ii", await reader.readexactly(8))
    return code, await reader.readexactly(length - 8)


async def _read(reader: asyncio.StreamReader) -> bytes:
    head = await reader.readexactly(5)
    return head + await reader.readexactly(struct.unpack("!i", head[1:])[0] - 4)


def _message(kind: bytes, body: bytes) -> bytes:
    return kind + struct.pack("!i", len(body) + 4) + body


def _refusal(text: str) -> bytes:
    return _message(b"E", b"SFATAL\0C08P01\0M" + text.encode() + b"\0\0")


async def _answer(server: ServerConnection, query: str) -> bytes:
    server.writer.write(_message(b"Q", query.encode() + b"\0"))
    answer = b""
    while (message := await _read(server.reader))[:1] != b"Z":
        if message[:1] == b"D":
            # One column: its count and its length come first.
            answer = message[11:]
    return answer
