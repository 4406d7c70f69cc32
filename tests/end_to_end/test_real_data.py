"""Whole simulations on real tables against pooled answers by other libraries.

The processes, the gRPC and the TLS are real; sites are killed with SIGKILL. Tables with licences that keep them out of this
repository are looked for beside it, and the tests that need them are skipped where they are not.
"""

import csv
import json
import math
from collections import Counter
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from cohortsum.cli.results import read_document
from cohortsum.cli.simulate import processes
from cohortsum.cli.simulate.command import Run, run_simulation
from cohortsum.crypto.errors import RoundFailedError
from cohortsum.study.definition import freeze, load_study
from tests.end_to_end.studies import ABIDE, ABIDE_NODE, CNSIM, DATA, IMPAC, IMPAC_NODE, THICKNESS

pytestmark = pytest.mark.skipif(
    not (DATA / "impac_asd.csv").exists(), reason="the real tables are not beside this repository"
)

SM: Any = import_module("statsmodels.api")  # without types; what it returns is converted here
Rows = dict[tuple[str, str], dict[str, str]]


def simulate(tmp_path: Path, study: str, data: Path, **options: Any) -> Run:
    node = options.pop("node", None)
    if node is not None:
        (tmp_path / "node.yaml").write_text(node)
    return run_simulation(
        freeze(load_study(study.encode(), "study.yaml")),
        data,
        tmp_path / "out",
        options.pop("split_by", None),
        None if node is None else tmp_path / "node.yaml",
        options.pop("profile", "open_data"),
        options.pop("in_process", False),
        Console(quiet=True),
        **options,
    )


def rows(folder: Path, analysis: str, *keys: str) -> Rows:
    with (folder / "results" / f"{analysis}.csv").open(newline="") as file:
        return {tuple(row[key] for key in keys): row for row in csv.DictReader(file)}  # type: ignore[misc]


def truth(name: str) -> dict[str, Any]:
    held: dict[str, Any] = json.loads((DATA / f"{name}.truth.json").read_text())
    return held


def impac(min_sites: int = 10, floor: int = 10, step: str = "20s") -> str:
    return IMPAC.format(min_sites=min_sites, floor=floor, step=step)


def pooled_fit(sites: set[str], outcome: str) -> dict[str, tuple[float, float, float]]:
    """Return b, se and t of asd, age and sex from statsmodels over all rows of ``sites``, one dummy per site."""
    with (DATA / "impac_asd.csv").open(newline="") as file:
        people = [row for row in csv.DictReader(file) if row["site"] in sites]
    order = sorted(sites)
    design = np.array(
        [
            [
                float(row["asd"]),
                float(row["age"]),
                float(row["sex"] == "M"),
                *(row["site"] == site for site in order),
            ]
            for row in people
        ],
        dtype=np.float64,
    )
    fit = SM.OLS(np.array([float(row[outcome]) for row in people]), design).fit()
    names = ("asd[autism]", "age", "sex[male]")
    return {name: (fit.params[i], fit.bse[i], fit.tvalues[i]) for i, name in enumerate(names)}


def assert_equals_pooled(folder: Path, sites: set[str], outcomes: tuple[str, ...]) -> None:
    held = rows(folder, "thickness", "outcome", "term")
    for outcome in outcomes:
        for term, (b, se, t) in pooled_fit(sites, outcome).items():
            row = held[outcome, term]
            assert row["status"] == "ok"
            assert float(row["b"]) == pytest.approx(b, rel=1e-6)
            assert float(row["se"]) == pytest.approx(se, rel=1e-6)
            assert float(row["statistic"]) == pytest.approx(t, rel=1e-6)


def test_impac_over_34_processes_equals_the_pooled_truth(tmp_path: Path) -> None:
    run = simulate(tmp_path, impac(), DATA / "impac_asd.csv", split_by="site", node=IMPAC_NODE)
    document = read_document(run.folder)
    assert len(document.sites.survivors) == 34
    expected = truth("impac_asd")["mega_fixed_site"]
    held = rows(run.folder, "thickness", "outcome", "term")
    assert {outcome for outcome, _ in held} == set(THICKNESS)
    worst = 0.0
    for outcome in THICKNESS:
        coefficients, effect = expected[outcome]["coef"], expected[outcome]["cohen_d"]
        for term, name in (("asd[autism]", "asd"), ("age", "age"), ("sex[male]", "male")):
            row = held[outcome, term]
            assert row["n"] == "1150"
            assert float(row["df"]) == 1113
            for column, key in (("b", "b"), ("se", "se"), ("statistic", "t")):
                worst = max(worst, abs(float(row[column]) / coefficients[name][key] - 1))
            assert float(row["p"]) == pytest.approx(coefficients[name]["p"], rel=1e-5)
        row = held[outcome, "asd[autism]"]
        for column, key in (("d", "d"), ("d_se", "se"), ("d_low", "lo"), ("d_high", "hi")):
            assert float(row[column]) == pytest.approx(effect[key], rel=1e-6, abs=1e-9)
    assert worst < 1e-6
    # all analyses came out of one round
    analyses = {"ages", "age_bins", "boys", "boys.association", "thickness"}
    assert {block.analysis for block in document.tables} == analyses
    with (DATA / "impac_asd.csv").open(newline="") as file:
        cells = Counter((person["asd"], person["sex"]) for person in csv.DictReader(file))
    for (asd, sex), row in rows(run.folder, "boys", "asd", "sex").items():
        assert int(row["count"]) == cells[str(int(asd == "autism")), "M" if sex == "male" else "F"]
    ages = rows(run.folder, "ages", "asd")
    describe = truth("impac_asd")["describe"]["age"]
    total = sum(int(row["n"]) * float(row["mean"]) for row in ages.values())
    assert total == pytest.approx(describe["sum"], rel=1e-12)
    assert sum(int(row["count"]) for row in rows(run.folder, "age_bins", "low").values()) == describe["n"]
    events = (run.folder / "consortium" / "logs" / "coordinator.jsonl").read_text()
    assert events.count('"round.open"') == 1


def test_impac_with_a_floor_of_20_equals_the_fit_over_the_25_sites_that_have_it(tmp_path: Path) -> None:
    data = DATA / "impac_asd.csv"
    run = simulate(tmp_path, impac(floor=20), data, split_by="site", node=IMPAC_NODE, in_process=True)
    survivors = set(read_document(run.folder).sites.survivors)
    assert len(survivors) == 25
    assert len(run.reasons) == 9
    assert all("min_participants_per_site" in reason for reason in run.reasons.values())
    assert_equals_pooled(run.folder, survivors, THICKNESS)


def test_killed_sites_leave_the_pooled_answer_of_the_survivors(tmp_path: Path) -> None:
    """3 die after R1 and before sending, 5 after they sent their masked vectors; the 5 count."""
    before, after = ["3", "14", "31"], ["0", "7", "12", "22", "33"]
    failpoints = dict.fromkeys(before, "site.r2.before") | dict.fromkeys(after, "site.r2.sent")
    study = impac(min_sites=23, step="10s")
    run = simulate(
        tmp_path, study, DATA / "impac_asd.csv", split_by="site", node=IMPAC_NODE, failpoints=failpoints
    )
    sites = read_document(run.folder).sites
    assert len(sites.took_part) == 34
    assert set(sites.dropouts) == set(before)
    assert set(after) <= set(sites.survivors)
    assert_equals_pooled(run.folder, set(sites.survivors), THICKNESS[:8])
    ages = rows(run.folder, "ages", "asd")
    with (DATA / "impac_asd.csv").open(newline="") as file:
        people = [row for row in csv.DictReader(file) if row["site"] in sites.survivors]
    assert sum(int(row["n"]) for row in ages.values()) == len(people)


@pytest.mark.parametrize("failpoint", ["site.r1.sent", "site.r2.before", "site.r2.sent", "site.r3.sent"])
def test_a_missed_threshold_gives_no_result(
    tmp_path: Path, failpoint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three sites need all three: whoever dies, wherever, nothing opens and nothing is written."""
    monkeypatch.setattr(processes, "GATHER_BASE_S", 12.0)  # nobody is on the way back here
    study = CNSIM.replace("20s", "2s")
    with pytest.raises(RoundFailedError):
        simulate(tmp_path, study, cnsim_folder(tmp_path), failpoints={"cnsim2": failpoint})
    assert not (tmp_path / "out" / "result.json").exists()
    assert not (tmp_path / "out" / "results").exists()


def cnsim_folder(tmp_path: Path) -> Path:
    folder = tmp_path / "cnsim"
    folder.mkdir()
    for number in (1, 2, 3):
        (folder / f"cnsim{number}.csv").write_bytes((DATA / f"cnsim{number}.csv").read_bytes())
    return folder


def test_cnsim_means_equal_the_published_values(tmp_path: Path) -> None:
    run = simulate(tmp_path, CNSIM, cnsim_folder(tmp_path))
    expected = truth("cnsim")
    labs = rows(run.folder, "labs", "variable")
    for name in ("LAB_TSC", "LAB_HDL"):
        pooled, row = expected[name]["pooled"], labs[(name,)]  # type: ignore[index]
        assert int(row["n"]) == pooled["n"]
        assert float(row["mean"]) == pytest.approx(pooled["mean"], rel=1e-9)
        assert float(row["sd"]) == pytest.approx(math.sqrt(pooled["var_ddof1"]), rel=1e-9)
    assert float(labs[("LAB_TSC",)]["mean"]) == pytest.approx(5.85192485623003, rel=1e-9)  # type: ignore[index]
    slope = rows(run.folder, "tsc", "term")[("LAB_TRIG",)]  # type: ignore[index]
    assert float(slope["b"]) == pytest.approx(expected["gaussian"]["coef"]["LAB_TRIG"]["b"], rel=1e-8)
    assert float(slope["df"]) == 7798
    bins = rows(run.folder, "tsc_bins", "low")
    assert sum(int(row["count"]) for row in bins.values()) == 7825
    assert (run.folder / "consortium" / "logs" / "coordinator.jsonl").read_text().count('"round.open"') == 1


def test_an_outcome_at_two_of_twenty_sites_is_never_summed(tmp_path: Path) -> None:
    data = DATA / "abide1_qc.csv"
    run = simulate(tmp_path, ABIDE, data, split_by="SITE_ID", node=ABIDE_NODE, json=True)
    measures = rows(run.folder, "measures", "variable")
    assert measures[("BMI",)]["status"] == "too few sites"  # type: ignore[index]
    assert measures[("BMI",)]["n"] == measures[("BMI",)]["mean"] == ""  # type: ignore[index]
    assert measures[("FIQ",)]["status"] == "ok"  # type: ignore[index]
    effects = rows(run.folder, "effects", "outcome", "term")
    assert effects["BMI", "dx[autism]"]["status"] == "too few sites"
    assert effects["FIQ", "dx[autism]"]["status"] == "ok"
    # The recorded traffic: every site sent the number of people and the blocks of FIQ, and not one number more.
    logs = run.folder / "consortium" / "logs"
    events = [json.loads(line) for line in (logs / "coordinator.jsonl").read_text().splitlines()]
    (opened,) = [event for event in events if event["event"] == "round.open"]
    summary, regression = 4, (1 + 2) + 2 + 3 + 3
    assert opened["numbers"] == 1 + summary + regression


def test_a_site_without_its_covariate_stays_out_and_the_others_go_on(tmp_path: Path) -> None:
    folder = cnsim_folder(tmp_path)
    (folder / "broken.csv").write_text("column_1,LAB_TSC\n1,notanumber\n2,5.1\n3\n")
    run = simulate(tmp_path, CNSIM, folder)
    assert read_document(run.folder).sites.survivors == ("cnsim1", "cnsim2", "cnsim3")
    assert set(run.reasons) == {"broken"}
    assert "broken.csv" in run.reasons["broken"]
    assert "notanumber" not in run.reasons["broken"]
