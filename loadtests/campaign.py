"""One chaos run from the first server to the verdict: users, a nemesis, a quiet phase, a last look, the checker."""

from __future__ import annotations

import asyncio
import json
import platform
import random
import subprocess
import time
from collections.abc import Callable
from importlib.metadata import version
from typing import Any

import httpx

from loadtests.alongside import end_users, in_thread, running_users, sampled
from loadtests.banked import effects_of
from loadtests.breaking import Durations
from loadtests.checker import Expected, check
from loadtests.history import Began, FaultKind, Intent, Phase, Sent
from loadtests.journal import Journal, Tail, read_history
from loadtests.last_look import left_open, look_at_all
from loadtests.nemesis import Nemesis
from loadtests.options import APPROVAL_SECONDS, EFFECTS, HISTORY, LEASE_SECONDS, STORE_TIMEOUT_SECONDS, Options
from loadtests.orders import Orders
from loadtests.plans import PLANS
from loadtests.progress import Progress
from loadtests.report.run import ChaosRun
from loadtests.targets.local import local_target
from stores.records import EffectKind

POLL_SECONDS = 0.5
SAY_SECONDS = 15.0
BOUND_SECONDS = 90.0
"""From the last fault to the end of every approval: a lease, some passes of the reconciler, clients that back off."""
APPROVALS_PER_MINUTE_MIN = 60.0
INTENTS_MIN = 3
APPROVALS_OF_AN_INTENT = 300
"""Each behaviour of the users is answered once for so many approvals that are wanted, three times at most: a short run
is over before who answers late has done it twice."""


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
            steps=options.steps,
            spared=options.spared,
        )
        journal.append(Began(time.time(), Phase.LOAD))
        with running_users(options, target.url) as users, sampled(target) as samples:
            with in_thread(lambda stopped: nemesis.run(plan, stopped)):
                _wait_for_counts(options, kinds, users, say)
            say("Quiet: the last fault is mended; users finish what they began.")
            journal.append(Began(time.time(), Phase.QUIET))
            end_users(users)
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
        crossed_share_min=plan.crossed_share_min,
        faults=kinds,
        # What is sent in the last look is left to be done only if somebody gave up.
        intents=frozenset(Intent) - {Intent.LAST},
        intents_min=min(INTENTS_MIN, max(1, options.approvals // APPROVALS_OF_AN_INTENT)),
        kinds=frozenset(map(EffectKind, options.kinds)),
        spared=options.spared,
    )
    verdict = check(history, effects, expected, is_bank_reached=told is not None, samples=samples)
    return ChaosRun(_about(options), history, effects, verdict, samples)


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
