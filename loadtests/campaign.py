"""One chaos run from the first server to the verdict: users, a nemesis, a quiet phase, a last look, the checker."""

from __future__ import annotations

import asyncio
import json
import platform
import random
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import httpx

from deploy.processes import tethered
from loadtests.banked import effects_of
from loadtests.breaking import Durations
from loadtests.checker import Expected, check
from loadtests.flat import growing
from loadtests.history import Began, FaultKind, Intent, Phase, Sent
from loadtests.invariants import Violation
from loadtests.journal import Journal, Tail, read_history
from loadtests.last_look import left_open, look_at_all
from loadtests.nemesis import Nemesis
from loadtests.orders import SPARED_VARIABLE, Orders
from loadtests.plans import PLANS
from loadtests.progress import Progress
from loadtests.report.run import ChaosRun
from loadtests.target import Sample, Target
from loadtests.targets.local import local_target

HISTORY = "history.jsonl"
EFFECTS = "effects.json"
"""What the bank said: with both a run can be judged again."""
POLL_SECONDS = 0.5
SAY_SECONDS = 15.0
SAMPLE_SECONDS = 5.0
LEASE_SECONDS = 6.0
"""A replica that gets no processor for so long is taken over alive: on a busy machine of two cores, not too often."""
STORE_TIMEOUT_SECONDS = 2.0
APPROVAL_SECONDS = 25.0
BOUND_SECONDS = 90.0
"""From the last fault to the end of every approval: a lease, some passes of the reconciler, clients that back off."""
APPROVALS_PER_MINUTE_MIN = 60.0
SOAK_RETENTION_SECONDS = 90.0
USERS_STOP_SECONDS = 150
"""The longest that a user needs to finish what it began."""
FLAT = "a long run uses no more than a short one"
_ROOT = Path(__file__).parents[1]


@dataclass(frozen=True, slots=True)
class Options:
    """What to run, and how much of it.

    It ends when all counts are reached and `seconds_min` are over, or at `seconds_max`; `mutant` is a deliberate bug.
    Who gets no answer for `patience_seconds` gives up, once in the load and once in the last look.
    `is_soak`: ended runs are kept for a short time only, so that the store's size can level off, and has to.
    """

    folder: Path
    stores: str
    plan: str
    seed: int
    approvals: int
    hits: int
    seconds_max: float
    seconds_min: float = 0.0
    users: int = 30
    shape: str = "steady"
    replicas: int = 4
    mutant: str = ""
    patience_seconds: float = 100.0
    is_soak: bool = False

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds of effect that this kind of store serves: a transactional tool needs a ledger in SQL."""
        return ("idempotent", "unsafe") if self.stores == "redis" else ("idempotent", "transactional", "unsafe")

    @property
    def settings(self) -> dict[str, str]:
        """What the hosts are told: times so short that a run of minutes sees every one of them pass."""
        times = {
            "APPROVAL": APPROVAL_SECONDS,
            "RECONCILE": 0.5,
            "STORE_TIMEOUT": STORE_TIMEOUT_SECONDS,
            "TOOL": 15,
            "RUN": 60,
            "CLAIM_MARGIN": 5,
            **({"RETENTION_TERMINAL": SOAK_RETENTION_SECONDS, "PURGE": 2} if self.is_soak else {}),
        }
        return {f"AGUI_{name}_SECONDS": str(value) for name, value in times.items()} | {SPARED_VARIABLE: self.spared}

    @property
    def spared(self) -> str:
        """The replica that nothing strikes alone: a soak needs one that lives long enough to show what it leaks."""
        return f"host-{self.replicas}" if self.is_soak else ""


def run_campaign(options: Options, say: Callable[[str], None]) -> ChaosRun:
    """Run it and judge it. Enter it in the main thread. Raises RuntimeError if something of the test itself failed."""
    options.folder.mkdir(parents=True, exist_ok=True)
    journal = Journal(options.folder / HISTORY)
    orders = Orders(options.folder / "orders")
    with local_target(
        options.folder / "cluster",
        stores=options.stores,
        replicas=options.replicas,
        lease_seconds=LEASE_SECONDS,
        orders=options.folder / "orders",
        mutant=options.mutant,
        settings=options.settings,
    ) as target:
        plan = PLANS[options.plan]
        kinds = plan.kinds(target.faults)
        nemesis = Nemesis(
            target,
            orders,
            journal,
            random.Random(options.seed),
            durations=Durations.of(
                is_sqlite=options.stores == "sqlite",
                lease_seconds=LEASE_SECONDS,
                store_timeout_seconds=STORE_TIMEOUT_SECONDS,
            ),
            is_shared=options.stores != "mixed",
            spared=options.spared,
        )
        journal.append(Began(time.time(), Phase.LOAD))
        with _users(options, target.url) as users, _sampled(target) as samples:
            with _in_thread(lambda stopped: nemesis.run(plan, stopped)):
                _wait_for_counts(options, kinds, users, say)
            say("Quiet: the last fault is mended; users finish what they began.")
            journal.append(Began(time.time(), Phase.QUIET))
            _end_users(users)
        say("A last look at every thread.")
        journal.append(Began(time.time(), Phase.LAST_LOOK))
        _look(options, target.url, journal)
        journal.append(Began(time.time(), Phase.END))
        told = _ask(target.bank_url)
    if told is not None:
        (options.folder / EFFECTS).write_text(json.dumps(told))
    history = read_history(options.folder / HISTORY)
    effects = effects_of(told) if told is not None else []
    expected = Expected(
        approvals_min=options.approvals,
        hits_min=options.hits,
        approvals_per_minute_min=APPROVALS_PER_MINUTE_MIN,
        bound_seconds=BOUND_SECONDS,
        faults=kinds,
        # What is sent in the last look is left to be done only if somebody gave up.
        intents=frozenset(Intent) - {Intent.LAST},
    )
    verdict = check(history, effects, expected, is_bank_reached=told is not None)
    if options.is_soak:
        grown = tuple(Violation("", FLAT, what) for what in growing(samples))
        verdict = replace(verdict, violations=(*verdict.violations, *grown))
    return ChaosRun(_about(options), history, effects, verdict, samples)


@contextmanager
def _users(options: Options, url: str) -> Iterator[subprocess.Popen[bytes]]:
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
def _in_thread(work: Callable[[Callable[[], bool]], None]) -> Iterator[None]:
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
def _sampled(target: Target) -> Iterator[list[Sample]]:
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


def _wait_for_counts(
    options: Options, kinds: frozenset[FaultKind], users: subprocess.Popen[bytes], say: Callable[[str], None]
) -> None:
    tail, progress = Tail(options.folder / HISTORY), Progress()
    begun = said = time.monotonic()
    while (now := time.monotonic()) - begun < options.seconds_max:
        if users.poll() is not None:
            raise RuntimeError(f"The users ended by themselves:\n{(options.folder / 'locust.log').read_text()[-2000:]}")
        progress.add(tail.read())
        if now - said > SAY_SECONDS:
            said = now
            say(f"{now - begun:4.0f} s: {progress}")
        is_enough = progress.is_enough(approvals=options.approvals, hits=options.hits, kinds=kinds)
        if is_enough and now - begun >= options.seconds_min:
            break
        time.sleep(POLL_SECONDS)
    say(f"{time.monotonic() - begun:4.0f} s: {progress}")


def _end_users(users: subprocess.Popen[bytes]) -> None:
    users.terminate()
    try:
        code = users.wait(USERS_STOP_SECONDS + 30)
    except subprocess.TimeoutExpired:
        raise RuntimeError("The users did not end.") from None
    if code:
        raise RuntimeError("A journey of a user broke, or something else in locust: locust.log has the traceback.")


def _look(options: Options, url: str, journal: Journal) -> None:
    history = read_history(options.folder / HISTORY)
    threads = left_open(history)
    if options.is_soak:
        # What is older may be purged by now; what its users were told is judged.
        recent = {event.thread for event in history if isinstance(event, Sent) and event.at > time.time() - 60}
        threads = [thread for thread in threads if thread.unanswered or thread.name in recent]
    asyncio.run(look_at_all(url, threads, journal, seconds=1.2 * options.patience_seconds))


def _ask(bank_url: str) -> dict[str, Any] | None:
    """Return what the bank says of all effects; None if it can not be asked."""
    try:
        answer = httpx.get(f"{bank_url}/effects", trust_env=False, timeout=30)
        told: dict[str, Any] = answer.raise_for_status().json()
    except httpx.HTTPError:
        return None
    return told


def _about(options: Options) -> dict[str, str]:
    told = {
        "stores": options.stores,
        "plan": options.plan,
        "seed": options.seed,
        "replicas": options.replicas,
        "users": options.users,
        "shape": options.shape,
        "lease seconds": LEASE_SECONDS,
        "approval seconds": APPROVAL_SECONDS,
        "deliberate bug": options.mutant or "none",
        "agent-framework-ag-ui": version("agent-framework-ag-ui"),
        "python": platform.python_version(),
    }
    return {name: str(value) for name, value in told.items()}
