"""A real pair of PostgreSQL servers: a primary, and a standby that has every write the primary acknowledged."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import psycopg

from tests.servers import Postgres, postgres
from tests.servers.process import started, wait_until


@dataclass(frozen=True, slots=True)
class Pair:
    """Both servers, and what can happen to them."""

    primary: Postgres
    standby: Postgres

    @property
    def url(self) -> str:
        """The URL that names both."""
        hosts = ",".join(f"127.0.0.1:{server.port}" for server in (self.primary, self.standby))
        return f"postgresql://agui@{hosts}/postgres"

    def execute(self, statement: str, *, on_standby: bool = False) -> list[Any]:
        """Execute a statement on one of them by itself; answers its rows."""
        server = self.standby if on_standby else self.primary
        address = f"host=127.0.0.1 port={server.port} user=agui dbname=postgres"
        with psycopg.connect(address, autocommit=True) as connection:
            cursor = connection.execute(statement)  # type: ignore[arg-type]  # not a literal
            return cursor.fetchall() if cursor.description else []

    def set_read_only(self, is_read_only: bool) -> None:
        """Let the primary refuse every write, as one that was demoted does, or take them again. No socket closes."""
        change = f"alter system set default_transaction_read_only = {'on' if is_read_only else 'off'}"
        self.execute(change)
        self.execute("select pg_reload_conf()")
        wanted = [("on",)] if is_read_only else [("off",)]
        wait_until(lambda: self.execute("show default_transaction_read_only") == wanted, "it was not reloaded")

    def promote(self) -> None:
        """Make the standby take writes, whatever the primary does."""
        self.execute("select pg_promote()", on_standby=True)

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """Stop every process of the primary: its sockets stay open and nothing answers."""
        server = psutil.Process(self.primary.pid)
        server.suspend()
        processes = [server, *server.children(recursive=True)]
        for process in processes[1:]:
            process.suspend()
        try:
            yield
        finally:
            for process in reversed(processes):
                process.resume()


@contextmanager
def postgres_pair() -> Iterator[Pair]:
    """Run a primary and a standby that the primary waits for with each commit."""
    folder = Path(tempfile.mkdtemp(prefix="agui-standby-"))
    try:
        with postgres(fsync="off") as primary:
            _copy(primary, folder)
            standby = started(lambda port: Postgres(primary.binaries, folder, port, {"fsync": "off"}))
            try:
                pair = Pair(primary, standby)
                pair.execute("alter system set synchronous_standby_names = '*'")
                pair.execute("select pg_reload_conf()")
                in_step = "select sync_state from pg_stat_replication"
                wait_until(lambda: pair.execute(in_step) == [("sync",)], "the standby did not connect")
                yield pair
            finally:
                # In order it would wait for a primary that waits for it.
                standby.kill()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _copy(primary: Postgres, folder: Path) -> None:
    owner = primary.folder.stat()
    as_owner: dict[str, Any] = {}
    if os.geteuid() == 0:
        os.chown(folder, owner.st_uid, owner.st_gid)
        as_owner = {"user": owner.st_uid, "group": owner.st_gid, "extra_groups": []}
    command = [primary.binaries / "pg_basebackup", "-D", folder / "data", "-h", "127.0.0.1", "-p", primary.port]
    command += ["-U", "agui", "--write-recovery-conf", "--checkpoint=fast", "--wal-method=stream", "--no-sync"]
    subprocess.run([str(part) for part in command], cwd=folder, check=True, capture_output=True, **as_owner)
