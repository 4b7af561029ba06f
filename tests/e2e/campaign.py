"""A campaign: many approvals through one cluster, whose replicas are killed on order while they carry them out."""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from rich.console import Console
from rich.table import Table

from deploy.agui_client import AguiClient, Reply, connect
from deploy.running import RunningCluster
from tests.e2e.approvals import IDEMPOTENT, TRANSACTIONAL, UNSAFE, Approval, BankEffects, Kind
from tests.e2e.kill_orders import Hit, KillOrders

KINDS = (IDEMPOTENT, TRANSACTIONAL, UNSAFE)


@dataclass(frozen=True, slots=True)
class Campaign:
    """What was asked of a cluster, what was done to it, and what came of it."""

    approvals: list[Approval]
    hits: list[Hit]
    bank: BankEffects

    def of(self, kind: Kind) -> list[Approval]:
        """Return the approvals of one kind."""
        return [approval for approval in self.approvals if approval.kind is kind]

    def deaths(self, approval: Approval) -> list[list[str]]:
        """Return what each replica that was killed, for this approval or another, had seen of its steps, if anything.

        All of it: a replica may meet the same resume again while it carries the first one out.
        """
        thread_id = approval.thread_id
        seen = [[hit.step] if hit.thread_id == thread_id else hit.elsewhere.get(thread_id) for hit in self.hits]
        return [steps for steps in seen if steps]

    def is_moved(self, approval: Approval) -> bool:
        """Whether another process than the one it paused on ended it. A killed replica comes back as another one."""
        asked, answered = approval.asked.replica, approval.answer.replica
        return (asked, self._lives(asked, approval.asked_at)) != (answered, self._lives(answered, approval.answered_at))

    def _lives(self, name: str, until: float) -> int:
        return sum(hit.replica == name and hit.at < until for hit in self.hits)


def run_campaign(cluster: RunningCluster, approvals: list[Approval], orders: KillOrders, *, people: int) -> Campaign:
    """Let so many people ask and approve, one thread after another, until everything is answered."""
    asyncio.run(_answer_all(cluster.url, approvals, orders, people))
    return Campaign(approvals, orders.hits(), BankEffects.read(cluster.bank_url))


async def _answer_all(url: str, approvals: list[Approval], orders: KillOrders, people: int) -> None:
    waiting = list(reversed(approvals))

    async def answer_one_after_another(client: AguiClient) -> None:
        while waiting:
            approval = waiting.pop()
            await approval.ask(client)
            orders.place(approval.thread_id, approval.step)
            await approval.approve(client)
            await approval.approve_again(client)

    async with connect(url, scope="tenant-1") as client, asyncio.TaskGroup() as group:
        for _ in range(people):
            group.create_task(answer_one_after_another(client))


def show(campaign: Campaign, title: str) -> None:
    """Print where replicas were killed and what became of the approvals."""
    kinds = {approval.thread_id: approval.kind for approval in campaign.approvals}
    killed = Counter((hit.step, kinds[hit.thread_id]) for hit in campaign.hits)
    table = Table("", *(kind.name for kind in KINDS), title=title)
    for step in UNSAFE.steps:
        table.add_row(f"killed {step}", *(str(killed[step, kind] or "") for kind in KINDS))
    table.add_section()
    counted: dict[str, Callable[[Approval], bool]] = {
        "approvals": lambda approval: True,
        "answered": lambda approval: approval.is_answered,
        "reported in doubt": lambda approval: approval.is_in_doubt,
        "ended by another process": campaign.is_moved,
        "... of another name": lambda approval: approval.answer.replica != approval.asked.replica,
    }
    for name, is_counted in counted.items():
        table.add_row(name, *(str(sum(map(is_counted, campaign.of(kind)))) for kind in KINDS))
    table.add_row("effects", *(str(campaign.bank.count(kind)) for kind in KINDS))
    replies = Counter(_name(reply) for approval in campaign.approvals for reply in approval.replies)
    console = Console(file=sys.stderr, width=100)
    console.print(table)
    console.print("Replies: " + ", ".join(f"{count} {name}" for name, count in replies.most_common()))


def _name(reply: Reply) -> str:
    if reply.is_cut:
        return "cut streams" if reply.status else "without connection"
    if reply.status != 200:
        return f"HTTP {reply.status}"
    return reply.code or ("replays" if reply.is_replay else "answers")
