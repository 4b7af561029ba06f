"""A replica dies while it does anything else that writes: each point has the one outcome that is allowed."""

from __future__ import annotations

import time
from functools import partial

import pytest

from stores.records import EffectState
from tests.crash_points.crashes import DOUBT, LEASE_SECONDS, MIXED_WORLD, RESULTS, WORDS, Crash
from tests.crash_points.mortal import Mortal
from tests.crash_points.points import Journey, Outcome, calls, effects, outcome
from tests.crash_points.worlds import APPROVALS, each_of, each_of_these
from tests.host.bodies import Json, answers, approve, cancel, reject

pytestmark = pytest.mark.asyncio(loop_scope="module")

CONFLICT = "APPROVAL_RESUME_CONFLICT"
EXPIRED = "APPROVAL_RESUME_EXPIRED"
EXPIRED_TEXT = "The approval expired before it was answered; the call was not run."
DECIDES = {Journey.REJECT: (reject, "rejected"), Journey.CANCEL: (cancel, "cancelled")}
STATES = {Outcome.ANEW: ["pending"], Outcome.GOES_ON: ["decided"], Outcome.REPLAYED: []}


@each_of(*DECIDES)
async def test_a_refused_call_stays_refused(crash: Crash, journey: Journey, point: str) -> None:
    decide, why = DECIDES[journey]
    approval = await crash.ask(WORDS[Journey.UNSAFE])
    body = answers(crash.name, decide(interrupt_of(approval)))
    await crash.dies(point, body)

    assert await crash.states() == STATES[outcome(journey, point)]
    answered = await crash.answered(body)

    assert (answered.code, answered.is_replay) == (None, outcome(journey, point) is Outcome.REPLAYED)
    assert await crash.rows(approval) == [(EffectState.CLOSED, why)]
    again = await crash.witness.send(body)
    assert (again.is_replay, again.text) == (True, answered.text)
    assert (await crash.witness.send(approval)).code == CONFLICT
    assert await crash.counted(journey) == (0, 0)


@each_of_these([(journey, "after-reserve") for journey in DECIDES], worlds=(MIXED_WORLD,))
async def test_a_refusal_that_only_the_ledger_knows_is_kept(crash: Crash, journey: Journey, point: str) -> None:
    decide, why = DECIDES[journey]
    approval = await crash.ask(WORDS[Journey.UNSAFE])
    await crash.dies(point, answers(crash.name, decide(interrupt_of(approval))))

    assert (await crash.answered(approval)).code == CONFLICT
    assert await crash.rows(approval) == [(EffectState.CLOSED, why)]
    assert await crash.counted(journey) == (0, 0)


@each_of_these([(Journey.UNSAFE, "after-reserve")], worlds=(MIXED_WORLD,))
async def test_an_approval_that_only_the_ledger_knows_binds_nobody(crash: Crash, journey: Journey, point: str) -> None:
    approval = await crash.ask(WORDS[journey])
    await crash.dies(point, approval)

    assert (await crash.answered(answers(crash.name, reject(interrupt_of(approval))))).code is None
    assert await crash.rows(approval) == [(EffectState.CLOSED, "rejected")]
    assert await crash.counted(journey) == (0, 0)


@each_of(Journey.PAUSE)
async def test_a_run_pauses_once(crash: Crash, journey: Journey, point: str) -> None:
    is_committed = outcome(journey, point) is Outcome.REPLAYED
    body = crash.says(WORDS[Journey.UNSAFE])
    await crash.dies(point, body)

    assert await crash.states() == (["pending"] if is_committed else [])
    paused = await crash.answered(body)

    assert (len(paused.ids), paused.is_replay) == (1, is_committed)
    again, shown = await crash.witness.send(body), await crash.witness.show(crash.name)
    assert (again.ids, again.is_replay, shown.ids) == (paused.ids, True, paused.ids)
    assert [message["role"] for message in shown.messages].count("user") == 1
    assert (await crash.answered(answers(crash.name, approve(*paused.ids)))).code is None
    assert await crash.counted(journey) == (effects(journey, point), calls(journey, point))


@each_of(Journey.FAIL)
async def test_a_claim_that_a_failed_run_was_letting_go_keeps_its_result(
    crash: Crash, journey: Journey, point: str
) -> None:
    body = await crash.ask(f"{WORDS[Journey.UNSAFE]} (outage {{invoice}})")
    await crash.bank.break_model(crash.name, times=1)
    await crash.dies(point, body)

    assert await crash.states() == ["decided"]
    await assert_ends(crash, body, journey, point)


@each_of(Journey.EXPIRE)
async def test_what_nobody_answered_in_time_expires_once(crash: Crash, journey: Journey, point: str) -> None:
    message = crash.says("look up {invoice}")
    async with crash.mortal(point, approval_seconds=0.05) as host:
        asked = await host.host.send(crash.says(WORDS[Journey.UNSAFE]))
        approval = answers(crash.name, approve(*asked.ids))
        await crash.hosts.until(partial(is_past, crash))
        await host.dies_of(message)

    assert (await crash.witness.show(crash.name)).ids == []
    answered = await crash.answered(message)

    assert (answered.code, answered.is_replay) == (None, False)
    assert [said.get("content") for said in answered.messages].count(EXPIRED_TEXT) == 1
    assert (await crash.witness.send(approval)).code == EXPIRED
    assert await crash.rows(approval) == [(EffectState.CLOSED, "expired")]
    assert await crash.counted(journey) == (effects(journey, point), calls(journey, point))


@each_of(Journey.DOUBT)
async def test_a_doubt_is_stated_although_the_replica_that_found_it_dies(
    crash: Crash, journey: Journey, point: str
) -> None:
    body = await crash.ask(WORDS[Journey.UNSAFE])
    await crash.dies("after-effect", body)
    await take_over_and_die(crash, point, body)

    answered = await crash.answered(body)

    assert (answered.code, answered.metadata["definite"]) == (DOUBT, False)
    assert await crash.states() == ["indeterminate"]
    assert (await crash.witness.send(body)).code == DOUBT
    assert await crash.counted(journey) == (effects(journey, point), calls(journey, point))


@each_of(Journey.LEAVE)
async def test_a_stuck_thread_is_left_with_what_its_call_left(crash: Crash, journey: Journey, point: str) -> None:
    approval = await crash.ask(f"{WORDS[Journey.UNSAFE]} (outage {{invoice}})")
    await crash.bank.break_model(crash.name, times=2)
    for _ in range(2):
        assert (await crash.survivor.send(approval)).code == "RUN_FAILED"
    body = answers(crash.name, cancel(interrupt_of(approval)))
    await crash.dies(point, body, reconcile_retries_max=1)

    is_left = outcome(journey, point) is Outcome.REPLAYED
    assert await crash.states() == ([] if is_left else ["decided"])
    left = await crash.answered(body)

    assert (left.code, left.is_replay) == (None, is_left)
    assert (await crash.witness.send(body)).is_replay
    assert await crash.rows(approval) == [(EffectState.SETTLED, None)]
    said = [
        message["content"] for message in (await crash.witness.show(crash.name)).messages if message["role"] == "tool"
    ]
    assert [text.startswith(RESULTS[Journey.UNSAFE].format(invoice=crash.name)) for text in said] == [True]
    assert await crash.counted(journey) == (effects(journey, point), calls(journey, point))


@each_of_these(
    [
        (journey, point)
        for journey in APPROVALS
        for point in ("before-claim", "after-claim", "after-effect", "after-settle")
    ],
    worlds=("memory", "postgres"),
)
async def test_a_take_over_may_die_like_the_first(crash: Crash, journey: Journey, point: str) -> None:
    body = await crash.ask(WORDS[journey])
    await crash.dies("after-claim", body)
    await take_over_and_die(crash, point, body)

    assert await crash.states() == ["decided"]
    await assert_ends(crash, body, journey, point)


async def assert_ends(crash: Crash, body: Json, journey: Journey, point: str) -> None:
    answered = await crash.answered(body)
    is_in_doubt = outcome(journey, point) is Outcome.IN_DOUBT
    assert (answered.code, answered.is_replay) == (DOUBT if is_in_doubt else None, False)
    again = await crash.witness.send(body)
    assert (again.code, again.is_replay, again.results) == (answered.code, not is_in_doubt, answered.results)
    assert await crash.counted(journey) == (effects(journey, point), calls(journey, point))


async def take_over_and_die(crash: Crash, point: str, body: Json) -> None:
    """Let another host be sent the same until it takes the thread over, and dies too."""
    since = time.monotonic()
    async with crash.mortal(point, lease_seconds=LEASE_SECONDS) as second:
        await crash.hosts.until(partial(has_died, second, body))
        since = time.monotonic()
    await crash.is_silent(since)


async def has_died(host: Mortal, body: Json) -> bool:
    await host.sends(body)
    return host.life.is_over


async def is_past(crash: Crash) -> bool:
    loaded = await crash.hosts.loaded(crash.name)
    return all(each.expires_at < loaded.now for each in loaded.record.occurrences)


def interrupt_of(body: Json) -> str:
    return str(body["resume"][0]["interruptId"])
