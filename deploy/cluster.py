"""`python -m deploy.cluster up | down | status`: the local cluster in the foreground of a terminal."""

from __future__ import annotations

import asyncio
import fcntl
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from dotenv import load_dotenv
from rich.console import Console
from rich.table import Table

from deploy.cluster_file import ClusterState, read_cluster_file, remove_cluster_file
from deploy.launcher import Cluster, Options
from deploy.processes import ProgramFailed
from deploy.waiting import wait_gone


def _load_environment(path: Path | None) -> Path | None:
    if path:
        load_dotenv(path, override=False)
    return path


command_line = typer.Typer(help=__doc__, add_completion=False, no_args_is_help=True, pretty_exceptions_enable=False)
StateDirectory = Annotated[Path, typer.Option(help="Where cluster.json, the logs and the SQLite database are.")]
_DIRECTORY = Path(".agui")


@command_line.command()
def up(
    *,
    env_file: Annotated[Path | None, typer.Option(is_eager=True, callback=_load_environment, exists=True)] = None,
    replicas: Annotated[int, typer.Option(min=1, max=32)] = 3,
    port: Annotated[int, typer.Option(help="Where the load balancer listens; 0 takes a free one.")] = 8080,
    database_url: Annotated[
        str,
        typer.Option(
            envvar="AGUI_DATABASE_URL", help="SQLite or PostgreSQL; default: a SQLite file, if any is needed."
        ),
    ] = "",
    app: Annotated[str, typer.Option(help="The application factory.")] = "app.main:create_app_from_environment",
    state_dir: StateDirectory = _DIRECTORY,
    lease_seconds: Annotated[float, typer.Option(envvar="AGUI_LEASE_SECONDS")] = 3.0,
    drain_seconds: Annotated[float, typer.Option(envvar="AGUI_DRAIN_SECONDS")] = 5.0,
    migrate: Annotated[bool, typer.Option(help="Bring the database's schema up to date first.")] = True,
) -> None:
    """Run the cluster until Ctrl-C; a second Ctrl-C stops it at once. AGUI_* variables are passed on to the hosts."""
    state_directory = state_dir.resolve()
    state_directory.mkdir(parents=True, exist_ok=True)
    options = Options(
        replicas=replicas,
        port=port,
        app=app,
        state_directory=state_directory,
        database_url=database_url
        or (f"sqlite+aiosqlite:///{state_directory / 'agui.db'}" if _needs_database() else ""),
        lease_seconds=lease_seconds,
        drain_seconds=drain_seconds,
        migrate=migrate,
    )
    console = _console()
    with _only_launcher(state_directory):
        raise typer.Exit(asyncio.run(_run(options, console)))


@command_line.command()
def down(*, state_dir: StateDirectory = _DIRECTORY) -> None:
    """Stop the cluster, and whatever a killed launcher may have left."""
    console = _console()
    state = read_cluster_file(state_dir)
    if state is None:
        console.print("No cluster runs here.")
        return
    if launcher := state.launcher.find():
        launcher.terminate()
        wait_gone([launcher])
    _sweep(state, state_dir)
    console.print("The cluster is stopped.")


@command_line.command()
def status(*, state_dir: StateDirectory = _DIRECTORY) -> None:
    """Show the replicas; exit code 1 if no cluster runs."""
    console = _console()
    state = read_cluster_file(state_dir)
    if state is None or state.launcher.find() is None:
        console.print("No cluster runs here.")
        raise typer.Exit(1)
    _show(state, console)


def _needs_database() -> bool:
    """Whether anything may be kept in SQL; stores of one's own may be."""
    first, *others = (os.environ.get(f"AGUI_{each}", "") for each in ("STORES", "EFFECTS_STORE", "CHECKPOINTS_STORE"))
    return not {first or "sql", *filter(None, others)} <= {"memory", "redis"}


def _console() -> Console:
    return Console(highlight=False, markup=False, soft_wrap=True)


async def _run(options: Options, console: Console) -> int:
    cluster = Cluster(options, console.print)
    running = asyncio.create_task(_start_and_keep(cluster, console))
    _on_signals(running, cluster)
    try:
        console.print(f"{await running}: stopping the cluster.")
        return 1
    except ProgramFailed as failure:
        console.print(str(failure))
        return 1
    except asyncio.CancelledError:
        console.print("Stopping.")
        return 0
    finally:
        await cluster.stop()


async def _start_and_keep(cluster: Cluster, console: Console) -> str:
    console.print("Starting…")
    await cluster.start()
    _show(cluster.state(), console)
    return await cluster.keep()


def _on_signals(running: asyncio.Task[str], cluster: Cluster) -> None:
    def stop() -> None:
        if not running.cancel():
            cluster.kill()

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(number, stop)


@contextmanager
def _only_launcher(state_directory: Path) -> Iterator[None]:
    with (state_directory / "lock").open("w") as lock:
        try:
            # The lock ends with this process, however that happens; it is not inherited.
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise typer.BadParameter(f"a cluster already runs in {state_directory}: make down") from None
        if state := read_cluster_file(state_directory):
            _sweep(state, state_directory)
        yield


def _sweep(state: ClusterState, state_directory: Path) -> None:
    leftover = [process for process in state.processes() if process.pid != os.getpid()]
    for process in leftover:
        process.kill()
    wait_gone(leftover)
    remove_cluster_file(state_directory)


def _show(state: ClusterState, console: Console) -> None:
    table = Table("replica", "port", "process id", "kill it")
    for replica in state.replicas:
        table.add_row(replica.name, str(replica.port), str(replica.pid), f"kill -9 {replica.pid}")
    console.print(table)
    console.print(f"Agents   {state.url}/agents/payments  (load balancer, no stickiness)")
    console.print(f"Bank     {state.bank_url}/effects")
    console.print(
        "Scope    whatever the x-agui-scope header says: this local cluster trusts its caller. Never do so elsewhere."
    )
    console.print("Stop     Ctrl-C or `make down`. A killed replica comes back under the same name and port.")


if __name__ == "__main__":
    command_line()
