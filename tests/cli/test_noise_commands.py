"""What people see of noise: the plan before a study runs, the budget of a site, the attack, and refusals with their cure."""

import json
from contextlib import closing
from pathlib import Path

import pytest

from cohortsum.node.ledger import Ledger
from tests.cli.test_commands import ROOT, cohortsum
from tests.node.test_budget import LIFETIME, asked, write
from tests.noise.noisy import HIPPOCAMPUS, MEANS, STUDY

EXAMPLE = ROOT / "examples" / "asd-noised.yaml"


def study_file(folder: Path, privacy: str, analyses: str = MEANS, variables: str = HIPPOCAMPUS) -> Path:
    path = folder / "study.yaml"
    path.write_text(
        STUDY.format(variables=variables, analyses=analyses, privacy=privacy, sites=7, attempts=1)
    )
    return path


def test_check_shows_the_noise_beside_the_sampling_error_and_what_it_promises() -> None:
    done = cohortsum("study", "check", EXAMPLE, "--sites", "9", "--people", "870")
    assert done.returncode == 0, done.stderr
    for text in (
        "Noise beside sampling error, 870 people in 9 sites",
        "dx[autism] on",
        "provided that at least 6 of the sites",
        "sets aside epsilon 2.5",
        "the opened sums with their noise",
        "not protected",
    ):
        assert text in " ".join(done.stdout.split()), text
    assert "no noise is added" not in done.stdout


@pytest.mark.parametrize("command", ["check", "sign"])
def test_a_study_that_the_noise_would_drown_is_refused_with_what_would_help(
    tmp_path: Path, command: str
) -> None:
    path = study_file(tmp_path, "noise: distributed, epsilon: 0.3, delta: 1.0e-6")
    cohortsum("key", "new", tmp_path / "key")
    more = (
        ()
        if command == "check"
        else ("--key", tmp_path / "key", "--id", "stat1", "--out", tmp_path / "signed")
    )
    done = cohortsum("study", command, path, *more)
    assert done.returncode == 2
    assert "times the sampling error" in done.stderr
    assert "accept_noise" in done.stderr
    assert "people or epsilon" in done.stderr
    assert not (tmp_path / "signed").exists()
    accepted = study_file(tmp_path, "noise: distributed, epsilon: 0.3, delta: 1.0e-6, accept_noise: true")
    assert cohortsum("study", command, accepted, *more).returncode == 0


def test_a_thousand_statistics_at_epsilon_one_each_are_refused_with_their_total(tmp_path: Path) -> None:
    variables = "\n".join(f"  roi{number:04d}: {{unit: mm, range: [1, 5]}}" for number in range(1000))
    analyses = "  means: {kind: summary, variables: ['roi*'], moments: 1}"
    path = study_file(
        tmp_path, "noise: distributed, epsilon: 1, delta: 1.0e-5, each: number", analyses, variables
    )
    done = cohortsum("study", "check", path)
    assert done.returncode == 2
    assert "epsilon 71.27 in all" in done.stderr


def test_the_budget_of_a_site_is_listed_study_by_study(tmp_path: Path) -> None:
    (tmp_path / "policy.yaml").write_text("profile: open_data\n")
    empty = cohortsum("node", "budget", tmp_path)
    assert empty.returncode == 0, empty.stderr
    assert "No study with noise" in empty.stdout
    study, spending = asked()
    with closing(Ledger(tmp_path / "ledger.db")) as ledger:
        ledger.budget.reserve(study, spending, LIFETIME)
        write(ledger, study, b"c" * 32, 1)
    listed = cohortsum("node", "budget", tmp_path)
    assert "noised" in listed.stdout
    assert "of 3 (delta 1e-05)" in listed.stdout
    held = json.loads(cohortsum("node", "budget", tmp_path, "--json").stdout)
    (one,) = held["studies"]
    assert (one["study"], one["reserved"], one["charged"], one["refunded"], one["open"]) == (
        "noised",
        2,
        1,
        0,
        True,
    )
    assert 0 < held["spent"] < held["with_reserves"] < 0.3
    assert one["cost"] == {"nano_rho": spending.cost.nano_rho, "rate": 1.0, "adjacency": "replace_one"}


def test_a_subgroup_of_unknown_size_is_said_to_do_worse(tmp_path: Path) -> None:
    variables = HIPPOCAMPUS + "\n  sex: {levels: [F, M]}"
    analyses = "  women: {kind: summary, variables: [hippocampus], where: 'sex == \"F\"'}"
    path = study_file(tmp_path, "noise: distributed, epsilon: 8, delta: 1.0e-6", analyses, variables)
    done = cohortsum("study", "check", path, "--people", "900")
    assert done.returncode == 0, done.stderr
    assert "women will do worse than shown" in " ".join(done.stdout.split())
