"""How the adapters reach Redis: a script in one round trip, within a call's time, the library's errors as ours."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from hashlib import sha1
from importlib.resources import files
from typing import Any

from redis.exceptions import NoPermissionError, NoScriptError, RedisClusterException, RedisError

from stores.errors import NotSupported, StoreError, StoreUnavailable, WriteInDoubt
from stores.redis.connection import Connections

Argument = str | bytes | int | float

REFUSALS = frozenset({
    "BUSY",
    "CLUSTERDOWN",
    "LOADING",
    "MASTERDOWN",
    "MISCONF",
    "NOAUTH",
    "NOPERM",
    "NOREPLICAS",
    "OOM",
    "READONLY",
    "TRYAGAIN",
    "WRONGPASS",
})  # fmt: skip
"""Answers by which a server says that it did not execute what it was sent."""
_CODE = re.compile(rf"(?:^|caused error: \(['\"]|-)({'|'.join(REFUSALS)}) ")
"""Where the answers are that the library does not know: at the beginning, behind what it says about a pipeline, or, on
Redis 6.2, in the middle of what the server says about the script."""


@dataclass(frozen=True, slots=True)
class Script:
    """A Lua script, and the digest by which a server that has seen it knows it."""

    text: str
    digest: str


def script(*names: str) -> Script:
    """Return the script that the files `lua/<name>.lua` make up in this order."""
    text = "\n".join((files(__package__) / "lua" / f"{name}.lua").read_text("utf-8") for name in names)
    return Script(text, sha1(text.encode(), usedforsecurity=False).hexdigest())


class RedisClient:
    """One host's way to Redis; `seconds` is what a whole call may take, waiting for a connection included.

    Keys and arguments are sent as UTF-8, replies are the library's and raw. A value that is no UTF-8 is NotSupported.
    """

    def __init__(self, connections: Connections, *, seconds: float) -> None:
        self._connections = connections
        self._seconds = seconds

    @property
    def is_cluster(self) -> bool:
        """Whether the buckets are spread over several primaries."""
        return self._connections.is_cluster

    async def eviction_policies(self) -> list[str]:
        """Return what each primary with a limit does when its memory is full, if it tells. Raises StoreUnavailable."""
        async with self._calling(StoreUnavailable):
            try:
                told = await self._connections.memory()
            except NoPermissionError:
                return []
        return [each["maxmemory_policy"] for each in told if each.get("maxmemory") and "maxmemory_policy" in each]

    async def read(self, script: Script, keys: Sequence[str], *arguments: Argument) -> Any:
        """Evaluate a script that writes nothing. Raises StoreUnavailable."""
        async with self._calling(StoreUnavailable):
            return await self._evaluate(script, keys, arguments)

    async def write(self, script: Script, keys: Sequence[str], *arguments: Argument) -> Any:
        """Evaluate a script that writes. Raises WriteInDoubt, or StoreUnavailable if the server refused for sure.

        The library repeats it if it got no answer: whatever it writes, it must be the same if it is written twice.
        """
        async with self._calling(WriteInDoubt):
            return await self._evaluate(script, keys, arguments)

    async def read_every(self, script: Script, calls: Sequence[tuple[Sequence[str], Sequence[Argument]]]) -> list[Any]:
        """Evaluate a script for each of `calls`, in one round trip (a Cluster: per node). Raises StoreUnavailable."""
        async with self._calling(StoreUnavailable):
            try:
                return await self._evaluate_every("EVALSHA", script.digest, calls)
            except NoScriptError:
                return await self._evaluate_every("EVAL", script.text, calls)

    async def _evaluate(self, script: Script, keys: Sequence[str], arguments: Sequence[Argument]) -> Any:
        execute = self._connections.driver.execute_command
        try:
            return await execute("EVALSHA", script.digest, len(keys), *keys, *arguments)
        except NoScriptError:
            # A server forgets its scripts when it starts, and a replica that was promoted may never have seen one.
            return await execute("EVAL", script.text, len(keys), *keys, *arguments)

    async def _evaluate_every(
        self, command: str, script: str, calls: Sequence[tuple[Sequence[str], Sequence[Argument]]]
    ) -> list[Any]:
        pipeline = self._connections.pipeline()
        for keys, arguments in calls:
            pipeline.execute_command(command, script, len(keys), *keys, *arguments)
        replies: list[Any] = await pipeline.execute()
        return replies

    @asynccontextmanager
    async def _calling(self, failure: type[StoreUnavailable]) -> AsyncIterator[None]:
        """Wait for a place, and raise ours instead of the library's: `failure` if the call may have been sent."""
        meaning = StoreUnavailable
        try:
            async with _heeding_cancellation(), asyncio.timeout(self._seconds), self._connections.place():
                meaning = failure
                yield
        except UnicodeEncodeError as error:
            raise NotSupported("Redis can not store a value that it was given.") from error
        except (RedisError, RedisClusterException, OSError, TimeoutError) as error:
            code = _code(error)
            if code == "READONLY":
                self._connections.leave()
            raise self._ours(error, code, meaning) from error

    def _ours(self, error: Exception, code: str, failure: type[StoreUnavailable]) -> StoreError:
        unanswered = self._connections.unanswered()
        # How often a Cluster's client tried is not known: it has ways of its own.
        if code in REFUSALS and (failure is StoreUnavailable or not (unanswered or self.is_cluster)):
            return StoreUnavailable(f"Redis refused ({code}).")
        cause = unanswered if isinstance(error, TimeoutError) and unanswered else error
        return failure(f"Redis did not answer ({type(cause).__name__}).")


@asynccontextmanager
async def _heeding_cancellation() -> AsyncIterator[None]:
    """Raise CancelledError if the call was cancelled and went on.

    redis-py sends with asyncio.wait_for, which before Python 3.12 loses a cancellation that comes as it ends. A host
    that is told to end would wait for ever for a loop that never learns of it.
    """
    task = asyncio.current_task()
    before = task.cancelling() if task else 0
    try:
        yield
    finally:
        if task and task.cancelling() > before:
            raise asyncio.CancelledError


def _code(error: Exception) -> str:
    """Return the word by which a server's error says what kind it is, or ''."""
    status = getattr(error, "status_code", None)
    found = None if status and status != "ERR" else _CODE.search(str(error))
    return found[1] if found else status or ""
