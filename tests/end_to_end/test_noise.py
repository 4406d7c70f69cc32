"""Noise through whole rounds: every site's share, masks, gates and results; and training over many of them."""

from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from cohortsum.cli.demo_data import write_demo_tables
from cohortsum.cli.results import read_document
from cohortsum.cli.simulate.command import run_simulation
from cohortsum.crypto.errors import RoundFailedError
from cohortsum.report.document import ResultDocument
from cohortsum.study.definition import freeze, load_study
from cohortsum.study.results import Cell

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "asd-noised.yaml"

TRAINING = """
study: trained
title: Training
version: 1
roster: 1
expires: 2037-12-31
person: person_id
variables:
  seen: {levels: [no, "yes"]}
  score: {unit: any, range: [-3, 3]}
cohort: {epoch: first}
analyses:
  model: {kind: dp_sgd, outcome: seen, terms: [score], sampling_rate: 0.25, steps: 6, clip: 1, learning_rate: 8}
protection: {min_sites: 5, min_participants: 100, max_participants: 1000, max_colluding_sites: 1, max_attempts: 1}
privacy: {noise: distributed, epsilon: 2.9, delta: 1.0e-6}
release: {checkers: {consortium: 0}}
"""


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("noised") / "tables"
    write_demo_tables(place)
    return place


def played(text: str, tables: Path, out: Path) -> ResultDocument:
    study = freeze(load_study(text.encode(), "study.yaml"))
    run = run_simulation(study, tables, out, None, None, "open_data", True, Console(quiet=True))
    return read_document(run.folder)


def cells(document: ResultDocument, analysis: str, column: str) -> list[Cell]:
    table = next(block.table() for block in document.tables if block.analysis == analysis)
    return [row[table.columns.index(column)] for row in table.rows]


def test_two_releases_of_one_study_differ_by_their_noise_and_by_no_more(tables: Path, tmp_path: Path) -> None:
    """A right release is beyond seven standard deviations once in 10^11 numbers."""
    text = EXAMPLE.read_text(encoding="utf-8")
    exact_text = (
        text[: text.index("privacy:")] + "privacy: {noise: none}\nrelease: {checkers: {consortium: 0}}\n"
    )
    exact_text = exact_text.replace("    under_noise: {clip: 3}", "    #")
    exact = played(exact_text, tables, tmp_path / "exact")
    one, other = (played(text, tables, tmp_path / name) for name in ("one", "other"))
    for noised in (one, other):
        assert noised.noise == "distributed"
        assert noised.privacy is not None
        assert noised.privacy.epsilon <= 2.5
        assert (noised.privacy.honest_sites, noised.privacy.openings) == (6, 1)
        assert set(cells(noised, "people", "status")) == {"ok"}
        pairs = zip(
            cells(noised, "people", "count"),
            cells(exact, "people", "count"),
            cells(noised, "people", "count_noise_sd"),
            strict=True,
        )
        assert all(abs(float(str(a)) - float(str(b))) < 7 * float(str(sd)) for a, b, sd in pairs)
        (b,), (true,), (se) = (
            cells(noised, "thickness", "b"),
            cells(exact, "thickness", "b"),
            cells(noised, "thickness", "se_noise"),
        )
        assert (
            abs(float(str(b)) - float(str(true))) < 7 * float(str(se[0])) + 0.01
        )  # clipping and who lacks a value
    assert cells(one, "thickness", "b") != cells(other, "thickness", "b")
    page = (tmp_path / "one" / "report.html").read_text(encoding="utf-8")
    assert "differentially private (epsilon 2.5" in page
    assert "No noise was added" not in page
    methods = (tmp_path / "one" / "METHODS.md").read_text(encoding="utf-8")
    assert "share of the noise" in methods


def test_training_goes_through_one_round_per_step_and_pays_for_all(tmp_path: Path) -> None:
    tables = tmp_path / "tables"
    tables.mkdir()
    generator = np.random.default_rng(7)
    for site in range(5):
        score = np.round(generator.normal(0, 1, 120), 3)
        seen = generator.random(120) < 1 / (1 + np.exp(-2 * score))
        rows = [
            f"p{site}-{place},{('no', 'yes')[int(y)]},{x}"
            for place, (x, y) in enumerate(zip(score, seen, strict=True))
        ]
        (tables / f"site{site}.csv").write_text("\n".join(("person_id,seen,score", *rows)) + "\n")
    found = played(TRAINING, tables, tmp_path / "out")
    assert found.round.iterations == 6
    assert found.privacy is not None
    assert (found.privacy.openings, found.privacy.sampling_rate) == (6, 0.25)
    assert 2.5 < found.privacy.epsilon <= 2.9
    assert "with probability 0.25" in " ".join(found.privacy.sentences)
    assert cells(found, "model", "term") == ["intercept", "score"]
    slope = float(str(cells(found, "model", "estimate")[1]))
    assert 0.2 < slope < 6  # clipping and noise bias it; its direction stands


def test_a_study_beyond_the_lifetime_budget_is_joined_by_nobody(tables: Path, tmp_path: Path) -> None:
    text = EXAMPLE.read_text(encoding="utf-8").replace("epsilon: 2.5", "epsilon: 3.5")
    with pytest.raises(RoundFailedError, match="0 sites take part"):
        played(text, tables, tmp_path / "out")


def test_where_people_may_come_and_go_their_number_is_noised_too(tables: Path, tmp_path: Path) -> None:
    text = EXAMPLE.read_text(encoding="utf-8")
    start, end = text.index("  thickness:"), text.index("protection:")
    text = (text[:start] + text[end:]).replace("privacy:", "privacy:\n  adjacency: add_or_remove")
    text = text.replace("  shares: {thickness: 6} ", "  #").replace("epsilon: 2.5", "epsilon: 1")
    exact = text[: text.index("privacy:")] + "privacy: {noise: none}\nrelease: {checkers: {consortium: 0}}\n"
    true = played(exact, tables, tmp_path / "exact")
    found = played(text, tables, tmp_path / "noised")
    assert found.privacy is not None
    assert found.privacy.adjacency == "add_or_remove"
    assert "one person more or less" in " ".join(found.privacy.sentences)
    assert "the number of people" not in found.privacy.sentences[1]
    counts = zip(
        cells(found, "people", "count"),
        cells(true, "people", "count"),
        cells(found, "people", "count_noise_sd"),
        strict=True,
    )
    assert all(abs(float(str(a)) - float(str(b))) < 7 * float(str(sd)) for a, b, sd in counts)
