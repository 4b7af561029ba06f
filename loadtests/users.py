"""The people of a load test as locust knows them: who does what, and how often."""

from __future__ import annotations

import os
import random
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count

from locust import FastHttpUser, between, task
from locust.env import Environment

from loadtests.client import Client, writer
from loadtests.conversation import Conversation
from loadtests.journal import Journal
from loadtests.journeys import (
    answer_late,
    approve_and_go_on,
    attack,
    click_twice,
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
    """Someone with a scope, devices and threads of their own; what they draw repeats with the seed of the run."""

    abstract = True
    wait_time = between(0.1, 1.5)
    # Nothing may be sent a second time but by a person: see loadtests/client.py.
    max_retries = 0
    max_redirects = 0
    connection_timeout = 10.0
    # Hosts send a comment every 15 s, so a stream that is silent for longer is dead; balancers wait for headers longer.
    network_timeout = 65.0

    def __init__(self, environment: Environment) -> None:
        super().__init__(environment)
        self.workload: Workload = environment.workload  # type: ignore[attr-defined]  # put there by the locustfile
        number = next(_numbers)
        # With --processes each has numbers of its own from 1.
        self.name = f"{self.workload.seed}-{os.getpid()}-{number}"
        self.rng = random.Random(f"{self.workload.seed}-{number}")
        self._requests = count(1)
        self._threads = count(1)
        self._invoices = (f"INV-{self.name}-{invoice}" for invoice in count(1))

    def talk(self) -> Conversation:
        """Begin a thread."""
        scope = f"tenant-{self.rng.randint(1, self.workload.scopes)}"
        client = Client(
            self.client,
            self.environment.events.request,
            writer(self.workload.journal),
            user=self.name,
            scope=scope,
            numbers=self._requests,
            patience_seconds=self.workload.patience_seconds,
        )
        thread = f"{self.name}-{next(self._threads)}"
        return Conversation(client, thread, self.rng, self.workload.kinds, self._invoices)


class PatientApprover(Person):
    """Approves, and goes on in the same thread."""

    weight = 8

    @task
    def approve(self) -> None:
        """Approve some rounds of calls."""
        approve_and_go_on(self.talk())


class CarefulApprover(Person):
    """Decides about each call by itself, and sometimes regrets it."""

    weight = 6

    @task
    def decide(self) -> None:
        """Approve, edit, reject, withdraw."""
        decide_with_care(self.talk())


class ImpatientApprover(Person):
    """Clicks twice."""

    weight = 4

    @task
    def click(self) -> None:
        """Approve twice at once, and once more when it is done."""
        click_twice(self.talk())


class TwoDevices(Person):
    """Has the same page open on two devices."""

    weight = 4

    @task
    def decide(self) -> None:
        """Decide on both."""
        decide_from_two_places(self.talk())


class MobileUser(Person):
    """Loses the connection again and again."""

    weight = 5

    @task
    def approve(self) -> None:
        """Lose the stream of an answer."""
        lose_the_stream(self.talk())


class Latecomer(Person):
    """Answers when it is too late."""

    weight = 2

    @task
    def answer(self) -> None:
        """Answer what has expired."""
        answer_late(self.talk())


class Attacker(Person):
    """Answers what was asked of nobody, or of somebody else."""

    weight = 1

    @task
    def attack(self) -> None:
        """Forge an answer, and intrude from another scope."""
        attack(self.talk(), others="tenant-stranger")


USERS: Sequence[type[Person]] = (
    PatientApprover,
    CarefulApprover,
    ImpatientApprover,
    TwoDevices,
    MobileUser,
    Latecomer,
    Attacker,
)
