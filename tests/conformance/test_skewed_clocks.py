"""All ports of stores with a clock of their own: hosts whose clocks are a minute wrong decide as any other."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from stores import open_stores
from stores.options import StoreOptions
from tests.conformance.decisions_in_time import SECONDS, decisions
from tests.conformance.examples import now_of

SKEWS = (-60.0, 60.0)
PRECISE_TO = 1.0

SKEW = f"""
import runpy, sys, time, datetime
seconds, right_datetime = 0.0, datetime.datetime
right = {{name: getattr(time, name) for name in ("time", "monotonic")}}
for name, clock in right.items():
    setattr(time, name, lambda clock=clock: clock() + seconds)
time.time_ns = lambda: int(time.time() * 1e9)
class Skewed(right_datetime):
    @classmethod
    def now(cls, zone=None):
        return right_datetime.now(zone) + datetime.timedelta(seconds=seconds)
datetime.datetime = Skewed
for seconds in map(float, sys.argv.pop(1).split()):
    sys.argv[-1] = f"host {{seconds}}"
    runpy.run_module("{decisions.__module__}", run_name="__main__")
"""
"""Makes a process take the time for another before it imports anything of ours; and then for yet another."""


async def test_hosts_whose_clocks_are_wrong_decide_as_the_others(served: StoreOptions) -> None:
    async with open_stores(served) as stores:
        here = await decisions(stores, "right")
        for skew, told in zip(SKEWS, decide_elsewhere(served), strict=True):
            assert told["host"] == pytest.approx(time.time() + skew, abs=abs(skew) / 2)
            there = told["answers"]
            for what in ("due", "old", "reserve"):
                assert there[what] == here[what]
            assert here["due"] == [" past"]
            assert here["old"] == [["future", "now", "past"], []]
            assert here["reserve"] == {"held": "Held", "free": "Reserved", "young": "Reserved", "old": "Begun"}
            now = await now_of(stores)
            for what, ahead in (("clock", 0.0), ("until", SECONDS), ("begun at", 0.0), ("beat at", 0.0)):
                assert here["clock"] - PRECISE_TO < there[what] - ahead < now + PRECISE_TO


def decide_elsewhere(served: StoreOptions) -> list[dict[str, Any]]:
    """Take the same decisions in a process whose clock is wrong, first by this and then by that."""
    arguments = [" ".join(map(str, SKEWS)), served.threads, served.database_url, served.redis.url, "host"]
    command = [sys.executable, "-c", SKEW, *arguments]
    ended = subprocess.run(command, cwd=Path(__file__).parents[2], capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    return [json.loads(line) for line in ended.stdout.splitlines()]
