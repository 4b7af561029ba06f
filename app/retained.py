"""Answers to calls that are at their end: which finished runs ended them, and the results those kept."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from app.answers import Entry
from stores.ports import Loaded, ThreadStore
from stores.records import Json, Outcome, Run, RunState, ThreadKey


def outcome_named(known: Run | None, name: str) -> Outcome | None:
    """Return the outcome of a run that `name` points to."""
    outcomes = known.outcomes if known else ()
    return next((each for each in outcomes if name in (each.interrupt_id, *each.aliases)), None)


def results_kept(runs: Sequence[Run], names: Collection[str]) -> tuple[Json, ...]:
    """Return the events with the results of these calls, as their finished runs sent them."""
    found: dict[str, tuple[Run, Outcome]] = {}
    for name in names:
        for run in runs:
            outcome = outcome_named(run, name) if run.state is RunState.FINISHED else None
            if outcome is not None:
                found.setdefault(outcome.interrupt_id, (run, outcome))
    return tuple(
        event
        for run, outcome in found.values()
        for event in run.events
        if event.get("type") == "TOOL_CALL_RESULT" and event.get("toolCallId") == outcome.call_id
    )


async def retained(threads: ThreadStore, key: ThreadKey, loaded: Loaded, entries: Sequence[Entry]) -> list[Run]:
    """Return the runs, besides the one that is known, that have ended calls which these answers name."""
    runs: list[Run] = []
    for name in (each.name for each in entries if loaded.record.find(each.name) is None):
        if any(outcome_named(run, name) for run in (loaded.known, *runs)):
            continue
        run = await threads.outcome(key, interrupt=name)
        if run is None:
            break  # The request is refused for it, whatever else it names.
        runs.append(run)
    return runs
