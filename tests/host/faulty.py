"""Stores that fail, or keep silent, where a test tells them to."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from stores.errors import StoreUnavailable, WriteInDoubt
from stores.ports import Stores
from tests.host.hosts import Host, Hosts, Stop


@dataclass
class Faulty:
    """A decorator of any port that fails chosen calls: before they happen, or after (their reply is lost).

    A call that is named in `stops` is frozen before it happens, the first time.
    """

    inner: Any
    before: dict[str, int] = field(default_factory=dict)
    after: dict[str, int] = field(default_factory=dict)
    stops: dict[str, Stop] = field(default_factory=dict)

    def __getattr__(self, name: str) -> Any:
        call = getattr(self.inner, name)

        async def faulty(*arguments: Any, **named: Any) -> Any:
            step = "claim" if name == "save" and named["change"].record.claim is not None else name
            stop = self.stops.pop(step, None)
            if stop is not None:
                stop.reached.set()
                await stop.go.wait()
            if self._is_next(self.before, step):
                raise StoreUnavailable("the store is away")
            answer = await call(*arguments, **named)
            if self._is_next(self.after, step):
                raise WriteInDoubt("no reply")
            return answer

        return faulty

    def _is_next(self, faults: dict[str, int], step: str) -> bool:
        faults[step] = faults.get(step, 0) - 1
        return faults[step] >= 0


@dataclass
class Faults:
    """What goes wrong on one host: on its thread store (steps open, load, claim, save) and its ledger."""

    threads: Faulty
    effects: Faulty


async def start_faulty(hosts: Hosts, **changes: Any) -> tuple[Host, Faults]:
    """Start a host whose stores fail where they are told to."""
    made: list[Faults] = []

    def decorate(stores: Stores) -> Stores:
        made.append(Faults(Faulty(stores.threads), Faulty(stores.effects)))
        return replace(stores, threads=made[0].threads, effects=made[0].effects)

    host = await hosts.start(decorate=decorate, **changes)
    return host, made[0]
