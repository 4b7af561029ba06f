"""Charts of pygal as SVG elements that stand within a page: no script, the page's colours, a name and tooltips."""

from __future__ import annotations

from collections.abc import Sequence
from xml.etree.ElementTree import Element

from pygal.graph.graph import Graph
from pygal.style import Style

from loadtests.report.text import printable

FONT_SIZE = 12


def look(colours: Sequence[str], width: int, height: int) -> dict[str, object]:
    """Return how every chart looks; colours are variables of the page, so that they follow dark and light."""
    style = Style(
        background="transparent",
        plot_background="transparent",
        foreground="var(--text)",
        foreground_strong="var(--text)",
        foreground_subtle="var(--line)",
        guide_stroke_color="var(--line)",
        major_guide_stroke_color="var(--line)",
        guide_stroke_dasharray="none",
        major_guide_stroke_dasharray="none",
        font_family="system-ui, sans-serif",
        label_font_size=FONT_SIZE,
        major_label_font_size=FONT_SIZE,
        no_data_font_size=2 * FONT_SIZE,
        stroke_width="inherit",  # so that each series can have a width of its own
        stroke_opacity="1",
        opacity="1",
        transition="0s",
        colors=tuple(colours),
        # Else pygal reads the colours to find one with contrast, and variables say nothing to it.
        value_colors=tuple(colours),
    )
    return {
        "style": style,
        "stroke_style": {"width": 1.8},
        "js": [],
        "width": width,
        "height": height,
        "margin": 8,
        "show_legend": False,
        "truncate_label": -1,
        "disable_xml_declaration": True,
        "no_data_text": "nothing measured",
    }


def picture(chart: Graph, name: str, about: str) -> str:
    """Return a chart as SVG, with what it shows in words for whoever does not see it."""
    chart.uuid = name  # else drawn by lot: the same run gives the same page
    chart.add_xml_filter(lambda root: _tidied(root, about))
    return str(chart.render())


def _tidied(root: Element, about: str) -> Element:
    root.set("role", "img")
    root.set("aria-label", about)
    for parent in list(root.iter()):
        for child in list(parent):
            if child.tag == "desc" and child.get("class") == "label":
                # A browser shows a title where a pointer rests; pygal's own tooltips need its script.
                child.tag = "title"
                child.attrib.clear()
                child.text = printable(child.text or "")
            elif not isinstance(child.tag, str) or child.tag in ("script", "desc", "title"):
                parent.remove(child)
    return root
