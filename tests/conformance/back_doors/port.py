"""What a test may do to stored data without the adapter, so that what that does can be judged from outside."""

from __future__ import annotations

from typing import Any, Literal, Protocol

from stores.records import Record, ThreadKey, to_json

Part = Literal["snapshot", "record", "bag", "effect", "chunk", "checkpoints"]
"""What a thread can lose: its snapshot, what its record holds, its bag, its rows of the ledger, the oldest chunk of its
history, its checkpoints."""

NOTHING_OPEN = to_json(Record())
"""A record that has lost what it held."""

UNKNOWN = '"format":999'
"""What `age_format` puts in the place of a format number."""


class BackDoor(Protocol):
    """Reaches the stored data without the adapter."""

    async def age_format(self, marker: str) -> int:
        """Give every stored value that contains `marker` an unknown format number; answers how many there were."""
        ...

    async def lose(self, key: ThreadKey, part: Part) -> None:
        """Remove exactly one part of a thread, which must be there.

        A record becomes one with nothing open, at the version it had; what was made from it (lists, dates) stays.
        """
        ...

    async def write(self, connection: Any, name: str, needs: str | None = None) -> None:
        """Do what a transactional tool does: write a row of its own through the connection it was given.

        If there is no row that it `needs`, the transaction can not be committed.
        """
        ...

    async def written(self) -> list[str]:
        """Return the committed rows of `write`."""
        ...
