"""The people of a load test as locust knows them: who does what, and how often."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import count

from locust import FastHttpUser, between, task
from locust.env import Environment
from locust.runners import WorkerRunner

from loadtests.client import Client
from loadtests.conversation import Conversation
from loadtests.journal import Journal
from loadtests.journeys import (
    answer_late,
    approve_and_go_on,
    attack,
    click_twice,
    come_back_elsewhere,
    decide_from_two_places,
    decide_with_care,
    lose_the_stream,
)
from stores.records import EffectKind

_numbers = count(1)


@dataclass(frozen=True, slots=True)
class Workload:
    """What all users of a run share. `kinds` are those that the hosts' stores serve; `scopes` how many tenants."""

    journal: Journal | None
    kinds: tuple[EffectKind, ...]
    scopes: int
    seed: str
    patience_seconds: float


class Person(FastHttpUser):
    """Someone with devices and threads of their own; what they draw repeats with the seed of the run."""

    abstract = True
    wait_time = between(0.1, 1.5)
    # Nothing is sent a second time but by a person, and the library sends no POST again by itself, on whatever
    # connection: tests/unit/test_load_client.py.
    max_retries = 0
    max_redirects = 0
    connection_timeout = 10.0
    # Hosts send a comment every 15 s, so a stream that is silent for longer is dead; balancers wait for headers longer.
    network_timeout = 65.0

    def __init__(self, environment: Environment) -> None:
        super().__init__(environment)
        self.workload: Workload = environment.workload  # type: ignore[attr-defined]  # put there by the locustfile
        number = next(_numbers)
        # Each process of --processes counts its users from 1, and a cluster may see the same seed again.
        self.name = f"{self.workload.seed}-{os.getpid()}-{number}"
        self.rng = random.Random(f"{self.workload.seed}-{_place(environment)}-{number}")
        self._requests = count(1)
        self._threads = count(1)
        self._invoices = (f"INV-{self.name}-{invoice}" for invoice in count(1))

    def do(self, journey: Callable[[Conversation], None]) -> None:
        """Go on a journey in a new thread of some tenant, and look at what became of it."""
        talk = self.talk(f"tenant-{self.rng.randint(1, self.workload.scopes)}")
        journey(talk)
        talk.look()

    def talk(self, scope: str) -> Conversation:
        """Begin a thread."""
        journal = self.workload.journal
        client = Client(
            self.client,
            self.environment.events.request,
            journal.append if journal is not None else lambda _event: None,
            user=self.name,
            scope=scope,
            numbers=self._requests,
            patience_seconds=self.workload.patience_seconds,
        )
        return Conversation(client, f"{self.name}-{next(self._threads)}", self.rng, self.workload.kinds, self._invoices)


class PatientApprover(Person):
    """Approves, and goes on in the same thread."""

    weight = 8

    @task
    def approve(self) -> None:
        """Approve some rounds of calls."""
        self.do(approve_and_go_on)


class CarefulApprover(Person):
    """Decides about each call by itself, and sometimes regrets it."""

    weight = 6

    @task
    def decide(self) -> None:
        """Approve, edit, reject, withdraw."""
        self.do(decide_with_care)


class ImpatientApprover(Person):
    """Clicks twice."""

    weight = 4

    @task
    def click(self) -> None:
        """Approve twice at once, and once more when it is done."""
        self.do(click_twice)


class TwoDevices(Person):
    """Has the same page open on two devices."""

    weight = 4

    @task(3)
    def decide(self) -> None:
        """Decide on both."""
        self.do(decide_from_two_places)

    @task(1)
    def come_back(self) -> None:
        """Ask on one, and answer on the other some time later."""
        self.do(come_back_elsewhere)


class MobileUser(Person):
    """Loses the connection again and again."""

    weight = 5

    @task
    def approve(self) -> None:
        """Lose the stream of a question and of an answer."""
        self.do(lose_the_stream)


class Latecomer(Person):
    """Answers when it is too late."""

    weight = 2

    @task
    def answer(self) -> None:
        """Answer what has expired."""
        self.do(answer_late)


class Attacker(Person):
    """Answers what was asked of nobody, or of somebody else."""

    # One, however few users there are: it is what the others are for.
    fixed_count = 1

    @task
    def attack(self) -> None:
        """Forge answers, and intrude from another scope."""
        self.do(lambda talk: attack(talk, self.talk(talk.client.scope), replace(talk.client, scope="tenant-stranger")))


def _place(environment: Environment) -> int:
    """Return which of the processes of a run this is."""
    return environment.runner.worker_index if isinstance(environment.runner, WorkerRunner) else 0
