"""Maps of the brain: a region is found by its name alone, and what cannot be drawn is said."""

import re

import numpy as np
import pytest

from cohortsum.report.anatomy import DESIKAN_KILLIANY, SUBCORTICAL
from cohortsum.report.brain import brain_figures
from cohortsum.report.effects import Effects, read_effects, read_meta
from cohortsum.report.outlines import CORTEX, SUBCORTEX
from cohortsum.report.scales import MINUS
from cohortsum.report.svg import Figure
from cohortsum.study.results import Cell, Status
from tests.report.example import TERM, THICKNESS, absent_row, effect_row, regression
from tests.report.kinds import META

NO_OUTLINE = {"frontalpole", "temporalpole"}


def cortical(rows: list[tuple[Cell, ...]]) -> Figure:
    (figure,) = brain_figures(read_effects(regression(*rows), TERM))
    return figure


def fills(figure: Figure) -> dict[str, str]:
    """Return the colour of each region by what its shape says it is."""
    found: dict[str, str] = {}
    for panel in figure.panels:
        for shape, said in re.findall(r"<path ([^>]*)><title>([^<]*)</title>", panel.body):
            region = said.partition(":")[0]
            colour = re.search(r'fill="(#[0-9a-f]{6})"', shape)
            found[region] = colour[1] if colour else "hatched" if "f-hatch" in shape else "none"
    return found


def test_the_outlines_cover_the_atlas_but_for_two_poles() -> None:
    for side in ("left", "right"):
        drawn = {region for (half, _), view in CORTEX.items() if half == side for region in view.regions}
        assert drawn == set(DESIKAN_KILLIANY) - NO_OUTLINE
    assert {name.partition(" ")[2] for name in SUBCORTEX.regions} == set(SUBCORTICAL) - {"Accumbens-area"}


def test_every_outline_lies_in_its_view_and_is_only_a_path() -> None:
    views = [*CORTEX.values(), SUBCORTEX]
    for view in views:
        for outline in (view.silhouette, *view.regions.values()):
            assert re.fullmatch(r"(M\d+ \d+c[-0-9 ]+z)+", outline)
            for x, y in re.findall(r"M(\d+) (\d+)", outline):
                assert int(x) <= view.width
                assert int(y) <= view.height


def test_structures_lie_on_their_own_side() -> None:
    """Left on the left: of each structure the left outline begins to the left of the right one."""
    for name in SUBCORTICAL:
        if f"left {name}" in SUBCORTEX.regions:
            left, right = (
                int(SUBCORTEX.regions[f"{side} {name}"][1:].split()[0]) for side in ("left", "right")
            )
            assert left < SUBCORTEX.width / 2 < right, name


def test_regions_are_matched_by_name_and_never_by_position() -> None:
    rows = [effect_row(outcome, 0.01 * place - 0.3, 0.5) for place, outcome in enumerate(THICKNESS)]
    order: list[int] = np.random.default_rng(7).permutation(len(rows)).tolist()
    shuffled = [rows[place] for place in order]
    shuffled.insert(3, effect_row("lh_unknown_thickness", 0.2, 0.5))
    shuffled.insert(40, effect_row("lh_corpuscallosum_thickness", 0.2, 0.5))
    plain, mixed = fills(cortical(rows)), fills(cortical(shuffled))
    assert plain == mixed
    assert len(plain) == 64
    assert len(set(plain.values())) > 40


def test_what_has_no_outline_no_number_or_no_name_is_said() -> None:
    rows = [
        absent_row(outcome, Status.TOO_FEW_SITES)
        if outcome == "lh_cuneus_thickness"
        else effect_row(outcome, 0.1, 0.5)
        for outcome in THICKNESS
        if outcome != "rh_insula_thickness"
    ]
    figure = cortical([*rows, effect_row("lh_G&S_frontomargin_thickness", 0.1, 0.5)])
    shown = fills(figure)
    assert shown["left cuneus"] == shown["right insula"] == "hatched"
    for sentence in (
        "Not drawn, for the atlas has no outline: left frontal pole (0.1), left temporal pole (0.1), right frontal pole "
        "(0.1), right temporal pole (0.1).",
        "No estimate (too few sites): left cuneus.",
        "Hatched, not in this table: right insula.",
        "No region of this atlas: lh_G&S_frontomargin_thickness.",
    ):
        assert sentence in figure.caption


def test_the_scale_is_symmetric_and_ends_at_the_greatest_effect() -> None:
    rows = [
        effect_row(outcome, -0.234 if place == 0 else 0.1, 0.5) for place, outcome in enumerate(THICKNESS)
    ]
    figure = cortical(rows)
    assert fills(figure)["left banks of superior temporal sulcus"].startswith("#2")
    assert all(
        f">{text}</text>" in panel.body for panel in figure.panels for text in (f"{MINUS}0.24", "0", "0.24")
    )


def test_significant_regions_have_a_heavy_outline() -> None:
    rows = [effect_row(outcome, 0.1, 0.001 if "insula" in outcome else 0.5) for outcome in THICKNESS]
    figure = cortical(rows)
    assert [panel.body.count('class="f-outline"') for panel in figure.panels] == [1, 1]
    assert "heavy outline: p (FDR) &lt; 0.05" not in figure.caption  # escaped where it is written, not here
    assert "heavy outline: p (FDR) < 0.05" in figure.caption


def test_structures_under_the_cortex_have_a_map_of_their_own() -> None:
    (figure,) = brain_figures(read_meta(META, "random"))
    shown = fills(figure)
    assert len(shown) == 16
    assert shown["left ventral diencephalon"] == "hatched"
    assert shown["left thalamus"].startswith("#")
    assert "left accumbens" not in shown
    assert "left accumbens (0.11)" in figure.caption


def test_each_measure_has_its_own_map() -> None:
    rows = [effect_row(outcome, 0.1, 0.5) for outcome in THICKNESS]
    rows += [effect_row(outcome.replace("thickness", "area"), 0.2, 0.5) for outcome in THICKNESS]
    figures = brain_figures(read_effects(regression(*rows), TERM))
    assert [figure.suffix for figure in figures] == ["thickness-map", "area-map"]


def test_names_of_enigma_find_the_same_regions() -> None:
    rows = [effect_row(f"{side}_{name}_thickavg", 0.1, 0.5) for side in "LR" for name in DESIKAN_KILLIANY]
    assert "hatched" not in fills(cortical(rows)).values()


@pytest.mark.parametrize(
    "outcomes", [("age", "bmi"), THICKNESS[:4], tuple(f"lh_region{k}_thickness" for k in range(40))]
)
def test_too_few_regions_make_no_map(outcomes: tuple[str, ...]) -> None:
    effects: Effects = read_effects(regression(*(effect_row(name, 0.1, 0.5) for name in outcomes)), TERM)
    assert brain_figures(effects) == ()


def test_a_map_without_any_estimate_is_not_drawn() -> None:
    assert brain_figures(read_effects(regression(*map(absent_row, THICKNESS)), TERM)) == ()
