"""So many approvals may be open: a run that asks for more is refused, and nothing of what it asked is kept or shown."""

from __future__ import annotations

from stores.records import RunState, Scope
from tests.host.answers import Answer
from tests.host.bank import Bank
from tests.host.bodies import answers, approve, cancel, reject, says
from tests.host.hosts import Hosts, key_of

LIMIT = "LIMIT_EXCEEDED"
IN_THREAD = "AGUI_OPEN_APPROVALS_PER_THREAD_MAX"
IN_SCOPE = "AGUI_OPEN_APPROVALS_PER_SCOPE_MAX"


def assert_refused(answer: Answer, setting: str) -> None:
    assert answer.code == LIMIT
    assert setting in answer.message
    assert "af-call-" not in str(answer.events)


async def test_a_run_that_asks_for_too_many_in_its_thread_leaves_it_as_it_was(hosts: Hosts, bank: Bank) -> None:
    host = await hosts.start(open_approvals_per_thread_max=2)
    await host.send(says("t", "look up INV-9"))
    before = (await hosts.loaded("t")).snapshot
    body = says("t", "pay INV-1, INV-2 and INV-3 to ACME")

    for _ in range(2):
        refused = await host.send(body)
        assert_refused(refused, IN_THREAD)
        assert refused.metadata["definite"] == hosts.is_certain

    loaded = await hosts.loaded("t")
    assert (loaded.record.occurrences, loaded.record.claim, loaded.snapshot) == ((), None, before)
    run = await hosts.a.stores.threads.outcome(key_of("t"), run_id=str(body["runId"]))
    assert run is not None
    assert run.state is RunState.FAILED
    assert await hosts.a.stores.threads.list(Scope("alice"), limit=9) == []
    assert (await hosts.c.show("t")).ids == []
    asked = await host.send(says("t", "pay INV-1 and INV-2 to ACME"))
    assert (await hosts.b.send(answers("t", *map(approve, asked.ids)))).code is None
    assert sorted(await bank.paid()) == [("INV-1", "ACME"), ("INV-2", "ACME")]


async def test_abandoned_approvals_do_not_pile_up_in_a_scope(hosts: Hosts) -> None:
    host = await hosts.start(open_approvals_per_scope_max=3)

    asked = [await host.send(says(f"t-{number}", f"pay INV-{number} to ACME")) for number in range(6)]

    for refused in asked[3:]:
        assert_refused(refused, IN_SCOPE)
    assert await hosts.a.stores.threads.count_open(Scope("alice"), at_most=9) == 3
    # Neither another scope nor a run that asks for nothing is in the way of it.
    assert len((await host.send(says("t", "pay INV-1 to ACME"), scope="bob")).ids) == 1
    assert (await host.send(says("t-5", "look up INV-1"))).code is None
    # What is answered makes room.
    assert (await hosts.b.send(answers("t-0", cancel(asked[0].ids[0])))).code is None
    assert len((await host.send(says("t-5", "pay INV-5 to ACME"))).ids) == 1


async def test_a_run_asks_for_as_many_as_there_is_room_for_and_for_no_more(hosts: Hosts) -> None:
    host = await hosts.start(open_approvals_per_scope_max=3)
    await host.send(says("t-1", "pay INV-1 to ACME"))

    assert_refused(await host.send(says("t-2", "pay INV-2, INV-3 and INV-4 to ACME")), IN_SCOPE)
    assert_refused(await host.send(says("t-2", "pay INV-2, INV-3, INV-4, INV-5 and INV-6 to ACME")), IN_SCOPE)
    assert len((await host.send(says("t-2", "pay INV-2 and INV-3 to ACME"))).ids) == 2


async def test_an_answer_may_ask_for_the_next_approval_in_a_full_scope(hosts: Hosts, bank: Bank) -> None:
    host = await hosts.start(open_approvals_per_scope_max=1, open_approvals_per_thread_max=1)
    asked = await host.send(says("t", "pay INV-1 to ACME then wire INV-2 to ACME"))

    asked = await host.send(answers("t", *map(approve, asked.ids)))

    assert len(asked.ids) == 1
    assert (await host.send(answers("t", *map(approve, asked.ids)))).code is None
    assert await bank.paid() == [("INV-1", "ACME"), ("INV-2", "ACME")]


async def test_what_was_answered_is_recorded_though_more_was_asked_than_may_be_open(hosts: Hosts, bank: Bank) -> None:
    in_thread = await hosts.start(open_approvals_per_thread_max=1)
    in_scope = await hosts.start(open_approvals_per_scope_max=1)
    for number, (host, setting) in enumerate([(in_thread, IN_THREAD), (in_scope, IN_SCOPE)]):
        thread = f"t-{number}"
        asked = await host.send(says(thread, f"wire INV-{number} to ACME then wire INV-8 and INV-9 to ACME"))
        body = answers(thread, *map(approve, asked.ids))

        refused = await host.send(body)

        assert_refused(refused, setting)
        assert "What you answered is recorded." in refused.message
        assert refused.metadata["definite"] is False
        assert (await bank.paid())[number:] == [(f"INV-{number}", "ACME")]
        assert await hosts.is_closed(thread)
        results = [each["content"] for each in (await hosts.c.show(thread)).messages if each["role"] == "tool"]
        assert [text.partition(",")[0] for text in results] == [
            f"Wired INV-{number} to ACME",
            *["Too many approvals are open"] * 2,
        ]
        # The same again gets what was recorded, and the thread goes on.
        assert (await hosts.b.send(body)).is_replay
        asked = await host.send(says(thread, "wire INV-7 to ACME"))
        assert (await host.send(answers(thread, *map(cancel, asked.ids)))).code is None


async def test_a_rejection_is_recorded_though_more_was_asked_than_may_be_open(hosts: Hosts, bank: Bank) -> None:
    host = await hosts.start(open_approvals_per_thread_max=1)
    asked = await host.send(says("t", "pay INV-1 to ACME then pay INV-2 and INV-3 to ACME"))

    refused = await host.send(answers("t", *map(reject, asked.ids)))

    assert_refused(refused, IN_THREAD)
    assert refused.metadata["definite"] == hosts.is_certain
    assert (await hosts.is_closed("t"), await bank.paid()) == (True, [])
