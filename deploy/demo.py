"""`python -m deploy.demo`: drives the running cluster as a user would, and fails if a promise broke."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Annotated
from uuid import uuid4

import httpx
import typer
from rich.console import Console

from deploy.agui_client import Reply, Run, approve, connect, hydrate, resume
from deploy.cluster_file import ClusterState, read_cluster_file
from deploy.promises import NAMES, Approved, Promises, counted, misfits
from deploy.stage import Stage

_NO_CLUSTER = "No cluster runs here. Start one with `make up` and run this in another shell."
_SLOW_SECONDS = 30.0
"""How long the bank takes to answer, where a replica is to die in the middle of a call; it acts at once."""


async def survives_the_replica_that_asked(stage: Stage) -> None:
    """Pause on one replica, kill it, approve: another one carries the call out."""
    stage.title("1. The replica that asked for an approval is killed before the answer")
    card = await stage.ask(1, f"pay {stage.invoice(1)} to ACME")
    await stage.kill(card.replica)
    stage.say("you", "load the page again")
    shown = stage.show(await stage.user.send(hydrate(stage.thread(1))))
    stage.say("you", "approve")
    reply = await stage.send(resume(stage.thread(1), approve(card.id)))
    count = await stage.count(stage.approve("payments", 1))
    stage.promises.check("another replica shows the very same card", shown.interrupt == card.interrupt)
    is_other = card.replica not in (shown.replica, reply.replica)
    stage.promises.check(f"asked on {card.replica}, answered on {reply.replica}", is_other and _is_answered(reply))
    stage.promises.check("one payment", count == 1)


async def goes_on_after_a_model_failure(stage: Stage) -> Run:
    """Let the model fail after the tool ran; the same resume, sent again, goes on from there."""
    stage.title("2. The tool has run, then the model fails; the same approval is sent again")
    outage = f"demo-{stage.tag}"
    card = await stage.ask(2, f"pay {stage.invoice(2)} to ACME (outage {outage})")
    await stage.outage(outage)
    stage.say("model", "will be down once when it is to answer (that is what the words in brackets are for)")
    stage.say("you", "approve")
    run = resume(stage.thread(2), approve(card.id))
    failed = await stage.user.post(run)
    stage.tell(failed)
    payment = stage.approve("payments", 2)
    before = await stage.count(payment)
    stage.say("you", "send the same again")
    reply = await stage.send(run)
    after = await stage.count(payment)
    calls = await stage.payment_calls(payment)
    stage.promises.check("the failure was said, not hidden", failed.code == "RUN_FAILED")
    stage.promises.check("the run went on and was answered", _is_answered(reply))
    stage.promises.check("one payment before, the same one after", before == after == 1)
    stage.promises.check("the tool was called once: its recorded result was used", calls == 1)
    return run


async def replays_a_duplicate(stage: Stage, run: Run) -> None:
    """Send an answered resume once more, while a model that is asked would fail."""
    stage.title("3. The same approval once more: a duplicate")
    await stage.outage(f"demo-{stage.tag}")
    stage.say("model", "is down again, so an answer can not come from it")
    stage.say("you", "send the same a third time")
    reply = await stage.send(run)
    payment = Approved("payments", stage.invoice(2))
    count = await stage.count(payment)
    calls = await stage.payment_calls(payment)
    stage.promises.check("the recorded answer came back, marked as a replay", reply.is_replay and _is_answered(reply))
    stage.promises.check("still one payment", count == 1)
    stage.promises.check("the tool was still called once only", calls == 1)


async def refuses_what_nobody_asked(stage: Stage) -> None:
    """Approve a made-up id, and somebody else's; then the owner approves: a transactional tool."""
    stage.title("4. Forged approvals; then the real one, for a tool that writes in the hosts' own database")
    card = await stage.ask(3, f"refund {stage.invoice(3)}")
    forged_id = f"af-call-{uuid4().hex}"
    stage.say("you", f"approve {forged_id}, which was never asked")
    forged = await stage.user.send(resume(stage.thread(3), approve(forged_id)))
    stage.tell(forged)
    stage.say("stranger", "approve your card, from another scope")
    foreign = await stage.stranger.send(resume(stage.thread(3), approve(card.id)))
    stage.tell(foreign)
    refund = Approved("refunds", stage.invoice(3))
    before = await stage.count(refund)
    stage.say("you", "approve")
    reply = await stage.send(resume(stage.thread(3), approve(card.id)))
    after = await stage.count(stage.approve("refunds", 3))
    not_found = "APPROVAL_RESUME_NOT_FOUND"
    stage.promises.check("a forged id is refused", forged.code == not_found)
    stage.promises.check("a stranger is told the same, and nothing more", foreign.code == not_found and before == 0)
    stage.promises.check("the owner's approval runs, once", _is_answered(reply) and after == 1)


async def repeats_what_can_be_recognised(stage: Stage) -> None:
    """Kill the replica in the middle of a payment: the far side recognises the key, so the call is repeated."""
    stage.title("5. A replica is killed in the middle of a payment; the bank recognises a repeat")
    payment, reply = await _killed_in_the_middle(stage, 4, "payments", f"pay {stage.invoice(4)} to ACME")
    count = await stage.count(payment)
    calls = await stage.payment_calls(payment)
    # Not exactly two: the bank may be slow to the repeat as well.
    is_repeated = calls >= 2
    stage.promises.check("the call was repeated under the same key and answered", is_repeated and _is_answered(reply))
    stage.promises.check("one payment", count == 1)


async def stops_where_nobody_can_know(stage: Stage) -> None:
    """Kill the replica in the middle of a wire, which nothing can recognise: it stops, visibly."""
    stage.title("6. The same in the middle of a wire; the bank can not recognise a repeat")
    wire, reply = await _killed_in_the_middle(stage, 5, "wires", f"wire {stage.invoice(5)} to ACME")
    count = await stage.count(wire)
    stopped = reply.code == "APPROVAL_OUTCOME_INDETERMINATE"
    stage.promises.check("it stopped in stated doubt and waits for a person", stopped)
    stage.promises.check("one wire, never two", count == 1)


async def _killed_in_the_middle(stage: Stage, number: int, kind: str, words: str) -> tuple[Approved, Reply]:
    await stage.wait_for_two()
    card = await stage.ask(number, words)
    approved = stage.approve(kind, number)
    await stage.delay(approved, _SLOW_SECONDS)
    stage.say("you", "approve")
    run = resume(stage.thread(number), approve(card.id))
    serving: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    first = asyncio.create_task(stage.user.post(run, on_start=serving.set_result))
    await stage.wait_for_effect(approved)
    stage.say("bank", f"has done it for {serving.result()}, but is slow to say so")
    await stage.kill(serving.result())
    stage.tell(await first)
    await stage.delay(approved, 0)
    return approved, await stage.send(run)


def _is_answered(reply: Reply) -> bool:
    return reply.code is None and bool(reply.text) and not reply.interrupts


async def _play(stage: Stage) -> None:
    await survives_the_replica_that_asked(stage)
    run = await goes_on_after_a_model_failure(stage)
    await replays_a_duplicate(stage, run)
    await refuses_what_nobody_asked(stage)
    await repeats_what_can_be_recognised(stage)
    await stops_where_nobody_can_know(stage)


async def _count(stage: Stage) -> str:
    stage.title("What really happened, counted by the bank, which is a process of its own")
    effects = await stage.effects(f"INV-{stage.tag}-")
    happened = ", ".join(counted(len(effects[kind]), kind) for kind in NAMES)
    summary = f"{happened}, for {len(stage.approved)} approved calls"
    wrong = misfits(effects, stage.approved)
    for sentence in wrong:
        stage.say("bank", sentence)
    stage.say("bank", summary)
    stage.promises.check("one effect for each approved call, and no other", not wrong)
    return summary


async def _run(directory: Path, state: ClusterState, console: Console) -> int:
    tag = uuid4().hex[:6]
    promises = Promises(console)
    async with (
        connect(state.url, scope="demo") as user,
        connect(state.url, scope="stranger") as stranger,
        httpx.AsyncClient(base_url=state.bank_url, trust_env=False) as bank,
    ):
        stage = Stage(directory, tag, user, stranger, bank, console, promises)
        names = ", ".join(f"{replica.name} (process {replica.pid})" for replica in state.replicas)
        console.print(f"Load balancer {state.url}, no stickiness; behind it {names}.")
        summary = "what happened was not counted"
        try:
            await _play(stage)
            summary = await _count(stage)
        except (TimeoutError, RuntimeError, httpx.HTTPError) as error:
            promises.check(f"the demonstration came to its end: {error}", False)
    console.print()
    for sentence in promises.broken:
        console.print(f"A promise broke: {sentence}.")
    console.print(f"{'Not every' if promises.broken else 'Every'} promise was kept: {summary}.")
    return 1 if promises.broken else 0


def main(state_dir: Annotated[Path, typer.Option(help="Where the cluster's files are.")] = Path(".agui")) -> None:
    """Show on the running cluster what the README promises; exit code 1 if a promise broke, 2 if no cluster runs."""
    console = Console(highlight=False, markup=False, soft_wrap=True)
    state = read_cluster_file(state_dir)
    if state is None or state.launcher.find() is None:
        console.print(_NO_CLUSTER)
        sys.exit(2)
    if not state.is_ready or len(state.replicas) < 2:
        console.print("The cluster is still starting, or has one replica only; this needs at least two.")
        sys.exit(2)
    sys.exit(asyncio.run(_run(state_dir, state, console)))


if __name__ == "__main__":
    typer.run(main)
