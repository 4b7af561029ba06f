"""Gives every call of one run an id of its own, where the provider numbers its calls anew in each of its answers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from itertools import count

from agent_framework import ChatContext, ChatMiddleware, ChatResponseUpdate


class OwnCallIds(ChatMiddleware):
    """Renames a call whose id an earlier answer of the model has used in this run; the model is told the new one too.

    Upstream keeps the calls of a run by these ids: it would take the later call for the earlier one, in what it sends
    and in what it stores. Ids of earlier runs may come again.
    """

    def __init__(self) -> None:
        self._used: set[str] = set()

    async def process(self, context: ChatContext, call_next: Callable[[], Awaitable[None]]) -> None:
        """Rename in the updates of one answer; the parts of one call keep together."""
        names: dict[str, str] = {}

        def renamed(update: ChatResponseUpdate) -> ChatResponseUpdate:
            for content in update.contents:
                if content.type == "function_call" and content.call_id:
                    names.setdefault(content.call_id, self._unused(content.call_id))
                    content.call_id = names[content.call_id]
            self._used.update(names.values())
            return update

        context.stream_transform_hooks.append(renamed)
        await call_next()

    def _unused(self, call_id: str) -> str:
        if call_id not in self._used:
            return call_id
        return next(name for name in (f"{call_id}-{number}" for number in count(2)) if name not in self._used)
