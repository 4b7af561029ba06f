"""What the plots of a report are drawn from, and that they show it."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest

from loadtests.history import Began, Fault, FaultKind, Intent, Mended, Phase
from loadtests.report.percentiles import Percentiles, percentiles
from loadtests.report.plots import WIDE, Plot, bars, over_time, over_time_logarithmic
from loadtests.report.text import printable
from loadtests.report.timeline import Ending, Lane, Measure, timeline
from tests.unit.chaos_runs import BEGAN_AT, Forged, approval

SVG = "{http://www.w3.org/2000/svg}"


def test_percentiles_are_values_that_occurred() -> None:
    assert percentiles([float(value) for value in range(100, 0, -1)]) == Percentiles(100, 50.0, 95.0, 99.0, 100.0)
    assert percentiles([0.25]) == Percentiles(1, 0.25, 0.25, 0.25, 0.25)
    assert percentiles([]) is None


def test_each_reply_is_counted_once_by_how_it_ended() -> None:
    forged = Forged()
    forged.approved(0, 1)
    forged.exchange(3, "thread-1", [approval(1)], code="HTTP 503", status=503)
    forged.exchange(4, "thread-1", [approval(1)], is_cut=True)
    line = timeline(forged.history)
    counted = {kind: sum(rate for _, rate in points) * line.slice_seconds for kind, points in line.per_second.items()}
    assert counted == {Ending.OK: 2, Ending.REPLAY: 1, Ending.REFUSED: 1, Ending.CUT: 1}


def test_a_post_without_any_reply_is_left_out_of_the_curves() -> None:
    forged = Forged()
    forged.exchange(1, "thread-1")
    forged.events.pop()
    assert all(rate == 0 for points in timeline(forged.history).per_second.values() for _, rate in points)


@pytest.mark.parametrize("seconds", [0, 1, 45, 300, 3600, 50_000, 1_000_000])
def test_a_run_of_any_length_has_slices_enough_and_not_too_many(seconds: float) -> None:
    line = timeline([Began(BEGAN_AT, Phase.LOAD), Began(BEGAN_AT + seconds, Phase.END)])
    assert 1 <= len(line.per_second[Ending.OK]) <= 92
    assert (len(line.per_second[Ending.OK]) - 1) * line.slice_seconds <= seconds


def test_times_are_taken_from_the_replies_that_they_are_of() -> None:
    forged = Forged()
    forged.approved(0, 1)
    forged.exchange(3, "thread-1", intent=Intent.LOOK, takes=0.7)
    forged.exchange(4, "thread-1", [approval(1)], is_cut=True, takes=0.9, first_event_at=None)
    latencies = timeline(forged.history).latencies
    taken = {measure: sum(each.count for _, each in points) for measure, points in latencies.items()}
    assert taken == {Measure.FIRST_EVENT: 4, Measure.INTERRUPT: 1, Measure.FINISH: 1}
    assert latencies[Measure.FINISH][0][1].max == pytest.approx(0.5)


def test_a_kill_that_hit_a_resume_is_told_from_other_kills_and_from_what_lasts() -> None:
    forged = Forged()
    forged.fault(1, FaultKind.KILL, is_resume=True, step="before-settle", thread="thread-1")
    forged.fault(2, FaultKind.KILL, "host-2")
    forged.fault(3, FaultKind.FREEZE, "host-3", lasts=6)
    marks = timeline(forged.history).marks
    assert [(mark.lane, mark.at, mark.until) for mark in marks] == [
        (Lane.AIMED, 1, 1),
        (Lane.KILL, 2, 2),
        (Lane.LASTING, 3, 9),
    ]
    assert marks[0].what == "1.0 s: kill of host-1 at before-settle of thread thread-1"
    assert marks[2].what == "3.0 s: freeze of host-3, for 6.0 s"


def test_a_fault_that_is_not_mended_lasts_to_the_end() -> None:
    forged = Forged()
    forged.fault(3, FaultKind.CUT, lasts=1)
    forged.events[-1] = Mended(BEGAN_AT + 4, "host-2", FaultKind.CUT)
    forged.events.append(Began(BEGAN_AT + 20, Phase.END))
    assert [mark.until for mark in timeline(forged.history).marks] == [20]


def test_a_fault_ends_with_the_first_mending_after_it() -> None:
    forged = Forged()
    forged.fault(1, FaultKind.CUT, lasts=2)
    forged.fault(10, FaultKind.CUT, lasts=3)
    assert [(mark.at, mark.until) for mark in timeline(forged.history).marks] == [(1, 3), (10, 13)]


def test_each_fault_has_a_dot_on_the_axis_with_what_it_was_as_a_tooltip() -> None:
    forged = Forged()
    forged.fault(1, FaultKind.KILL, is_resume=True, step="after-begin", thread="thread-1")
    forged.fault(5, FaultKind.KILL)
    forged.fault(9, FaultKind.KILL)
    plot, [aimed, others] = _drawn(forged)
    [(first, first_height, what)] = _dots(aimed)
    assert what == "1.0 s: kill of host-1 at after-begin of thread thread-1"
    [(second, second_height, what), (third, third_height, other)] = _dots(others)
    assert (what, other) == ("5.0 s: kill of host-1", "9.0 s: kill of host-1")
    assert second - first == pytest.approx(third - second, rel=0.01)
    assert 0 < first < third < WIDE.width
    assert 0 < first_height < second_height == third_height < WIDE.height
    assert list(plot.legend) == ["ok", Lane.AIMED.value, Lane.KILL.value]


def test_a_fault_that_lasts_is_a_bar_from_its_beginning_to_its_end() -> None:
    forged = Forged()
    forged.fault(2, FaultKind.FREEZE, lasts=6)
    [(begin, _, what), (end, _, same)] = _dots(_drawn(forged)[1][0])
    assert what == same == "2.0 s: freeze of host-1, for 6.0 s"
    [bar] = (path.get("d", "") for path in _drawn(forged)[1][0].iter(f"{SVG}path"))
    ends = [float(number) for number in re.findall(r"[ML]([\d.]+)", bar)]
    assert ends == pytest.approx([begin, end], abs=0.01)


def _drawn(forged: Forged) -> tuple[Plot, list[ElementTree.Element]]:
    """Draw ten seconds; return the plot, and what is drawn of each of its lanes."""
    line = timeline([*forged.history, Began(BEGAN_AT + 10, Phase.END)])
    plot = over_time("name", "about", line, {"ok": ("var(--first)", [(0, 1), (10, 2)])}, size=WIDE)
    lanes: dict[str, ElementTree.Element] = {}
    for group in ElementTree.fromstring(plot.svg).iter(f"{SVG}g"):
        name = group.get("class", "")
        if name.startswith("series ") and "serie-0" not in name:
            lanes.setdefault(name, ElementTree.Element("lane")).append(group)
    return plot, list(lanes.values())


def _dots(lane: ElementTree.Element) -> list[tuple[float, float, str]]:
    """Return the place and the tooltip of each dot of a lane."""
    return [
        (float(circle.get("cx", "nan")), float(circle.get("cy", "nan")), title.text or "")
        for dot in lane.iter(f"{SVG}g")
        if (circle := dot.find(f"{SVG}circle")) is not None and (title := dot.find(f"{SVG}title")) is not None
    ]


def test_a_logarithmic_axis_spans_the_powers_of_ten_around_its_values() -> None:
    svg = over_time_logarithmic("name", "", timeline([]), {"median": ("red", [(0, 0.03), (1, 0.0), (2, 20)])}).svg
    assert re.findall(r">([\d.]+ s)</text>", svg)[:6] == ["0.001 s", "0.01 s", "0.1 s", "1 s", "10 s", "100 s"]


@pytest.mark.parametrize("points", [[], [(0.0, None)], [(0.0, 0.0)], [(0.0, 3.0)]])
def test_plots_of_next_to_nothing_are_drawn(points: list[tuple[float, float | None]]) -> None:
    line = timeline([])
    for plot in (
        over_time("a", "", line, {"ok": ("red", points)}),
        over_time_logarithmic("b", "", line, {"ok": ("red", points)}),
        bars("c", "", {"0 to 1": 0}),
        bars("d", "", {}),
    ):
        assert ElementTree.fromstring(plot.svg).tag == f"{SVG}svg"


def test_a_plot_has_no_script_and_says_what_it_shows() -> None:
    root = ElementTree.fromstring(bars("name", "Hits by seconds", {"0 to 1": 3}).svg)
    assert (root.get("role"), root.get("aria-label")) == ("img", "Hits by seconds")
    assert not list(root.iter(f"{SVG}script"))


def test_the_same_run_gives_the_same_plot() -> None:
    assert bars("name", "", {"0 to 1": 3}) == bars("name", "", {"0 to 1": 3})


def test_text_that_would_act_is_shown_instead() -> None:
    assert printable("plain ü 漢 \N{SNOWMAN}") == "plain ü 漢 \N{SNOWMAN}"
    assert printable("a\nb\x1b[31m\u202ec\ud800") == "a\\nb\\x1b[31m\\u202ec\\ud800"


def test_a_fault_of_no_kind_is_marked_like_a_kill() -> None:
    assert timeline([Fault(BEGAN_AT, "host-1")]).marks[0].lane is Lane.KILL
