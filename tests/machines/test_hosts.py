"""Several hosts on one store, with crashes, freezes, wrong clocks, lost replies and late answers: no promise breaks.

What clients saw and the bank counted is judged by `loadtests/invariants.py`. tests/README.md says how to replay.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from contextlib import AsyncExitStack
from itertools import count
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test

from app.steps import Step
from tests.machines.conftest import MakeWorld
from tests.machines.example import Example
from tests.machines.far_side import FarSide, open_far_side
from tests.machines.replicas import Living, Pulse

THREADS = ("t", "u")
STEPS = [f"{when}-{step}" for step in Step for when in ("before", "after")]
MIDDLE = ["after-begin", "before-effect", "after-effect", "before-settle"]
"""Where a call has begun and has no result: tried more often."""
VERBS = ("pay", "wire", "wire", "refund", "look up")
VERDICTS = ("approve", "approve", "edit", "reject", "cancel")
CALLS = ("open", "claim", "save", "begin", "settle", "reserve")
DIRECTIONS = ("", "", "outage", "reuse call ids")

threads = st.sampled_from(THREADS)
places = st.integers(0, 7)
"""Which of those there are, counted around."""
troubles = st.none() | st.tuples(st.sampled_from(STEPS), st.sampled_from([Pulse.DEAD, Pulse.FROZEN]))
calls = st.lists(st.sampled_from(VERBS), min_size=1, max_size=3)
verdicts = st.lists(st.sampled_from(VERDICTS), min_size=3, max_size=3)


class HostsMachine(RuleBasedStateMachine):
    """Clients and a nemesis, one thing after another."""

    make_world: MakeWorld
    runner: asyncio.Runner
    bank: FarSide
    numbers: count[int]

    def __init__(self) -> None:
        super().__init__()
        self.stack = AsyncExitStack()
        self.example: Example
        self.has_failed = False

    def do(self, work: Coroutine[Any, Any, Any]) -> Any:
        try:
            return self.runner.run(work)
        except BaseException:
            self.has_failed = True
            raise

    @initialize(is_apart=st.booleans(), asked=calls)
    def open(self, is_apart: bool, asked: list[str]) -> None:
        self.do(self._open(is_apart))
        self.ask(place=0, thread="t", verbs=asked, directions="", trouble=None)

    async def _open(self, is_apart: bool) -> None:
        world = await self.stack.enter_async_context(self.make_world())
        prefix = f"E{next(self.numbers)}-"
        self.example = Example(world, self.bank, prefix, self.stack, is_apart=is_apart)
        await self.example.open()

    def teardown(self) -> None:
        try:
            broken = [] if self.has_failed or not hasattr(self, "example") else self.do(self.example.judged())
        finally:
            self.runner.run(self.stack.aclose())
        assert not broken, "\n".join(map(str, broken))

    def up(self, place: int) -> Living:
        up = self.example.replicas.up()
        return up[place % len(up)]

    def has(self, *pulses: Pulse) -> bool:
        return any(each.pulse in pulses for each in self.example.replicas.all)

    def prepare(self, living: Living, trouble: tuple[str, Pulse] | None) -> None:
        if trouble is not None and (trouble[1] is Pulse.DEAD or self.example.can_freeze_at(trouble[0])):
            living.trouble = trouble

    @precondition(lambda self: self.has(Pulse.UP))
    @rule(
        place=places,
        thread=threads,
        verbs=calls,
        directions=st.sampled_from(DIRECTIONS),
        trouble=troubles,
    )
    def ask(
        self, place: int, thread: str, verbs: list[str], directions: str, trouble: tuple[str, Pulse] | None
    ) -> None:
        if not self.example.is_transactional:
            verbs = ["pay" if verb == "refund" else verb for verb in verbs]
        living = self.up(place)
        self.prepare(living, trouble)
        self.do(self.example.ask(living, thread, verbs, directions))

    @precondition(lambda self: self.has(Pulse.UP) and any(map(self.example.open_cards, THREADS)))
    @rule(place=places, thread=threads, decided=verdicts, trouble=troubles)
    def answer(self, place: int, thread: str, decided: list[str], trouble: tuple[str, Pulse] | None) -> None:
        self._answer(self.up(place), thread, decided, trouble)

    @precondition(lambda self: self.has(Pulse.UP) and any(map(self.example.open_cards, THREADS)))
    @rule(place=places, thread=threads, decided=verdicts, trouble=troubles)
    def answer_by_alias(self, place: int, thread: str, decided: list[str], trouble: tuple[str, Pulse] | None) -> None:
        self._answer(self.up(place), thread, decided, trouble, by_alias=True)

    @precondition(lambda self: self.has(Pulse.UP) and any(map(self.example.open_cards, THREADS)))
    @rule(place=places, thread=threads, decided=verdicts)
    def answer_in_part(self, place: int, thread: str, decided: list[str]) -> None:
        self._answer(self.up(place), thread, decided[:1], None)

    def _answer(
        self,
        living: Living,
        thread: str,
        decided: list[str],
        trouble: tuple[str, Pulse] | None,
        *,
        by_alias: bool = False,
    ) -> None:
        if self.example.open_cards(thread):
            self.prepare(living, trouble)
            self.do(self.example.deliver([(living, *self.example.decision(thread, decided, by_alias=by_alias))]))

    @precondition(lambda self: self.has(Pulse.UP) and self.example.sent)
    @rule(place=places, which=places, trouble=troubles)
    def answer_again(self, place: int, which: int, trouble: tuple[str, Pulse] | None) -> None:
        """A duplicate, a late one, or one that was overtaken."""
        living = self.up(place)
        self.prepare(living, trouble)
        self.do(self.example.deliver([(living, *self.example.sent[which % len(self.example.sent)])]))

    @precondition(lambda self: len(self.example.replicas.up()) > 1 and self.example.open_cards("t"))
    @rule(one=verdicts, other=verdicts, place=places)
    def answer_twice_at_once(self, one: list[str], other: list[str], place: int) -> None:
        decisions = [self.example.decision("t", each, by_alias=False) for each in (one, other)]
        self.do(self.example.deliver([(self.up(place + at), *each) for at, each in enumerate(decisions)]))

    @precondition(lambda self: len(self.example.replicas.up()) > 1 and self.example.open_cards("t"))
    @rule(
        place=places,
        step=st.sampled_from([*MIDDLE, *MIDDLE, *STEPS]),
        pulse=st.sampled_from([Pulse.FROZEN, Pulse.DEAD]),
    )
    def be_overtaken(self, place: int, step: str, pulse: Pulse) -> None:
        """A replica stops while it carries an answer out; another gets the same; and then the first one goes on."""
        holder, other = self.up(place), self.up(place + 1)
        body = self.example.decision("t", ["approve"] * 3, by_alias=False)
        self.prepare(holder, (step, pulse))
        self.do(self.example.deliver([(holder, *body)]))
        self.do(self.example.replicas.let_lease_pass())
        self.do(self.example.deliver([(other, *body)]))
        if holder.pulse is Pulse.FROZEN:
            self.do(self.example.thaw(holder))

    @precondition(lambda self: self.has(Pulse.UP) and self.example.sent)
    @rule(place=places, which=places)
    def answer_as_another_scope(self, place: int, which: int) -> None:
        self.do(
            self.example.deliver([(self.up(place), *self.example.sent[which % len(self.example.sent)])], scope="bob")
        )

    @precondition(lambda self: self.has(Pulse.UP))
    @rule(place=places, thread=threads, scope=st.sampled_from(["alice", "bob"]))
    def look(self, place: int, thread: str, scope: str) -> None:
        self.do(self.example.look(self.up(place), thread, scope=scope))

    @precondition(lambda self: self.has(Pulse.UP))
    @rule(place=places, call=st.sampled_from(CALLS), times=st.sampled_from([1, 1, 3]))
    def lose_replies(self, place: int, call: str, times: int) -> None:
        self.up(place).lost[call] = times if call != "settle" else 1

    @precondition(lambda self: self.has(Pulse.UP))
    @rule(place=places, trouble=troubles)
    def reconcile(self, place: int, trouble: tuple[str, Pulse] | None) -> None:
        living = self.up(place)
        self.prepare(living, trouble)
        self.do(self.example.reconcile(living))

    @precondition(lambda self: self.example.replicas.is_anyone_silent)
    @rule()
    def let_lease_pass(self) -> None:
        self.do(self.example.replicas.let_lease_pass())

    @precondition(lambda self: self.has(Pulse.UP))
    @rule(place=places)
    def misjudge(self, place: int) -> None:
        self.do(self.example.misjudge(self.up(place)))

    @precondition(lambda self: self.example.can_expire())
    @rule(thread=threads)
    def expire(self, thread: str) -> None:
        self.do(self.example.expire(thread))

    @precondition(lambda self: self.has(Pulse.FROZEN))
    @rule(place=places)
    def thaw(self, place: int) -> None:
        frozen = [each for each in self.example.replicas.all if each.pulse is Pulse.FROZEN]
        self.do(self.example.thaw(frozen[place % len(frozen)]))

    @precondition(lambda self: self.has(Pulse.UP, Pulse.FROZEN))
    @rule(place=places)
    def crash(self, place: int) -> None:
        alive = [each for each in self.example.replicas.all if each.pulse in (Pulse.UP, Pulse.FROZEN)]
        self.do(alive[place % len(alive)].crash())

    @precondition(lambda self: len(self.example.replicas.up()) < 2)
    @rule()
    def start(self) -> None:
        self.do(self.example.start())


def run_machine(make_world: MakeWorld, from_seed: int, *, examples: int, steps: int, shrinks: bool) -> None:
    """Try so many examples of so many steps each. Raises AssertionError with the violations of the simplest one."""
    with asyncio.Runner() as runner:
        stack = AsyncExitStack()
        bank = runner.run(stack.enter_async_context(open_far_side()))
        world, numbers = staticmethod(make_world), count()
        machine = type("HostsMachine", (HostsMachine,), {
            "make_world": world, "runner": runner, "bank": bank, "numbers": numbers,
        })  # fmt: skip
        try:
            run_state_machine_as_test(
                seed(from_seed)(machine),
                settings=settings(
                    max_examples=examples,
                    stateful_step_count=steps,
                    deadline=None,
                    print_blob=True,
                    database=None,
                    phases=[Phase.generate, Phase.shrink] if shrinks else [Phase.generate],
                    suppress_health_check=list(HealthCheck),
                ),
            )
        finally:
            runner.run(stack.aclose())


def test_no_promise_breaks_whatever_fails(make_world: MakeWorld, machines_seed: int) -> None:
    run_machine(make_world, machines_seed, examples=15, steps=12, shrinks=False)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_no_promise_breaks_in_many_more_examples(make_world: MakeWorld, machines_seed: int) -> None:
    run_machine(make_world, machines_seed, examples=300, steps=25, shrinks=True)
