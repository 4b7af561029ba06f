"""A ThreadStore with the snapshots in the store that a test of upstream gave: there the test looks for them."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Any

from agent_framework_ag_ui import AGUIThreadSnapshotStore

from stores.errors import StoreUnavailable, WriteInDoubt
from stores.ports import Change, Loaded, Lost, NotReserved, Opened, Saved, ThreadStore
from stores.records import Run, Snapshot, ThreadKey
from stores.snapshots import from_upstream, to_upstream


class JoinedThreads:
    """Records, bags and runs are in `threads`, snapshots in `snapshots`; the rest of the port is that of `threads`."""

    def __init__(self, threads: ThreadStore, snapshots: AGUIThreadSnapshotStore) -> None:
        self._threads = threads
        self._snapshots = snapshots

    def __getattr__(self, name: str) -> Any:
        return getattr(self._threads, name)

    async def open(self, key: ThreadKey, *, run: Run, holder: str, claim_seconds: float, write_id: str) -> Opened:
        opened = await self._threads.open(key, run=run, holder=holder, claim_seconds=claim_seconds, write_id=write_id)
        return replace(opened, loaded=await self._joined(key, opened.loaded))

    async def load(self, key: ThreadKey, *, interrupts: Collection[str] = (), run_id: str | None = None) -> Loaded:
        return await self._joined(key, await self._threads.load(key, interrupts=interrupts, run_id=run_id))

    async def save(self, key: ThreadKey, *, change: Change) -> Saved | Lost | NotReserved:
        saved = await self._threads.save(key, change=change)
        if isinstance(saved, Saved) and change.snapshot is not None:
            await self._save(key, change.snapshot)
        return saved

    async def _save(self, key: ThreadKey, snapshot: Snapshot) -> None:
        try:
            await self._snapshots.save(scope=key.scope, thread_id=key.thread_id, snapshot=to_upstream(snapshot))
        except Exception as error:
            raise WriteInDoubt(str(error)) from error

    async def _joined(self, key: ThreadKey, loaded: Loaded) -> Loaded:
        """Return the thread with the test's snapshot; its pause is named by its interrupts, as in our own."""
        try:
            stored = await self._snapshots.get(scope=key.scope, thread_id=key.thread_id)
        except Exception as error:
            raise StoreUnavailable(str(error)) from error
        if stored is None:
            return replace(loaded, snapshot=None, snapshot_bytes=0)
        snapshot = from_upstream(stored)
        return replace(loaded, snapshot=replace(snapshot, pause_id=_pause_of(snapshot)), snapshot_bytes=0)


def _pause_of(snapshot: Snapshot) -> str | None:
    for interrupt in snapshot.interrupts:
        metadata = interrupt.get("metadata")
        pause = metadata.get("agui") if isinstance(metadata, dict) else None
        if isinstance(pause, dict):
            return str(pause.get("pauseId"))
    return None
