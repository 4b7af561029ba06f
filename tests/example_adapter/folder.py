"""One JSON document per file, and the one way to change it: under a lock, replaced whole."""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit
from urllib.request import url2pathname

from stores.errors import StoreUnavailable, WriteInDoubt
from stores.records import ThreadKey

T = TypeVar("T")
Document = dict[str, Any]

POLL_SECONDS = 0.001


class Folder:
    """A folder of documents that several processes of one machine share."""

    def __init__(self, path: Path, timeout_seconds: float) -> None:
        self._path = path
        self._timeout_seconds = timeout_seconds

    @classmethod
    def at(cls, url: str, *, timeout_seconds: float) -> Folder:
        """Open the folder that a file:// URL names, made if there is none. Raises ValueError for any other URL."""
        if not url.startswith("file:///"):
            raise ValueError("The folder of the stores is named by a URL that begins with file:///.")
        path = Path(url2pathname(urlsplit(url).path))
        path.mkdir(parents=True, exist_ok=True)
        return cls(path, timeout_seconds)

    async def change(self, name: str, step: Callable[[Document], T]) -> T:
        """Take one atomic step: what `step` makes of the document replaces it, unless `step` raises."""
        return await _waited_for(lambda: self._change(name, step))

    async def read(self, name: str) -> Document:
        """Return a document; it is empty if there is no such file."""
        return await _waited_for(lambda: self._read(self._path / name))

    async def every(self, prefix: str) -> list[Document]:
        """Return all documents whose names begin so, each of them whole."""
        return await _waited_for(lambda: [self._read(path) for path in self._path.glob(f"{prefix}*.json")])

    async def check(self) -> None:
        """Write and read; raises StoreUnavailable."""
        await self.change("check.json", lambda document: document.update(checked_at=time.time()))

    def _change(self, name: str, step: Callable[[Document], T]) -> T:
        path = self._path / name
        with self._locked():
            document = self._read(path)
            answer = step(document)
            try:
                self._replace(path, json.dumps(document))
            except OSError as error:
                raise WriteInDoubt(f"The folder did not take a write ({type(error).__name__}).") from error
            return answer

    def _read(self, path: Path) -> Document:
        try:
            document: Document = json.loads(path.read_bytes())
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise StoreUnavailable(f"The folder can not be read ({type(error).__name__}).") from error
        return document

    def _replace(self, path: Path, text: str) -> None:
        unfinished = path.with_suffix(".new")
        with unfinished.open("w") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(path)
        folder = os.open(self._path, os.O_RDONLY)
        try:
            # The new name is on the disk only when the folder is.
            os.fsync(folder)
        finally:
            os.close(folder)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        deadline = time.monotonic() + self._timeout_seconds
        # The kernel lets go of the lock of a process that died.
        with (self._path / "lock").open("w") as lock:
            while not _is_taken(lock.fileno()):
                if time.monotonic() > deadline:
                    raise StoreUnavailable("Another process has kept the folder for too long; nothing was written.")
                time.sleep(POLL_SECONDS)
            yield


async def _waited_for(work: Callable[[], T]) -> T:
    """Do it in a thread, since a disk makes wait; also a caller that is cancelled leaves only when it is done."""
    task = asyncio.ensure_future(asyncio.to_thread(work))
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])
        raise


def _is_taken(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def thread_file(key: ThreadKey) -> str:
    """Return the name of a thread's document, which holds its rows of the ledger too."""
    return f"thread-{_hash(key)}.json"


def checkpoint_file(key: ThreadKey) -> str:
    """Return the name of the document of a thread's checkpoints."""
    return f"checkpoints-{_hash(key)}.json"


def _hash(key: ThreadKey) -> str:
    # Joined as JSON, so that no two keys give one text, whatever they contain.
    return sha256(json.dumps([key.scope, key.agent, key.thread_id]).encode()).hexdigest()
