"""An observer that was itself cut off calls nobody dead when it is back, until it has watched one whole lease."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace
from typing import Any

from stores.errors import StoreUnavailable
from stores.ports import Stores
from tests.host.bank import Bank
from tests.host.bodies import answers, approve, says
from tests.host.hosts import Host, Hosts

LEASE_SECONDS = 1.5
"""The observer's lease: the live holder has so long to be heard again, on a busy machine."""
HOLDER_LEASE_SECONDS = 0.2
"""The live holder's: its heart beats 30 times in the observer's."""
PASSES = 3
"""How often the observer looks at what is due before the holder is back."""
IN_PROGRESS = "APPROVAL_RESUME_IN_PROGRESS"


@dataclass
class Wire:
    """A decorator of any port that can be cut, and counts what got through."""

    inner: Any
    is_cut: bool = False
    through: dict[str, int] = field(default_factory=dict)

    def __getattr__(self, name: str) -> Any:
        call = getattr(self.inner, name)

        async def passed_on(*arguments: Any, **named: Any) -> Any:
            if self.is_cut:
                raise StoreUnavailable("cut off")
            answer = await call(*arguments, **named)
            self.through[name] = self.through.get(name, 0) + 1
            return answer

        return passed_on


@dataclass(frozen=True, slots=True)
class Wires:
    """All that goes from one host to its stores, and when its heart was heard."""

    threads: Wire
    effects: Wire
    replicas: Wire

    def cut(self) -> None:
        self._set(is_cut=True)

    def mend(self) -> None:
        self._set(is_cut=False)

    def _set(self, *, is_cut: bool) -> None:
        for wire in (self.threads, self.effects, self.replicas):
            wire.is_cut = is_cut
            wire.through.clear()


async def start_wired(hosts: Hosts, **changes: Any) -> tuple[Host, Wires]:
    made: list[Wires] = []

    def decorate(stores: Stores) -> Stores:
        made.append(Wires(Wire(stores.threads), Wire(stores.effects), Wire(stores.replicas)))
        return replace(stores, threads=made[0].threads, effects=made[0].effects, replicas=made[0].replicas)

    return await hosts.start(decorate=decorate, **changes), made[0]


async def test_a_live_holder_keeps_its_claim_when_an_observer_is_back_that_was_cut_off(
    hosts: Hosts, bank: Bank
) -> None:
    """The store was away for both; the observer is back first, and the holder was silent for more than a lease.

    A: claims, wires .. cut off .............................. back: its heart beats       settles, finishes
    B:                  cut off, for more than a lease . back: nobody is dead, for one lease: D is, A is not
    D: claims, says nothing any more
    """
    holder, holders_wires = await start_wired(hosts, lease_seconds=HOLDER_LEASE_SECONDS)
    observer, wires = await start_wired(hosts, lease_seconds=LEASE_SECONDS, reconcile_seconds=0.02)
    asked = await hosts.a.send(says("t", "wire INV-1 to ACME"))
    body = answers("t", approve(*asked.ids))
    working = holder.steps.stop_at("after-effect")
    answering = asyncio.create_task(holder.send(body))
    await working.wait()
    held_by = (await hosts.loaded("t")).record.claim
    assert held_by is not None
    holders_wires.cut()
    wires.cut()
    # Whoever is silent now is silent for longer than the observer's lease when the observer is back.
    silent = hosts.b.steps.stop_at("before-finish")
    running = asyncio.create_task(hosts.b.send(says("other", "look up INV-2")))
    await silent.wait()
    others = (await hosts.loaded("other")).record.claim
    assert others is not None
    await hosts.until(lambda: are_silent(hosts, {held_by.holder, others.holder}))

    wires.mend()
    await hosts.until(lambda: has_passed(wires))
    refused = await observer.send(body)
    before = [(await hosts.loaded(thread)).record.claim for thread in ("t", "other")]
    holders_wires.mend()

    assert (refused.code, before) == (IN_PROGRESS, [held_by, others])
    # That it takes the silent one's thread over says that it has watched for a lease by then.
    await hosts.until(lambda: hosts.is_closed("other"))
    assert (await hosts.loaded("t")).record.claim == held_by
    assert (await observer.send(body)).code == IN_PROGRESS
    working.go.set()
    assert (await answering).code is None
    assert (await hosts.c.send(body)).is_replay
    assert (await bank.paid(), await bank.calls()) == ([("INV-1", "ACME")], 1)
    silent.go.set()
    assert (await running).code == "THREAD_BUSY"


async def are_silent(hosts: Hosts, holders: set[str]) -> bool:
    """Whether nobody of these was heard for a good deal more than the observer's lease."""
    seen = await hosts.a.stores.replicas.seen()
    return all(seen[holder] > 1.2 * LEASE_SECONDS for holder in holders)


async def has_passed(wires: Wires) -> bool:
    """Whether the observer's heart was heard again, and it has asked several times since what is due."""
    return wires.replicas.through.get("heartbeat", 0) > 0 and wires.threads.through.get("due", 0) >= PASSES
