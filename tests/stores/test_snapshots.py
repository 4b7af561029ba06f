"""Any ThreadStore as upstream's snapshot store: plain upstream hosts share threads, and nothing is lost in silence."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import pytest
from agent_framework_ag_ui import AGUIThreadSnapshot, AGUIThreadSnapshotStore

from stores.errors import NotSupported, NotWritten, WriteInDoubt
from stores.history import CHUNK_CHARACTERS
from stores.ports import Change, Loaded, Lost, NotReserved, Saved, Stores, ThreadStore
from stores.records import Record, Scope, Snapshot, ThreadKey
from stores.snapshots import ThreadSnapshots
from tests.conformance.adapters import Adapter
from tests.conformance.examples import full_record, run
from tests.stores.plain_host import SLOW_INVOICE, PlainHost, said

AGENT = "lookup"
KEY = ThreadKey(Scope("tenant-1"), AGENT, "thread-1")
NAMES: dict[str, str] = {"scope": KEY.scope, "thread_id": KEY.thread_id}
Answered = TypeVar("Answered")


def snapshot(*words: str, **parts: Any) -> AGUIThreadSnapshot:
    messages = [{"id": f"m{n}", "role": "user", "content": each} for n, each in enumerate(words)]
    return AGUIThreadSnapshot(messages=messages, **parts)


def snapshots_of(stores: Stores) -> ThreadSnapshots:
    return ThreadSnapshots(stores.threads, agent=AGENT)


async def in_a_request(call: Coroutine[Any, Any, Answered]) -> Answered:
    """Run a call in a task of its own, as a server runs a request."""
    return await asyncio.create_task(call)


async def loaded(stores: Stores) -> Loaded:
    return await stores.threads.load(KEY)


async def stored_words(stores: Stores) -> list[str]:
    found = (await loaded(stores)).snapshot
    return [] if found is None else [str(message["content"]) for message in found.messages]


async def test_a_conversation_goes_on_at_another_host(adapter: Adapter) -> None:
    here = PlainHost(snapshots_of(await adapter.open_another()))
    there = PlainHost(snapshots_of(await adapter.open_another()))

    first = await here.says("look up INV-1")
    second = await there.says("look up INV-2")
    shown = await here.shows()

    assert (first.code, second.code, shown.code) == (None, None, None)
    assert said(shown) == ["look up INV-1", "look up INV-2"]
    assert [message["content"] for message in shown.messages if message["role"] == "tool"] == [
        "INV-1 is open.",
        "INV-2 is open.",
    ]


async def test_another_scope_sees_and_changes_nothing(stores: Stores) -> None:
    host = PlainHost(snapshots_of(stores))
    await host.says("look up INV-1")

    assert (await host.shows(scope="tenant-2")).messages == []
    await host.says("hello", scope="tenant-2")

    assert said(await host.shows()) == ["look up INV-1"]
    assert said(await host.shows(scope="tenant-2")) == ["hello"]


async def test_of_two_runs_at_once_the_later_one_fails_visibly(
    adapter: Adapter, caplog: pytest.LogCaptureFixture
) -> None:
    here = PlainHost(snapshots_of(await adapter.open_another()))
    there = PlainHost(snapshots_of(await adapter.open_another()))
    await here.says("hello")
    overtaken = asyncio.create_task(here.says(f"look up {SLOW_INVOICE}"))
    await asyncio.wait_for(here.in_tool.wait(), 30.0)
    assert (await there.says("look up INV-1")).code is None
    here.go.set()
    await overtaken

    (logged,) = {record.getMessage() for record in caplog.records if record.name == "stores.snapshots"}
    assert logged == "A snapshot of agent lookup was not written: NotWritten"
    assert (await here.says("and now?")).code == "NotWritten"
    assert said(await here.shows()) == ["hello", "look up INV-1"]
    assert (await here.says(f"look up {SLOW_INVOICE}")).code is None
    assert said(await there.shows()) == ["hello", "look up INV-1", f"look up {SLOW_INVOICE}"]


async def test_a_request_does_not_write_over_what_it_has_not_seen(stores: Stores) -> None:
    snapshots = snapshots_of(stores)

    async def overtaken() -> None:
        await snapshots.get(**NAMES)
        await in_a_request(snapshots.save(**NAMES, snapshot=snapshot("theirs")))
        # Upstream reads again in the middle of a run, to take out an interrupt: that is no reason to forget.
        await snapshots.get(**NAMES)
        with pytest.raises(NotWritten):
            await snapshots.save(**NAMES, snapshot=snapshot("mine"))

    await in_a_request(overtaken())

    assert await stored_words(stores) == ["theirs"]


async def test_a_request_follows_up_on_its_own_writes(stores: Stores) -> None:
    snapshots = snapshots_of(stores)

    async def a_run() -> None:
        await snapshots.get(**NAMES)
        await snapshots.save(**NAMES, snapshot=snapshot("one"))
        await snapshots.save(**NAMES, snapshot=snapshot("one", "two"))

    await in_a_request(a_run())

    assert await stored_words(stores) == ["one", "two"]


async def test_of_many_writers_at_one_moment_exactly_one_wins(adapter: Adapter) -> None:
    openings = [snapshots_of(await adapter.open_another()) for _ in range(4)]
    have_read = asyncio.Barrier(len(openings))

    async def write(snapshots: ThreadSnapshots, words: str) -> bool:
        await snapshots.get(**NAMES)
        await have_read.wait()
        try:
            await snapshots.save(**NAMES, snapshot=snapshot(words))
        except NotWritten:
            return False
        return True

    won = await asyncio.gather(*(write(each, f"writer {n}") for n, each in enumerate(openings)))

    assert won.count(True) == 1
    assert await stored_words(await adapter.open_another()) == [f"writer {won.index(True)}"]


async def test_everything_of_a_snapshot_comes_back(stores: Stores) -> None:
    snapshots = snapshots_of(stores)
    saved = snapshot("ü \ud83d", state={"a": [1]}, interrupt=[{"id": "i1"}], session_state={"s": None})

    await in_a_request(snapshots.save(**NAMES, snapshot=saved))

    assert await in_a_request(snapshots.get(**NAMES)) == saved
    assert await in_a_request(snapshots.get(scope=KEY.scope, thread_id="thread-2")) is None
    assert isinstance(snapshots, AGUIThreadSnapshotStore)


async def test_a_long_thread_is_not_written_again(stores: Stores) -> None:
    snapshots = snapshots_of(stores)
    words = [f"{n}: {'x' * 1_000}" for n in range(CHUNK_CHARACTERS // 1_000 + 1)]
    await in_a_request(snapshots.save(**NAMES, snapshot=snapshot(*words)))
    sealed = await sealed_messages(stores)

    await in_a_request(snapshots.save(**NAMES, snapshot=snapshot(*words, "more")))

    assert sealed == await sealed_messages(stores) == len(words)
    assert await stored_words(stores) == [*words, "more"]


async def sealed_messages(stores: Stores) -> int:
    found = (await loaded(stores)).snapshot
    assert found is not None
    return found.sealed


async def test_a_thread_with_a_claim_of_our_runner_is_neither_written_nor_deleted(stores: Stores) -> None:
    snapshots = snapshots_of(stores)
    await in_a_request(snapshots.save(**NAMES, snapshot=snapshot("before")))
    await stores.threads.open(KEY, run=run("run-1"), holder="holder", claim_seconds=60.0, write_id="open")

    with pytest.raises(NotWritten):
        await in_a_request(snapshots.save(**NAMES, snapshot=snapshot("over it")))
    with pytest.raises(NotWritten):
        await in_a_request(snapshots.delete(**NAMES))

    assert await stored_words(stores) == ["before"]
    assert (await loaded(stores)).record.claim is not None


async def test_a_thread_with_open_approvals_of_our_runner_is_neither_written_nor_deleted(stores: Stores) -> None:
    snapshots = snapshots_of(stores)
    open_record = replace(full_record(), claim=None)
    paused = Snapshot(messages=({"content": "paused"},), pause_id=open_record.pause_id)
    await stores.threads.save(
        KEY, change=Change((await loaded(stores)).record.version, "pause", open_record, snapshot=paused)
    )
    before = replace(await loaded(stores), now=0.0)

    with pytest.raises(NotWritten):
        await in_a_request(snapshots.save(**NAMES, snapshot=snapshot("over it")))
    with pytest.raises(NotWritten):
        await in_a_request(snapshots.delete(**NAMES))

    assert replace(await loaded(stores), now=0.0) == before


async def test_what_our_runner_left_in_a_thread_stays_when_a_plain_host_goes_on(stores: Stores) -> None:
    ended = run("run-1")
    record = Record(retries=3)
    await stores.threads.save(KEY, change=Change(record.version, "end", record, runs=(ended,)))

    await in_a_request(snapshots_of(stores).save(**NAMES, snapshot=snapshot("more")))

    assert (await loaded(stores)).record.retries == 3
    assert await stores.threads.outcome(KEY, run_id="run-1") == ended


async def test_a_deleted_thread_is_gone_and_can_begin_anew(stores: Stores) -> None:
    snapshots = snapshots_of(stores)

    async def a_life() -> None:
        await snapshots.save(**NAMES, snapshot=snapshot("old"))
        assert await snapshots.delete(**NAMES)
        assert await snapshots.get(**NAMES) is None
        assert not await snapshots.delete(**NAMES)
        await snapshots.save(**NAMES, snapshot=snapshot("new"))

    await in_a_request(a_life())

    assert await stored_words(stores) == ["new"]


async def test_clearing_a_scope_is_refused(stores: Stores) -> None:
    snapshots = snapshots_of(stores)
    await in_a_request(snapshots.save(**NAMES, snapshot=snapshot("kept")))

    with pytest.raises(NotSupported):
        await snapshots.clear(scope=KEY.scope)

    assert await stored_words(stores) == ["kept"]


async def test_a_failed_write_fails_the_next_request_once_and_is_logged_without_contents(
    stores: Stores, caplog: pytest.LogCaptureFixture
) -> None:
    snapshots = snapshots_of(stores)

    async def a_run() -> None:
        await snapshots.get(**NAMES)
        with pytest.raises(TypeError):
            await snapshots.save(**NAMES, snapshot=snapshot("secret", state={"no": object()}))
        assert await snapshots.get(**NAMES) is None

    await in_a_request(a_run())

    (logged,) = [record for record in caplog.records if record.name == "stores.snapshots"]
    assert (logged.levelno, logged.getMessage()) == (
        logging.ERROR,
        "A snapshot of agent lookup was not written: TypeError",
    )
    with pytest.raises(NotWritten):
        await in_a_request(snapshots.get(**NAMES))
    assert await in_a_request(snapshots.get(**NAMES)) is None


async def test_a_failed_write_that_the_same_request_made_good_is_not_reported(stores: Stores) -> None:
    snapshots = snapshots_of(stores)

    async def a_run() -> None:
        await snapshots.get(**NAMES)
        with pytest.raises(TypeError):
            await snapshots.save(**NAMES, snapshot=snapshot(state={"no": object()}))
        await snapshots.save(**NAMES, snapshot=snapshot("whole"))

    await in_a_request(a_run())

    assert (await in_a_request(snapshots.get(**NAMES))) == snapshot("whole")


@dataclass(slots=True)
class LosesReplies:
    """The store's own thread store on a bad line: every second reply to a save is lost after it was applied."""

    threads: ThreadStore
    saves: int = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self.threads, name)

    async def save(self, key: ThreadKey, *, change: Change) -> Saved | Lost | NotReserved:
        answer = await self.threads.save(key, change=change)
        self.saves += 1
        if self.saves % 2:
            raise WriteInDoubt("no reply")
        return answer


async def test_a_write_whose_reply_was_lost_is_made_once_and_followed_up(stores: Stores) -> None:
    line: Any = LosesReplies(stores.threads)
    snapshots = ThreadSnapshots(line, agent=AGENT)

    async def a_run() -> None:
        await snapshots.get(**NAMES)
        await snapshots.save(**NAMES, snapshot=snapshot("one"))
        await snapshots.save(**NAMES, snapshot=snapshot("one", "two"))

    await in_a_request(a_run())

    assert (await loaded(stores)).record.version.generation == 2
    assert await stored_words(stores) == ["one", "two"]


async def test_the_failures_of_more_threads_than_are_remembered_do_not_pile_up(stores: Stores) -> None:
    snapshots = snapshots_of(stores)
    unwritable = snapshot(state={"no": object()})
    for number in range(1_001):
        with pytest.raises(TypeError):
            await snapshots.save(scope=KEY.scope, thread_id=f"thread-{number}", snapshot=unwritable)

    assert await in_a_request(snapshots.get(scope=KEY.scope, thread_id="thread-0")) is None
    with pytest.raises(NotWritten):
        await in_a_request(snapshots.get(scope=KEY.scope, thread_id="thread-1"))
