"""The same stores with a back door to their files, for the tests that look at or spoil what is stored."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import url2pathname

from stores.options import StoreOptions
from stores.ports import Stores
from stores.records import ThreadKey
from tests.conformance.adapters import Adapter
from tests.conformance.back_doors.port import NOTHING_OPEN, UNKNOWN, Part
from tests.example_adapter import make_stores
from tests.example_adapter.folder import checkpoint_file, thread_file

__all__ = ["make_stores", "make_world"]


@asynccontextmanager
async def make_world(options: StoreOptions) -> AsyncIterator[Adapter]:
    """Make a fresh world: the suite names a folder that was never used before."""
    async with AsyncExitStack() as openings:

        async def open_another() -> Stores:
            return await openings.enter_async_context(make_stores(options))

        yield Adapter(open_another, FileBackDoor(Path(url2pathname(urlsplit(options.database_url).path))))


class FileBackDoor:
    """The files of the folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    async def age_format(self, marker: str) -> int:
        count = 0

        def aged(value: Any) -> Any:
            nonlocal count
            if isinstance(value, dict):
                return {name: aged(each) for name, each in value.items()}
            if isinstance(value, list):
                return list(map(aged, value))
            changed = re.sub(r'"format":\d+', UNKNOWN, value) if isinstance(value, str) else value
            if changed == value or marker not in value:
                return value
            count += 1
            return changed

        for path in self._folder.glob("thread-*.json"):
            path.write_text(json.dumps(aged(json.loads(path.read_text()))))
        return count

    async def lose(self, key: ThreadKey, part: Part) -> None:
        if part == "checkpoints":
            (self._folder / checkpoint_file(key)).unlink()
            return
        path = self._folder / thread_file(key)
        document = json.loads(path.read_text())
        match part:
            case "snapshot":
                document.update(snapshot=None, chunks=[])
            case "record":
                document["record"] = NOTHING_OPEN
            case "bag":
                document["bag"] = None
            case "effect":
                document["rows"] = {}
            case "chunk":
                del document["chunks"][0]
        path.write_text(json.dumps(document))

    async def write(self, connection: Any, name: str, needs: str | None = None) -> None:
        raise AssertionError("these stores give tools no connection")

    async def written(self) -> list[str]:
        raise AssertionError("these stores give tools no connection")
