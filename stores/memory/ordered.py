"""Entries kept in order, as an index of a database keeps them. sortedcontainers has no types: here is what is used."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol, TypeVar

from sortedcontainers import SortedList

EntryT = TypeVar("EntryT", bound=tuple[object, ...])


class Ordered(Protocol[EntryT]):
    """Entries in order. A tuple that ends sooner comes before all that go on from it, and may be looked for too."""

    def add(self, value: EntryT) -> None:
        """Insert an entry, in logarithmic time."""
        ...

    def remove(self, value: EntryT) -> None:
        """Remove an entry, in logarithmic time. Raises ValueError if it is not there."""
        ...

    def irange(
        self, minimum: tuple[object, ...] | None = None, maximum: tuple[object, ...] | None = None
    ) -> Iterator[EntryT]:
        """Go through the entries from one to another; finding the first takes logarithmic time."""
        ...


def ordered() -> Ordered[EntryT]:
    """Return a new one, with no entries."""
    entries: Ordered[EntryT] = SortedList()
    return entries


def next_string(text: str) -> str:
    """Return the very next string there is."""
    return text + "\0"
