"""Upstream's CheckpointStorage for the workflows of one thread, over any CheckpointStore."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Collection, Sequence
from pickle import PicklingError
from typing import Any

from agent_framework import WorkflowCheckpoint, WorkflowCheckpointException

from stores.errors import StoreError
from stores.ports import CheckpointStore
from stores.records import ThreadKey
from stores.sealing import Seal, SealBroken, position_of

_log = logging.getLogger(__name__)

_NOT_ENCODABLE = (WorkflowCheckpointException, PicklingError, TypeError, AttributeError, ValueError, RecursionError)
"""What pickle and JSON say of a value that they have no form for."""

_UNREADABLE = "it holds a type that is not allowed here, or was made by another version of agent-framework"


class ThreadCheckpointStorage:
    """Satisfies upstream's CheckpointStorage protocol.

    Nothing is saved that could not be loaded again: the allow-list of types (`module:Class`) is applied to both. It
    adds to what upstream needs itself and to what upstream's `register_checkpoint_type` was given. Nothing is decoded
    whose signature does not fit, and what can not be used is an error that names it, in every read: no checkpoint is
    left out, and no older one is taken for it. Whoever can write to the store can still remove one, so a pause has to
    be resumed by the id that its record names, not by what is newest.

    Newest is what was saved last, and no clock says so: hosts' clocks differ, and a checkpoint's own timestamp is one
    of them. Each save takes the *position* after the newest that the store has, and the store orders by it. Two saves
    at the same moment, which a claim rules out, may share one; their ids order them then, for everybody alike.

    After each save all but the newest `keep` of that workflow are removed, except what `keep_ids` names: the
    checkpoints that open pauses point to. `encode` and `decode` are upstream's.
    """

    def __init__(
        self,
        store: CheckpointStore,
        key: ThreadKey,
        *,
        seal: Seal,
        encode: Callable[[Any], Any],
        decode: Callable[[Any, frozenset[str]], Any],
        allowed_types: Collection[str] = (),
        keep: int,
        keep_ids: Callable[[], Collection[str]] = tuple,
    ) -> None:
        if keep < 1:
            raise ValueError("At least the newest checkpoint is kept.")
        self._store = store
        self._key = key
        self._seal = seal
        self._encode = encode
        self._decode = decode
        self._allowed_types = frozenset(allowed_types)
        self._keep = keep
        self._keep_ids = keep_ids
        self._seen = ("", 0)
        self.refused: Exception | None = None
        """Why the latest save failed, if it did: upstream logs that and goes on, so the pause must not be trusted."""

    async def save(self, checkpoint: WorkflowCheckpoint) -> str:
        """Store a checkpoint as the newest of its workflow.

        Raises WorkflowCheckpointException, which names the type, for what could not be loaded again.
        """
        try:
            await self._save(checkpoint)
        except (WorkflowCheckpointException, StoreError) as error:
            self.refused = error
            raise
        self.refused = None
        return checkpoint.checkpoint_id

    async def load(self, checkpoint_id: str) -> WorkflowCheckpoint:
        """Return one checkpoint. Raises WorkflowCheckpointException if there is none, or if it can not be used."""
        return await self._load(checkpoint_id)

    async def list_checkpoints(self, *, workflow_name: str) -> list[WorkflowCheckpoint]:
        """Return the checkpoints of a workflow, oldest first; raises as `load` does if one can not be used."""
        ids = await self.list_checkpoint_ids(workflow_name=workflow_name)
        return [await self._load(each, of_workflow=workflow_name) for each in ids]

    async def delete(self, checkpoint_id: str) -> bool:
        """Remove one checkpoint, whether it can be used or not; False if there was none."""
        return await self._store.delete(self._key, checkpoint_id=checkpoint_id)

    async def get_latest(self, *, workflow_name: str) -> WorkflowCheckpoint | None:
        """Return the newest checkpoint of a workflow and load no other; raises as `load` does if it can not be used."""
        ids = await self.list_checkpoint_ids(workflow_name=workflow_name)
        return await self._load(ids[-1], of_workflow=workflow_name) if ids else None

    async def list_checkpoint_ids(self, *, workflow_name: str) -> list[str]:
        """Return the ids of a workflow's checkpoints, oldest first, of those that can not be used too."""
        return list(await self._store.list(self._key, workflow=workflow_name))

    async def forget(self) -> int:
        """Remove all checkpoints of the thread; answers how many went."""
        return await self._store.forget(self._key)

    async def _save(self, checkpoint: WorkflowCheckpoint) -> None:
        checkpoint_id, workflow = checkpoint.checkpoint_id, checkpoint.workflow_name
        payload = self._payload(checkpoint)
        ids = await self.list_checkpoint_ids(workflow_name=workflow)
        position = 1 + await self._position(ids)
        blob = self._seal.sealed(payload, place=self._place(checkpoint_id), position=position)
        await self._store.save(
            self._key, checkpoint_id=checkpoint_id, workflow=workflow, blob=blob, created_at=float(position)
        )
        self._seen = (checkpoint_id, position)
        await self._prune(workflow, [*(each for each in ids if each != checkpoint_id), checkpoint_id])

    def _payload(self, checkpoint: WorkflowCheckpoint) -> bytes:
        try:
            text = json.dumps(self._encode(checkpoint.to_dict()), separators=(",", ":"))
            self._decode(json.loads(text), self._allowed_types)
        except _NOT_ENCODABLE as error:
            raise WorkflowCheckpointException(
                f"Checkpoint '{checkpoint.checkpoint_id}' is not saved, it could not be loaded again: {error}"
            ) from error
        return text.encode()

    async def _position(self, ids: Sequence[str]) -> int:
        """Return the position of the newest, which is read from the store unless we wrote or loaded it ourselves."""
        if not ids:
            return 0
        seen_id, position = self._seen
        return position if seen_id == ids[-1] else self._position_of(ids[-1], await self._blob(ids[-1]))

    async def _load(self, checkpoint_id: str, *, of_workflow: str | None = None) -> WorkflowCheckpoint:
        blob = await self._blob(checkpoint_id)
        try:
            payload = self._seal.opened(blob, place=self._place(checkpoint_id))
        except SealBroken as error:
            raise _unusable(checkpoint_id, str(error)) from None
        try:
            checkpoint = WorkflowCheckpoint.from_dict(self._decode(json.loads(payload), self._allowed_types))
        except (WorkflowCheckpointException, ValueError) as error:
            # The cause names the type: it is for the log, a client may be shown the message.
            raise _unusable(checkpoint_id, _UNREADABLE) from error
        if of_workflow not in {None, checkpoint.workflow_name}:
            raise _unusable(checkpoint_id, "it belongs to another workflow")
        self._seen = (checkpoint_id, self._position_of(checkpoint_id, blob))
        return checkpoint

    async def _blob(self, checkpoint_id: str) -> bytes:
        blob = await self._store.load(self._key, checkpoint_id=checkpoint_id)
        if blob is None:
            raise _unusable(checkpoint_id, "there is none with this id")
        return blob

    def _position_of(self, checkpoint_id: str, blob: bytes) -> int:
        try:
            return position_of(blob)
        except SealBroken as error:
            raise _unusable(checkpoint_id, str(error)) from None

    def _place(self, checkpoint_id: str) -> tuple[str, ...]:
        # The workflow's name is in the payload, where it is just as safe.
        return (self._key.scope, self._key.agent, self._key.thread_id, checkpoint_id)

    async def _prune(self, workflow: str, ids: Sequence[str]) -> None:
        surplus, spared = ids[: -self._keep], frozenset(self._keep_ids())
        try:
            if surplus and spared.isdisjoint(surplus):
                await self._store.prune(self._key, workflow=workflow, keep=self._keep)
                return
            for each in surplus:
                if each not in spared:
                    await self._store.delete(self._key, checkpoint_id=each)
        except StoreError as error:
            # What was to be saved is saved; the next save removes what this one could not.
            _log.warning("Old checkpoints were not removed: %s", type(error).__name__)


def _unusable(checkpoint_id: str, reason: str) -> WorkflowCheckpointException:
    return WorkflowCheckpointException(f"Checkpoint '{checkpoint_id}' can not be used: {reason}.")
