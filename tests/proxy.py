"""A TCP proxy between a client and a server that treats their connections as a bad network does."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from ssl import SSLContext

CHUNK_BYTES = 65_536
RESET_ON_CLOSE = struct.pack("ii", 1, 0)


@dataclass(slots=True, eq=False)
class _Link:
    client: asyncio.StreamWriter
    server: asyncio.StreamWriter
    drops_reply: bool = False

    def cut(self) -> None:
        _reset(self.client)
        _reset(self.server)


class Proxy:
    """Passes everything on until it is told otherwise. What it is told holds until it is told to `pass_on`."""

    def __init__(self, port: int, tls: SSLContext | None = None) -> None:
        self.target_port = port
        """Where new connections lead to; those that are there stay where they are."""
        self.port = 0
        self.replies_dropped = 0
        self.bytes_swallowed = 0
        self._tls = tls
        self._links: set[_Link] = set()
        self._lost: set[asyncio.StreamWriter] = set()
        self._serving: set[asyncio.Task[None]] = set()
        self._listener: asyncio.Server | None = None
        self._is_black_hole = False
        self._drops_next = False
        self._refuses_then = False
        self._delay_seconds = 0.0

    async def pass_on(self) -> None:
        """Accept connections and pass everything on, at once."""
        self._is_black_hole, self._drops_next, self._delay_seconds = False, False, 0.0
        if self._listener is None:
            self._listener = await asyncio.start_server(self._accept, "127.0.0.1", self.port, ssl=self._tls)
            self.port = self._listener.sockets[0].getsockname()[1]

    def delay(self, seconds: float) -> None:
        """Hold back what is sent in either direction."""
        self._delay_seconds = seconds

    def drop_next_reply(self, *, then_refuse: bool = False) -> None:
        """Let the next request through, and reset its connection when the server answers it: it was executed."""
        self._drops_next, self._refuses_then = True, then_refuse

    def swallow(self) -> None:
        """Be a black hole, as if the cable were pulled: connections stay, what is sent is lost, and nobody is told.

        Neither side sees the other close. Connections that come now lead nowhere. Reset them all when it is over: what
        was lost on them is missed by whoever goes on.
        """
        self._is_black_hole = True

    def reset(self) -> None:
        """Reset all connections that are there; new ones are accepted."""
        for link in tuple(self._links):
            link.cut()
        for client in tuple(self._lost):
            _reset(client)

    def refuse(self) -> None:
        """Reset all connections, and refuse new ones."""
        listener, self._listener = self._listener, None
        if listener is not None:
            listener.close()
        self.reset()

    async def close(self) -> None:
        """Refuse, and wait until nothing is served any more."""
        self.refuse()
        await asyncio.gather(*self._serving)

    def _accept(self, reader: asyncio.StreamReader, client: asyncio.StreamWriter) -> None:
        serving = asyncio.create_task(self._serve(reader, client))
        self._serving.add(serving)
        serving.add_done_callback(self._serving.discard)

    async def _serve(self, reader: asyncio.StreamReader, client: asyncio.StreamWriter) -> None:
        if self._is_black_hole:
            await self._swallow_all(reader, client)
            return
        try:
            answers, server = await asyncio.open_connection("127.0.0.1", self.target_port)
        except OSError:
            client.transport.abort()
            return
        link = _Link(client, server)
        self._links.add(link)
        with suppress(OSError):
            await asyncio.gather(self._pass_requests(link, reader), self._pass_answers(link, answers))
        self._links.discard(link)
        link.cut()

    async def _swallow_all(self, reader: asyncio.StreamReader, client: asyncio.StreamWriter) -> None:
        self._lost.add(client)
        with suppress(OSError):
            while data := await reader.read(CHUNK_BYTES):
                self.bytes_swallowed += len(data)
        self._lost.discard(client)
        client.transport.abort()

    async def _pass_requests(self, link: _Link, reader: asyncio.StreamReader) -> None:
        while data := await self._read(reader):
            if self._drops_next:
                self._drops_next, link.drops_reply = False, True
            await self._pass(data, link.server)
        self._pass_end(link.server)

    async def _pass_answers(self, link: _Link, reader: asyncio.StreamReader) -> None:
        while data := await self._read(reader):
            if link.drops_reply:
                self.replies_dropped += 1
                link.cut()
                if self._refuses_then:
                    self.refuse()
                return
            await self._pass(data, link.client)
        self._pass_end(link.client)

    async def _read(self, reader: asyncio.StreamReader) -> bytes:
        try:
            return await reader.read(CHUNK_BYTES)
        except OSError:
            if self._is_black_hole:
                return b""
            raise

    def _pass_end(self, writer: asyncio.StreamWriter) -> None:
        if not self._is_black_hole:
            writer.close()

    async def _pass(self, data: bytes, writer: asyncio.StreamWriter) -> None:
        if self._is_black_hole:
            self.bytes_swallowed += len(data)
            return
        if self._delay_seconds:
            await asyncio.sleep(self._delay_seconds)
        writer.write(data)
        await writer.drain()


def _reset(writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_ON_CLOSE)
    writer.transport.abort()


@asynccontextmanager
async def proxy(port: int, tls: SSLContext | None = None) -> AsyncIterator[Proxy]:
    """Run a proxy to a port of this machine; `tls` is what it speaks with its clients."""
    running = Proxy(port, tls)
    await running.pass_on()
    try:
        yield running
    finally:
        await running.close()
