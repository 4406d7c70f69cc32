"""The forest plot shows every outcome, invents no number, and is the same file every time."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# matplotlib's stubs leave **kwargs and some results untyped.

from itertools import combinations
from xml.etree import ElementTree

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.text import Text

from cohortsum.report.anatomy import read_name
from cohortsum.report.effects import Effects, read_effects, read_terms
from cohortsum.report.forest import Caption, Forest, compose, draw_forest, fixed_settings
from cohortsum.study.results import Status, Table
from tests.report.example import TERM, THICKNESS, absent_row, effect_row, regression, thickness_table
from tests.report.kinds import COX, LOGISTIC

CAPTION = Caption(
    title="Cortical thickness in autism",
    effect="autism against control",
    sites=9,
    footnote="study asd-open, fingerprint k3f9-72c1; profile open_data; noise none; released, no checker",
)
LONG = "an outcome with a name that goes on for longer than any label should, and costs $5 or $6"
FEW = regression(
    effect_row("LAB_TSC", 0.1, 0.01),
    effect_row("LAB_HDL", -0.3, 0.2),
    effect_row(LONG, 0.25, 0.001),
    absent_row("bmi", Status.TOO_FEW_SITES),
    effect_row("glucose & <insulin>", 0.0, 0.9),
)
TABLES = {"5 rows": FEW, "68 rows": thickness_table()}


@pytest.fixture(scope="module")
def forest() -> Forest:
    return draw_forest(read_effects(thickness_table(), TERM), CAPTION)


def words(svg: bytes) -> list[str]:
    root = ElementTree.fromstring(svg)  # noqa: S314 (what this package wrote)
    return ["".join(node.itertext()) for node in root.iter("{http://www.w3.org/2000/svg}text")]


def figure(effects: Effects) -> Figure:
    with fixed_settings():
        drawn = compose(effects, CAPTION, "estimate", 0.05)
        drawn.draw_without_rendering()
    return drawn


def page_and_plot(drawn: Figure) -> tuple[Axes, Axes]:
    page, plot = drawn.axes
    return page, plot


def test_the_svg_holds_every_label_both_hemispheres_and_the_caption(forest: Forest) -> None:
    shown = words(forest.svg)
    for outcome in THICKNESS:
        assert shown.count(read_name(outcome).label) == 2  # one per hemisphere
    for text in ("Left hemisphere", "Right hemisphere", CAPTION.title, CAPTION.footnote, "d [95 % CI]"):
        assert text in shown
    assert "autism against control; n = 1,400 to 1,467, K = 9 sites, 68 outcomes" in shown


def test_the_png_is_a_png(forest: Forest) -> None:
    assert forest.png.startswith(b"\x89PNG\r\n\x1a\n")


def test_equal_input_gives_equal_files_without_a_date(forest: Forest) -> None:
    again = draw_forest(read_effects(thickness_table(), TERM), CAPTION)
    assert again == forest
    assert b"dc:date" not in forest.svg


def test_the_figure_does_not_depend_on_the_settings_of_this_machine_and_leaves_them_alone(
    forest: Forest,
) -> None:
    with mpl.rc_context(
        {"font.size": 31, "axes.facecolor": "red", "svg.fonttype": "path", "lines.linewidth": 9}
    ):
        before = dict(mpl.rcParams)
        assert draw_forest(read_effects(thickness_table(), TERM), CAPTION) == forest
        assert dict(mpl.rcParams) == before


def test_names_are_shown_as_they_are() -> None:
    shown = words(draw_forest(read_effects(FEW, TERM), CAPTION).svg)
    assert LONG in shown
    assert "glucose & <insulin>" in shown
    assert "Other outcomes" not in shown  # a head only where there are groups


@pytest.mark.parametrize("table", TABLES.values(), ids=TABLES.keys())
def test_no_two_texts_overlap_and_all_lie_on_the_page(table: Table) -> None:
    drawn = figure(read_effects(table, TERM))
    page, plot = page_and_plot(drawn)
    texts: list[Text] = [*page.texts, *plot.get_xticklabels(), plot.xaxis.label]
    boxes = [(text.get_text(), text.get_window_extent()) for text in texts if text.get_text()]
    assert len(boxes) > 2 * len(read_effects(table, TERM).rows)
    for (one, box), (other, another) in combinations(boxes, 2):
        assert not box.padded(-1).overlaps(another.padded(-1)), f"{one!r} meets {other!r}"
    sheet = drawn.bbox
    for words_, box in boxes:
        assert sheet.x0 <= box.x0, words_
        assert box.x1 <= sheet.x1, words_
        assert sheet.y0 <= box.y0, words_
        assert box.y1 <= sheet.y1, words_
    frame = plot.get_window_extent()
    inside = [
        text for text in page.texts if text.get_text() and frame.y0 < text.get_window_extent().y0 < frame.y1
    ]
    assert len(inside) > len(read_effects(table, TERM).rows)
    for text in inside:
        box = text.get_window_extent()
        assert box.x1 < frame.x0 or box.x0 > frame.x1, text.get_text()


def test_filled_squares_are_the_significant_effects_and_absent_ones_have_no_marker() -> None:
    effects = read_effects(FEW, TERM)
    _, plot = page_and_plot(figure(effects))
    markers = {
        float(np.asarray(line.get_xdata())[0]): (line.get_marker(), line.get_markerfacecolor() != "white")
        for line in plot.lines
        if line.get_marker() not in ("None", "", None)
    }
    assert markers == {
        0.25: ("s", True),
        0.1: ("s", True),
        0.0: ("o", False),
        -0.3: ("o", False),
    }


def test_an_absent_effect_shows_its_reason_and_no_number() -> None:
    shown = words(draw_forest(read_effects(FEW, TERM), CAPTION).svg)
    place = shown.index("bmi")
    assert shown[place + 1] == "too few sites"
    assert not any("nan" in text.lower() for text in shown)


def test_rows_are_ordered_by_estimate_with_absent_last_or_by_name() -> None:
    effects = read_effects(FEW, TERM)
    names = {"LAB_TSC", "LAB_HDL", LONG, "bmi", "glucose & <insulin>"}
    by_estimate = [text for text in words(draw_forest(effects, CAPTION).svg) if text in names]
    by_name = [text for text in words(draw_forest(effects, CAPTION, order="name").svg) if text in names]
    assert by_estimate == [LONG, "LAB_TSC", "glucose & <insulin>", "LAB_HDL", "bmi"]
    assert by_name == sorted(names)


def test_a_figure_in_which_nothing_was_estimated_says_so() -> None:
    effects = read_effects(regression(absent_row("lh_cuneus_thickness")), TERM)
    shown = words(draw_forest(effects, CAPTION).svg)
    assert "cuneus" in shown
    assert "constant, not estimated" in shown


def test_two_measures_of_one_region_are_told_apart() -> None:
    table = regression(effect_row("lh_cuneus_thickness", 0.1, 0.01), effect_row("lh_cuneus_area", 0.2, 0.01))
    shown = words(draw_forest(read_effects(table, TERM), CAPTION).svg)
    assert {"cuneus, thickness", "cuneus, area"} <= set(shown)


def test_a_coefficient_is_shown_with_its_unit_and_two_digits_of_its_interval() -> None:
    table = Table("labs", "regression", FEW.columns[:11], tuple(row[:11] for row in FEW.rows))
    effects = read_effects(table, TERM)
    shown = words(
        draw_forest(effects, Caption("Laboratory values", "per level", 3, "noise none", unit="mmol/l")).svg
    )
    assert "b (mmol/l), per level" in shown
    assert "0.015 [0.000, 0.030]" in shown
    assert "p" in shown  # not corrected, and not said to be
    assert not any("FDR" in text for text in shown)


@pytest.mark.parametrize("table", [COX, LOGISTIC], ids=["cox", "logistic"])
def test_ratios_stand_on_a_logarithmic_axis_about_one(table: Table) -> None:
    (outcome,) = {str(row[0]) for row in table.rows}
    effects = read_terms(table, outcome)
    drawn = figure(effects)
    _, plot = page_and_plot(drawn)
    assert plot.get_xscale() == "log"
    low, high = plot.get_xlim()
    assert 0 < low < 1 < high
    vertical = [line for line in plot.lines if list(np.asarray(line.get_xdata())) == [1.0, 1.0]]
    assert len(vertical) == 1
    shown = words(draw_forest(effects, CAPTION).svg)
    assert f"{effects.measure} [95 % CI]" in shown
    assert any(text.endswith("terms") for text in shown)


def test_a_small_ratio_keeps_two_digits() -> None:
    row = ("death", "age", -5.0, 0.1, -50.0, 1e-9, -5.2, -4.8, 226, 221, "ok")
    shown = words(draw_forest(read_terms(Table("x", "cox", COX.columns, (row,)), "death"), CAPTION).svg)
    assert "0.0067 [0.0055, 0.0082]" in shown
