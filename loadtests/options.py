"""What a chaos run is told: how much of what, and the times that its hosts go by."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from loadtests.orders import SPARED_VARIABLE

HISTORY = "history.jsonl"
EFFECTS = "effects.json"
"""What the bank said: with both a run can be judged again."""
LEASE_SECONDS = 6.0
"""A replica that gets no processor for so long is taken over alive: on a busy machine of two cores, not too often."""
STORE_TIMEOUT_SECONDS = 2.0
APPROVAL_SECONDS = 25.0
SOAK_RETENTION_SECONDS = 90.0


@dataclass(frozen=True, slots=True)
class Options:
    """What to run, and how much of it.

    It ends when all counts are reached and `seconds_min` are over, or at `seconds_max`; `mutant` is a deliberate bug.
    `steps` are those at which the nemesis aims, if not at all of them.
    Who gets no answer for `patience_seconds` gives up, once in the load and once in the last look.
    `is_soak`: ended runs are kept for a short time only, so that the store's size can level off, and has to.
    """

    folder: Path
    stores: str
    plan: str
    seed: int
    approvals: int
    hits: int
    seconds_max: float
    seconds_min: float = 0.0
    users: int = 30
    shape: str = "steady"
    replicas: int = 4
    mutant: str = ""
    steps: tuple[str, ...] = ()
    patience_seconds: float = 100.0
    is_soak: bool = False

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds of effect that this kind of store serves: a transactional tool needs a ledger in SQL."""
        return ("idempotent", "unsafe") if self.stores == "redis" else ("idempotent", "transactional", "unsafe")

    @property
    def settings(self) -> dict[str, str]:
        """What the hosts are told: times so short that a run of minutes sees every one of them pass."""
        times = {
            "APPROVAL": APPROVAL_SECONDS,
            "RECONCILE": 0.5,
            "STORE_TIMEOUT": STORE_TIMEOUT_SECONDS,
            "TOOL": 15,
            "RUN": 60,
            "CLAIM_MARGIN": 5,
            **({"RETENTION_TERMINAL": SOAK_RETENTION_SECONDS, "PURGE": 2} if self.is_soak else {}),
        }
        return {f"AGUI_{name}_SECONDS": str(value) for name, value in times.items()} | {SPARED_VARIABLE: self.spared}

    @property
    def spared(self) -> str:
        """The replica that nothing strikes alone: a soak needs one that lives long enough to show what it leaks."""
        return f"host-{self.replicas}" if self.is_soak else ""
