"""What the scenes of the demonstration share: the running cluster, one user, the bank, and the lines they print."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import httpx
from rich.console import Console
from rich.text import Text

from deploy.agui_client import AguiClient, Json, Reply, Run, ask
from deploy.cluster_file import ClusterState, read_cluster_file
from deploy.promises import Approved, Effects, Promises, counted, payment_calls
from deploy.waiting import wait_gone, wait_until

_SECONDS_MAX = 60.0


@dataclass(frozen=True, slots=True)
class Card:
    """The approval a page shows: what would run, and who asked for it."""

    interrupt: Json
    replica: str

    @property
    def id(self) -> str:
        """The interrupt to answer."""
        return str(self.interrupt["id"])


@dataclass(slots=True)
class Stage:
    """One run of the demonstration. `tag` makes its invoices and threads new; `stranger` asks in another scope."""

    directory: Path
    tag: str
    user: AguiClient
    stranger: AguiClient
    bank: httpx.AsyncClient
    console: Console
    promises: Promises
    approved: list[Approved] = field(default_factory=list)

    def state(self) -> ClusterState:
        """Return what runs where now; raises RuntimeError if the cluster was stopped."""
        if state := read_cluster_file(self.directory):
            return state
        raise RuntimeError("The cluster was stopped while the demonstration ran.")

    def title(self, text: str) -> None:
        """Begin a scene."""
        self.console.print()
        self.console.print(Text(text, style="bold"))

    def say(self, who: str, what: str) -> None:
        """Print who did what."""
        self.console.print(Text.assemble("  ", (f"{who:<9}", "cyan"), what))

    async def ask(self, number: int, words: str) -> Card:
        """Let the user ask for something that pauses for approval; show the card."""
        self.say("you", words)
        reply = await self.user.send(ask(self.thread(number), words))
        return self.show(reply)

    def show(self, reply: Reply) -> Card:
        """Show the one pending card of a reply; raises RuntimeError if there is none."""
        if len(reply.interrupts) != 1:
            raise RuntimeError(f"A pause with one approval was expected, not: {reply.end}")
        interrupt = reply.interrupts[0]
        call = interrupt["metadata"]["agent_framework"]["function_call"]
        arguments = ", ".join(f"{name}={value}" for name, value in call["arguments"].items())
        until = datetime.fromisoformat(interrupt["expiresAt"])
        self.say(reply.replica, f"pauses: approve {call['name']}({arguments})? Open until {until:%Y-%m-%d %H:%M} UTC.")
        return Card(interrupt, reply.replica)

    async def send(self, run: Run) -> Reply:
        """Send a run until it is answered, as the contract asks of clients; tell how it went."""
        told: tuple[object, ...] = ()
        reply = Reply()
        async for reply in self.user.replies(run, seconds=_SECONDS_MAX):
            news = (reply.is_cut, reply.status, reply.code)
            if news != told:
                self.tell(reply)
            told = news
        return reply

    def tell(self, reply: Reply) -> None:
        """Tell what a reply says."""
        who = reply.replica or "balancer"
        again = " (recorded)" if reply.is_replay else ""
        for result in reply.tool_results:
            self.say(who, f"tool result{again}: {result}")
        if reply.text:
            self.say(who, f"answer{again}: " + " ".join(reply.text.split()))
        if reply.is_cut:
            self.say("you", "the stream ended before its end; sending the same again")
        elif reply.code:
            self.say(who, f"{reply.code}: {reply.end['message']}")
        elif not reply.events:
            self.say(who, f"HTTP {reply.status}; sending the same again")

    async def kill(self, name: str) -> None:
        """End a replica at once, as `kill -9` does, and wait until it is gone."""
        replica = self.state().replica(name)
        process = replica.find()
        if process is None:
            raise RuntimeError(f"{name} does not run, so it can not be killed.")
        process.kill()
        await asyncio.to_thread(wait_gone, [process])
        self.say("kill -9", f"{name} (process {replica.pid}) is gone")

    async def wait_for_two(self) -> None:
        """Wait until two replicas are ready: one to kill and one to go on."""
        await asyncio.to_thread(wait_until, self._are_two_ready, "two replicas are ready", _SECONDS_MAX)

    def _are_two_ready(self) -> bool:
        replicas = self.state().replicas
        return sum(bool(each.find()) and _answers(f"{each.url}/readyz") for each in replicas) >= 2

    def thread(self, number: int) -> str:
        """Return the thread of one scene."""
        return f"demo-{self.tag}-{number}"

    def invoice(self, number: int) -> str:
        """Return an invoice number that no earlier run has used."""
        return f"INV-{self.tag}-{number}"

    async def effects(self, prefix: str) -> Effects:
        """Return what really happened to the invoices that start so."""
        answer = await self.bank.get("/effects", params={"invoice_prefix": prefix})
        effects: dict[str, Any] = answer.raise_for_status().json()
        return effects

    async def count(self, approved: Approved) -> int:
        """Return how often one approved call had its effect, and say so."""
        count = len((await self.effects(approved.invoice))[approved.kind])
        self.say("bank", f"{counted(count, approved.kind)} of {approved.invoice}")
        return count

    async def payment_calls(self, approved: Approved) -> int:
        """Return how many calls to pay an invoice the bank received, and say so."""
        calls = payment_calls(await self.effects(approved.invoice), approved.invoice)
        self.say("bank", f"{calls} {'call' if calls == 1 else 'calls'} received to pay {approved.invoice}")
        return calls

    def approve(self, kind: str, number: int) -> Approved:
        """Note that a call is approved, for the count at the end."""
        approved = Approved(kind, self.invoice(number))
        self.approved.append(approved)
        return approved

    async def wait_for_effect(self, approved: Approved) -> None:
        """Wait until the bank has seen an approved call."""

        def is_there() -> bool:
            answer = httpx.get(
                f"{self.state().bank_url}/effects", params={"invoice_prefix": approved.invoice}, trust_env=False
            )
            return bool(answer.raise_for_status().json()["counts"][approved.kind])

        await asyncio.to_thread(wait_until, is_there, f"the bank has acted on {approved.invoice}", _SECONDS_MAX)

    async def delay(self, approved: Approved, seconds: float) -> None:
        """Let the bank answer about this invoice so long after it acted."""
        answer = await self.bank.put(f"/delays/{approved.invoice}", json={"seconds": seconds})
        answer.raise_for_status()

    async def outage(self, name: str) -> None:
        """Let the model's service fail the next time it is called in a turn that names this outage."""
        answer = await self.bank.put(f"/outages/{name}", json={"remaining": 1})
        answer.raise_for_status()


def _answers(url: str) -> bool:
    try:
        return httpx.get(url, timeout=2, trust_env=False).is_success
    except httpx.TransportError:
        return False
