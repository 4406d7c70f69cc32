"""What real tables are like, and what becomes of it: the sentences of the documents, one test each.

Repeated ids (28 of them in a table of six data sets) are the reader's concern: tests/node/test_tables_real.py.
"""

import csv
from pathlib import Path

import pytest

from tests.truths.abide import ABIDE
from tests.truths.abide import people as abide_people
from tests.truths.dssurv import DSSURV
from tests.truths.impac import FILE, IMPAC, TERMS
from tests.truths.impac import people as impac_people
from tests.truths.libraries import coefficients, truth
from tests.truths.registry import LINEAR, Runs
from tests.truths.running import DATA, DataSet, play
from tests.truths.tally import Tally
from tests.truths.text import study_text

pytestmark = pytest.mark.skipif(
    not (DATA / FILE).exists(), reason="the real tables are not beside this repository"
)

KEPT = (
    "SubjID",
    "asd",
    "sex",
    "age",
    "lh_bankssts_thickness",
    "lh_cuneus_thickness",
    "Left-WM-hypointensities",
)


def _with_a_constant_region(folder: Path) -> None:
    with (DATA / FILE).open(newline="") as file:
        people = [row | {"lh_cuneus_thickness": "2.5"} for row in csv.DictReader(file)]
    for site in {row["site"] for row in people}:
        with (folder / f"{site}.csv").open("w", newline="") as file:
            writer: csv.DictWriter[str] = csv.DictWriter(file, KEPT, extrasaction="ignore")
            writer.writeheader()
            writer.writerows(row for row in people if row["site"] == site)


CONSTANT = DataSet(
    "constant",
    FILE,
    study_text(
        "constant",
        "SubjID",
        """
asd: {levels: [control, autism]}
sex: {levels: [female, male]}
age: {unit: years, range: [5, 65]}
lh_bankssts_thickness: {unit: mm, range: [0, 5]}
lh_cuneus_thickness: {unit: mm, range: [0, 5]}
Left-WM-hypointensities: {unit: mm3, range: [0, 100]}
""",
        """
effects:
  kind: regression
  outcomes: [lh_bankssts_thickness, lh_cuneus_thickness, Left-WM-hypointensities]
  terms: [asd, age, sex]
""",
    ),
    node=IMPAC.node.split("  hippo")[0],
    prepare=_with_a_constant_region,
)


def _with_one_scanner_per_site(folder: Path) -> None:
    with (DATA / "abide1_qc.csv").open(newline="") as file:
        people = list(csv.DictReader(file))
    columns = ("SUB_ID", "DX_GROUP", "SEX", "AGE_AT_SCAN", "func_mean_fd")
    for place, site in enumerate(sorted({row["SITE_ID"] for row in people})):
        with (folder / f"{site.lower().replace('_', '-')}.csv").open("w", newline="") as file:
            writer: csv.DictWriter[str] = csv.DictWriter(file, (*columns, "scanner"), extrasaction="ignore")
            writer.writeheader()
            writer.writerows(
                row | {"scanner": SCANNERS[place % 3]} for row in people if row["SITE_ID"] == site
            )


SCANNERS = ("siemens", "philips", "ge")
SCANNER = DataSet(
    "scanner",
    "abide1_qc.csv",
    study_text(
        "scanner",
        "SUB_ID",
        """
dx: {levels: [control, autism]}
sex: {levels: [female, male]}
scanner: {levels: [siemens, philips, ge]}
AGE_AT_SCAN: {unit: years, range: [5, 65]}
func_mean_fd: {unit: mm, range: [0, 2]}
""",
        """
motion: {kind: regression, outcomes: [func_mean_fd], terms: [scanner, dx, AGE_AT_SCAN, sex]}
anywhere: {kind: regression, outcomes: [func_mean_fd], terms: [scanner, dx, AGE_AT_SCAN, sex], site_effect: none}
""",
        min_sites=5,
    ),
    node=ABIDE.node.split("  FIQ")[0],
    prepare=_with_one_scanner_per_site,
)


def test_sites_with_cases_only_count_in_n_and_add_nothing_to_the_effect(runs: Runs) -> None:
    counts = truth("impac_asd")["counts_site_asd"]
    assert sorted(site for site, arms in counts.items() if "0" not in arms) == ["6", "8"]
    run = runs[IMPAC]
    row = run.row("thickness", outcome="lh_cuneus_thickness", term="asd[autism]")
    assert (row["n_reference"], row["n_level"]) == (601, 549)
    assert "asd[autism]: sites with people of one arm only: 2" in run.notes("thickness")
    assert row["df"] == 1150 - 34 - 3  # and their centres count


def test_five_sites_of_one_sex_are_counted_in_a_note(runs: Runs) -> None:
    one_sex = [site for site, group in abide_people().groupby("SITE_ID") if group.male.nunique() == 1]
    assert one_sex == truth("abide1_qc")["single_sex_sites"]
    assert one_sex == ["LEUVEN_1", "OHSU", "SBL", "TRINITY", "USM"]
    run = runs[ABIDE]
    assert "sex[male]: sites with people of one arm only: 5" in run.notes("fd_model")
    assert "sex[male]: up to 5 sites fitted without it" in run.notes("slopes")


def test_a_level_that_sites_lack_is_a_column_of_zeros_there(runs: Runs) -> None:
    tally = Tally()
    names = {"male": "sex[male]"}
    coefficients(runs[ABIDE], tally, "fd_model", "func_mean_fd", names, truth("abide1_qc")["fd_model"])
    assert tally.largest <= LINEAR


def test_a_level_that_one_site_has_is_never_summed(runs: Runs) -> None:
    rows = runs[DSSURV].rows("by_study")
    assert [row["status"] for row in rows] == 3 * ["too few sites"]


def test_an_outcome_that_two_of_twenty_sites_have_is_never_summed(runs: Runs) -> None:
    sites = abide_people().dropna(subset=["BMI"]).SITE_ID.unique()
    assert sorted(sites) == ["NYU", "SBL"]
    assert runs[ABIDE].row("describe", variable="BMI")["status"] == "too few sites"


def test_a_constant_region_is_named_and_the_others_go_on(tmp_path: Path) -> None:
    assert impac_people()["Left-WM-hypointensities"].nunique() == 1
    run = play(CONSTANT, tmp_path)
    for outcome in ("lh_cuneus_thickness", "Left-WM-hypointensities"):
        assert {row["status"] for row in run.rows("effects", outcome=outcome)} == {"constant, not estimated"}
    tally = Tally()
    known = truth("impac_asd")["mega_fixed_site"]["lh_bankssts_thickness"]
    coefficients(run, tally, "effects", "lh_bankssts_thickness", TERMS, known)
    assert tally.largest <= LINEAR


def test_a_scanner_that_is_the_only_one_of_its_site_is_aliased_and_the_others_go_on(tmp_path: Path) -> None:
    run = play(SCANNER, tmp_path)
    levels = ("scanner[philips]", "scanner[ge]")
    assert [run.row("motion", term=term)["status"] for term in levels] == 2 * ["aliased"]
    tally = Tally()
    names = {"asd": "dx[autism]", "AGE_AT_SCAN": "AGE_AT_SCAN", "male": "sex[male]"}
    coefficients(run, tally, "motion", "func_mean_fd", names, truth("abide1_qc")["fd_model"])
    assert tally.largest <= LINEAR  # as if nobody had asked for it
    assert [run.row("anywhere", term=term)["status"] for term in levels] == 2 * [
        "ok"
    ]  # between sites it exists
