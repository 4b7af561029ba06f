"""Settings that break a promise together, though each is fine alone. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Pair:
    """`smaller`, this many times, must not be more than `larger`; `why` is what goes wrong otherwise."""

    smaller: str
    larger: str
    why: str
    times: int = 1


ALWAYS = (
    Pair(
        "approval_seconds",
        "retention_pending_seconds",
        "what waits for a person can not be purged, so it must expire before.",
    ),
)
"""What even development can not be without."""

IN_PRODUCTION = (
    Pair(
        "store_timeout_seconds",
        "lease_seconds",
        "a replica whose heartbeat was answered late would be taken for dead while it works.",
        times=2,
    ),
    Pair("tool_seconds", "run_seconds", "a call would be cut off by its run before its own limit."),
    Pair(
        "run_seconds",
        "retention_terminal_seconds",
        "a client that waited for a run to end would find its answer purged.",
        times=2,
    ),
    Pair(
        "approval_seconds",
        "retention_terminal_seconds",
        "threads restored from before an answer could be answered again, when the ledger has forgotten it.",
    ),
    Pair("purge_seconds", "retention_terminal_seconds", "ended runs would be kept for much longer than you say."),
    Pair("state_bytes_max", "snapshot_bytes_max", "a state would be taken that no thread has room for."),
    Pair(
        "runs_max", "tool_threads_max", "tools that are plain functions would wait for threads while their time runs."
    ),
    Pair("runs_per_scope_max", "runs_max", "a scope could never come to its limit: one alone could fill a replica."),
    Pair(
        "open_approvals_per_thread_max",
        "open_approvals_per_scope_max",
        "a thread could never come to its limit: one alone could fill its scope.",
    ),
)
"""Tests and demos on one machine use times so short that these do not hold."""


def wrong_pair(values: Mapping[str, float], pairs: Sequence[Pair]) -> str | None:
    """Say which two settings do not go together; None if all do."""
    for pair in pairs:
        if values[pair.smaller] * pair.times > values[pair.larger]:
            share = f"1/{pair.times} of " if pair.times > 1 else ""
            smaller, larger = _named(pair.smaller, values), _named(pair.larger, values)
            return f"{smaller} is more than {share}{larger}: {pair.why}"
    return None


def _named(name: str, values: Mapping[str, float]) -> str:
    return f"AGUI_{name.upper()} ({values[name]:g})"
