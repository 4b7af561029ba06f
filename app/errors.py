"""The refusals: every code the wire can carry, whether it can be definite, and what the client may do about it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Code(StrEnum):
    """RUN_ERROR codes. Upstream's where it has one, ours where it has none (design rule: one code, one next step)."""

    RESUME_NOT_FOUND = "APPROVAL_RESUME_NOT_FOUND"
    RESUME_IN_PROGRESS = "APPROVAL_RESUME_IN_PROGRESS"
    RUN_IN_PROGRESS = "RUN_IN_PROGRESS"
    THREAD_BUSY = "THREAD_BUSY"
    RESUME_CONFLICT = "APPROVAL_RESUME_CONFLICT"
    RUN_ID_CONFLICT = "RUN_ID_CONFLICT"
    RESUME_EXPIRED = "APPROVAL_RESUME_EXPIRED"
    RESUME_STALE = "APPROVAL_RESUME_STALE"
    OUTCOME_INDETERMINATE = "APPROVAL_OUTCOME_INDETERMINATE"
    RUN_FAILED = "RUN_FAILED"
    RESUME_REQUIRED = "APPROVAL_RESUME_REQUIRED"
    RESUME_MISSING_INTERRUPT = "APPROVAL_RESUME_MISSING_INTERRUPT"
    RESUME_INVALID = "APPROVAL_RESUME_INVALID"
    RESUME_INVALID_RESPONSE = "APPROVAL_RESUME_INVALID_RESPONSE"
    TOOL_UNAVAILABLE = "APPROVAL_TOOL_UNAVAILABLE"
    INVOCATION_DISABLED = "APPROVAL_INVOCATION_DISABLED"
    MIDDLEWARE_FAILURE = "MiddlewareFailure"
    LIMIT_EXCEEDED = "LIMIT_EXCEEDED"
    STORE_UNAVAILABLE = "STORE_UNAVAILABLE"


@dataclass(frozen=True, slots=True)
class Meaning:
    """What a code says. `can_be_definite`: it may say that no effect happened, if the ledger agrees."""

    meaning: str
    can_be_definite: bool
    client_may: str


MEANINGS: dict[Code, Meaning] = {
    Code.RESUME_NOT_FOUND: Meaning("never pending here, or past retention", False, "reload, then ask anew"),
    Code.RESUME_IN_PROGRESS: Meaning("a replica presumed alive has this very resume", False, "retry the same"),
    Code.RUN_IN_PROGRESS: Meaning("a replica presumed alive has this very run", False, "retry the same"),
    Code.THREAD_BUSY: Meaning("another run holds the thread", True, "retry later"),
    Code.RESUME_CONFLICT: Meaning("another decision is recorded", True, "reload the thread"),
    Code.RUN_ID_CONFLICT: Meaning("other input is recorded under this run id", True, "reload the thread"),
    Code.RESUME_EXPIRED: Meaning("answered after expiresAt", True, "answer the others without it, or ask anew"),
    Code.RESUME_STALE: Meaning("a part of the pause is missing or of another pause", True, "reload; cancel"),
    Code.OUTCOME_INDETERMINATE: Meaning("the call may have run and left no result", False, "wait for the operator"),
    Code.RUN_FAILED: Meaning("the model or a tool's service failed; settled results are kept", False, "send it again"),
    Code.RESUME_REQUIRED: Meaning("an approval is open in this thread", True, "answer it first"),
    Code.RESUME_MISSING_INTERRUPT: Meaning("not every open interrupt is answered", True, "correct and retry"),
    Code.RESUME_INVALID: Meaning("the answer is malformed", True, "correct and retry"),
    Code.RESUME_INVALID_RESPONSE: Meaning("the answer does not fit the response schema", True, "correct and retry"),
    Code.TOOL_UNAVAILABLE: Meaning(
        "the approved tool is not in this version, or no longer takes what was approved",
        True,
        "retry later, reject or cancel",
    ),
    Code.INVOCATION_DISABLED: Meaning("the agent's calls of functions are switched off", True, "send it again later"),
    Code.MIDDLEWARE_FAILURE: Meaning(
        "the agent's own middleware refused; settled results are kept", False, "as the application says"
    ),
    Code.LIMIT_EXCEEDED: Meaning("a limit of the settings is reached", True, "as the message says"),
    Code.STORE_UNAVAILABLE: Meaning("a store gave no answer", False, "retry the same"),
}


SHOWING_CARDS = frozenset({Code.RESUME_REQUIRED, Code.RESUME_MISSING_INTERRUPT})
"""What is refused because answers are missing: the stream shows what is open, so that any client can ask for them."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """An expected "no": the code, one clear sentence, and the interrupts whose effects `definite` must speak of."""

    code: Code
    message: str
    interrupts: tuple[str, ...] = ()
    retry_after_seconds: float | None = None


class RunRefused(Exception):
    """Carries a refusal up through code that cannot return it (upstream's generator, a middleware)."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal.message)
        self.refusal = refusal
