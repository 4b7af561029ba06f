"""The file of a chaos run's history: whole lines, from several processes, read while it is written."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from loadtests.history import Answer, Began, Card, Fault, FaultKind, Intent, Mended, Phase, Replied, Result, Sent
from loadtests.journal import Journal, Tail, read_history
from stores.records import EffectKind, Verdict

CARD = Card("i-1", "c-1", "wire_transfer", EffectKind.UNSAFE, '{"invoice":"INV-1"}', float("inf"))
EVENTS = [
    Began(0.5, Phase.LOAD),
    Sent(1.0, "r-1", "s", "t", (Answer("i-1", Verdict.APPROVE, "{}"),), intent=Intent.TWICE, run="run-1", user="u"),
    Fault(1.5, "host-1", frozenset({"i-1"}), FaultKind.KILL, "after-begin", "t", (("t-2", "after-claim"),), True),
    Replied(2.0, "r-1", results=(Result("c-1", "Wired."),), cards=(CARD,), status=200, replica="host-2", open=("i-1",)),
    Mended(3.0, "host-1", FaultKind.KILL),
]
WRITE_MANY = """
import sys
from pathlib import Path
from loadtests.history import Sent
from loadtests.journal import Journal
journal = Journal(Path(sys.argv[1]))
for number in range(500):
    journal.append(Sent(float(number), f"{sys.argv[2]}-{number}", "scope", "thread" * 200))
"""


def test_what_is_read_is_what_was_written(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "history")
    for event in reversed(EVENTS):
        journal.append(event)
    journal.close()
    assert read_history(tmp_path / "history") == EVENTS


def test_lines_of_several_processes_do_not_mix(tmp_path: Path) -> None:
    path = tmp_path / "history"
    writers = [subprocess.Popen([sys.executable, "-c", WRITE_MANY, str(path), name]) for name in "abc"]
    assert [writer.wait() for writer in writers] == [0, 0, 0]
    requests = {event.request for event in read_history(path) if isinstance(event, Sent)}
    assert requests == {f"{name}-{number}" for name in "abc" for number in range(500)}


def test_a_line_that_is_not_whole_yet_is_read_when_it_is(tmp_path: Path) -> None:
    path = tmp_path / "history"
    journal, tail = Journal(path), Tail(path)
    assert list(tail.read()) == []
    journal.append(EVENTS[0])
    line = path.read_bytes()
    path.write_bytes(line + line[:10])
    assert list(tail.read()) == [EVENTS[0]]
    path.write_bytes(line + line)
    assert list(tail.read()) == [EVENTS[0]]
    assert list(tail.read()) == []


def test_there_is_no_history_without_a_file(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        read_history(tmp_path / "history")
