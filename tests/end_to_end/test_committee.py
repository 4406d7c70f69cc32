"""Studies over a committee, over real processes, gRPC and TLS: exact quantiles as numpy has them on all rows, and no small count."""

import csv
import json
from pathlib import Path

import numpy as np
import pytest

from cohortsum.cli.results import read_document
from cohortsum.crypto.errors import ConfigurationError, RoundFailedError
from tests.end_to_end.studies import DATA
from tests.end_to_end.test_real_data import simulate

COUNTS = {"seven": 7, "twelve": 12, "none": 0, "forty": 40}
SITES = ("a", "b", "c", "d", "e")

CELLS = """
study: closed
title: Counts that stay closed
version: 1
roster: 1
expires: 2099-12-31
person: id
variables:
  level: {levels: [seven, twelve, none, forty]}
  age: {unit: years, range: [0, 100]}
cohort: {epoch: 2026-11}
analyses:
  levels: {kind: crosstab, factors: [level]}
protection:
  mode: committee
  committee: [a, c, e]
  min_sites: 3
  min_participants: 50
  max_participants: 1000
  min_participants_per_site: 3
  max_colluding_sites: 1
  min_honest_inputs: 3
privacy: {noise: none}
release: {checkers: {consortium: 0, sites: none}}
deadlines: {step: 60s, step_max: 60s, tick: 20ms}
"""

QUANTILES = """
study: thickness
title: Exact percentiles of cortical thickness
version: 1
roster: 1
expires: 2099-12-31
person: sub_id
variables:
  lh_MeanThickness_thickness: {unit: mm, range: [0, 5]}
cohort: {epoch: 2026-11}
analyses:
  thickness:
    kind: quantiles
    variables: [lh_MeanThickness_thickness]
    step: 0.00001
    probabilities: [0, 0.05, 0.25, 0.5, 0.75, 0.95, 1]
protection:
  mode: committee
  committee: [Leiden_2180, Atlanta, Baltimore]
  min_sites: 10
  min_participants: 500
  max_participants: 10000
  min_participants_per_site: 3
  max_colluding_sites: 1
privacy: {noise: none}
release: {checkers: {consortium: 0, sites: none}}
deadlines: {step: 120s, step_max: 120s, tick: 20ms}
"""


def people(folder: Path) -> Path:
    """Write the people of five sites, one after the other."""
    levels = [level for level, count in COUNTS.items() for _ in range(count)]
    path = folder / "people.csv"
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["id", "site", "level", "age"])
        for place, level in enumerate(levels):
            writer.writerow([f"p{place}", SITES[place % 5], level, 20 + place])
    return path


def rows(folder: Path, name: str) -> list[dict[str, str]]:
    with (folder / "results" / f"{name}.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def test_counts_below_k_come_out_suppressed_and_stand_in_no_log(tmp_path: Path) -> None:
    run = simulate(tmp_path, CELLS, people(tmp_path), split_by="site")
    held = rows(run.folder, "levels")
    assert [(row["level"], row["status"]) for row in held] == [
        ("seven", "hidden"),
        ("twelve", "ok"),
        ("none", "hidden"),
        ("forty", "ok"),
    ]
    assert [row["count"] for row in held if row["status"] == "ok"] == ["12", "40"]
    document = read_document(run.folder)
    assert document.sites.survivors == SITES
    log = (run.folder / "consortium" / "logs" / "coordinator.jsonl").read_text()
    stages = [
        event for line in log.splitlines() if (event := json.loads(line))["event"] == "committee.opened"
    ]
    assert [event["stage"] for event in stages] == [1, 2]


def test_fewer_people_than_asked_for_open_nothing(tmp_path: Path) -> None:
    study = CELLS.replace("min_participants: 50", "min_participants: 60")
    with pytest.raises(RoundFailedError, match="fewer than min_participants 60"):
        simulate(tmp_path, study, people(tmp_path), split_by="site")


def test_a_simulation_in_one_process_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="without --in-process"):
        simulate(tmp_path, CELLS, people(tmp_path), split_by="site", in_process=True)


@pytest.mark.skipif(
    not (DATA / "fcon1000.csv").exists(), reason="the real tables are not beside this repository"
)
def test_percentiles_of_thickness_over_23_sites_are_numpys(tmp_path: Path) -> None:
    table = DATA / "fcon1000.csv"
    run = simulate(tmp_path, QUANTILES, table, split_by="site")
    document = read_document(run.folder)
    assert len(document.sites.survivors) == 23
    with table.open(newline="") as file:
        values = np.array([float(row["lh_MeanThickness_thickness"]) for row in csv.DictReader(file)])
    decimals = np.round(values, 5)  # some cells of the table were written with 17 digits
    assert np.abs(values - decimals).max() < 1e-15
    for row in rows(run.folder, "thickness"):
        percent = 100 * float(row["probability"])
        assert row["status"] == "ok"
        assert row["n"] == str(len(values))
        assert float(row["value"]) == float(np.percentile(decimals, percent))
        assert float(row["value"]) == pytest.approx(float(np.percentile(values, percent)), abs=1e-15)
