"""Approvals from the question to the answer, as one person and one client see them, and what the bank says of them."""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import httpx

from deploy.agui_client import AguiClient, Reply, approve, ask, resume

ANSWER_SECONDS = 120.0
INDETERMINATE = "APPROVAL_OUTCOME_INDETERMINATE"

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of effect: the words that ask for its tool, its result, where the bank counts it."""

    name: str
    words: str
    result: str
    counted: str


IDEMPOTENT = Kind("idempotent", "pay {invoice} to ACME", "Paid {invoice} to ACME, receipt {receipt}.", "payments")
TRANSACTIONAL = Kind("transactional", "refund {invoice}", "Refunded {invoice}.", "refunds")
UNSAFE = Kind("unsafe", "wire {invoice} to ACME", "Wired {invoice} to ACME, receipt {receipt}.", "wires")


@dataclass(slots=True)
class Approval:
    """One call that a person approves, and what became of it."""

    kind: Kind
    invoice: str
    step: str = ""
    interrupt_id: str = ""
    asked: Reply = field(default_factory=Reply)
    replies: list[Reply] = field(default_factory=list)
    duplicate: Reply = field(default_factory=Reply)
    answered_at: float = 0.0

    @property
    def thread_id(self) -> str:
        """Each approval has a thread of its own."""
        return f"thread-{self.invoice}"

    @property
    def answer(self) -> Reply:
        """The reply that ended it."""
        return self.replies[-1]

    @property
    def is_answered(self) -> bool:
        """Whether the run was carried through to its answer."""
        return self.answer.end.get("type") == "RUN_FINISHED" and not self.answer.interrupts

    @property
    def is_in_doubt(self) -> bool:
        """Whether the host reported that the call may have run."""
        return self.answer.code == INDETERMINATE

    async def ask(self, client: AguiClient) -> None:
        """Ask for the call and see the card that waits for the person."""
        self.asked = await client.send(
            ask(self.thread_id, self.kind.words.format(invoice=self.invoice)), seconds=ANSWER_SECONDS
        )
        assert len(self.asked.interrupts) == 1, f"no card for {self.invoice}: {self.asked}"
        self.interrupt_id = self.asked.interrupts[0]["id"]

    async def approve(self, client: AguiClient) -> None:
        """Approve it and send the same until it is answered, or for too long: then the last reply tells what was."""
        run = resume(self.thread_id, approve(self.interrupt_id))
        with suppress(TimeoutError):
            async for reply in client.replies(run, seconds=ANSWER_SECONDS):
                self.replies.append(reply)
        self.answered_at = time.time()

    async def approve_again(self, client: AguiClient) -> None:
        """Approve it once more, as another tab would: the same decision in another run."""
        run = resume(self.thread_id, approve(self.interrupt_id))
        with suppress(TimeoutError):
            self.duplicate = await client.send(run, seconds=ANSWER_SECONDS)


class BankEffects:
    """The bank's own account of what really happened."""

    def __init__(self, told: Json) -> None:
        self._told = told

    @classmethod
    def read(cls, bank_url: str) -> BankEffects:
        """Ask the bank."""
        answer = httpx.get(f"{bank_url}/effects", trust_env=False, timeout=30)
        answer.raise_for_status()
        return cls(answer.json())

    def of(self, approval: Approval) -> list[Json]:
        """Return every effect on the invoice of an approval."""
        return [effect for effect in self._told[approval.kind.counted] if effect["invoice"] == approval.invoice]

    def count(self, kind: Kind) -> int:
        """Return how many effects of this kind there were, on whatever invoice."""
        return len(self._told[kind.counted])


def delay(bank_url: str, invoice: str, seconds: float) -> None:
    """Let the bank answer calls for this invoice only so long after it carried them out."""
    answer = httpx.put(f"{bank_url}/delays/{invoice}", json={"seconds": seconds}, trust_env=False)
    answer.raise_for_status()
