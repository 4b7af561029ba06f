"""The history of a chaos run as one append-only file that several processes write: one JSON object per line."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from loadtests.history import Began, Event, Fault, Mended, Replied, Sent

_TYPES: dict[str, type[Event]] = {
    "invoke": Sent,
    "ok": Replied,
    "fail": Replied,
    "info": Replied,
    "fault": Fault,
    "mended": Mended,
    "began": Began,
}
_ADAPTERS: dict[type[Event], TypeAdapter[Any]] = {kind: TypeAdapter(kind) for kind in set(_TYPES.values())}


class Journal:
    """Appends events. A line is one write to a file that is opened for appending, so lines of processes do not mix."""

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def append(self, event: Event) -> None:
        """Write one event. Raises OSError: a history with a hole is worth nothing."""
        fields = _ADAPTERS[type(event)].dump_python(event, mode="json", exclude_defaults=True)
        line = json.dumps({"type": _type(event), **fields}, separators=(",", ":")).encode() + b"\n"
        if os.write(self._descriptor, line) != len(line):
            raise OSError("A line of the history was written in part.")

    def close(self) -> None:
        """Append no more."""
        os.close(self._descriptor)


class Tail:
    """Reads what was appended since it read last."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0

    def read(self) -> Iterator[Event]:
        """Yield the new events, in the order of the file; a line that is still being written comes next time."""
        if not self._path.exists():
            return
        with self._path.open("rb") as file:
            file.seek(self._offset)
            for line in file:
                if not line.endswith(b"\n"):
                    return
                self._offset += len(line)
                yield _event(json.loads(line))


def read_history(path: Path) -> list[Event]:
    """Read a whole history, oldest first. Raises FileNotFoundError, and ValueError for a line that is no event."""
    if not path.exists():
        raise FileNotFoundError(path)
    return sorted(Tail(path).read(), key=lambda event: event.at)


def _type(event: Event) -> str:
    match event:
        case Sent():
            return "invoke"
        case Replied():
            return event.outcome
        case Fault():
            return "fault"
        case Mended():
            return "mended"
        case Began():
            return "began"


def _event(fields: dict[str, Any]) -> Event:
    event: Event = _ADAPTERS[_TYPES[fields.pop("type")]].validate_python(fields)
    return event
