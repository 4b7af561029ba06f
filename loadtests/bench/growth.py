"""`python -m loadtests.bench.growth`: what the steps of each store cost against what is stored, and which grow."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from random import Random
from time import monotonic
from typing import Annotated

import typer
from rich.console import Console

from loadtests.bench import places, scripts
from loadtests.bench.measuring import Curve, Growth, Verdict, curves
from loadtests.bench.memory_worlds import MemoryTechnology
from loadtests.bench.redis_worlds import redis_technology
from loadtests.bench.showing import limits, table, written
from loadtests.bench.sql_worlds import postgres_technology, sqlite_technology
from loadtests.bench.worlds import Technology

TECHNOLOGIES: Mapping[str, Callable[[], AbstractContextManager[Technology]]] = {
    "memory": lambda: nullcontext(MemoryTechnology()),
    "sqlite": sqlite_technology,
    "postgres": postgres_technology,
    "redis": redis_technology,
}
STORED = "100,1000,10000,100000"
ENDED = (1, 10, 100, 1_000)
SAID = (10, 100, 1_000)
OPEN = (1, 10, 100, 1_000, 10_000)
CLAIMED = (1, 10, 100, 1_000)

TABLE_WIDTH = 160
"""What five sizes take; a narrower terminal wraps the lines, where a narrower table would cut numbers off."""

TALK_ROUNDS_MAX = 200
"""Of eight conversations in turn, each is then one chunk longer than at first."""


async def measured(technology: Technology, sizes: Sequence[int], rounds: int, random: Random) -> Sequence[Curve]:
    """Return every curve of one technology."""
    found: list[Curve] = []
    of_a_thread = (scripts.read, scripts.resume, scripts.let_go)
    async with places.stored(technology, sizes, random) as stored:
        full = min((size for size in sizes if size >= scripts.FULL), default=sizes[0])
        bases = {"old, first page": full, "old, in the middle": full}
        growth = Growth("stored threads", stored, (*of_a_thread, scripts.look, scripts.retain), bases=bases)
        found += await curves(growth, rounds=rounds, random=random)
    async with places.ended(technology, ENDED, random) as ended:
        growth = Growth("terminal occurrences in a thread", ended, of_a_thread)
        found += await curves(growth, rounds=rounds, random=random)
    async with places.said(technology, SAID, random) as said:
        # Below a chunk, a save writes the whole conversation: that is less than what it writes later.
        bases = dict.fromkeys(("finish", "finish, bytes written"), SAID[1])
        growth = Growth("messages in a thread", said, (scripts.talk,), scripts.ANSWERS_ALL, bases)
        found += await curves(growth, rounds=min(rounds, TALK_ROUNDS_MAX), random=random)
    async with places.crowded(technology, OPEN, random) as crowded:
        bases = dict.fromkeys(("list, open in this scope", "count, open in this scope"), scripts.FULL)
        growth = Growth("open approvals", crowded, (scripts.look_in_crowd,), bases=bases)
        found += await curves(growth, rounds=rounds, random=random)
    async with places.claimed(technology, CLAIMED, random) as claimed:
        growth = Growth("claimed threads", claimed, (scripts.look_for_dead,), scripts.READS_CLAIMS)
        found += await curves(growth, rounds=rounds, random=random)
    return found


command_line = typer.Typer(help=__doc__, add_completion=False, pretty_exceptions_enable=False)


@command_line.command()
def main(
    *,
    adapters: Annotated[str, typer.Option(help="Which of them, separated by commas.")] = ",".join(TECHNOLOGIES),
    sizes: Annotated[str, typer.Option(help="How many stored threads to compare, separated by commas.")] = STORED,
    rounds: Annotated[int, typer.Option(min=2, help="How often each step is taken at each size.")] = 200,
    seed: Annotated[int, typer.Option(help="Which threads are taken, and in which order the sizes.")] = 1,
    json: Annotated[Path, typer.Option(help="Where all numbers are written.")] = Path(".agui/growth.json"),
) -> None:
    """Print one table per adapter. Exit code 1 if a step costs more the more is stored."""
    console = Console(width=max(Console().width, TABLE_WIDTH))
    stored = sorted(int(size) for size in sizes.split(","))
    found: dict[str, Sequence[Curve]] = {}
    for adapter in adapters.split(","):
        begun = monotonic()
        with TECHNOLOGIES[adapter]() as technology:
            found[adapter] = asyncio.run(measured(technology, stored, rounds, Random(seed)))
            console.print(table(f"{technology.name} ({monotonic() - begun:.0f} s)", found[adapter]))
    console.print(limits(rounds))
    written(json, found)
    growing = [(adapter, each) for adapter, all_of in found.items() for each in all_of if each.verdict is Verdict.GROWS]
    for adapter, curve in growing:
        console.print(f"[bold red]GROWS[/]  {adapter}: {curve.step}, against {curve.growth}: x {curve.ratio:.1f}")
    sys.exit(1 if growing else 0)


if __name__ == "__main__":
    command_line()
