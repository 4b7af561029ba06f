"""The workload for locust: `locust -f loadtests/locustfile.py --host http://localhost:8080`, or `make chaos`."""

from __future__ import annotations

import secrets
import signal
import sys
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

# Locust loads this file by its path.
sys.path.insert(0, str(Path(__file__).parents[1]))

import gevent
from locust import LoadTestShape, events
from locust.env import Environment

from loadtests.journal import Journal
from loadtests.shapes import SHAPES
from loadtests.users import (
    Attacker,
    CarefulApprover,
    ImpatientApprover,
    Latecomer,
    MobileUser,
    PatientApprover,
    TwoDevices,
    Workload,
)
from stores.records import EffectKind

__all__ = [
    "Attacker",
    "CarefulApprover",
    "ImpatientApprover",
    "Latecomer",
    "MobileUser",
    "PatientApprover",
    "Shape",
    "TwoDevices",
]


@events.init_command_line_parser.add_listener
def add_arguments(parser: ArgumentParser, **_: Any) -> None:
    """Say what there is to choose."""
    kinds = "idempotent,transactional,unsafe"
    parser.add_argument("--history", default="", help="Where to write what was sent and told; nowhere if not given.")
    parser.add_argument("--kinds", default=kinds, help="The kinds of effect to ask for.")
    parser.add_argument("--scopes", type=int, default=3, help="How many tenants.")
    parser.add_argument("--seed", default="", help="Repeats the draws of an earlier run.")
    parser.add_argument("--patience", type=float, default=100.0, help="For how many seconds an answer is waited for.")
    parser.add_argument("--shape", default="steady", choices=SHAPES, help="How the load comes.")


class Shape(LoadTestShape):
    """The shape that `--shape` names, with as many users as `--users` says, until somebody ends the run."""

    use_common_options = True
    is_over = False
    """Once set, no journey is begun, and the run ends when those that are under way have."""

    def tick(self) -> tuple[int, float] | None:
        """Return how many users there are to be now, and how many may begin or end in a second."""
        options = self.runner.environment.parsed_options if self.runner else None
        if self.runner is None or options is None:
            return None
        if Shape.is_over:
            self.runner.stop()  # waits for the users of all processes; quitting, which comes next, does not
            return None
        users = SHAPES[options.shape](self.get_run_time(), options.num_users or 1)
        return users, float(options.spawn_rate or 1)


def end() -> None:
    """Let everybody finish what they began (`--stop-timeout` is how long that may take)."""
    Shape.is_over = True


@events.init.add_listener
def prepare(environment: Environment, **_: Any) -> None:
    """Give the users what they share."""
    options = environment.parsed_options
    if options is None:
        return
    # Locust's own handler is not there yet while a shape runs.
    gevent.signal_handler(signal.SIGTERM, end)
    environment.workload = Workload(  # type: ignore[attr-defined]  # where users look for it
        Journal(Path(options.history)) if options.history else None,
        tuple(EffectKind(kind) for kind in options.kinds.split(",")),
        options.scopes,
        options.seed or secrets.token_hex(3),
        options.patience,
    )


@events.quitting.add_listener
def tell_of_broken_journeys(environment: Environment, **_: Any) -> None:
    """Fail if a user raised: a fault of the test itself, whatever `--exit-code-on-error` says of what hosts replied."""
    if environment.runner is not None and environment.runner.exceptions:
        environment.process_exit_code = 1
