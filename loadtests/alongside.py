"""What goes on while the nemesis works: the users, in a process of their own, and samples of what the hosts use."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from deploy.processes import tethered
from loadtests.flat import SAMPLE_SECONDS
from loadtests.options import HISTORY, Options
from loadtests.target import Sample, Target

USERS_STOP_SECONDS = 150
"""The longest that a user needs to finish what it began."""
_ROOT = Path(__file__).parents[1]


@contextmanager
def running_users(options: Options, url: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run locust as a process of its own; its output is in `locust.log`."""
    arguments: dict[str, Any] = {
        "--host": url,
        "--users": options.users,
        "--spawn-rate": 10,
        "--stop-timeout": USERS_STOP_SECONDS,
        "--patience": options.patience_seconds,
        "--exit-code-on-error": 0,
        "--history": options.folder / HISTORY,
        "--kinds": ",".join(options.kinds),
        "--seed": options.seed,
        "--shape": options.shape,
    }
    command = [sys.executable, "-m", "locust", "-f", str(_ROOT / "loadtests" / "locustfile.py"), "--headless"]
    command += ["--only-summary", *(f"{name}={value}" for name, value in arguments.items())]
    with (options.folder / "locust.log").open("wb") as log:
        process = subprocess.Popen(
            tethered(command), cwd=_ROOT, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
        )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


@contextmanager
def in_thread(work: Callable[[Callable[[], bool]], None]) -> Iterator[None]:
    """Let it work beside us until we leave; what it raised is raised here then."""
    stop = threading.Event()
    failures: list[BaseException] = []

    def run() -> None:
        try:
            work(stop.is_set)
        except Exception as error:  # whatever it was, it is raised in the thread that waits
            failures.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
    if failures:
        raise RuntimeError("A part of the test itself failed.") from failures[0]


@contextmanager
def sampled(target: Target) -> Iterator[list[Sample]]:
    """Note every few seconds what the deployment uses; a moment in which it can not be asked is left out."""
    samples: list[Sample] = []
    stop = threading.Event()

    def sample() -> None:
        while not stop.wait(SAMPLE_SECONDS):
            with suppress(Exception):
                samples.append(target.sample())

    thread = threading.Thread(target=sample, daemon=True)
    thread.start()
    try:
        yield samples
    finally:
        stop.set()
        thread.join()


def end_users(users: subprocess.Popen[bytes]) -> None:
    """Let them finish what they began. Raises RuntimeError if they do not end, or did not end well."""
    users.terminate()
    try:
        code = users.wait(USERS_STOP_SECONDS + 30)
    except subprocess.TimeoutExpired:
        raise RuntimeError("The users did not end.") from None
    if code:
        raise RuntimeError("A journey of a user broke, or something else in locust: locust.log has the traceback.")
