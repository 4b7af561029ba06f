"""`python -m loadtests.chaos run | mutants`: kill replicas while users approve, and judge what came of it.

Exit code of `run`: 0 passed, 1 a promise was broken, 3 the run tried too little to say anything.
"""

from __future__ import annotations

import secrets
import time
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from loadtests.campaign import run_campaign
from loadtests.checker import Verdict
from loadtests.mutants import MUTANTS
from loadtests.mutants.trials import trials
from loadtests.options import Options
from loadtests.plans import PLANS
from loadtests.report import show, write_report
from loadtests.targets.local import STORES

PASSED, BROKEN, TOO_LITTLE = 0, 1, 3

command_line = typer.Typer(help=__doc__, add_completion=False, no_args_is_help=True, pretty_exceptions_enable=False)


@command_line.command()
def run(
    *,
    stores: Annotated[str, typer.Option(help=f"Where the hosts keep things: {', '.join(STORES)}.")] = "sqlite",
    plan: Annotated[str, typer.Option(help=f"What the nemesis does: {', '.join(PLANS)}.")] = "all",
    approvals: Annotated[int, typer.Option(help="Go on until so many approvals ended.")] = 1000,
    hits: Annotated[int, typer.Option(help="Go on until so many kills hit a resume in progress.")] = 50,
    seconds_max: Annotated[float, typer.Option(help="Then stop, whatever was reached.")] = 480.0,
    seconds_min: Annotated[float, typer.Option(help="Go on for so long, whatever was reached.")] = 0.0,
    users: int = 30,
    shape: Annotated[str, typer.Option(help="How the load comes: steady, ramp, burst.")] = "steady",
    replicas: Annotated[int, typer.Option(min=2)] = 4,
    seed: Annotated[int | None, typer.Option(help="Repeats the draws of an earlier run, not its timing.")] = None,
    mutant: Annotated[str, typer.Option(help=f"A deliberate bug to put in: {', '.join(MUTANTS)}.")] = "",
    soak: Annotated[bool, typer.Option(help="Memory, connections and store size must be flat, too.")] = False,
    folder: Annotated[Path, typer.Option(help="Where histories and reports go.")] = Path(".agui/chaos"),
) -> None:
    """Run one campaign on a cluster of its own."""
    seed = secrets.randbelow(2**31) if seed is None else seed
    options = Options(
        folder=_new_folder(folder, f"{stores}-{plan}{f'-{mutant}' if mutant else ''}"),
        stores=stores,
        plan=plan,
        seed=seed,
        approvals=approvals,
        hits=hits,
        seconds_max=seconds_max,
        seconds_min=seconds_min,
        users=users,
        shape=shape,
        replicas=replicas,
        mutant=mutant,
        is_soak=soak,
    )
    console = _console()
    console.print(f"Chaos on {stores}, plan {plan}, seed {seed}; history and report in {options.folder}")
    chaos = run_campaign(options, console.print)
    write_report(options.folder, chaos)
    show(chaos, console, options.folder)
    verdict = chaos.verdict
    raise typer.Exit(BROKEN if verdict.violations else TOO_LITTLE if verdict.shortfalls else PASSED)


@command_line.command()
def mutants(
    *,
    stores: Annotated[str, typer.Option(help=f"Where the hosts keep things: {', '.join(STORES)}.")] = "postgres",
    only: Annotated[str, typer.Option(help="Comma-separated names; all if not given.")] = "",
    approvals: int = 150,
    hits: int = 8,
    seconds_max: float = 60.0,
    seed: int = 1,
    folder: Annotated[Path, typer.Option(help="Where histories and reports go.")] = Path(".agui/chaos"),
) -> None:
    """Run without any bug, then with one deliberate bug at a time; exit code 1 if the checker is wrong about one."""
    console, table = _console(), Table("bug", "broken rules that show it", "in all", "")
    options = Options(
        folder=folder,
        stores=stores,
        plan="",
        seed=seed,
        approvals=approvals,
        hits=hits,
        seconds_max=seconds_max,
        seconds_min=seconds_max / 2,
    )

    def judge(options: Options, name: str) -> Verdict:
        console.print(f"{name}: {MUTANTS[name].does if name in MUTANTS else 'the same without a bug'}")
        options = replace(options, folder=_new_folder(folder, f"{stores}-{name}"))
        chaos = run_campaign(options, lambda _line: None)
        write_report(options.folder, chaos)
        return chaos.verdict

    is_good = True
    for trial in trials(only.split(",") if only else list(MUTANTS), options, judge):
        is_good = is_good and trial.is_good
        console.print(f"  {trial.verdict}: {trial.what or dict(trial.broken)}")
        table.add_row(*trial.row)
    console.print(table)
    raise typer.Exit(PASSED if is_good else BROKEN)


def _new_folder(parent: Path, name: str) -> Path:
    return parent.resolve() / f"{time.strftime('%Y%m%d-%H%M%S')}-{name}"


def _console() -> Console:
    return Console(highlight=False, markup=False, soft_wrap=True)


if __name__ == "__main__":
    command_line()
