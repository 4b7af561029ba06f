"""Any ThreadStore as upstream's AGUIThreadSnapshotStore, for a plain upstream host that has no runner of ours."""

from __future__ import annotations

import asyncio
import logging
from copy import deepcopy
from dataclasses import dataclass
from typing import Any
from uuid import uuid4
from weakref import WeakKeyDictionary

from agent_framework_ag_ui import AGUIThreadSnapshot

from stores.errors import NotSupported, NotWritten, StoreError, WriteInDoubt
from stores.history import carried_on
from stores.ports import Change, Loaded, Lost, NotReserved, Saved, ThreadStore
from stores.records import Scope, Snapshot, ThreadKey, Version

_log = logging.getLogger(__name__)

_FAILURES_MAX = 1_000
"""Threads whose failed write is still to be reported; with more the oldest is forgotten, it was logged."""


@dataclass(frozen=True, slots=True)
class _Failure:
    """A write that failed, and what the request that it was for had seen: by this it is known again."""

    seen: dict[ThreadKey, Version]
    why: str


class ThreadSnapshots:
    """Satisfies upstream's AGUIThreadSnapshotStore. `agent` is the part of a thread's key that upstream does not have.

    A request may only follow up on what it has seen. Upstream's protocol has no version, so it is kept here, by task
    (a request runs in one): the first `get` notes it, each `save` compares and moves it on, and whoever was overtaken
    gets NotWritten. Nothing is merged. A `save` in a task without a `get` follows up on what is there at that moment.

        A: get (version 1)    B: get (version 1)
        A: save (version 2)   B: save: NotWritten, as B's messages do not contain A's

    Upstream swallows what `save` raises and lets the run succeed. So a failure is logged here, and the next request for
    the thread in this process fails at its `get`, once: its user learns that something is missing before going on.

    Approvals of a plain upstream host live in its process; this store keeps no more of them than their cards. A thread
    with a claim or open approvals of our own runner is not written.
    """

    def __init__(self, threads: ThreadStore, *, agent: str) -> None:
        self._threads = threads
        self._agent = agent
        self._seen: WeakKeyDictionary[asyncio.Task[Any], dict[ThreadKey, Version]] = WeakKeyDictionary()
        self._failures: dict[ThreadKey, _Failure] = {}

    async def get(self, *, scope: str, thread_id: str) -> AGUIThreadSnapshot | None:
        """Return the newest snapshot. Raises NotWritten if the one that should be there was not written."""
        key, seen = self._key(scope, thread_id), self._seen_here()
        # Of a later `get` upstream would swallow it.
        if key not in seen and (failure := self._failures.pop(key, None)):
            raise NotWritten(f"The thread's last snapshot was not written ({failure.why}); send the message again.")
        loaded = await self._threads.load(key)
        seen.setdefault(key, loaded.record.version)
        return None if loaded.snapshot is None else to_upstream(loaded.snapshot)

    async def save(self, *, scope: str, thread_id: str, snapshot: AGUIThreadSnapshot) -> None:
        """Write a snapshot if the thread is as this task saw it; raises NotWritten, or what the store raises."""
        key, seen = self._key(scope, thread_id), self._seen_here()
        try:
            seen[key] = await self._save(key, from_upstream(snapshot), seen.get(key))
        except (StoreError, TypeError, ValueError) as error:
            self._note_failure(key, seen, error)
            raise
        failure = self._failures.get(key)
        if failure is not None and failure.seen is seen:
            # What an earlier save of this request could not write is part of this one.
            del self._failures[key]

    async def delete(self, *, scope: str, thread_id: str) -> bool:
        """Remove the thread; raises NotWritten if something is open in it, or if it is written meanwhile."""
        key = self._key(scope, thread_id)
        loaded = await self._threads.load(key)
        _refuse_open(loaded)
        if loaded.snapshot is None:
            return False
        if isinstance(await self._threads.delete(key, expected=loaded.record.version), Lost):
            raise NotWritten("The thread was written while it was to be deleted.")
        self._seen_here()[key] = Version()
        return True

    async def clear(self, *, scope: str | None = None) -> None:
        """Raise NotSupported."""
        raise NotSupported("Threads are deleted one by one: a store does not list those that have nothing open.")

    async def _save(self, key: ThreadKey, snapshot: Snapshot, seen: Version | None) -> Version:
        loaded = await self._threads.load(key)
        _refuse_open(loaded)
        version = loaded.record.version
        if seen not in {None, version}:
            raise NotWritten("Another request wrote the thread since this one read it.")
        follower = carried_on(loaded.snapshot, snapshot)
        match await self._commit(key, Change(version, uuid4().hex, loaded.record, snapshot=follower)):
            case Saved(version=version):
                return version
            case Lost() | NotReserved():
                raise NotWritten("Another request wrote the thread at the same moment.")

    async def _commit(self, key: ThreadKey, change: Change) -> Saved | Lost | NotReserved:
        try:
            return await self._threads.save(key, change=change)
        except WriteInDoubt:
            # The reply was lost: the same change again learns what became of it.
            return await self._threads.save(key, change=change)

    def _key(self, scope: str, thread_id: str) -> ThreadKey:
        return ThreadKey(Scope(scope), self._agent, thread_id)

    def _seen_here(self) -> dict[ThreadKey, Version]:
        task = asyncio.current_task()
        assert task is not None, "called from a task"
        return self._seen.setdefault(task, {})

    def _note_failure(self, key: ThreadKey, seen: dict[ThreadKey, Version], error: Exception) -> None:
        # Neither the exception's text nor the thread's id: both may tell what was said, and by whom.
        _log.error("A snapshot of agent %s was not written: %s", key.agent, type(error).__name__)
        self._failures.pop(key, None)
        self._failures[key] = _Failure(seen, type(error).__name__)
        if len(self._failures) > _FAILURES_MAX:
            del self._failures[next(iter(self._failures))]


def _refuse_open(loaded: Loaded) -> None:
    # A snapshot is joined to its record by the pause: written alone it would leave the approvals behind.
    if loaded.record.claim is not None or loaded.record.occurrences:
        raise NotWritten("A run of this project's runner holds the thread, or waits in it for a person.")


def to_upstream(snapshot: Snapshot) -> AGUIThreadSnapshot:
    """Return a stored snapshot as upstream's."""
    return AGUIThreadSnapshot(
        messages=list(deepcopy(snapshot.messages)),
        state=deepcopy(snapshot.state),
        interrupt=list(deepcopy(snapshot.interrupts)) or None,
        session_state=deepcopy(snapshot.session_state),
    )


def from_upstream(snapshot: AGUIThreadSnapshot) -> Snapshot:
    """Return upstream's snapshot as the value that gets stored."""
    return Snapshot(
        messages=tuple(snapshot.messages),
        state=snapshot.state,
        interrupts=tuple(snapshot.interrupt or ()),
        session_state=snapshot.session_state,
    )
