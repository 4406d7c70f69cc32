"""Effects are read as they stand; names mean what FreeSurfer and ENIGMA mean by them."""

import csv

import pytest

from cohortsum.report.anatomy import DESIKAN_KILLIANY, read_name
from cohortsum.report.effects import effect_terms, meta_plots, read_effects, read_meta, read_terms
from cohortsum.report.enigma import COLUMNS, to_enigma_csv
from cohortsum.report.tables import from_csv, to_csv
from cohortsum.study.results import NO_DATA, Absent, Status, Table
from cohortsum.study.statistics.regression_tables import COEFFICIENT_COLUMNS
from tests.report.example import TERM, THICKNESS, absent_row, age_row, effect_row, regression, thickness_table
from tests.report.kinds import COX, LOGISTIC, META

PLAIN = Table(
    "labs",
    "regression",
    COEFFICIENT_COLUMNS,
    (
        ("hdl", "intercept", 1.0, 0.1, 10.0, 1e-9, 0.8, 1.2, 90, 88, "ok"),
        ("hdl", "age", 0.5, 0.1, 5.0, 0.01, 0.3, 0.7, 90, 88, "ok"),
    ),
)


def test_the_effect_asked_for_is_the_only_term_with_an_effect() -> None:
    table = thickness_table()
    assert effect_terms(table) == (TERM,)
    assert effect_terms(from_csv(to_csv(table), "thickness", "regression")) == (TERM,)


def test_the_effect_keeps_its_term_when_no_outcome_was_estimated() -> None:
    row = ("hdl", TERM, *(NO_DATA,) * 6, 0, NO_DATA, "too few sites", *(NO_DATA,) * 7)
    assert effect_terms(regression(row, age_row("hdl"))) == (TERM,)


def test_without_an_effect_every_term_but_the_intercept_counts() -> None:
    assert effect_terms(PLAIN) == ("age",)
    effects = read_effects(PLAIN, "age")
    assert (effects.measure, effects.corrected) == ("b", False)
    assert effects.rows[0].interval == (0.3, 0.5, 0.7)
    assert effects.p(effects.rows[0]) == 0.01


def test_effects_are_cohens_d_with_corrected_p() -> None:
    effects = read_effects(thickness_table(), TERM)
    assert (effects.measure, effects.corrected, len(effects.rows)) == ("d", True, 68)
    first = effects.rows[0]
    assert first.interval == pytest.approx((-0.298, -0.2, -0.102))
    assert effects.p(first) == 0.001
    assert effects.significant(first, 0.05)
    assert not effects.significant(first, 0.001)


def test_an_absent_effect_has_no_number_and_is_never_significant() -> None:
    effects = read_effects(regression(effect_row("a", 0.1, 0.01), absent_row("b")), TERM)
    absent = effects.rows[1]
    assert absent.interval is None
    assert absent.estimate == NO_DATA
    assert absent.reason == "constant, not estimated"
    assert not effects.significant(absent, 1.1)


def test_a_missing_corrected_p_is_not_replaced_by_the_uncorrected_one() -> None:
    row = list(effect_row("b", 0.3, 0.01))
    row[15] = Absent("no data")
    effects = read_effects(regression(effect_row("a", 0.1, 0.01), tuple(row)), TERM)
    assert effects.rows[1].p == 0.0025
    assert not effects.significant(effects.rows[1], 0.05)


def test_a_term_that_is_not_there_is_refused() -> None:
    with pytest.raises(ValueError, match=r"no row of term 'dx\[adhd\]'"):
        read_effects(thickness_table(), "dx[adhd]")


@pytest.mark.parametrize(
    ("name", "hemisphere", "label", "enigma"),
    [
        ("lh_bankssts_thickness", "left", "banks of superior temporal sulcus", "L_bankssts"),
        ("rh_isthmuscingulate_area", "right", "isthmus cingulate", "R_isthmuscingulate"),
        ("rh_G&S_frontomargin_thickness", "right", "G&S_frontomargin", "R_G&S_frontomargin"),
        ("L_insula_thickavg", "left", "insula", "L_insula"),
        ("R_cuneus_surfavg", "right", "cuneus", "R_cuneus"),
        ("Left-Hippocampus", "left", "hippocampus", "Lhippo"),
        ("Right-Thalamus-Proper", "right", "thalamus", "Rthal"),
        ("Right-VentralDC", "right", "ventral diencephalon", "Right-VentralDC"),
        ("Raccumb", "right", "accumbens", "Raccumb"),
        ("Left-vessel", None, "Left-vessel", "Left-vessel"),
        ("L_spleen_thickavg", None, "L_spleen_thickavg", "L_spleen_thickavg"),
        ("LThickness", None, "LThickness", "LThickness"),
        ("LAB_TSC", None, "LAB_TSC", "LAB_TSC"),
        ("lh_bankssts", None, "lh_bankssts", "lh_bankssts"),
        ("lh__thickness", None, "lh__thickness", "lh__thickness"),
        ("lh_thickness", None, "lh_thickness", "lh_thickness"),
        ("mean_bmi_volume", None, "mean_bmi_volume", "mean_bmi_volume"),
    ],
)
def test_names_are_read_or_left_alone(name: str, hemisphere: str | None, label: str, enigma: str) -> None:
    read = read_name(name)
    assert (read.hemisphere, read.label, read.enigma) == (hemisphere, label, enigma)


def test_the_atlas_has_34_regions_with_their_own_labels() -> None:
    assert len(DESIKAN_KILLIANY) == 34
    assert len({region.label for region in DESIKAN_KILLIANY.values()}) == 34


def test_the_enigma_table_has_the_toolbox_columns_and_names() -> None:
    header, *rows = csv.reader(to_enigma_csv(thickness_table(), TERM, "asd-open_autism").splitlines())
    assert header == ["CorticalThickness", *COLUMNS, "status"]
    assert " ".join(COLUMNS) == "Structure d_icv se_icv low_ci_icv up_ci_icv n_controls n_patients pobs fdr_p"
    assert len(rows) == len(THICKNESS)
    assert {row[0] for row in rows} == {"asd-open_autism"}
    estimates = ["-0.2", "0.05", "-0.29800000000000004", "-0.10200000000000001"]
    assert rows[0][1:] == ["L_bankssts", *estimates, "750", "650", "0.00025", "0.001", "ok"]
    assert rows[34][1] == "R_bankssts"


def test_an_absent_effect_is_empty_in_the_enigma_table() -> None:
    table = regression(absent_row("lh_fusiform_thickness", Status.ALL_MISSING))
    table = Table(
        table.analysis, table.kind, table.columns, (*table.rows, effect_row("lh_cuneus_area", 0.1, 1.0))
    )
    header, row, _ = to_enigma_csv(table, TERM, "x").splitlines()
    assert header.startswith("Measure,Structure,")
    assert row == "x,L_fusiform,,,,,750,650,,,all missing"


def test_structures_under_the_cortex_are_named_as_in_the_toolbox() -> None:
    table = regression(effect_row("Left-Thalamus", 0.1, 0.01), effect_row("Right-Accumbens-area", 0.1, 1.0))
    header, *rows = csv.reader(to_enigma_csv(table, TERM, "x").splitlines())
    assert header[0] == "SubcorticalVolume"
    assert [row[1] for row in rows] == ["Lthal", "Raccumb"]


def test_an_enigma_table_needs_cohens_d() -> None:
    with pytest.raises(ValueError, match="has no Cohen's d"):
        to_enigma_csv(PLAIN, "age", "x")


def test_the_strongest_effects_keep_table_order_and_those_without_a_p_value_go_first() -> None:
    rows = [
        effect_row("a", 0.1, 0.5),
        absent_row("b"),
        effect_row("c", 0.3, 0.01),
        effect_row("d", 0.2, 0.04),
    ]
    effects = read_effects(regression(*rows), TERM)
    kept = {most: [row.outcome for row in effects.strongest(most).rows] for most in range(1, 6)}
    assert kept == {1: ["c"], 2: ["c", "d"], 3: ["a", "c", "d"], 4: list("abcd"), 5: list("abcd")}


def test_a_cox_model_shows_hazard_ratios_of_its_terms() -> None:
    effects = read_terms(COX, "death")
    assert (effects.measure, effects.null, effects.of_terms) == ("hazard ratio", 1.0, True)
    assert [row.outcome for row in effects.rows] == ["age", "sex[female]", "ecog", "karno"]
    low, estimate, high = effects.rows[1].interval or (0.0, 0.0, 0.0)
    assert (low, estimate, high) == pytest.approx((0.41425, 0.57545, 0.79938), rel=1e-4)
    assert isinstance(effects.rows[1].se, Absent)  # a ratio has none; that of its logarithm is in the table
    assert (effects.rows[3].interval, effects.rows[3].reason) == (None, "aliased")


def test_a_ratio_that_the_table_states_is_taken_and_not_computed() -> None:
    effects = read_effects(LOGISTIC, "age")
    assert effects.measure == "odds ratio"
    assert effects.rows[0].estimate == LOGISTIC.rows[1][11]


def test_without_a_ratio_a_generalised_linear_model_shows_its_coefficient() -> None:
    plain = Table("x", "glm", LOGISTIC.columns[:11], tuple(row[:11] for row in LOGISTIC.rows))
    assert (read_effects(plain, "age").measure, read_effects(plain, "age").null) == ("b", 0.0)


@pytest.mark.parametrize(
    ("low", "b", "reason"), [(0.0, 1.0, "interval reaches 0"), (-1.0, 1.0, "interval reaches 0")]
)
def test_a_ratio_whose_interval_reaches_zero_has_no_place_on_a_log_axis(
    low: float, b: float, reason: str
) -> None:
    row = (*LOGISTIC.rows[1][:11], b, low, 2.0)
    (effect,) = read_effects(Table("x", "glm", LOGISTIC.columns, (row,)), "age").rows
    assert (effect.interval, effect.reason) == (None, reason)


def test_a_hazard_ratio_beyond_any_number_is_not_shown() -> None:
    row = ("death", "age", 900.0, 1.0, 900.0, 0.0, 898.0, 902.0, 226, 221, "ok")
    (effect,) = read_terms(Table("x", "cox", COX.columns, (row,)), "death").rows
    assert (effect.interval, effect.reason) == (None, "too large to show")


def test_a_meta_analysis_has_one_estimate_per_outcome_and_model() -> None:
    effects = read_meta(META, "random")
    assert (effects.term, effects.measure, len(effects.rows)) == ("random", "estimate", 16)
    assert effects.rows[0].estimate == META.rows[16][2]
    (fixed, random), columns = meta_plots(META), (*META.columns, "term")
    assert (fixed.term, random) == ("fixed", effects)
    levels = [(*row, term) for term in ("dx[a]", "dx[b]") for row in META.rows]
    plots = meta_plots(Table("m", "meta", columns, tuple(levels)))
    assert [plot.term for plot in plots] == [
        f"{m}, {t}" for t in ("dx[a]", "dx[b]") for m in ("fixed", "random")
    ]
    assert [len(plot.rows) for plot in plots] == [16] * 4
    with pytest.raises(ValueError, match="no row of model 'bayes'"):
        read_meta(META, "bayes")
    with pytest.raises(ValueError, match="no row of outcome 'life'"):
        read_terms(COX, "life")
