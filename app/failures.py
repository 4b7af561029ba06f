"""What an exception at the edge of a run means to its client: a code and a sentence without internals."""

from __future__ import annotations

import asyncio
import logging
import traceback

from agent_framework import MiddlewareFailure
from agent_framework.exceptions import AgentFrameworkException

from app.errors import Code, Refusal, RunRefused
from stores.errors import PartMissing, StoreError, UnknownFormat

_log = logging.getLogger(__name__)

_MODEL_FAILED = Refusal(Code.RUN_FAILED, "The model or a service behind the agent failed; send the same again.")
_REFUSED_BY_AGENT = Refusal(
    Code.MIDDLEWARE_FAILURE, "The agent's own middleware refused and ended the run; what was done is kept."
)
_SENTENCES: dict[type[BaseException], tuple[Code, str]] = {
    UnknownFormat: (Code.STORE_UNAVAILABLE, "A stored value was written by another version of this host."),
    PartMissing: (Code.RESUME_STALE, "A part of what the thread stored is missing (part: snapshot)."),
    StoreError: (Code.STORE_UNAVAILABLE, "A store gave no answer; send the same again."),
    TimeoutError: (Code.RUN_FAILED, "A time limit of the run passed; send the same again."),
    asyncio.CancelledError: (Code.RUN_FAILED, "The replica is shutting down; send the same again."),
}


def refusal_for(error: BaseException, run_id: str) -> Refusal:
    """Return what the client is told; what nobody expected is logged once, with its traceback."""
    is_of_host = isinstance(error.__cause__, RunRefused | StoreError)
    if isinstance(error, MiddlewareFailure) and not is_of_host:
        # Whatever made the application refuse: that it did is what counts.
        return _REFUSED_BY_AGENT
    for cause in (error, error.__cause__):
        if isinstance(cause, RunRefused):
            return cause.refusal
        known = next((known for kind, known in _SENTENCES.items() if isinstance(cause, kind)), None)
        if known is not None:
            return Refusal(*known)
    if isinstance(error, AgentFrameworkException):
        _log.warning("Run %r failed: %s", run_id, type(error).__name__)
        return _MODEL_FAILED
    # Frames and types only: the text of an exception may carry what the user said.
    frames = "".join(traceback.format_tb(error.__traceback__))
    _log.error("Run %r failed: %s\n%s", run_id, type(error).__name__, frames)
    return _MODEL_FAILED
