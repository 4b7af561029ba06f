"""Names of everything in Redis: which bucket a thread is in, and the keys of its parts and of the bucket's indexes.

Redis Cluster keeps all keys with the same tag (the text in braces) on one node, so one script may change them together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from zlib import crc32

from stores.records import Scope, ThreadKey

BUCKETS = 64
"""Enough to spread over the nodes of any cluster we know of, few enough to read them all in one round trip. It is part
of every key: another number finds nothing of what is stored."""

_END = "\0\1"
_NUL = "\0\2"


def joined(*parts: str) -> str:
    """Write several texts as one that no others give, and that sorts as their tuple does."""
    return _END.join(part.replace("\0", _NUL) for part in parts)


def parted(text: str | bytes) -> Sequence[str]:
    """Read back what `joined` wrote."""
    text = text.decode() if isinstance(text, bytes) else text
    return [part.replace(_NUL, "\0") for part in text.split(_END)]


def behind(text: str) -> str:
    """Return what sorts behind everything that `joined` makes with `text` as its first part, and before all else."""
    return text.replace("\0", _NUL) + _NUL


def prefix_of(bucket: int) -> str:
    """Return how the keys of a bucket begin."""
    return f"agui:{{{bucket}}}:"


def bucket_of(name: str) -> int:
    """Return the bucket of a thread by its name, the same on every host."""
    # Half a character can not be stored, but the client says so, not we.
    return crc32(name.encode(errors="surrogatepass")) % BUCKETS


@dataclass(frozen=True, slots=True)
class ThreadKeys:
    """The keys of one thread. `name` names it in the indexes of its bucket."""

    name: str
    reading: Sequence[str]
    changing: Sequence[str]
    ledger: Sequence[str]
    """The rows that are reserved or begun, and those that are settled or closed."""


def keys_of(key: ThreadKey) -> ThreadKeys:
    """Return the keys of a thread, in the order in which `lua/thread.lua` and `lua/ledger.lua` take them."""
    name = joined(key.scope, key.agent, key.thread_id)
    bucket = bucket_of(name)
    prefix = prefix_of(bucket)
    reading = [f"{prefix}{part}:{name}" for part in ("thread", "chunks", "runs", "ended")]
    changing = [*reading, *claims_and_due(bucket), old_runs(bucket), open_occurrences(bucket, key.scope)]
    return ThreadKeys(name, reading, changing, (f"{prefix}held:{name}", f"{prefix}effects:{name}"))


def key_named(name: str | bytes) -> ThreadKey:
    """Return the thread that an index names."""
    scope, agent, thread_id = parted(name)
    return ThreadKey(Scope(scope), agent, thread_id)


def claims_and_due(bucket: int) -> Sequence[str]:
    """Return the keys of a bucket's claims and of its appointments."""
    prefix = prefix_of(bucket)
    return (f"{prefix}claims", f"{prefix}due")


def old_runs(bucket: int) -> str:
    """Return the key of a bucket's runs by when they were last written."""
    return f"{prefix_of(bucket)}old"


def open_occurrences(bucket: int, scope: Scope) -> str:
    """Return the key of what is open in a scope, as far as its threads are in this bucket."""
    return f"{prefix_of(bucket)}open:{scope}"
