"""Descriptive analyses through the whole protocol: two rounds of quantiles, 34 sites of components, against the truth."""

import csv
import json
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from cohortsum.cli.simulate.command import run_simulation
from cohortsum.study.definition import freeze, load_study
from tests.end_to_end.studies import CNSIM, DATA, IMPAC, IMPAC_NODE

pytestmark = pytest.mark.skipif(
    not (DATA / "impac_asd.csv").exists(), reason="the real tables are not beside this repository"
)

QUANTILES = """\
analyses:
  hdl:
    kind: quantiles
    variables: [LAB_HDL]
    probabilities: [0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95]
    bins: {from: 0, to: 5, count: 50}
    refine: 0.001
"""
COMPONENTS = """\
analyses:
  main: {kind: pca, variables: ["lh_*_thickness", "rh_*_thickness"], components: 3, site_effect: none}
  shape: {kind: summary, variables: [age], by: [asd], moments: 4}
"""


def with_analyses(study: str, analyses: str) -> str:
    start, end = study.index("analyses:\n"), study.index("protection:\n")
    return study[:start] + analyses + study[end:]


def simulate(tmp_path: Path, study: str, data: Path, split_by: str | None, node: str) -> Path:
    (tmp_path / "node.yaml").write_text(node)
    run = run_simulation(
        freeze(load_study(study.encode(), "study.yaml")),
        data,
        tmp_path / "out",
        split_by,
        tmp_path / "node.yaml" if node else None,
        "open_data",
        True,
        Console(quiet=True),
    )
    return run.folder


def rows(folder: Path, analysis: str) -> list[dict[str, str]]:
    with (folder / "results" / f"{analysis}.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def truth(name: str) -> dict[str, Any]:
    held: dict[str, Any] = json.loads((DATA / f"{name}.truth.json").read_text())
    return held


def test_a_second_round_brings_quantiles_to_the_width_that_was_asked_for(tmp_path: Path) -> None:
    tables = tmp_path / "cnsim"
    tables.mkdir()
    for number in (1, 2, 3):
        (tables / f"cnsim{number}.csv").write_bytes((DATA / f"cnsim{number}.csv").read_bytes())
    folder = simulate(tmp_path, with_analyses(CNSIM, QUANTILES), tables, None, "")
    exact = truth("cnsim")["LAB_HDL_quantileMean"]["exact_pooled"]
    found = rows(folder, "hdl")
    assert len(found) == len(exact) == 7
    for row, value in zip(found, exact, strict=True):
        bound = float(row["error_bound"])
        assert bound == pytest.approx(0.001, rel=1e-9)
        assert abs(float(row["value"]) - value) <= bound
        assert (row["refined"], row["n"]) == ("yes", "7809")


def test_components_and_shape_over_34_sites_equal_the_truth(tmp_path: Path) -> None:
    study = with_analyses(IMPAC.format(min_sites=10, floor=10, step="20s"), COMPONENTS)
    folder = simulate(tmp_path, study, DATA / "impac_asd.csv", "site", IMPAC_NODE)
    eigenvalues = truth("impac_asd")["pca_corr_68"]["eig_top10"]
    found = rows(folder, "main")
    assert len(found) == 3 * 68
    for place in range(3):
        assert float(found[68 * place]["eigenvalue"]) == pytest.approx(eigenvalues[place], rel=1e-9)
    shape = rows(folder, "shape")
    assert [row["n"] for row in shape] == ["601", "549"]
    assert all(float(row["skewness"]) > 1 for row in shape)
