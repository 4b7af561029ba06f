"""How a thread's messages are divided: what was said long ago is sealed and stays, a save writes the rest alone.

Without this every run would rewrite all that was ever said in its thread. Pure: no store, no clock.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from stores.errors import PartMissing
from stores.records import Chunk, Snapshot, chunk_from_json, snapshot_from_json, to_json

CHUNK_CHARACTERS = 16_384
"""Messages that were not sealed yet are, once they take so much: what a save writes again is half of it on average,
and a conversation of 1,000 messages of 300 bytes is read from 19 chunks."""


@dataclass(frozen=True, slots=True)
class Divided:
    """A snapshot as it is stored: `text` without the sealed messages, and what becomes of those.

    `keeps`: the chunks that are there stay, else they go. `chunk`, if given, is added behind them; it begins at message
    number `first`.
    """

    text: str
    keeps: bool
    chunk: str | None = None
    first: int = 0


def carried_on(before: Snapshot | None, after: Snapshot) -> Snapshot:
    """Return `after` with the seal of the snapshot it follows, if it begins with the same sealed messages."""
    sealed = before.sealed if before is not None else 0
    begins_alike = before is not None and before.messages[:sealed] == after.messages[:sealed]
    return replace(after, sealed=sealed if begins_alike else 0)


def divided(snapshot: Snapshot) -> Divided:
    """Return the parts in which a snapshot is stored."""
    loose = snapshot.messages[snapshot.sealed :]
    keeps, first = snapshot.sealed > 0, snapshot.sealed
    text = to_json(replace(snapshot, messages=loose))
    if len(text) < CHUNK_CHARACTERS:
        return Divided(text, keeps)
    chunk = to_json(Chunk(loose))
    if len(chunk) < CHUNK_CHARACTERS:
        # It is the state that is large, and that is never sealed.
        return Divided(text, keeps)
    return Divided(to_json(replace(snapshot, messages=(), sealed=len(snapshot.messages))), keeps, chunk, first)


def joined(text: str | bytes, chunks: Iterable[str | bytes]) -> Snapshot:
    """Read a snapshot back from its parts, the chunks in the order of their first messages.

    Raises UnknownFormat for a number that it does not know, and PartMissing if a chunk is gone.
    """
    snapshot = snapshot_from_json(text)
    if not snapshot.sealed:
        return snapshot
    messages = tuple(message for chunk in chunks for message in chunk_from_json(chunk).messages)
    if len(messages) != snapshot.sealed:
        raise PartMissing(
            f"A snapshot has {len(messages)} sealed messages instead of {snapshot.sealed} (part: snapshot)."
        )
    return replace(snapshot, messages=messages + snapshot.messages)
