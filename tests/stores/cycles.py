"""A whole approval as the stores see it: what several writers do at once, with everything they must find afterwards."""

from __future__ import annotations

from dataclasses import replace

from stores.ports import Began, Change, Reserved, Saved, Settled, Stores
from stores.records import Record, RunState, ThreadKey, Version
from tests.conformance.examples import (
    BAG,
    RESULT,
    SNAPSHOT,
    batch,
    begin,
    claim,
    finished,
    fresh,
    record,
    reservation,
    run,
    settle,
)

WRITES = 6
"""Committed writes of one cycle: open, pause, claim with its reservation, begin, settle, finish."""
GENERATIONS = 4
"""Those of them that are the thread's."""


async def cycle(stores: Stores, key: ThreadKey, number: int, *, expected: int) -> None:
    """Pause for an approval and carry it out, in a thread that was written so often before."""
    first, second, interrupt = f"pause-{number}", f"resume-{number}", f"interrupt-{number}"
    opened = await stores.threads.open(
        key, run=run(first), holder="holder-1", claim_seconds=60.0, write_id=fresh("open")
    )
    assert opened.claimed
    assert opened.loaded.record.version.generation == expected + 1
    paused = replace(record(interrupt), pause_id=f"pause-{number}")
    version = await _saved(stores, key, opened.loaded.record.version, paused, first)

    loaded = await stores.threads.load(key, interrupts=[interrupt], run_id=second)
    assert (loaded.record, loaded.known) == (replace(paused, version=version), None)
    attempt = fresh("attempt")
    wanted = await batch(stores, attempt, reservation(interrupt), lasts=60.0)
    claimed = replace(paused, claim=claim(until=wanted.until, attempt=attempt))
    resuming = run(second, RunState.RUNNING, attempt=attempt)
    answer = await stores.threads.save(key, change=Change(version, fresh(), claimed, runs=[resuming], batch=wanted))
    assert isinstance(answer, Saved)
    assert answer.answers == {interrupt: Reserved()}

    assert await begin(stores, attempt, interrupt, key) == Began()
    assert await settle(stores, attempt, RESULT, interrupt, key) == Settled(RESULT)
    version = await _saved(stores, key, answer.version, Record(), second, interrupt)
    assert version.generation == expected + GENERATIONS


async def _saved(
    stores: Stores, key: ThreadKey, expected: Version, changed: Record, run_id: str, *ended: str
) -> Version:
    change = Change(expected, fresh(), changed, SNAPSHOT, BAG, [finished(run_id, *ended)])
    answer = await stores.threads.save(key, change=change)
    assert isinstance(answer, Saved)
    return answer.version


async def require_cycles(stores: Stores, key: ThreadKey, count: int) -> None:
    """Assert that everything of so many cycles is there: runs, outcomes, effects, and the number of the writes."""
    loaded = await stores.threads.load(key)
    assert (loaded.record.version.generation, loaded.snapshot) == (count * GENERATIONS, SNAPSHOT)
    rows = await stores.effects.read(key, interrupts=[f"interrupt-{n}" for n in range(count)])
    assert {name: row.result for name, row in rows.items()} == {f"interrupt-{n}": RESULT for n in range(count)}
    for n in range(count):
        ended = await stores.threads.outcome(key, interrupt=f"interrupt-{n}")
        assert ended == finished(f"resume-{n}", f"interrupt-{n}")
