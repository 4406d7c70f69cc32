"""Real tables under ``dpuk``: who may supply what, what noise leaves of the truth, and what the gate shows of exact counts."""

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
  treated: {levels: ["0", "1"]}
  infarction: {levels: ["0", "1"]}
  PM_BMI_CONTINUOUS: {unit: kg/m2, range: [5, 80]}
""",
    """
  treatment: {kind: crosstab, factors: [treated, sex]}
  hearts: {kind: crosstab, factors: [infarction]}
  mass: {kind: summary, variables: [PM_BMI_CONTINUOUS], by: [sex]}
  effect: {kind: regression, outcomes: [PM_BMI_CONTINUOUS], terms: [sex, treated], report: {effect: treated}}
""",
)
CNSIM_NODE = """
variables:
  sex: {from: data.GENDER}
  treated: {from: data.MEDI_LPD}
  infarction: {from: data.DIS_AMI}
"""
WAIVED = """
profile: dpuk
waivers:
  - {rule: group_10, value: off, reason: invented people, by: ann, until: 2099-12-31}
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


@pytest.mark.parametrize("waived", [False, True])
def test_exact_counts_of_large_cohorts_are_hidden_rounded_and_never_given_back(
    tmp_path: Path, waived: bool
) -> None:
    """Three cohorts of thousands, whom no rule asks for noise. Five people of 9379 had an infarction, one or two at a site."""
    text = study("cnsim", "column_1", CNSIM, "{noise: none}", sites=3, colluding=0)
    text = text.replace("  max_attempts: 1", "  min_honest_inputs: 3\n  max_attempts: 1")
    if not waived:  # of the treated, two lack a weight: the same people in a model would be told apart
        text = "\n".join(line for line in text.splitlines() if "effect:" not in line) + "\n"
    folder, policy = tmp_path / "tables", tmp_path / "policy.yaml"
    folder.mkdir()
    policy.write_text(WAIVED if waived else "profile: dpuk\n")
    for place in (1, 2, 3):
        (folder / f"cnsim{place}.csv").write_bytes((DATA / f"cnsim{place}.csv").read_bytes())
    run = simulate(tmp_path, text, folder, "dpuk", node=CNSIM_NODE, policy=policy)
    document = read_document(run.folder)
    people = PD.concat([PD.read_csv(path) for path in sorted(folder.glob("*.csv"))])
    people.columns = people.columns.str.strip()
    true = people.groupby(["MEDI_LPD", "GENDER"]).size()
    for cell, key in zip(
        cells(document, "treatment", "count"), ((0, 0), (0, 1), (1, 0), (1, 1)), strict=True
    ):
        assert isinstance(cell, int)
        assert (cell % 5, abs(cell - int(true[key])) <= 2) == (0, True)
    mass = people.groupby("GENDER").PM_BMI_CONTINUOUS
    for place, (_, group) in enumerate(mass):
        assert number(cells(document, "mass", "mean")[place]) == pytest.approx(group.mean(), rel=1e-4)
        assert number(cells(document, "mass", "sd")[place]) == pytest.approx(group.std(), rel=1e-3)
        assert cells(document, "mass", "n")[place] == 5 * round(group.count() / 5)
    for column in ("n", "n_reference", "n_level") if waived else ():
        assert all(int(number(cell)) % 5 == 0 for cell in cells(document, "effect", column)[1:])
    hearts = cells(document, "hearts", "count")
    assert all(isinstance(cell, Absent) for cell in hearts)
    outcomes = {(rule.rule, rule.table): rule.outcome for rule in document.rules}
    assert outcomes["count_rounding", "treatment"] == "changed"
    if waived:  # the sites send these counts, and nobody sees them
        assert outcomes["primary_suppression", "hearts"] == "changed"
        assert outcomes["group_10", "hearts"] == "waived"
        assert {(one.rule, one.site) for one in document.waivers} == {
            ("group_10", f"cnsim{place}") for place in (1, 2, 3)
        }
        assert "group_10" in (run.folder / "report.html").read_text()
    else:
        assert {str(cell) for cell in hearts} == {str(Absent("too few sites"))}
        assert {item for item, _ in run.lacking} == {"analysis:hearts"}
