"""Figures: what is withheld is drawn as withheld, what is drawn is where its number says, and files open alone."""

import re
from dataclasses import replace
from html import unescape
from xml.etree import ElementTree

import pytest

from cohortsum.report.bars import histogram_figures, scree_figures
from cohortsum.report.centiles import MOST_OUTCOMES, centile_figures
from cohortsum.report.colours import diverging
from cohortsum.report.figures import figures_of, forests_of
from cohortsum.report.heatmap import heatmap_figures
from cohortsum.report.scales import MINUS, Scale, labels, log_ticks, ticks
from cohortsum.report.survival import WITHHELD, survival_figures
from cohortsum.report.svg import Figure, clean, inline, number, shortened, standalone, wrapped
from cohortsum.study.results import NO_DATA, Status, Table
from tests.report.kinds import (
    CORRELATION,
    COX,
    HIDDEN,
    HISTOGRAM,
    KAPLAN_MEIER,
    KINDS,
    META,
    NASTY,
    NORMATIVE,
    PCA,
    SUMMARY,
)

FIGURES = {drawn.name: drawn.figure for table in KINDS for drawn in figures_of(table)}
SVG = "{http://www.w3.org/2000/svg}"


def root(figure: Figure) -> ElementTree.Element:
    return ElementTree.fromstring(standalone(figure, "noise none"))  # noqa: S314 (what this package wrote)


def texts(figure: Figure) -> list[str]:
    return [node.text or "" for node in root(figure).iter(f"{SVG}text")]


def paths(figure: Figure, kind: str) -> list[str]:
    return [
        node.get("d", "")
        for node in root(figure).iter(f"{SVG}path")
        if kind in (node.get("class") or "").split()
    ]


def without(table: Table, column: str, keep: int = 0) -> Table:
    """Return the table with every cell of a column withheld, but for the first ``keep`` rows."""
    place = table.columns.index(column)
    rows = tuple(
        row if at < keep else (*row[:place], HIDDEN, *row[place + 1 :]) for at, row in enumerate(table.rows)
    )
    return replace(table, rows=rows)


@pytest.mark.parametrize("name", FIGURES)
def test_every_file_is_well_formed_loads_nothing_and_is_the_same_each_time(name: str) -> None:
    text = standalone(FIGURES[name], "noise none")
    tree = root(FIGURES[name])
    assert {node.tag.removeprefix(SVG) for node in tree.iter()} & {
        "script",
        "image",
        "use",
        "foreignObject",
    } == set()
    assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)", text)
    assert "<script" not in text
    assert "noise none" in texts(FIGURES[name])
    assert text == standalone(FIGURES[name], "noise none")


@pytest.mark.parametrize("name", FIGURES)
def test_all_text_begins_and_ends_within_its_panel(name: str) -> None:
    for panel in FIGURES[name].panels:
        for x, anchor, turned, text in re.findall(
            r'<text class="[^"]*" x="([-0-9.]+)" y="[-0-9.]+"(?: text-anchor="(\w+)")?([^>]*)>([^<]*)<',
            panel.body,
        ):
            if "rotate" in turned:
                continue
            width = 0.5 * 10 * len(unescape(text))
            left = float(x) - {"": 0.0, "middle": width / 2, "end": width}[anchor]
            assert left >= -8, text
            assert left + width <= panel.width + 8, text


def test_a_panel_says_what_it_shows_and_shrinks_with_the_page() -> None:
    html = inline(FIGURES["survival"].panels[0])
    assert 'role="img"' in html
    assert "<title>survival curves: female, &lt;script&gt;" in html
    assert 'viewBox="0 0 380 ' in html
    assert not re.search(r"<svg[^>]* width=", html)


def test_survival_is_drawn_as_steps_from_one() -> None:
    columns = KAPLAN_MEIER.columns[1:]
    rows = ((10, 20, 1, 0.9, 0.8, 1.0, "ok"), (20, 18, 1, 0.5, 0.4, 0.6, "ok"))
    (figure,) = survival_figures(Table("s", "kaplan_meier", columns, rows))
    (line,) = (d for d in paths(figure, "f-line0") if d.count("L") > 1)
    points = [tuple(map(float, point.split())) for point in re.split("[ML]", line)[1:]]
    xs, ys = zip(*points, strict=True)
    scale = Scale(0.0, 1.0, 214.0, 24.0)
    assert ys == pytest.approx([scale.at(s) for s in (1.0, 1.0, 0.9, 0.9, 0.5)])
    assert xs == pytest.approx([40, 201, 201, 362, 362])
    assert len(paths(figure, "f-band")) == 1


def test_counts_below_the_threshold_are_printed_as_suppressed() -> None:
    (figure,) = survival_figures(KAPLAN_MEIER)
    assert WITHHELD in texts(figure)
    assert f"{WITHHELD}: fewer people than may be published." in figure.caption
    drawn = texts(figure)
    for group in {
        row[0] for row in KAPLAN_MEIER.rows
    }:  # under 0 stand those at risk in the interval that begins there
        first, second = [str(row[2]) for row in KAPLAN_MEIER.rows if row[0] == group][:2]
        assert second in drawn
        assert first not in drawn
    whole = replace(KAPLAN_MEIER, rows=KAPLAN_MEIER.rows[:5])
    assert WITHHELD not in "".join(texts(survival_figures(whole)[0])) + survival_figures(whole)[0].caption


def test_numbers_at_risk_stand_under_times_of_the_table_and_are_not_interpolated() -> None:
    (figure,) = survival_figures(KAPLAN_MEIER)
    drawn = texts(figure)
    axis = drawn[drawn.index("0.2") :]
    times = {str(row[1]) for row in KAPLAN_MEIER.rows}
    counts = {str(row[2]) for row in KAPLAN_MEIER.rows if row[2] != HIDDEN}
    first = drawn.index("Number at risk")
    assert {text for text in drawn[first + 1 : -1] if text.isdigit()} <= counts
    assert sum(text in times for text in axis) >= 5


def test_a_withheld_estimate_interrupts_the_curve() -> None:
    rows = list(KAPLAN_MEIER.rows[:6])
    rows[3] = (*rows[3][:4], HIDDEN, HIDDEN, HIDDEN, Status.BELOW_THRESHOLD.value)
    (figure,) = survival_figures(replace(KAPLAN_MEIER, rows=tuple(rows)))
    assert len([d for d in paths(figure, "f-line") if d.count("L") > 1]) == 2
    assert survival_figures(without(KAPLAN_MEIER, "survival")) == ()


def test_centiles_have_a_line_each_and_a_panel_per_sex() -> None:
    (figure,) = centile_figures(NORMATIVE)
    assert len(figure.panels) == 2
    whole = figure.panels[1]
    assert whole.body.count("f-line0") == 5
    assert whole.body.count("f-heavy") == 1
    assert figure.panels[0].body.count("f-line0") == 10  # the withheld point cuts each line in two
    for percent in ("5", "25", "50", "75", "95"):
        assert f">{percent}</text>" in whole.body


def test_centiles_need_centiles_and_a_numeric_grid_and_are_few() -> None:
    assert (
        centile_figures(replace(NORMATIVE, columns=(*NORMATIVE.columns[:5], *"abcde", "n", "status"))) == ()
    )
    many = tuple((f"o{place}", *row[1:]) for place in range(20) for row in NORMATIVE.rows)
    figures = centile_figures(replace(NORMATIVE, rows=many))
    assert len(figures) == MOST_OUTCOMES
    assert len({figure.suffix for figure in figures}) == MOST_OUTCOMES


def test_bars_are_as_high_as_their_counts_and_withheld_bins_are_hatched() -> None:
    (figure,) = histogram_figures(HISTOGRAM)
    bars = [node for node in root(figure).iter(f"{SVG}rect") if node.get("class") == "f-fill0"]
    counts = [row[3] for row in HISTOGRAM.rows if row[0] == "age" and isinstance(row[3], int)]
    heights = [float(bar.get("height", "")) for bar in bars[: len(counts)]]
    assert heights == pytest.approx([height / max(counts) * max(heights) for height in counts], abs=0.02)
    assert figure.panels[0].body.count("f-hatch") == 1
    assert "Hatched: withheld." in figure.caption


def test_bins_of_unequal_width_show_people_per_unit() -> None:
    (figure,) = histogram_figures(HISTOGRAM)
    assert "people per unit" in figure.panels[1].body
    heights = [float(height) for height in re.findall(r'height="([0-9.]+)"', figure.panels[1].body)]
    assert heights[0] / heights[2] == pytest.approx(40 / 5, rel=0.01)


def test_components_have_one_bar_each_and_their_running_sum() -> None:
    (figure,) = scree_figures(PCA)
    bars = [node for node in root(figure).iter(f"{SVG}rect") if node.get("class") == "f-fill0"]
    assert len(bars) == 7
    heights = [float(bar.get("height", "")) for bar in bars]
    assert heights[1] / heights[0] == pytest.approx(0.0862 / 0.4332, rel=0.01)
    assert "component 2: 8.6% of the variance, 51.9% so far" in standalone(figure, "")
    assert scree_figures(without(PCA, "variance_share")) == ()


def test_a_correlation_is_coloured_on_both_sides_and_a_missing_one_is_hatched() -> None:
    (figure,) = heatmap_figures(CORRELATION)
    body = figure.panels[0].body
    assert body.count('class="f-hatch"') == 2
    assert body.count(f'fill="{diverging(0.9 * -0.967, 1.0)}"') % 2 == 0
    assert body.count("age, LAB_HDL: ") == 2 - 1  # each cell says its pair in the order of its row
    assert "Hatched: not available." in figure.caption
    assert heatmap_figures(without(CORRELATION, "r")) == ()


def test_the_colour_scale_is_white_at_zero_symmetric_and_bounded() -> None:
    assert diverging(0.0, 2.0) == "#f7f7f7"
    assert (diverging(-2.0, 2.0), diverging(2.0, 2.0)) == ("#2166ac", "#b2182b")
    assert diverging(-9.0, 2.0) == diverging(-2.0, 2.0)


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (0, 1, ["0", "0.2", "0.4", "0.6", "0.8", "1"]),
        (-0.31, 0.31, [f"{MINUS}0.2", "0", "0.2"]),
        (0, 1022, ["0", "200", "400", "600", "800", "1000"]),
    ],
)
def test_ticks_are_round_numbers_within_the_range(low: float, high: float, expected: list[str]) -> None:
    assert labels(ticks(low, high)) == expected


def test_ticks_of_a_logarithmic_axis() -> None:
    assert log_ticks(0.4, 2.1) == [0.5, 0.7, 1.0, 1.5, 2.0]
    assert log_ticks(0.01, 1000, 4) == [0.01, 1.0, 100.0]
    assert Scale(0.1, 10.0, 0.0, 100.0, log=True).at(1.0) == pytest.approx(50.0)


def test_a_kind_without_a_figure_has_none() -> None:
    assert figures_of(SUMMARY) == ()
    assert forests_of(SUMMARY) == ()


def test_forests_are_per_term_per_outcome_of_ratios_and_per_model() -> None:
    assert [plot.term for plot in forests_of(COX)] == ["death"]
    assert [plot.term for plot in forests_of(META)] == ["fixed", "random"]
    gone = replace(META, rows=tuple((*row[:2], *(NO_DATA,) * 9, "not estimable") for row in META.rows))
    assert forests_of(gone) == ()


def test_text_is_escaped_once_and_without_what_xml_forbids() -> None:
    assert clean(NASTY) == "&lt;script&gt;alert(&#x27;x&#x27;) &amp; &quot;y&quot;&lt;/script&gt;"
    assert clean("a\x00b\x1bc") == "a\ufffdb\ufffdc"


def test_small_helpers() -> None:
    assert (number(-0.001), number(2.5), number(3.0)) == ("0", "2.5", "3")
    assert shortened("abcdefghij", 30, 10) == "abcd…"
    assert wrapped("aaa bbb ccc", 8 * 5.6, 10) == ["aaa bbb", "ccc"]
    assert "".join(wrapped("x" * 100, 60, 10)) == "x" * 100
