"""Real tables under ``dpuk``: who may supply what, what noise leaves of the truth, and what the gate shows of exact counts."""

import json
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from cohortsum.cli.results import read_document
from cohortsum.cli.simulate.command import Run, run_simulation
from cohortsum.report.document import ResultDocument
from cohortsum.study.definition import freeze, load_study
from cohortsum.study.results import Absent, Cell
from tests.end_to_end.studies import DATA

PD: Any = import_module("pandas")  # without types; what it returns is converted here

pytestmark = pytest.mark.skipif(
    not (DATA / "fcon1000.csv").exists(), reason="the real tables are not beside this repository"
)

HEAD = """
study: {name}
title: {name} under the rules
version: 1
roster: 1
expires: 2099-12-31
person: {person}
variables:
{variables}
cohort: {{epoch: 2026-11}}
analyses:
{analyses}
protection:
  min_sites: {sites}
  min_participants: 100
  max_participants: 100000
  max_colluding_sites: {colluding}
  max_attempts: 1
privacy: {privacy}
release: {{checkers: {{consortium: 0, sites: none}}}}
deadlines: {{step: 20s, step_max: 20s, tick: 20ms}}
"""
NOISE = "{noise: distributed, epsilon: 1.0, delta: 1.0e-6}"

FCON = (
    """
  sex: {levels: ["0", "1"]}
  lh_MeanThickness_thickness: {catalogue: freesurfer.mean_thickness, range: [1.8, 3.2]}
""",
    """
  sexes: {kind: crosstab, factors: [sex]}
  thickness: {kind: summary, variables: [lh_MeanThickness_thickness]}
""",
)
ABIDE = (
    """
  DX_GROUP: {levels: ["1", "2"]}
  AGE_AT_SCAN: {unit: years, range: [5, 40]}
  anat_snr: {catalogue: qc.snr_cnr, range: [0, 30]}
""",
    """
  ages: {kind: summary, variables: [AGE_AT_SCAN], by: [DX_GROUP]}
  quality: {kind: summary, variables: [anat_snr]}
""",
)
CNSIM = (
    """
  sex: {levels: ["0", "1"]}
  diabetes: {levels: ["0", "1"]}
  stroke: {levels: ["0", "1"]}
  PM_BMI_CONTINUOUS: {unit: kg/m2, range: [5, 80]}
""",
    """
  strokes: {kind: crosstab, factors: [stroke, sex]}
  both: {kind: crosstab, factors: [stroke, diabetes]}
  mass: {kind: summary, variables: [PM_BMI_CONTINUOUS], by: [stroke]}
  effect: {kind: regression, outcomes: [PM_BMI_CONTINUOUS], terms: [sex, diabetes], report: {effect: diabetes}}
""",
)
CNSIM_NODE = """
variables:
  sex: {from: data.GENDER}
  diabetes: {from: data.DIS_DIAB}
  stroke: {from: data.DIS_CVA}
"""


def study(
    name: str, person: str, parts: tuple[str, str], privacy: str, sites: int = 5, colluding: int = 1
) -> str:
    variables, analyses = (part.strip("\n") for part in parts)
    return HEAD.format(
        name=name,
        person=person,
        variables=variables,
        analyses=analyses,
        privacy=privacy,
        sites=sites,
        colluding=colluding,
    )


def simulate(tmp_path: Path, text: str, data: Path, profile: str, **options: Any) -> Run:
    node = options.pop("node", None)
    path = tmp_path / "node.yaml"
    if node is not None:
        path.write_text(node)
    return run_simulation(
        freeze(load_study(text.encode(), "study.yaml")),
        data,
        tmp_path / "out",
        options.pop("split_by", None),
        None if node is None else path,
        profile,
        True,
        Console(quiet=True),
        **options,
    )


def cells(document: ResultDocument, analysis: str, column: str) -> list[Cell]:
    (table,) = (block.table() for block in document.tables if block.analysis == analysis)
    return [row[table.columns.index(column)] for row in table.rows]


def number(cell: Cell) -> float:
    return float(str(cell))


@pytest.mark.parametrize("profile", ["dpuk", "open_data"])
def test_fcon1000_runs_under_both_profiles_and_small_sites_supply_no_thickness(
    tmp_path: Path, profile: str
) -> None:
    privacy = NOISE if profile == "dpuk" else "{noise: none}"
    run = simulate(
        tmp_path, study("fcon", "sub_id", FCON, privacy), DATA / "fcon1000.csv", profile, split_by="site"
    )
    people = PD.read_csv(DATA / "fcon1000.csv")
    sizes = people.groupby("site").size()
    document = read_document(run.folder)
    assert document.profile == profile
    least = 20  # of the rules, and of the study
    assert set(document.sites.survivors) == set(sizes[sizes >= least].index)
    large = people[people.site.isin(sizes[sizes >= (50 if profile == "dpuk" else least)].index)]
    n, mean = (number(cells(document, "thickness", column)[0]) for column in ("n", "mean"))
    true = large.lh_MeanThickness_thickness
    if profile == "open_data":
        assert (n, document.rules) == (len(true), ())
        assert mean == pytest.approx(true.mean(), rel=1e-9)
        return
    left = {item: set(sites) for (item, _), sites in run.lacking.items()}
    assert left["lh_MeanThickness_thickness"] == set(sizes[(sizes >= 20) & (sizes < 50)].index)
    assert {reason for _, reason in run.lacking} == {
        "lh_MeanThickness_thickness: fewer than 50 people here [roi_mean_site]"
    }
    se = number(cells(document, "thickness", "mean_noise_se")[0])
    assert abs(mean - true.mean()) < 6 * se
    assert {rule.outcome for rule in document.rules} == {"passed"}
    assert {rule.rule for rule in document.rules} >= {"freesurfer_group_50", "primary_suppression"}


@pytest.mark.parametrize("profile", ["dpuk", "open_data"])
def test_abide_runs_under_both_profiles(tmp_path: Path, profile: str) -> None:
    privacy = NOISE if profile == "dpuk" else "{noise: none}"
    data = DATA / "abide1_qc.csv"
    run = simulate(tmp_path, study("abide", "SUB_ID", ABIDE, privacy), data, profile, split_by="SITE_ID")
    people = PD.read_csv(data)
    sizes = people.groupby("SITE_ID").size()
    document = read_document(run.folder)
    assert document.profile == profile
    assert set(document.sites.survivors) == set(sizes.index)
    large = people[people.SITE_ID.isin(sizes[sizes >= (50 if profile == "dpuk" else 1)].index)]
    snr, true = number(cells(document, "quality", "mean")[0]), large.anat_snr.dropna().clip(0, 30).mean()
    if profile == "open_data":
        assert snr == pytest.approx(true, rel=1e-9)
    else:
        assert abs(snr - true) < 6 * number(cells(document, "quality", "mean_noise_se")[0])
        assert {item for item, _ in run.lacking} == {"anat_snr"}


def test_exact_counts_of_large_cohorts_are_hidden_rounded_and_never_given_back(tmp_path: Path) -> None:
    """Three cohorts of thousands: no rule asks them for noise. Few people had a stroke."""
    text = study("cnsim", "column_1", CNSIM, "{noise: none}", sites=3, colluding=0)
    text = text.replace("  max_attempts: 1", "  min_honest_inputs: 3\n  max_attempts: 1")
    folder = tmp_path / "tables"
    folder.mkdir()
    for place in (1, 2, 3):
        (folder / f"cnsim{place}.csv").write_bytes((DATA / f"cnsim{place}.csv").read_bytes())
    run = simulate(tmp_path, text, folder, "dpuk", node=CNSIM_NODE)
    document = read_document(run.folder)
    held = json.loads((run.folder / "result.json").read_bytes())
    assert (held["profile"], held["waivers"]) == ("dpuk", [])
    people = PD.concat([PD.read_csv(path) for path in sorted(folder.glob("*.csv"))])
    people.columns = people.columns.str.strip()
    for analysis, other in (("strokes", "GENDER"), ("both", "DIS_DIAB")):
        true = people.groupby(["DIS_CVA", other]).size()
        for cell, key in zip(
            cells(document, analysis, "count"), ((0, 0), (0, 1), (1, 0), (1, 1)), strict=True
        ):
            count = int(true.get(key, 0))
            if isinstance(cell, int):
                assert cell % 5 == 0
                assert abs(cell - count) <= 2
                assert count == 0 or count >= 10
            else:
                assert isinstance(cell, Absent | str)
    for column in ("n", "n_reference", "n_level"):
        for cell in cells(document, "effect", column):
            assert not isinstance(cell, int) or cell % 5 == 0
    outcomes = {(rule.rule, rule.table): rule.outcome for rule in document.rules}
    assert outcomes["count_rounding", "strokes"] == "changed"
