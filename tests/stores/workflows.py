"""A workflow that pauses for a person, built anew for every run, and what its checkpoints contain."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from agent_framework import (
    CheckpointStorage,
    Executor,
    Workflow,
    WorkflowBuilder,
    WorkflowContext,
    handler,
    response_handler,
)

NAME = "refunds"


@dataclass
class Refund:
    """What the person is asked about; has to be on the allow-list."""

    invoice: str
    cents: int


REFUND_TYPE = "tests.stores.workflows:Refund"


class Unlisted:
    """A harmless type that nobody allowed. It counts how often one was made from stored bytes."""

    made: ClassVar[int] = 0

    def __setstate__(self, state: Any) -> None:
        type(self).made += 1

    def __getstate__(self) -> dict[str, int]:
        return {"state": 1}


class Refunding(Executor):
    """Asks about a refund, and says what the person decided."""

    @handler
    async def ask(self, invoice: str, ctx: WorkflowContext[Any, str]) -> None:
        await ctx.request_info(Refund(invoice, 1_250), bool)

    @response_handler
    async def decided(self, refund: Refund, approved: bool, ctx: WorkflowContext[Any, str]) -> None:
        await ctx.yield_output(f"{refund.invoice}: {refund.cents if approved else 0}")


def refunding(storage: CheckpointStorage) -> Workflow:
    """Return a new workflow that keeps its checkpoints in `storage`."""
    executor = Refunding(id="refunding")
    return WorkflowBuilder(
        name=NAME, start_executor=executor, output_from=[executor], checkpoint_storage=storage
    ).build()
