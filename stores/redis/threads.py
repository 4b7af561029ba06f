"""ThreadStore on Redis: one script per step, over the keys of one thread and the indexes of its bucket."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import chain

from stores.ports import Batch, Change, Listed, Loaded, Lost, NotReserved, OldRun, OldRuns, Opened, Purged, Saved
from stores.records import FORMAT, SEALED_FORMAT, Record, Run, Scope, ThreadKey, Version, to_json
from stores.redis.arguments import changed, claim_begins, counted, ended_by, optional
from stores.redis.client import RedisClient, script
from stores.redis.keys import (
    BUCKETS,
    behind,
    claims_and_due,
    key_named,
    keys_of,
    old_runs,
    open_occurrences,
    parted,
)
from stores.redis.oldest import last_of, oldest, share_of
from stores.redis.replies import answers_from, loaded_from, run_from

_READABLE = [f'{{"format":{number},' for number in (FORMAT, SEALED_FORMAT)]


class RedisThreadStore:
    """ThreadStore over one Redis, Sentinel or Cluster, which is the ledger's too."""

    def __init__(self, client: RedisClient) -> None:
        self._client = client
        self._open = script("arguments", "thread", "thread_open")
        self._load = script("arguments", "thread", "thread_load")
        self._save = script("arguments", "thread", "ledger", "thread_save")
        self._outcome = script("arguments", "thread", "thread_outcome")
        self._list = script("thread_list")
        self._count = script("thread_count")
        self._due = script("arguments", "thread_due")
        self._delete = script("arguments", "thread", "thread_delete")
        self._old = script("arguments", "thread_old")
        self._purgeable = script("arguments", "thread", "thread_purgeable")
        self._purge = script("arguments", "thread", "thread_purge")

    async def open(self, key: ThreadKey, *, run: Run, holder: str, claim_seconds: float, write_id: str) -> Opened:
        keys = keys_of(key)
        claimed, found = await self._client.write(
            self._open,
            keys.changing,
            keys.name,
            write_id,
            claim_begins(run, holder),
            holder,
            claim_seconds,
            run.run_id,
            to_json(run),
            to_json(Record()),
            *_READABLE,
        )
        return Opened(loaded_from(found), claimed=claimed == 1)

    async def load(self, key: ThreadKey, *, interrupts: Collection[str] = (), run_id: str | None = None) -> Loaded:
        keys = keys_of(key)
        return loaded_from(await self._client.read(self._load, keys.reading, *ended_by(interrupts), *optional(run_id)))

    async def save(self, key: ThreadKey, *, change: Change) -> Saved | Lost | NotReserved:
        keys = keys_of(key)
        reply = await self._client.write(self._save, [*keys.changing, *keys.ledger], *changed(keys.name, key, change))
        batch = change.batch or Batch("", "", 0.0)
        match reply:
            case [b"saved", generation, answers]:
                return Saved(Version(int(generation), change.write_id), answers_from(batch, answers))
            case [b"refused", answers]:
                return NotReserved(answers_from(batch, answers))
            case _:
                return Lost()

    async def outcome(self, key: ThreadKey, *, interrupt: str | None = None, run_id: str | None = None) -> Run | None:
        names = () if interrupt is None else (interrupt,)
        reading = keys_of(key).reading
        return run_from(await self._client.read(self._outcome, reading, *ended_by(names), *optional(run_id)))

    async def list(self, scope: Scope, *, limit: int, after: str | None = None) -> Sequence[Listed]:
        begin = "-" if after is None else f"[{behind(after)}"
        calls = [((open_occurrences(bucket, scope),), (begin, limit)) for bucket in range(BUCKETS)]
        members = chain.from_iterable(await self._client.read_every(self._list, calls))
        return [_listed(scope, member) for member in sorted(members)[:limit]]

    async def count_open(self, scope: Scope, *, at_most: int) -> int:
        calls = [((open_occurrences(bucket, scope),), ()) for bucket in range(BUCKETS)]
        counts: list[int] = await self._client.read_every(self._count, calls)
        return min(sum(counts), at_most)

    async def due(self, *, alive: Collection[str], limit: int) -> Sequence[ThreadKey]:
        calls = [(claims_and_due(bucket), (limit, *counted(alive))) for bucket in range(BUCKETS)]
        replies = await self._client.read_every(self._due, calls)
        waiting = sorted((float(reply[n]), reply[n + 1]) for reply in replies for n in range(0, len(reply), 2))
        return [key_named(name) for _, name in waiting[:limit]]

    async def delete(self, key: ThreadKey, *, expected: Version) -> Saved | Lost:
        keys = keys_of(key)
        deleted = await self._client.write(
            self._delete, keys.changing, keys.name, expected.generation, expected.write_id
        )
        return Saved(Version()) if deleted == 1 else Lost()

    async def old(self, *, age_seconds: float, limit: int, after: str | None = None) -> OldRuns:
        last = last_of(after)
        asked = (age_seconds, share_of(limit), "" if last is None else last.at)
        calls = [((old_runs(bucket),), asked) for bucket in range(BUCKETS)]
        found = oldest(await self._client.read_every(self._old, calls), last=last, limit=limit)
        return OldRuns(await self._purgeable_of([entry.run() for entry in found.runs]), found.after)

    async def purge(self, key: ThreadKey, *, run_ids: Collection[str], age_seconds: float = 0.0) -> Purged:
        keys = keys_of(key)
        gone, is_whole = await self._client.write(
            self._purge, keys.changing, keys.name, age_seconds, *counted(list(dict.fromkeys(run_ids)))
        )
        return Purged(gone, is_whole=is_whole == 1)

    async def _purgeable_of(self, runs: Sequence[tuple[ThreadKey, str]]) -> tuple[OldRun, ...]:
        """Ask the threads of these runs, in a second round trip: it is not known before which they are."""
        calls = [(keys_of(key).reading, (run_id,)) for key, run_id in runs]
        replies = await self._client.read_every(self._purgeable, calls) if calls else []
        return tuple(
            OldRun(key, run_id, tuple(sorted(field[1:].decode() for field in fields if field.startswith(b"i"))))
            for (key, run_id), fields in zip(runs, replies, strict=True)
            if fields is not None
        )


def _listed(scope: Scope, member: bytes) -> Listed:
    interrupt_id, agent, thread_id, state, tool, created_at, expires_at = parted(member)
    key = ThreadKey(scope, agent, thread_id)
    return Listed(key, interrupt_id, state, tool, float(created_at), float(expires_at))
