"""Merges what the buckets say about runs that were not written for long."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, NamedTuple

from stores.records import Scope, ThreadKey
from stores.redis.keys import parted


class Written(NamedTuple):
    """When a run was last written, and how the index names it; sorts as `ThreadStore.old` answers."""

    at: float
    member: str

    def run(self) -> tuple[ThreadKey, str]:
        """Return the thread and the run's id."""
        scope, agent, thread_id, run_id = parted(self.member)
        return ThreadKey(Scope(scope), agent, thread_id), run_id


@dataclass(frozen=True, slots=True)
class Oldest:
    """The oldest runs behind `last`, and where to look on; None if there are no more."""

    runs: Sequence[Written]
    after: str | None


def share_of(limit: int) -> int:
    """Return how many runs to ask each bucket for.

    Of the `limit` oldest a bucket has one in 64 on average, but all of a thread's: where it had more to give than its
    share, the answer ends sooner, and the next look goes on from there.
    """
    return min(limit, 8 + limit // 8)


def last_of(after: str | None) -> Written | None:
    """Return the run that an earlier look ended with."""
    return None if after is None else Written(*json.loads(after))


def oldest(replies: Sequence[Sequence[Any]], *, last: Written | None, limit: int) -> Oldest:
    """Return up to `limit` runs of what `thread_old.lua` answered for every bucket."""
    share = share_of(limit)
    buckets = [_written(reply) for reply in replies]
    # Behind the end of a bucket that gave its whole share may be more of it: nothing later is known to be the next.
    full = [bucket for bucket in buckets if sum(last is None or entry.at > last.at for entry in bucket) >= share]
    end = min((bucket[-1] for bucket in full), default=None)
    found = sorted(entry for entry in chain.from_iterable(buckets) if last is None or entry > last)
    known = [entry for entry in found if end is None or entry <= end][:limit]
    is_all = end is None and len(known) < limit
    return Oldest(known, None if is_all or not known else json.dumps(known[-1]))


def _written(reply: Sequence[Any]) -> Sequence[Written]:
    return [Written(float(reply[n + 1]), reply[n].decode()) for n in range(0, len(reply), 2)]
