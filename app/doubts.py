"""The operator's command for calls in doubt: `python -m app.doubts list | show | resolve`, with the host's settings."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import Sequence

from app.doubt_alarm import DoubtAlarm
from app.ledger import Ledger
from app.replicas import Replica
from app.resolve import Doubt, Doubts, Ended, Statement
from app.settings import Settings
from app.upkeep import Upkeep
from stores import open_stores
from stores.errors import StoreError
from stores.ports import Stores
from stores.records import Json, Scope, ThreadKey, ToolResult

DONE, NOT_DONE, UNUSABLE = 0, 1, 2
"""Exit codes; the last is argparse's own, too."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; answers its exit code."""
    parser = _parser()
    wanted = parser.parse_args(arguments)
    if wanted.command == "resolve" and wanted.happened != (wanted.result is not None):
        parser.error("--happened needs the --result that the thread goes on with; --did-not-happen has none")
    settings = Settings()
    if "memory" in (settings.stores, settings.effects_store):
        return _fail(UNUSABLE, "What is kept in memory only its own process can reach.")
    try:
        return asyncio.run(_run(settings, wanted))
    except StoreError as error:
        return _fail(NOT_DONE, f"A store gave no answer ({type(error).__name__}); say the same again.")


async def _run(settings: Settings, wanted: argparse.Namespace) -> int:
    async with open_stores(settings.store_options()) as stores:
        doubts = doubts_of(settings, stores)
        if wanted.command == "list":
            for each in await doubts.list(Scope(wanted.scope), agent=wanted.agent):
                print(json.dumps(_line(each)))
            return DONE
        key = ThreadKey(Scope(wanted.scope), wanted.agent, wanted.thread)
        if wanted.command == "show":
            return await _show(doubts, key, wanted.interrupt)
        return await _resolve(doubts, key, wanted)


def doubts_of(settings: Settings, stores: Stores) -> Doubts:
    """Return the doubts kept in these stores, for a process that serves nobody itself."""
    replica = Replica(stores.replicas, lease_seconds=settings.lease_seconds, label="operator")
    upkeep = Upkeep(
        stores,
        Ledger(stores.effects, replica),
        retries_max=settings.reconcile_retries_max,
        alarm=DoubtAlarm(age_seconds=settings.retention_indeterminate_seconds),
    )
    return Doubts(stores, upkeep, lease_seconds=settings.lease_seconds)


async def _show(doubts: Doubts, key: ThreadKey, interrupt: str) -> int:
    doubt = await doubts.find(key, interrupt)
    if doubt is None:
        return _fail(NOT_DONE, "There is no such call in doubt.")
    occurrence = doubt.occurrence
    executed = occurrence.decision.arguments if occurrence.decision else ""
    details = {
        **_line(doubt),
        "kind": occurrence.kind.value,
        "idempotencyKey": occurrence.interrupt_id,
        "arguments": json.loads(executed or occurrence.arguments),
        "runId": occurrence.run_id,
    }
    print(json.dumps(details, indent=2))
    return DONE


async def _resolve(doubts: Doubts, key: ThreadKey, wanted: argparse.Namespace) -> int:
    result = ToolResult(({"type": "text", "text": wanted.result},)) if wanted.happened else None
    statement = Statement(wanted.attempt, result, wanted.by, wanted.evidence, has_ended=wanted.process_ended)
    answer = await doubts.resolve(key, wanted.interrupt, statement)
    if not isinstance(answer, Ended):
        return _fail(NOT_DONE, answer.why)
    print(
        "It happened: the thread goes on with its result." if wanted.happened else "It did not: the call is made now."
    )
    return DONE


def _line(doubt: Doubt) -> Json:
    """Return what is listed. As JSON, since thread ids are what clients make them."""
    return {
        "agent": doubt.key.agent,
        "thread": doubt.key.thread_id,
        "interrupt": doubt.occurrence.interrupt_id,
        "attempt": doubt.attempt,
        "tool": doubt.occurrence.tool,
        "ageSeconds": None if doubt.age_seconds is None else round(doubt.age_seconds),
        "processAlive": doubt.is_held,
    }


def _fail(code: int, message: str) -> int:
    print(message, file=sys.stderr)
    return code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m app.doubts", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    listing = commands.add_parser("list", help="list the calls in doubt of a scope, one JSON object a line")
    listing.add_argument("--scope", required=True)
    listing.add_argument("--agent")
    showing = commands.add_parser("show", help="show one of them, with the arguments that may have been carried out")
    resolving = commands.add_parser("resolve", help="state what became of it")
    for each in (showing, resolving):
        each.add_argument("--scope", required=True)
        each.add_argument("--agent", required=True)
        each.add_argument("thread")
        each.add_argument("interrupt")
    resolving.add_argument("--attempt", required=True, help="the attempt that the statement is about, as it was shown")
    what = resolving.add_mutually_exclusive_group(required=True)
    what.add_argument("--happened", action="store_true")
    what.add_argument("--did-not-happen", action="store_true")
    resolving.add_argument("--result", help="what the tool would have returned; with --happened")
    resolving.add_argument(
        "--process-ended", action="store_true", help="the process of the attempt ended, or the call in it did"
    )
    resolving.add_argument("--by", required=True, help="who states it")
    resolving.add_argument("--evidence", required=True, help="how they know; it is kept and logged")
    return parser


if __name__ == "__main__":
    sys.exit(main())
