"""The example with one analysis of almost every kind runs over the demo's tables, and agrees with itself."""

import csv
from pathlib import Path

import pytest
from rich.console import Console

from cohortsum.cli.demo_data import write_demo_tables
from cohortsum.cli.simulate.command import run_simulation
from cohortsum.study.definition import freeze, load_study
from cohortsum.study.definition.kinds import KINDS

CATALOGUE = Path(__file__).resolve().parents[2] / "examples" / "asd-catalogue.yaml"
FOLLOWED = {"kaplan_meier", "logrank", "cox"}
TRAINED = {"dp_sgd"}
"""Only under noise, in a study of its own."""
BESIDE = {"histogram", "covariance"}
"""What quantiles and correlations show as well."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("catalogue")
    write_demo_tables(place / "tables")
    study = freeze(load_study(CATALOGUE.read_bytes(), CATALOGUE.name))
    return run_simulation(
        study, place / "tables", place / "out", None, None, "open_data", True, Console(quiet=True)
    ).folder


def rows(folder: Path, table: str) -> list[dict[str, str]]:
    with (folder / "results" / f"{table}.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def of(found: list[dict[str, str]], column: str, **where: str) -> list[float]:
    return [float(row[column]) for row in found if all(row[name] == value for name, value in where.items())]


def test_it_holds_every_kind_that_its_tables_allow() -> None:
    study = freeze(load_study(CATALOGUE.read_bytes(), CATALOGUE.name))
    assert {spec.kind for spec in study.analyses.values()} == set(KINDS) - FOLLOWED - BESIDE - TRAINED


def test_every_table_is_finished(folder: Path) -> None:
    tables = sorted(path.stem for path in (folder / "results").glob("*.csv") if ".enigma" not in path.name)
    assert len(tables) >= 15
    for table in tables:
        found = rows(folder, table)
        assert found, table
        assert {row["status"] for row in found if "status" in row} <= {"ok"}, table


def test_its_analyses_agree_where_they_ask_for_the_same(folder: Path) -> None:
    counted = sum(of(rows(folder, "people"), "count"))
    assert counted == sum(of(rows(folder, "demographics"), "n"))
    regions = {"outcome": "lh_superiorfrontal_thickness", "term": "dx[autism]"}
    (random_site,) = of(rows(folder, "random_site"), "b", **regions)
    (robust,) = of(rows(folder, "robust"), "b", **regions)
    (harmonised,) = of(rows(folder, "after_combat"), "b", **regions)
    (error,) = of(rows(folder, "robust"), "se", **regions)
    assert abs(random_site - robust) < 0.2 * error  # one effect, four ways to take sites into account
    assert abs(harmonised - robust) < 0.5 * error
    assert random_site != robust != harmonised


def test_every_figure_of_the_page_is_there(folder: Path) -> None:
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert page.count("<svg") >= 10
    for caption in ("Desikan-Killiany", "odds ratio", "age"):
        assert caption in page
