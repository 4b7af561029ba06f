"""ThreadStore in files: a thread is one document, so every step is one replaced file."""

from __future__ import annotations

import json
import time
from collections.abc import Collection, Sequence
from dataclasses import astuple, replace
from itertools import chain

from stores.effect_row import judged
from stores.history import divided, joined
from stores.ports import (
    Batch,
    Change,
    Listed,
    Loaded,
    Lost,
    NotReserved,
    OldRun,
    OldRuns,
    Opened,
    Purged,
    Saved,
)
from stores.records import (
    Claim,
    Record,
    Run,
    RunState,
    Scope,
    ThreadKey,
    Version,
    bag_from_json,
    record_from_json,
    run_from_json,
    to_json,
)
from tests.example_adapter.effects import freed_in, put, rows_in
from tests.example_adapter.folder import Document, Folder, thread_file


class FileThreadStore:
    """ThreadStore over one file per thread."""

    def __init__(self, folder: Folder) -> None:
        self._folder = folder

    async def open(self, key: ThreadKey, *, run: Run, holder: str, claim_seconds: float, write_id: str) -> Opened:
        def step(document: Document) -> Opened:
            loaded = _loaded(document, (), run.run_id)
            record = loaded.record
            if record.version.write_id == write_id:
                return Opened(loaded, claimed=True)
            if record.claim is not None or record.occurrences or loaded.known is not None:
                return Opened(loaded, claimed=False)
            claimed = replace(record, claim=Claim(run.attempt, holder, run.run_id, loaded.now + claim_seconds))
            version = _write(document, key, Change(record.version, write_id, claimed, runs=(run,)))
            return Opened(replace(loaded, record=replace(claimed, version=version)), claimed=True)

        return await self._folder.change(thread_file(key), step)

    async def load(self, key: ThreadKey, *, interrupts: Collection[str] = (), run_id: str | None = None) -> Loaded:
        return _loaded(await self._folder.read(thread_file(key)), interrupts, run_id)

    async def save(self, key: ThreadKey, *, change: Change) -> Saved | Lost | NotReserved:
        def step(document: Document) -> Saved | Lost | NotReserved:
            version = _version(document)
            is_repeated = version.write_id == change.write_id
            if version != change.expected and not is_repeated:
                return Lost()
            freed = {} if change.free is None else freed_in(document, change.free)
            batch = change.batch or Batch("", "", 0.0)
            judgement = judged({**rows_in(document), **freed}, batch, time.time())
            if is_repeated:
                return Saved(version, judgement.answers)
            if judgement.rows is None:
                return NotReserved(judgement.answers)
            saved = _write(document, key, change)
            put(document, {**freed, **judgement.rows})
            return Saved(saved, judgement.answers)

        return await self._folder.change(thread_file(key), step)

    async def outcome(self, key: ThreadKey, *, interrupt: str | None = None, run_id: str | None = None) -> Run | None:
        document = await self._folder.read(thread_file(key))
        return _known(document, () if interrupt is None else (interrupt,), run_id)

    async def list(self, scope: Scope, *, limit: int, after: str | None = None) -> Sequence[Listed]:
        found = [
            Listed(_key(document), *fields)
            for document in await self._threads()
            for fields in document["open"]
            if document["key"][0] == scope and (after is None or fields[0] > after)
        ]
        return sorted(found, key=lambda each: (each.interrupt_id, astuple(each.key)))[:limit]

    async def count_open(self, scope: Scope, *, at_most: int) -> int:
        counts = [len(document["open"]) for document in await self._threads() if document["key"][0] == scope]
        return min(sum(counts), at_most)

    async def due(self, *, alive: Collection[str], limit: int) -> Sequence[ThreadKey]:
        now, waiting = time.time(), []
        for document in await self._threads():
            claim, due_at = _claim(document), document["due_at"]
            if claim is not None and (claim.until < now or claim.holder not in alive):
                waiting.append((claim.until, _key(document)))
            if claim is None and due_at is not None and due_at < now:
                waiting.append((due_at, _key(document)))
        return [key for _, key in sorted(waiting, key=lambda each: each[0])[:limit]]

    async def delete(self, key: ThreadKey, *, expected: Version) -> Saved | Lost:
        def step(document: Document) -> Saved | Lost:
            if _version(document) != expected or _claim(document) is not None:
                return Lost()
            _remove(document)
            return Saved(Version())

        return await self._folder.change(thread_file(key), step)

    async def old(self, *, age_seconds: float, limit: int, after: str | None = None) -> OldRuns:
        latest, threads = time.time() - age_seconds, {_key(each): each for each in await self._threads()}
        first = None if after is None else tuple(json.loads(after))
        runs = [
            (run["written_at"], *astuple(key), run_id)
            for key, document in threads.items()
            for run_id, run in document["runs"].items()
        ]
        seen = sorted(each for each in runs if each[0] < latest and (first is None or each > first))[:limit]
        old = []
        for _, *names, run_id in seen:
            document = threads[ThreadKey(*names)]
            if document["claim"] is None and not document["open"]:
                ended = tuple(sorted(_names_of(document["ended"], run_id)))
                old.append(OldRun(_key(document), run_id, ended))
        return OldRuns(tuple(old), json.dumps(seen[-1]) if len(seen) == limit else None)

    async def purge(self, key: ThreadKey, *, run_ids: Collection[str], age_seconds: float = 0.0) -> Purged:
        latest = time.time() - age_seconds

        def step(document: Document) -> Purged:
            runs = document.get("runs", {})
            gone = {run_id for run_id in set(run_ids) & set(runs) if runs[run_id]["written_at"] <= latest}
            if not gone or document["claim"] is not None or document["open"]:
                return Purged(0)
            if len(gone) == len(document["runs"]):
                _remove(document)
                return Purged(len(gone), is_whole=True)
            for run_id in gone:
                del document["runs"][run_id]
                for ended in (document["ended"], document["ended_aliases"]):
                    for name in _names_of(ended, run_id):
                        del ended[name]
            return Purged(len(gone))

        return await self._folder.change(thread_file(key), step)

    async def _threads(self) -> Sequence[Document]:
        # A file without a key has the ledger's rows alone.
        return [document for document in await self._folder.every("thread-") if "key" in document]


def _write(document: Document, key: ThreadKey, change: Change) -> Version:
    if "key" not in document:
        empty: Document = {"key": astuple(key), "snapshot": None, "chunks": [], "bag": None}
        document.update(empty, version=astuple(Version()), runs={}, ended={}, ended_aliases={})
    record, version = change.record, Version(_version(document).generation + 1, change.write_id)
    document["version"], document["record"] = astuple(version), to_json(record)
    document["claim"] = None if record.claim is None else astuple(record.claim)
    document["due_at"] = change.due_at
    document["open"] = [
        (each.interrupt_id, each.state, each.tool, each.created_at, each.expires_at) for each in record.occurrences
    ]
    if change.bag is not None:
        document["bag"] = to_json(change.bag)
    if change.snapshot is not None:
        parts = divided(change.snapshot)
        kept, added = document["chunks"] if parts.keeps else [], [parts.chunk] if parts.chunk else []
        document["snapshot"], document["chunks"] = parts.text, kept + added
    for run in change.runs:
        document["runs"][run.run_id] = {"text": to_json(run), "written_at": time.time()}
        for outcome in run.outcomes if run.state is RunState.FINISHED else ():
            document["ended"][outcome.interrupt_id] = run.run_id
            document["ended_aliases"].update(dict.fromkeys(outcome.aliases, run.run_id))
    return version


def _remove(document: Document) -> None:
    rows = document.get("rows", {})
    document.clear()
    document["rows"] = rows


def _loaded(document: Document, interrupts: Collection[str], run_id: str | None) -> Loaded:
    now = time.time()
    if "key" not in document:
        return Loaded(Record(), now)
    snapshot, chunks, bag = document["snapshot"], document["chunks"], document["bag"]
    return Loaded(
        record=record_from_json(document["record"], _version(document), _claim(document)),
        now=now,
        snapshot=None if snapshot is None else joined(snapshot, chunks),
        bag=None if bag is None else bag_from_json(bag),
        known=_known(document, interrupts, run_id),
        snapshot_bytes=sum(len(text.encode()) for text in (snapshot or "", *chunks)),
    )


def _known(document: Document, interrupts: Collection[str], run_id: str | None) -> Run | None:
    """Find the run a duplicate is answered from: by interrupt id, then by alias, then by its own id."""
    ended, aliases, runs = (document.get(name, {}) for name in ("ended", "ended_aliases", "runs"))
    found = chain(map(ended.get, interrupts), map(aliases.get, interrupts), (run_id,))
    texts = (runs[name]["text"] for name in found if name in runs)
    return next(map(run_from_json, texts), None)


def _key(document: Document) -> ThreadKey:
    return ThreadKey(*document["key"])


def _version(document: Document) -> Version:
    return Version(*document.get("version", ()))


def _claim(document: Document) -> Claim | None:
    claim = document.get("claim")
    return None if claim is None else Claim(*claim)


def _names_of(ended: dict[str, str], run_id: str) -> list[str]:
    return [name for name, by in ended.items() if by == run_id]
