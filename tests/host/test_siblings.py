"""One call of a batch fails while its siblings still run: none of them is cut, and no result is lost."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from agent_framework import Agent, FunctionInvocationContext, MiddlewareFailure
from agent_framework.exceptions import UserInputRequiredException

from app.agents.payments import PaymentTools
from app.tools import DidNotHappen, effect_of, gated, unsafe
from stores.records import EffectState
from tests.host.agents import serve
from tests.host.back_doors import apart
from tests.host.bank import Bank
from tests.host.bodies import answers, approve, reject, says
from tests.host.hosts import WAIT_SECONDS_MAX, Host, Hosts, key_of

WORDS = "wire INV-1 to ACME and pay INV-2 to ACME and refund INV-3 and look up INV-9"
DOUBT = "APPROVAL_OUTCOME_INDETERMINATE"


@dataclass
class Till:
    """A failing call, `wire`, and siblings that run until they are let go: `pay`, and `refund` in a thread."""

    error: BaseException | None
    ran: list[str] = field(default_factory=list)
    pays: asyncio.Event = field(default_factory=asyncio.Event)
    refunds: threading.Event = field(default_factory=threading.Event)
    go: asyncio.Event = field(default_factory=asyncio.Event)
    go_thread: threading.Event = field(default_factory=threading.Event)

    def build(self, client: Any, tools: PaymentTools) -> Agent[Any]:
        @gated(unsafe())
        async def wire_transfer(invoice: str, payee: str, context: FunctionInvocationContext) -> str:
            """Fail as soon as the siblings run."""
            await self.wait()
            self.ran.append(f"wire {effect_of(context).idempotency_key[:7]}")
            if self.error is not None:
                raise self.error
            return "Wired."

        @gated(unsafe())
        async def pay_invoice(invoice: str, payee: str) -> str:
            """Pay when it is let go."""
            self.pays.set()
            await asyncio.wait_for(self.go.wait(), WAIT_SECONDS_MAX)
            self.ran.append("pay")
            return "Paid."

        @gated(unsafe())
        def refund_invoice(invoice: str) -> str:
            """Refund, in a thread, when it is let go."""
            self.refunds.set()
            self.go_thread.wait(WAIT_SECONDS_MAX)
            self.ran.append("refund")
            return "Refunded."

        return Agent(client, name="payments", tools=[wire_transfer, pay_invoice, refund_invoice, tools.look_up_invoice])

    async def wait(self) -> None:
        """Wait until both siblings run."""
        await asyncio.wait_for(self.pays.wait(), WAIT_SECONDS_MAX)
        assert await asyncio.to_thread(self.refunds.wait, WAIT_SECONDS_MAX)

    def let_go(self) -> None:
        self.go.set()
        self.go_thread.set()


async def answered_while_running(
    hosts: Hosts, host: Host, till: Till, is_failed: Callable[[], Awaitable[object]]
) -> tuple[dict[str, Any], list[str], Any]:
    """Approve all, let the first fail while the others run, then let those end; answers the resume and its answer."""
    asked = await host.send(says("t", WORDS))
    body = answers("t", *map(approve, asked.ids))
    answering = asyncio.create_task(host.send(body))
    try:
        await hosts.until(is_failed)
        assert [each for each in till.ran if not each.startswith("wire")] == []
    finally:
        till.let_go()
    return body, asked.ids, await answering


@pytest.mark.parametrize(
    ("error", "said"),
    [
        pytest.param(RuntimeError("no"), "Error: Function failed.", id="fails"),
        pytest.param(
            DidNotHappen("It is closed."), "Error: It is closed.", id="did not happen", marks=pytest.mark.slow
        ),
        pytest.param(UserInputRequiredException([]), "It did not say which.", id="asks"),
    ],
)
async def test_a_call_that_ends_early_takes_nothing_from_those_that_still_run(
    hosts: Hosts, bank: Bank, monkeypatch: pytest.MonkeyPatch, error: Exception, said: str
) -> None:
    till = Till(error)
    serve(monkeypatch, till.build)
    host = await hosts.start()

    async def is_failed() -> bool:
        return any(each.startswith("wire") for each in till.ran)

    body, _, answered = await answered_while_running(hosts, host, till, is_failed)

    assert answered.code is None
    for text in (said, "pay_invoice INV-2: Paid.", "refund_invoice INV-3: Refunded.", "look_up_invoice INV-9: Invoice"):
        assert text in answered.text
    assert (await host.send(body)).is_replay
    assert sorted(till.ran) == ["pay", "refund", "wire af-call"]


@pytest.mark.parametrize(
    "error",
    [
        pytest.param(TimeoutError("late"), id="timed out"),
        pytest.param(ConnectionError("lost"), id="connection lost", marks=pytest.mark.slow),
        pytest.param(MiddlewareFailure("stop"), id="stopped by its own middleware"),
    ],
)
async def test_a_call_that_fails_the_run_leaves_its_siblings_their_results(
    hosts: Hosts, bank: Bank, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    till = Till(error)
    serve(monkeypatch, till.build)
    host = await hosts.start()

    async def is_failed() -> bool:
        return any(each.startswith("wire") for each in till.ran)

    body, ids, answered = await answered_while_running(hosts, host, till, is_failed)

    assert answered.code in (DOUBT, "RUN_FAILED", "MiddlewareFailure")
    rows = await host.stores.effects.read(key_of("t"), interrupts=ids)
    states = [rows[name].state for name in ids]
    assert states == [EffectState.BEGUN, EffectState.SETTLED, EffectState.SETTLED]
    till.error = None
    await host.stores.effects.resolve(
        key_of("t"),
        interrupt_id=ids[0],
        attempt=rows[ids[0]].attempt or "",
        result=None,
        by="operator",
        evidence="it failed before it did anything",
    )
    continued = await host.send(body)
    assert (continued.code, continued.results[:3]) == (None, ["Wired.", "Paid.", "Refunded."])
    assert "look_up_invoice INV-9: Invoice" in continued.text
    assert sorted(till.ran) == ["pay", "refund", "wire af-call", "wire af-call"]


async def test_a_call_that_had_begun_when_its_run_failed_still_runs_to_its_result(
    hosts: Hosts, bank: Bank, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both calls begin, one fails the run, and only then the other comes to its tool."""
    failed = asyncio.Event()

    @gated(unsafe())
    async def pay_invoice(invoice: str, payee: str) -> str:
        """Be late the first time."""
        if not failed.is_set():
            failed.set()
            raise TimeoutError("late")
        return "Paid all the same."

    serve(monkeypatch, lambda client, _tools: Agent(client, name="payments", tools=[pay_invoice]))
    host = await hosts.start(decorate=apart)
    asked = await host.send(says("t", "pay INV-1 to ACME and pay INV-2 to ACME"))
    stop = host.steps.stop_at("after-begin")
    answering = asyncio.create_task(host.send(answers("t", *map(approve, asked.ids))))
    await stop.wait()
    await asyncio.wait_for(failed.wait(), WAIT_SECONDS_MAX)
    for _ in range(5):  # the run comes to its end meanwhile
        await host.show("t")

    stop.go.set()

    assert (await answering).code == DOUBT
    rows = await host.stores.effects.read(key_of("t"), interrupts=asked.ids)
    settled = [row.result for row in rows.values() if row.state is EffectState.SETTLED]
    assert sorted(row.state for row in rows.values()) == [EffectState.BEGUN, EffectState.SETTLED]
    assert "Paid all the same." in str(settled)


async def test_a_rejected_call_cuts_none_of_those_that_were_approved_with_it(
    hosts: Hosts, bank: Bank, monkeypatch: pytest.MonkeyPatch
) -> None:
    till = Till(None)
    serve(monkeypatch, till.build)
    host = await hosts.start()
    asked = await host.send(says("t", WORDS))
    answering = asyncio.create_task(
        host.send(answers("t", reject(asked.ids[0]), approve(asked.ids[1]), approve(asked.ids[2])))
    )

    await till.wait()
    till.let_go()
    answered = await answering

    assert answered.code is None
    assert "wire_transfer INV-1: Error: Tool call invocation was rejected by user." in answered.text
    assert "pay_invoice INV-2: Paid." in answered.text
    assert "refund_invoice INV-3: Refunded." in answered.text
    assert sorted(till.ran) == ["pay", "refund"]
