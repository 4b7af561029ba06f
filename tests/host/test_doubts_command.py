"""An operator ends a doubt with evidence, while hosts run; no second operator, and no late result, is lost over it."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader

from app.doubts import doubts_of
from app.metrics import DOUBTS_ENDED, IN_DOUBT, SECOND_EFFECTS, Metrics
from app.resolve import LOST, Doubt, Doubts, Ended, NotTaken, Statement
from app.settings import Environment, ScopeResolver, Settings
from stores.ports import SecondEffect, Settled
from stores.records import EffectState, Scope, ToolResult
from tests.host.back_doors import back_door_to
from tests.host.bank import Bank
from tests.host.bodies import Json, answers, approve, cancel, says
from tests.host.hosts import Hosts, key_of
from tests.unit.counted import counted

TOOL_SECONDS = 0.3
"""How long a call may take here that never answers."""
KEY = key_of("t")
ALICE = Scope("alice")
IN_PROGRESS = "APPROVAL_RESUME_IN_PROGRESS"
DOUBT = "APPROVAL_OUTCOME_INDETERMINATE"
FOUND = ToolResult(({"type": "text", "text": "Wired, says the bank."},))
OTHER = ToolResult(({"type": "text", "text": "Wired twice."},))


@dataclass(frozen=True, slots=True)
class InDoubt:
    """A wire that a host gave up waiting for, and what its client sends again and again."""

    body: Json
    interrupt: str
    attempt: str

    def states(self, result: ToolResult | None, **fields: object) -> Statement:
        facts: dict[str, object] = {"by": "operator-1", "evidence": "the bank's statement", "has_ended": True, **fields}
        return Statement(str(facts.pop("attempt", self.attempt)), result, **facts)  # type: ignore[arg-type]  # named above


def operator(hosts: Hosts, **changes: object) -> Doubts:
    """Return what the command works with, on the stores of a running host."""
    settings = Settings(environment=Environment.DEVELOPMENT, scope=ScopeResolver.FIXED, **changes)  # type: ignore[arg-type]  # settings by name
    return doubts_of(settings, hosts.b.stores)


async def only_doubt(doubts: Doubts) -> Doubt:
    (doubt,) = await doubts.list(ALICE)
    return doubt


async def leave_in_doubt(hosts: Hosts, bank: Bank, *, metrics: Metrics | None = None) -> InDoubt:
    hasty = await hosts.start(tool_seconds=TOOL_SECONDS, metrics=metrics)
    asked = await hosts.a.send(says("t", "wire INV-1 to ACME"))
    await bank.delay("INV-1", 600)
    body = answers("t", approve(*asked.ids))
    assert (await hasty.send(body)).code == DOUBT
    await bank.delay("INV-1", 0)
    return InDoubt(body, asked.ids[0], (await only_doubt(operator(hosts))).attempt)


async def test_what_is_in_doubt_is_listed_for_its_scope_and_agent_and_nothing_else(hosts: Hosts, bank: Bank) -> None:
    await hosts.a.send(says("pending", "wire INV-2 to ACME"))
    doubted = await leave_in_doubt(hosts, bank)
    doubts = operator(hosts)

    found = await only_doubt(doubts)

    assert (found.key, found.occurrence.interrupt_id, found.occurrence.tool) == (
        KEY,
        doubted.interrupt,
        "wire_transfer",
    )
    assert (found.is_held, found.age_seconds is not None) == (False, True)
    assert [each.attempt for each in await doubts.list(ALICE, agent="payments")] == [doubted.attempt]
    assert await doubts.list(ALICE, agent="another") == []
    assert await doubts.list(Scope("bob")) == []
    assert await doubts.find(key_of("pending"), doubted.interrupt) is None


async def test_what_happened_is_the_result_that_the_same_resume_is_answered_with(
    hosts: Hosts, bank: Bank, caplog: pytest.LogCaptureFixture
) -> None:
    doubted = await leave_in_doubt(hosts, bank)
    before = await bank.calls()

    with caplog.at_level(logging.WARNING, logger="app.resolve"):
        assert await operator(hosts).resolve(KEY, doubted.interrupt, doubted.states(FOUND)) == Ended(FOUND)

    assert (await hosts.a.show("t")).states == ["decided"]
    answered = await hosts.c.send(doubted.body)
    assert (answered.code, answered.results) == (None, ["Wired, says the bank."])
    assert await bank.calls() == before
    (logged,) = [each.getMessage() for each in caplog.records if each.name == "app.resolve"]
    assert all(part in logged for part in (doubted.interrupt, "operator-1", "the bank's statement"))
    assert not any(part in logged for part in ("INV-1", "ACME", "says the bank"))


async def test_the_reconciler_carries_on_what_an_operator_resolved(hosts: Hosts, bank: Bank) -> None:
    doubted = await leave_in_doubt(hosts, bank)
    await operator(hosts).resolve(KEY, doubted.interrupt, doubted.states(FOUND))

    await hosts.start(reconcile_seconds=0.02)

    await hosts.until(lambda: hosts.is_closed("t"))
    replayed = await hosts.c.send(doubted.body)
    assert (replayed.is_replay, replayed.results) == (True, ["Wired, says the bank."])


async def test_what_did_not_happen_is_carried_out_by_the_same_resume(hosts: Hosts, bank: Bank) -> None:
    doubted = await leave_in_doubt(hosts, bank)
    before = await bank.calls()

    assert await operator(hosts).resolve(KEY, doubted.interrupt, doubted.states(None)) == Ended(None)

    answered = await hosts.c.send(doubted.body)
    assert (answered.code, len(answered.results)) == (None, 1)
    assert await bank.calls() == before + 1


async def test_that_it_did_not_happen_needs_the_word_that_it_can_not_happen_any_more(hosts: Hosts, bank: Bank) -> None:
    doubted = await leave_in_doubt(hosts, bank)
    before = await hosts.dump_threads()

    refused = await operator(hosts).resolve(KEY, doubted.interrupt, doubted.states(None, has_ended=False))

    assert isinstance(refused, NotTaken)
    assert await hosts.dump_threads() == before
    assert (await hosts.c.send(doubted.body)).code == DOUBT


async def test_that_it_did_not_happen_is_not_taken_while_its_process_is_alive(hosts: Hosts, bank: Bank) -> None:
    """The observer took the holder for dead too early; its heart beats, and its call runs."""
    asked = await hosts.a.send(says("t", "wire INV-1 to ACME"))
    body = answers("t", approve(*asked.ids))
    stop = hosts.b.steps.stop_at("before-effect")
    answering = asyncio.create_task(hosts.b.send(body))
    await stop.wait()
    observer = await hosts.start(lease_seconds=0.3, reconcile_seconds=0.02)
    await hosts.until(lambda: has_doubt(hosts))
    doubts = operator(hosts, lease_seconds=3_600)
    found = await only_doubt(doubts)
    doubted = InDoubt(body, asked.ids[0], found.attempt)

    refused = await doubts.resolve(KEY, asked.ids[0], doubted.states(None))

    assert found.is_held
    assert isinstance(refused, NotTaken)
    assert "alive" in refused.why
    # A lapsed lease is no evidence either; the word that its process ended is.
    lapsed = operator(hosts, lease_seconds=0.001)
    assert isinstance(await lapsed.resolve(KEY, asked.ids[0], doubted.states(None, has_ended=False)), NotTaken)
    stop.go.set()
    assert (await answering).code in (None, IN_PROGRESS)
    assert (await hosts.answered(observer, body, unless=IN_PROGRESS)).code is None
    assert len(await bank.paid()) == 1


@pytest.mark.parametrize(
    ("first", "second"),
    [(None, FOUND), (FOUND, None), (FOUND, OTHER)],
    ids=["did not, happened", "happened, did not", "two results"],
)
async def test_a_second_operator_does_not_contradict_the_first(
    hosts: Hosts, bank: Bank, first: ToolResult | None, second: ToolResult | None
) -> None:
    """Both looked at the same doubt; also where the record does not show yet what the first one said."""
    doubted = await leave_in_doubt(hosts, bank)
    told = doubted.states(first)
    await hosts.a.stores.effects.resolve(
        KEY, interrupt_id=doubted.interrupt, attempt=told.attempt, result=first, by=told.by, evidence=told.evidence
    )

    refused = await operator(hosts).resolve(KEY, doubted.interrupt, doubted.states(second, by="operator-2"))

    assert isinstance(refused, NotTaken)
    assert isinstance(
        await operator(hosts).resolve(KEY, doubted.interrupt, doubted.states(second, by="operator-2")), NotTaken
    )
    (row,) = (await hosts.a.stores.effects.read(KEY, interrupts=[doubted.interrupt])).values()
    assert row.result == first


async def test_what_is_said_of_one_attempt_is_not_taken_for_the_next(hosts: Hosts, bank: Bank) -> None:
    """The first operator says that nothing happened, the call is made again and is in doubt again."""
    doubted = await leave_in_doubt(hosts, bank)
    await operator(hosts).resolve(KEY, doubted.interrupt, doubted.states(None))
    await bank.delay("INV-1", 600)
    hasty = await hosts.start(tool_seconds=TOOL_SECONDS)
    assert (await hosts.answered(hasty, doubted.body, unless=IN_PROGRESS)).code == DOUBT

    late = await operator(hosts).resolve(KEY, doubted.interrupt, doubted.states(None, by="operator-2"))

    assert isinstance(late, NotTaken)
    again = await only_doubt(operator(hosts))
    assert again.attempt != doubted.attempt
    assert (await hosts.c.send(doubted.body)).code == DOUBT


@pytest.mark.parametrize("is_closed", [False, True], ids=["made again", "closed since"])
async def test_a_result_that_comes_after_the_next_begin_is_an_alarm_and_one_before_it_the_result(
    hosts: Hosts, bank: Bank, is_closed: bool
) -> None:
    doubted = await leave_in_doubt(hosts, bank)
    await operator(hosts).resolve(KEY, doubted.interrupt, doubted.states(None))
    ledger = hosts.a.stores.effects
    if is_closed:
        await ledger.close(KEY, interrupts={doubted.interrupt: "cancelled"})
    else:
        assert (await hosts.c.send(doubted.body)).code is None

    late = await ledger.settle(KEY, interrupt_id=doubted.interrupt, attempt=doubted.attempt, result=FOUND)

    assert late == SecondEffect()


async def test_a_result_that_comes_before_the_next_begin_wins_over_the_operator(hosts: Hosts, bank: Bank) -> None:
    doubted = await leave_in_doubt(hosts, bank)
    await operator(hosts).resolve(KEY, doubted.interrupt, doubted.states(None))
    before = await bank.calls()

    late = await hosts.a.stores.effects.settle(
        KEY, interrupt_id=doubted.interrupt, attempt=doubted.attempt, result=FOUND
    )

    assert late == Settled(FOUND)
    assert (await hosts.c.send(doubted.body)).results == ["Wired, says the bank."]
    assert await bank.calls() == before


@pytest.mark.parametrize("result", [None, FOUND], ids=["did not happen", "happened"])
async def test_a_doubt_whose_row_is_gone_is_ended_too(hosts: Hosts, bank: Bank, result: ToolResult | None) -> None:
    asked = await hosts.a.send(says("t", "wire INV-1 to ACME (outage o)"))
    await bank.break_model("o", times=1)
    body = answers("t", approve(*asked.ids))
    assert (await hosts.a.send(body)).code == "RUN_FAILED"
    await back_door_to(hosts.a.stores).lose(KEY, "effect")
    cancelled = answers("t", cancel(*asked.ids))
    # However often it is asked, a cancel is told the same.
    for host in (hosts.b, hosts.b, hosts.c):
        assert (await host.send(cancelled)).code == DOUBT
    before = await bank.calls()
    doubted = InDoubt(body, asked.ids[0], (await only_doubt(operator(hosts))).attempt)
    assert doubted.attempt == LOST
    of_another = doubted.states(result, attempt="an attempt that had a row")
    assert isinstance(await operator(hosts).resolve(KEY, doubted.interrupt, of_another), NotTaken)

    assert await operator(hosts).resolve(KEY, doubted.interrupt, doubted.states(result)) == Ended(result)

    assert isinstance(await operator(hosts).resolve(KEY, doubted.interrupt, doubted.states(OTHER)), NotTaken)
    answered = await hosts.c.send(body)
    assert (answered.code, len(answered.results)) == (None, 1)
    assert await bank.calls() == before + (result is None)
    (row,) = (await hosts.a.stores.effects.read(KEY, interrupts=[doubted.interrupt])).values()
    assert row.state is EffectState.SETTLED


async def test_doubts_and_second_effects_are_counted_by_the_host_that_sees_them(hosts: Hosts, bank: Bank) -> None:
    reader = InMemoryMetricReader()
    metrics = Metrics(MeterProvider([reader]))
    asked = await hosts.a.send(says("t", "wire INV-1 to ACME"))
    body = answers("t", approve(*asked.ids))
    holder = await hosts.start(metrics=metrics)
    stop = holder.steps.stop_at("after-effect")
    answering = asyncio.create_task(holder.send(body))
    await stop.wait()
    await hosts.start(lease_seconds=0.3, reconcile_seconds=0.02, metrics=metrics)
    await hosts.until(lambda: has_doubt(hosts))
    attempt = (await only_doubt(operator(hosts))).attempt
    await hosts.a.stores.effects.resolve(
        KEY, interrupt_id=asked.ids[0], attempt=attempt, result=None, by="operator-1", evidence="wrongly so"
    )
    await hosts.make_due("t")
    await hosts.until(lambda: hosts.is_closed("t"))

    stop.go.set()
    await answering

    values = counted(reader)
    assert values[IN_DOUBT, ""] == 1
    assert values[DOUBTS_ENDED, "agui.doubt.end=did_not_happen"] == 1
    assert values[SECOND_EFFECTS, ""] == 1
    assert not any(part in str(values) for part in (asked.ids[0], "alice", "INV-1", "wire"))


async def has_doubt(hosts: Hosts) -> bool:
    return (await hosts.c.show("t")).states == ["indeterminate"]
