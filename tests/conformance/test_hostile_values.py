"""All ports: ids and values that break what is built by joining strings, cut to a length, or read without a look."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from stores.ports import Began, Change, Closed, Listed, Reserved, Settled, Stores
from stores.records import Bag, Effect, EffectKind, EffectState, Record, Scope, Snapshot, ThreadKey, ToolResult
from tests.conformance.examples import (
    DAY,
    KEY,
    RESULT,
    begin,
    begun,
    claim,
    finished,
    now_of,
    occurrence,
    read,
    record,
    reservation,
    reserve,
    run,
    saved,
    settle,
)

HOSTILE = {
    "quotes": "a'b\"c`d''e\\'f",
    "sql": "'; drop table threads; --",
    "wildcards": "%_*?[a]\\%",
    "placeholders": ":name %s %(name)s $1 ? {0} {name} @p1",
    "control": "\x01\t\r\n\x1b\x1f\x7f\x85",
    "script": "漢字 Ünïcödé 🧾\u202e\u200d\ufeff",
    "spaces": "  a\u00a0 ",
    "hash tags": "a{b}c:{d}:e{}f{{g}",
    "json": '","format":0,"x":{"',
    "long": "x" * 256,
    "long in bytes": "🧾" * 256,
}
LOOKALIKES = (
    ThreadKey(Scope("a:b"), "c", "d"),
    ThreadKey(Scope("a"), "b:c", "d"),
    ThreadKey(Scope("a"), "b", "c:d"),
    ThreadKey(Scope("a"), "b", "c"),
    ThreadKey(Scope("A"), "b", "c"),
    ThreadKey(Scope("a"), "b", "C"),
    ThreadKey(Scope("a"), "b", "c "),
    ThreadKey(Scope("a"), "b", "ć"),
    ThreadKey(Scope("a"), "b", "c\u0301"),
    ThreadKey(Scope("{a}"), "b", "c"),
    ThreadKey(Scope("{a"), "}b", "c"),
    ThreadKey(Scope("{a:b"), "c}", "d"),
    ThreadKey(Scope("a/b"), "", "c"),
    ThreadKey(Scope("a"), "/b", "c"),
    ThreadKey(Scope("1"), "1", "1"),
    ThreadKey(Scope("1"), "1", "01"),
    ThreadKey(Scope("1"), "1", "1.0"),
)
MEGABYTE = 1_048_576


@pytest.fixture(params=list(HOSTILE.values()), ids=list(HOSTILE))
def hostile(request: pytest.FixtureRequest) -> str:
    value: str = request.param
    return value


async def test_a_thread_keeps_any_id_it_is_given(stores: Stores, hostile: str) -> None:
    key = ThreadKey(Scope(hostile), hostile, hostile)
    odd = occurrence(hostile, call_id=hostile, tool=hostile, arguments=hostile, digest=hostile, aliases=(hostile,))
    held = replace(claim(until=1.5, holder=hostile, attempt=hostile), run_id=hostile)
    full = Record(pause_id=hostile, occurrences=(odd,), claim=held)
    ended = finished(hostile, hostile, input_digest=hostile, attempt=hostile)
    change = Change((await stores.threads.load(key)).record.version, hostile, full, runs=[ended])
    await stores.threads.save(key, change=change)
    loaded = await stores.threads.load(key, interrupts=[hostile])
    assert loaded.record == replace(full, version=loaded.record.version)
    assert loaded.record.version.write_id == hostile
    assert loaded.known == ended
    assert await stores.threads.outcome(key, interrupt=f"alias-of-{hostile}") == ended
    assert await stores.threads.outcome(key, run_id=hostile) == ended
    assert list(await stores.threads.list(key.scope, limit=10)) == [
        Listed(key, hostile, "pending", hostile, 1_000.5, 2_000.25)
    ]
    assert list(await stores.threads.list(key.scope, limit=10, after=hostile)) == []
    assert await stores.threads.count_open(key.scope, at_most=10) == 1
    assert list(await stores.threads.due(alive=[], limit=10)) == [key]


async def test_an_open_takes_any_id(stores: Stores, hostile: str) -> None:
    key = ThreadKey(Scope(hostile), hostile, hostile)
    wanted = run(hostile, input_digest=hostile, attempt=hostile)
    opened = await stores.threads.open(key, run=wanted, holder=hostile, claim_seconds=DAY, write_id=hostile)
    assert opened.claimed
    assert list(await stores.threads.due(alive=[hostile], limit=10)) == []
    assert list(await stores.threads.due(alive=[hostile + "'"], limit=10)) == [key]
    loaded = await stores.threads.load(key, run_id=hostile)
    assert (loaded.record, loaded.known) == (opened.loaded.record, wanted)


async def test_a_ledger_row_keeps_any_id_it_is_given(stores: Stores, hostile: str) -> None:
    key = ThreadKey(Scope(hostile), hostile, hostile)
    await reserve(stores, "attempt-1", reservation("other"), key=key)
    await reserve(stores, hostile, reservation(hostile, digest=hostile), key=key)
    row = await read(stores, hostile, key)
    assert row is not None
    holder = f"holder-of-{hostile}"
    assert row == Effect(hostile, EffectState.RESERVED, EffectKind.UNSAFE, hostile, hostile, holder, row.until)
    assert await reserve(stores, "attempt-2", reservation(hostile), dead=[holder], key=key) == Reserved()
    assert await begin(stores, "attempt-2", hostile, key) == Began()
    assert await settle(stores, "attempt-2", interrupt_id=hostile, key=key) == Settled(RESULT)
    await stores.effects.close(key, interrupts={f"closed {hostile}": hostile})
    assert await reserve(stores, "attempt-3", reservation(f"closed {hostile}"), key=key) == Closed(hostile)
    other = await read(stores, "other", key)
    assert other is not None
    assert other.state is EffectState.RESERVED


async def test_checkpoints_and_replicas_keep_any_id_they_are_given(stores: Stores, hostile: str) -> None:
    key = ThreadKey(Scope(hostile), hostile, hostile)
    await stores.checkpoints.save(key, checkpoint_id=hostile, workflow=hostile, blob=b"blob", created_at=1.0)
    assert await stores.checkpoints.load(key, checkpoint_id=hostile) == b"blob"
    assert list(await stores.checkpoints.list(key, workflow=hostile)) == [hostile]
    assert await stores.checkpoints.delete(key, checkpoint_id=hostile)
    await stores.replicas.heartbeat(hostile, label=hostile)
    assert set(await stores.replicas.seen()) == {hostile}
    await stores.replicas.forget(hostile)
    assert await stores.replicas.seen() == {}


async def test_keys_that_look_alike_are_different_threads(stores: Stores) -> None:
    for n, key in enumerate(LOOKALIKES):
        await saved(stores, record(f"interrupt-{n}"), key=key, runs=[finished("run-1", "ended", input_digest=str(n))])
        assert await reserve(stores, f"attempt-{n}", key=key) == Reserved()
        await stores.checkpoints.save(key, checkpoint_id="c", workflow="w", blob=b"%d" % n, created_at=1.0)
    for n, key in enumerate(LOOKALIKES):
        loaded = await stores.threads.load(key, interrupts=["ended"])
        assert [each.interrupt_id for each in loaded.record.occurrences] == [f"interrupt-{n}"]
        assert loaded.known == finished("run-1", "ended", input_digest=str(n))
        row = await read(stores, key=key)
        assert row is not None
        assert row.attempt == f"attempt-{n}"
        assert await stores.checkpoints.load(key, checkpoint_id="c") == b"%d" % n


async def test_names_that_look_alike_are_different_rows(stores: Stores) -> None:
    names = ["a", "A", "a ", " a", "á", "a\u0301", "1", "01", "1.0"]
    await saved(stores, Record(), runs=[finished(f"run {name}", name) for name in names])
    for name in names:
        assert await reserve(stores, f"attempt {name}", reservation(name)) == Reserved()
        await stores.replicas.heartbeat(name, label="same")
    rows = await stores.effects.read(KEY, interrupts=names)
    assert {name: row.attempt for name, row in rows.items()} == {name: f"attempt {name}" for name in names}
    assert set(await stores.replicas.seen()) == set(names)
    for name in names:
        assert await stores.threads.outcome(KEY, interrupt=name) == finished(f"run {name}", name)


@pytest.mark.parametrize(
    "value",
    [
        "",
        "\x00 in the middle",
        "\\u0000",
        "line\u2028separator",
        "</script>",
        "NaN",
        "1e400",
        "x" * MEGABYTE,
        "漢" * 350_000,
    ],
    ids=["empty", "NUL", "escaped NUL", "separator", "markup", "NaN", "huge", "a megabyte", "a megabyte of script"],
)
async def test_values_inside_a_thread_come_back_as_they_were(stores: Stores, value: str) -> None:
    nested: dict[str, Any] = {"text": value, value[:100]: [value, None, 0, -1, 2**53, 1.5e-300, True, {}]}
    snapshot, bag = Snapshot(messages=(nested,), state=nested, session_state=nested), Bag("pause-1", nested)
    ended = finished("run-1", "interrupt-1", events=(nested,), interrupts=(nested,))
    odd = Record(occurrences=(occurrence("interrupt-2", arguments=value, upstream=nested),))
    await saved(stores, odd, snapshot=snapshot, bag=bag, runs=[ended])
    loaded = await stores.threads.load(KEY, interrupts=["interrupt-1"])
    assert loaded.record.occurrences == odd.occurrences
    assert (loaded.snapshot, loaded.bag, loaded.known) == (snapshot, bag, ended)
    result = ToolResult((nested,), is_error=True)
    await begun(stores, "attempt-1")
    await settle(stores, "attempt-1", result)
    assert await reserve(stores, "attempt-2") == Settled(result)
    row = await read(stores)
    assert row is not None
    assert row.result == result


async def test_a_thread_with_a_hundred_large_runs_loads_the_one_asked_for(stores: Stores) -> None:
    runs = [finished(f"run-{n}", f"interrupt-{n}", events=({"text": str(n) * 20_000},)) for n in range(100)]
    for start in range(0, 100, 25):
        await saved(stores, Record(), runs=runs[start : start + 25])
    assert (await stores.threads.load(KEY, interrupts=["interrupt-42"])).known == runs[42]


async def test_times_keep_their_fractions(stores: Stores) -> None:
    now = await now_of(stores)
    held = claim(until=now + 0.123456)
    await saved(stores, Record(occurrences=(occurrence(created_at=now, expires_at=now + 0.5),), claim=held))
    loaded = await stores.threads.load(KEY)
    assert loaded.record.claim is not None
    assert loaded.record.claim.until == pytest.approx(held.until, abs=1e-5)
    (listed,) = await stores.threads.list(KEY.scope, limit=1)
    assert listed.created_at == pytest.approx(now, abs=1e-5)
    assert listed.expires_at == pytest.approx(now + 0.5, abs=1e-5)
