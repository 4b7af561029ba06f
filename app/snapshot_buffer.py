"""Upstream's snapshot store for one run: reads what the run was granted, keeps what it saves until the run commits."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace

from ag_ui.core import BaseEvent
from agent_framework_ag_ui import AGUIThreadSnapshot

from app.result_ids import ResultIds
from stores.records import Snapshot
from stores.snapshots import from_upstream, to_upstream


class SnapshotBuffer:
    """Satisfies upstream's AGUIThreadSnapshotStore. Nothing it is given reaches a store unless the run finishes."""

    def __init__(self, snapshot: Snapshot | None) -> None:
        self._latest = None if snapshot is None else to_upstream(snapshot)
        self._ids = ResultIds(snapshot or Snapshot())

    async def get(self, *, scope: str, thread_id: str) -> AGUIThreadSnapshot | None:
        """Return the run's picture of its thread."""
        return deepcopy(self._latest)

    async def save(self, *, scope: str, thread_id: str, snapshot: AGUIThreadSnapshot) -> None:
        """Keep the newest picture."""
        self._latest = deepcopy(snapshot)

    async def delete(self, *, scope: str, thread_id: str) -> bool:
        """Forget the picture."""
        existed, self._latest = self._latest is not None, None
        return existed

    async def clear(self, *, scope: str | None = None) -> None:
        """Forget the picture."""
        self._latest = None

    def as_shown(self, event: BaseEvent) -> BaseEvent:
        """Return an event of the run as it is sent and kept, which is how the thread will be shown later."""
        return self._ids.in_event(event)

    def snapshot(self) -> Snapshot:
        """Return the newest picture as the value that gets stored."""
        latest = from_upstream(self._latest or AGUIThreadSnapshot())
        return replace(latest, messages=self._ids.in_messages(latest.messages))
