"""ThreadStore: the long history of a thread is read whole, written once, and never mixed with another."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import replace

import pytest

from stores import history
from stores.errors import PartMissing, UnknownFormat
from stores.history import CHUNK_CHARACTERS
from stores.ports import Change, Loaded, Lost, Opened, Saved, Stores
from stores.records import Json, Record, Snapshot, ThreadKey, Version
from tests.conformance.adapters import Adapter
from tests.conformance.examples import DAY, KEY, NEIGHBOURS, ROUNDS, finished, fresh, record, run, saved, version_of

HOSTILE_TEXT = "line\nbreak \r\n \u2028 \u2029 \x1e \\n '\"`; -- 🧾 \ud83e \x00"
"""What could be taken for the end of a chunk, or of a text."""
SENTENCE = "The invoice was paid on the day that it was due, from the account that you named. "


def messages(count: int, said: str = "") -> tuple[Json, ...]:
    """Return so many messages of about 300 bytes, no two alike."""
    return tuple(
        {"id": f"message-{said}-{n}", "role": "user", "content": f"{n} {said} {SENTENCE * 3}"} for n in range(count)
    )


SEALED = messages(80)
"""More than is written again with every save: the first save seals them."""


async def said(stores: Stores, every: Sequence[Json], *, key: ThreadKey = KEY, **parts: object) -> Loaded:
    """Save a snapshot of these messages on top of the one that is there, as a run does, and load it again."""
    before = await stores.threads.load(key)
    snapshot = history.carried_on(before.snapshot, Snapshot(messages=tuple(every), **parts))  # type: ignore[arg-type]  # fields by name
    change = Change(before.record.version, fresh("write"), Record(), snapshot)
    assert isinstance(await stores.threads.save(key, change=change), Saved)
    return await stores.threads.load(key)


def sealed_in(loaded: Loaded) -> int:
    assert loaded.snapshot is not None
    return loaded.snapshot.sealed


# Writing and reading it


async def test_a_thousand_messages_come_back_through_a_hundred_saves(adapter: Adapter, stores: Stores) -> None:
    every = messages(1_000)
    sealed = [sealed_in(await said(stores, every[:end])) for end in range(10, 1_001, 10)]
    loaded = await (await adapter.open_another()).threads.load(KEY)
    assert loaded.snapshot == Snapshot(messages=every)
    assert sealed == sorted(sealed)
    # No more than a chunk is loose, and so written again; and a chunk is not made of every few messages.
    assert sum(len(str(message)) for message in every[sealed[-1] :]) < CHUNK_CHARACTERS
    assert 10 < len(set(sealed)) < 30


async def test_the_bytes_of_a_snapshot_are_those_of_all_its_messages(stores: Stores) -> None:
    assert (await stores.threads.load(KEY)).snapshot_bytes == 0
    small = await said(stores, messages(1))
    assert 300 < small.snapshot_bytes < 600
    text = len(json.dumps(SEALED, separators=(",", ":")))
    large = await said(stores, SEALED)
    assert text < large.snapshot_bytes < text + 300
    script = await said(stores, ({"content": "漢" * CHUNK_CHARACTERS},), key=NEIGHBOURS[0])
    assert 3 * CHUNK_CHARACTERS < script.snapshot_bytes < 3 * CHUNK_CHARACTERS + 300


async def test_what_an_open_answers_has_the_whole_history_in_it(stores: Stores) -> None:
    every = (*SEALED, *messages(80, "later"), {"id": "last"})
    await said(stores, SEALED)
    before = await said(stores, every)
    assert sealed_in(before) > 0
    free = await stores.threads.open(KEY, run=run(), holder="h", claim_seconds=DAY, write_id="open-1")
    held = await stores.threads.open(KEY, run=run("run-2"), holder="h", claim_seconds=DAY, write_id="open-2")
    assert (free.claimed, held.claimed) == (True, False)
    for opened in (free, held):
        assert opened.loaded.snapshot == Snapshot(messages=every)
        assert sealed_in(opened.loaded) == sealed_in(before)
        assert opened.loaded.snapshot_bytes == before.snapshot_bytes


async def test_sealed_messages_may_hold_anything_that_looks_like_their_end(stores: Stores) -> None:
    every = tuple({"id": f"{n} {HOSTILE_TEXT}", "content": HOSTILE_TEXT * 60} for n in range(40))
    for end in (20, 40):
        loaded = await said(stores, every[:end])
        assert loaded.snapshot == Snapshot(messages=every[:end])
    assert sealed_in(loaded) > 0


async def test_one_message_as_large_as_many_is_sealed_too(stores: Stores) -> None:
    every = ({"content": "x" * 1_048_576}, {"content": "last"})
    await said(stores, every[:1])
    loaded = await said(stores, every)
    assert (loaded.snapshot, sealed_in(loaded)) == (Snapshot(messages=every), 1)


async def test_a_large_state_is_not_sealed(stores: Stores) -> None:
    state = {"rows": ["x" * 100] * 1_000}
    for end in (1, 2, 3):
        loaded = await said(stores, messages(end), state=state, session_state=state)
        assert loaded.snapshot == Snapshot(messages=messages(end), state=state, session_state=state)
        assert sealed_in(loaded) == 0


async def test_the_parts_that_are_no_messages_change_with_every_save(stores: Stores) -> None:
    await said(stores, SEALED, state={"step": 1}, pause_id="pause-1", interrupts=({"id": "interrupt-1"},))
    loaded = await said(stores, SEALED, state={"step": 2})
    assert loaded.snapshot == Snapshot(messages=SEALED, state={"step": 2})
    assert sealed_in(loaded) == len(SEALED)


# Another history


@pytest.mark.parametrize("length", [1, 79, 80, 81, 200])
async def test_a_history_that_begins_otherwise_is_written_anew_and_leaves_nothing_behind(
    stores: Stores, length: int
) -> None:
    await said(stores, SEALED)
    await said(stores, (*SEALED, *messages(80, "later")))
    other = messages(length, "other")
    loaded = await said(stores, other)
    alone = await said(stores, other, key=NEIGHBOURS[0])
    assert loaded.snapshot == Snapshot(messages=other)
    assert (sealed_in(loaded), loaded.snapshot_bytes) == (sealed_in(alone), alone.snapshot_bytes)
    longer = (*other, *messages(80, "longer"))
    assert (await said(stores, longer)).snapshot == Snapshot(messages=longer)


async def test_a_history_cut_short_is_written_anew(stores: Stores) -> None:
    await said(stores, SEALED)
    loaded = await said(stores, SEALED[:-1])
    assert loaded.snapshot == Snapshot(messages=SEALED[:-1])
    assert (await said(stores, ())).snapshot == Snapshot()


async def test_a_snapshot_that_says_nothing_of_a_seal_replaces_all_that_was_sealed(stores: Stores) -> None:
    await said(stores, SEALED)
    await saved(stores, Record(), snapshot=Snapshot(messages=SEALED))
    loaded = await stores.threads.load(KEY)
    assert loaded.snapshot == Snapshot(messages=SEALED)


# What leaves it alone


async def test_a_save_that_lost_leaves_the_history_as_it_was(stores: Stores) -> None:
    old = await version_of(stores)
    before = await said(stores, SEALED)
    for snapshot in (
        Snapshot(messages=messages(80, "other")),
        Snapshot(messages=(*SEALED, *messages(80, "later")), sealed=len(SEALED)),
        Snapshot(),
    ):
        assert await stores.threads.save(KEY, change=Change(old, fresh(), Record(), snapshot)) == Lost()
        after = await stores.threads.load(KEY)
        assert replace(after, now=0.0) == replace(before, now=0.0)
        assert sealed_in(after) == len(SEALED)


async def test_a_save_without_a_snapshot_leaves_the_history_as_it_was(stores: Stores) -> None:
    before = await said(stores, SEALED)
    await saved(stores, record("interrupt-1"), runs=[finished("run-1")])
    after = await stores.threads.load(KEY)
    assert (after.snapshot, after.snapshot_bytes) == (before.snapshot, before.snapshot_bytes)
    assert sealed_in(after) == len(SEALED)


async def test_a_save_sent_twice_seals_its_messages_once(stores: Stores) -> None:
    before = await said(stores, SEALED)
    longer = (*SEALED, *messages(80, "later"))
    snapshot = history.carried_on(before.snapshot, Snapshot(messages=longer))
    change = Change(before.record.version, "write-again", Record(), snapshot)
    first = await stores.threads.save(KEY, change=change)
    once = await stores.threads.load(KEY)
    assert await stores.threads.save(KEY, change=change) == first
    twice = await stores.threads.load(KEY)
    assert (twice.snapshot, twice.snapshot_bytes) == (Snapshot(messages=longer), once.snapshot_bytes)


async def test_a_deleted_history_is_gone_when_the_thread_begins_anew(stores: Stores) -> None:
    await said(stores, SEALED)
    await stores.threads.delete(KEY, expected=await version_of(stores))
    gone = await stores.threads.load(KEY)
    assert (gone.snapshot, gone.snapshot_bytes) == (None, 0)
    loaded = await said(stores, messages(1, "new"))
    assert loaded.snapshot == Snapshot(messages=messages(1, "new"))
    assert loaded.snapshot_bytes < 600


@pytest.mark.parametrize("neighbour", NEIGHBOURS)
async def test_a_neighbour_keeps_its_own_history(stores: Stores, neighbour: ThreadKey) -> None:
    mine = messages(80, "mine")
    await said(stores, mine)
    before = await said(stores, SEALED, key=neighbour)
    await said(stores, (*mine, *messages(80, "later")))
    await said(stores, messages(80, "other"))
    await said(stores, ())
    await stores.threads.delete(KEY, expected=await version_of(stores))
    after = await stores.threads.load(neighbour)
    assert replace(after, now=0.0) == replace(before, now=0.0)


# What can not be read


async def test_a_history_with_a_part_too_few_is_not_read(stores: Stores) -> None:
    # A seal that is not there: what the store would find if one were lost.
    await saved(stores, Record(), snapshot=Snapshot(messages=SEALED, sealed=10))
    with pytest.raises(PartMissing):
        await stores.threads.load(KEY)


async def test_sealed_messages_in_an_unknown_format_are_not_read(adapter: Adapter, stores: Stores) -> None:
    await said(stores, ({"note": "MARK"}, *SEALED))
    assert await adapter.back_door.age_format("MARK") == 1
    with pytest.raises(UnknownFormat):
        await stores.threads.load(KEY)


# Races


async def test_of_two_that_go_on_differently_the_history_is_the_winners(openings: Sequence[Stores]) -> None:
    for n in range(ROUNDS):
        key = replace(KEY, thread_id=f"thread-{n}")
        before = await said(openings[0], SEALED, key=key)
        ways = [(*SEALED, *messages(80, f"way-{n}")) for n in range(2)] + [messages(81, f"way-{n}") for n in range(2)]
        changes = [
            Change(
                before.record.version,
                f"write-{n}",
                Record(),
                history.carried_on(before.snapshot, Snapshot(messages=way)),
            )
            for n, way in enumerate(ways)
        ]
        answers = await asyncio.gather(
            *(each.threads.save(key, change=change) for each, change in zip(openings, changes, strict=False))
        )
        (winner,) = [n for n, answer in enumerate(answers) if isinstance(answer, Saved)]
        loaded = await openings[0].threads.load(key)
        assert loaded.snapshot == Snapshot(messages=ways[winner])


async def test_nobody_reads_a_mixture_while_histories_replace_each_other(openings: Sequence[Stores]) -> None:
    writer, *others = openings[:5]
    is_over = asyncio.Event()

    async def write() -> None:
        for n in range(40):
            # In turn a history as long as the one before it, so that only what is in it tells them apart.
            await said(writer, messages(80, str(n)))
        is_over.set()

    async def look(reader: Stores) -> None:
        while not is_over.is_set():
            assert_one_history(await reader.threads.load(KEY))
            # Memory stores never wait: without this the writer would not get its turn.
            await asyncio.sleep(0)

    await asyncio.gather(write(), *map(look, others))
    assert (await writer.threads.load(KEY)).snapshot == Snapshot(messages=messages(80, "39"))


async def test_an_open_that_waits_for_a_save_answers_the_history_of_that_save(openings: Sequence[Stores]) -> None:
    # The claim is dropped and the history replaced in one write: who opens the thread at that moment has begun to look
    # before it, and gets the thread after it.
    holder, *openers = openings[:6]
    after = Snapshot(messages=messages(80, "after"))

    async def open_when_free(stores: Stores, key: ThreadKey, name: str) -> Opened:
        while True:
            asked = run(f"run-{name}", attempt=f"attempt-{name}")
            opened = await stores.threads.open(key, run=asked, holder="h", claim_seconds=DAY, write_id=f"open-{name}")
            assert_one_history(opened.loaded)
            if opened.loaded.record.version.generation > 3:
                return opened
            await asyncio.sleep(0)

    for n in range(ROUNDS * 4):
        key = replace(KEY, thread_id=f"thread-{n}")
        await said(holder, messages(80, "before"), key=key)
        held = await holder.threads.open(key, run=run(), holder="h", claim_seconds=DAY, write_id="open-0")
        change = Change(held.loaded.record.version, "finish", Record(), after, runs=[finished("run-1")])
        answer, *opened = await asyncio.gather(
            holder.threads.save(key, change=change),
            *(open_when_free(each, key, str(m)) for m, each in enumerate(openers)),
        )
        assert isinstance(answer, Saved)
        assert [each.loaded.snapshot for each in opened] == [after] * len(openers)
        assert [each.claimed for each in opened].count(True) == 1


def assert_one_history(loaded: Loaded) -> None:
    """Fail if the messages are not all of one save."""
    if loaded.record.version == Version():
        return
    assert loaded.snapshot is not None
    assert len({str(message["id"]).split("-")[1] for message in loaded.snapshot.messages}) == 1
    assert len(loaded.snapshot.messages) == 80
