"""What a report shows of a run: its numbers, its moves, the stories of its threads, what it used."""

from __future__ import annotations

import json
import re
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from loadtests.cases import cases
from loadtests.checker import FLAT
from loadtests.conditions import SAMPLES
from loadtests.history import Intent
from loadtests.report import write_report
from loadtests.report.curves import way
from loadtests.resumed import resumed
from tests.unit.chaos_runs import ABOUT, card, soaked
from tests.unit.reports import EXPECTED, SUMMARY, broken, forged, judged, sampled, shown, spoken, written


def test_a_violation_is_told_as_the_story_of_its_thread(tmp_path: Path) -> None:
    page = spoken(written(broken(), tmp_path))
    begin = page.index("The story of thread thread-1 in scope alice")
    story = page[begin : page.index("What became of the approvals")]
    events = (
        "0.00 user-1 ask (user-1:1): a message",
        "0.50 host-1 to user-1:1: ok, shows af-call-1: pay_invoice (idempotent)",
        "1.00 user-1 answer (user-1:2): approve af-call-1",
        "1.20 bank effect of pay_invoice",
        "1.30 bank effect of pay_invoice",
        "1.50 host-2 to user-1:2: ok, result Paid INV-1.",
        "2.00 user-1 twice (user-1:3): approve af-call-1",
        "2.50 host-2 to user-1:3: replay, result Paid INV-1.",
    )
    places = [story.find(event) for event in events]
    assert -1 not in places
    assert places == sorted(places)
    assert "thread-2" not in story


def test_a_fault_during_a_thread_is_part_of_its_story(tmp_path: Path) -> None:
    made = forged()
    made.happen_again(2)
    assert "1.10 nemesis kill of host-2 at before-settle of thread thread-2" in spoken(written(judged(made), tmp_path))


def test_kills_are_on_the_time_axis_those_that_hit_a_resume_apart(tmp_path: Path) -> None:
    page = written(judged(forged()), tmp_path)
    [plot] = re.findall(r'<svg[^>]*id="chart-outcomes".*?</svg>', page, re.DOTALL)
    assert "<title>6.1 s: kill of host-2 at before-settle of thread thread-2</title>" in plot
    assert "<title>8.0 s: kill of host-3</title>" in plot
    assert "<title>9.0 s: freeze of host-1, for 6.0 s</title>" in plot
    assert 'aria-label="Replies per second over 22 seconds, by how they ended.' in plot
    assert "kill that hit a resume: 1, other kill: 1, fault that lasts: 1." in plot


def test_the_summary_has_every_number_of_the_run(tmp_path: Path) -> None:
    run = judged(forged(), samples=sampled("host-1"))
    write_report(tmp_path, run)
    summary = json.loads((tmp_path / SUMMARY).read_text())
    counts = asdict(run.verdict.counts)
    assert summary["about"] == ABOUT
    assert summary["counts"].keys() | summary["times"].keys() == counts.keys() | {"crossed_share"}
    assert summary["counts"]["faults"] == {"kill": 2, "freeze": 1}
    assert summary["times"]["finish_seconds"] == pytest.approx(
        {"count": 2, "p50": 0.5, "p95": 0.5, "p99": 0.5, "max": 0.5}
    )
    assert summary["moves"]["host-2"]["host-3"] == 1
    assert [fault["until"] - fault["at"] for fault in summary["faults"]] == pytest.approx([0, 0, 6])
    assert summary["growth"]["memory_bytes"] == {"host-1": [110_000_000] * 3}


def test_the_moves_are_the_resumes_that_the_checker_counted(tmp_path: Path) -> None:
    made = forged()
    made.exchange(10, "thread-3", is_paused=True, cards=(card(3), card(4)), replica="host-1")
    made.exchange(11, "thread-3", [], code="HTTP 503", status=503)
    made.approved(12, 5, paused_on="host-2", ended_on="host-2")
    made.approved(15, 6, is_live=False)
    run = judged(made)
    write_report(tmp_path, run)
    moved = json.loads((tmp_path / SUMMARY).read_text())["moves"]
    counts = run.verdict.counts
    assert sum(count for row in moved.values() for count in row.values()) == counts.live == 3
    stayed = sum(moved[name][name] for name in moved)
    assert counts.live - stayed == counts.crossed == 2
    assert (counts.resumes, counts.retold) == (4, 1)


def test_resumes_whose_end_was_only_told_again_are_told_from_those_that_moved(tmp_path: Path) -> None:
    made = forged()
    made.approved(12, 3, is_live=False)
    run = judged(made)
    said = (
        "2 of 2 resumes that ended live (100 %) did on another replica than the one that had paused. The end of 1 "
        "other was told by a replay or as a doubt, for 1 of them elsewhere: who had carried those out is not known."
    )
    page = written(run, tmp_path)
    assert said in spoken(page)
    assert said in shown(run)
    counts = json.loads((tmp_path / SUMMARY).read_text())["counts"]
    assert [counts[name] for name in ("resumes", "live", "crossed", "retold", "crossed_share")] == [3, 2, 2, 1, 1.0]
    assert "on another replica on the same one told by a replay, or as a doubt" in spoken(page)


def test_each_resume_is_in_one_line_of_the_plot_of_moves() -> None:
    made = forged()
    made.approved(12, 3, paused_on="host-2", ended_on="host-2")
    made.approved(15, 4, is_live=False)
    found, _ = cases(made.history, made.effects)
    ways = [way(each) for each in resumed(found)]
    assert ways == [*["on another replica"] * 2, "on the same one", "told by a replay, or as a doubt"]


def test_what_was_sent_and_what_was_answered_are_shown_side_by_side(tmp_path: Path) -> None:
    made = forged()
    made.exchange(12, "thread-1", intent=Intent.LOOK, is_cut=True)
    made.exchange(13, "thread-1", intent=Intent.LOOK)
    page = spoken(written(judged(made), tmp_path))
    assert "Why Sent Answered" in page
    assert "look 2 1" in page


def test_a_page_of_very_many_violations_shows_the_first_and_says_how_many_there_are(tmp_path: Path) -> None:
    run = broken()
    verdict = replace(run.verdict, violations=run.verdict.violations * 500)
    page = spoken(written(replace(run, verdict=verdict), tmp_path))
    assert "at most one effect per approval: 500 Look at" in page
    assert "And 450 more: report.json has all of them." in page
    assert page.count("af-call-1 2 effects") == 50
    assert len(json.loads((tmp_path / SUMMARY).read_text())["violations"]) == 500


def test_what_a_run_uses_is_plotted_where_it_was_sampled(tmp_path: Path) -> None:
    assert "What it uses" not in written(judged(forged()), tmp_path)
    assert "What it uses" in written(judged(forged(), samples=sampled("host-1")), tmp_path)


def test_what_the_samples_of_a_soak_can_not_show_is_too_little_wherever_its_verdict_is(tmp_path: Path) -> None:
    soak = replace(EXPECTED, spared="host-4")
    run = judged(forged(), soak, samples=soaked()[:50])
    limit = "the run was watched for 245 s; it takes 540 s to tell"
    page = spoken(written(run, tmp_path))
    assert f"{SAMPLES}: {limit}" in page
    assert f"TOO LITTLE {SAMPLES}: {limit}" in shown(run)
    summary = json.loads((tmp_path / SUMMARY).read_text())
    assert (summary["passed"], summary["shortfalls"]) == (False, [{"condition": SAMPLES, "what": limit}])


def test_a_soak_that_grows_broke_a_promise_and_says_where_to_look(tmp_path: Path) -> None:
    run = judged(forged(), replace(EXPECTED, spared="host-4"), samples=soaked(bytes_a_second=50_000))
    page = spoken(written(run, tmp_path))
    assert "1 promise broken, 1 time in all" in page
    assert "Look at the curves of what it uses" in page
    assert f"BROKEN no approval known: {FLAT}: memory of host-4 grows while it lives" in shown(run)
