"""How large a thread may become: full ones take no new message, and no run leaves one over the limit. Pure."""

from __future__ import annotations

from dataclasses import replace

from app.errors import Code, Refusal
from stores.ports import Loaded
from stores.records import Snapshot, to_json


def too_full(loaded: Loaded, bytes_max: int) -> Refusal | None:
    """Refuse a new message to a thread whose snapshot is at its limit. What is open in it can still be answered."""
    if loaded.snapshot_bytes < bytes_max:
        return None
    message = f"The thread is full: it has {bytes_max} bytes or more (AGUI_SNAPSHOT_BYTES_MAX). Start a new one."
    return Refusal(Code.LIMIT_EXCEEDED, message)


def outgrown(loaded: Loaded, snapshot: Snapshot, bytes_max: int) -> Refusal | None:
    """Refuse to keep a snapshot that takes more than the limit, where `loaded` is what it follows."""
    if stored_bytes(loaded, snapshot) <= bytes_max:
        return None
    message = (
        f"With this answer the thread would have more than {bytes_max} bytes (AGUI_SNAPSHOT_BYTES_MAX), so it was not "
        "kept; what was said before is. Start a new thread."
    )
    return Refusal(Code.LIMIT_EXCEEDED, message)


def stored_bytes(loaded: Loaded, snapshot: Snapshot) -> int:
    """Return what a snapshot will take in a store: the sealed messages that stay as they are, and the rest anew."""
    stays = 0
    if snapshot.sealed and loaded.snapshot is not None:
        stays = loaded.snapshot_bytes - _loose_bytes(loaded.snapshot)
    return stays + _loose_bytes(snapshot)


def _loose_bytes(snapshot: Snapshot) -> int:
    return len(to_json(replace(snapshot, messages=snapshot.messages[snapshot.sealed :])).encode())
