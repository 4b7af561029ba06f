"""One run works on a thread at a time, on whatever host; what is open must be answered before anything new."""

from __future__ import annotations

import asyncio

from tests.host.bank import Bank
from tests.host.bodies import answers, approve, says
from tests.host.hosts import Hosts


async def test_a_new_message_while_an_approval_is_open_is_refused_everywhere(hosts: Hosts, bank: Bank) -> None:
    asked = await hosts.a.send(says("t", "pay INV-1 to ACME"))
    before = await hosts.dump()

    for host in (hosts.a, hosts.b, hosts.c):
        refused = await host.send(says("t", "never mind"))
        assert (refused.code, refused.metadata["definite"]) == ("APPROVAL_RESUME_REQUIRED", hosts.is_certain)

    assert await hosts.dump() == before
    assert (await hosts.b.send(answers("t", approve(*asked.ids)))).code is None
    assert await bank.paid() == [("INV-1", "ACME")]


async def test_a_new_message_while_another_run_holds_the_thread_finds_it_busy(hosts: Hosts) -> None:
    body = says("t", "look up INV-1")
    stop = hosts.a.steps.stop_at("before-finish")
    running = asyncio.create_task(hosts.a.send(body))
    await stop.wait()
    before = await hosts.dump()

    other = await hosts.b.send(says("t", "look up INV-2"))
    same = await hosts.b.send(body)

    assert (other.code, other.metadata) == ("THREAD_BUSY", {"definite": hosts.is_certain, "retryAfterSeconds": 1.0})
    assert (same.code, same.metadata) == ("RUN_IN_PROGRESS", {"definite": False, "retryAfterSeconds": 1.0})
    assert await hosts.dump() == before
    stop.go.set()
    assert (await running).code is None
    assert (await hosts.b.send(says("t", "look up INV-2"))).code is None


async def test_a_new_message_while_an_answer_is_carried_out_finds_the_thread_busy(hosts: Hosts) -> None:
    asked = await hosts.a.send(says("t", "wire INV-1 to ACME"))
    stop = hosts.b.steps.stop_at("after-effect")
    answering = asyncio.create_task(hosts.b.send(answers("t", approve(*asked.ids))))
    await stop.wait()

    busy = await hosts.c.send(says("t", "hello"))

    # The wire has begun: nobody may call its effect a thing that never happened.
    assert (busy.code, busy.metadata["definite"]) == ("THREAD_BUSY", False)
    stop.go.set()
    assert (await answering).code is None


async def test_of_two_first_messages_at_once_one_runs_and_none_is_lost(hosts: Hosts) -> None:
    bodies = [says("t", "look up INV-1"), says("t", "look up INV-2")]
    stop = hosts.a.steps.stop_at("before-finish")
    first = asyncio.create_task(hosts.a.send(bodies[0]))
    await stop.wait()
    refused = await hosts.b.send(bodies[1])
    stop.go.set()
    await first

    assert refused.code == "THREAD_BUSY"
    assert (await hosts.b.send(bodies[1])).code is None
    words = [message["content"] for message in (await hosts.c.show("t")).messages if message["role"] == "user"]
    assert words == ["look up INV-1", "look up INV-2"]


async def test_threads_do_not_hold_each_other_up(hosts: Hosts) -> None:
    stop = hosts.a.steps.stop_at("before-finish")
    held = asyncio.create_task(hosts.a.send(says("held", "look up INV-1")))
    await stop.wait()

    assert (await hosts.b.send(says("free", "look up INV-1"))).code is None
    assert (await hosts.b.send(says("held", "look up INV-1"), scope="bob")).code is None

    stop.go.set()
    assert (await held).code is None


async def test_many_threads_at_once_keep_apart(hosts: Hosts, bank: Bank) -> None:
    async def pay(number: int) -> str:
        thread, host = f"t-{number}", (hosts.a, hosts.b, hosts.c)[number % 3]
        asked = await host.send(says(thread, f"pay INV-{number} to ACME"))
        return (await hosts.c.send(answers(thread, approve(*asked.ids)))).text

    texts = await asyncio.gather(*(pay(number) for number in range(9)))

    assert all(f"pay_invoice INV-{number}: Paid" in text for number, text in enumerate(texts))
    assert sorted(await bank.paid()) == [(f"INV-{number}", "ACME") for number in range(9)]
