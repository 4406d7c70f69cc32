"""The membership attack: it finds who was in exact sums where theory says so, finds nothing where there is nothing, and noise stops it.

People come from a fixed seed, noise from the system: an AUC over noise is a mean of 25 releases with a standard error of about 0.006,
so that 0.55 is seven of them away.
"""

from math import sqrt
from pathlib import Path
from statistics import NormalDist

import numpy as np
import pytest
from typer.testing import CliRunner

from cohortsum.cli.audit import app
from cohortsum.crypto.errors import StudyFileError
from cohortsum.study.audit.membership import BAR, attack, invented
from cohortsum.study.planning import StudyPlan
from tests.noise.noisy import STUDY, plan_of, study_of

EXACT = "noise: none"
DEFAULT = "noise: distributed, epsilon: 1, delta: 1.0e-6"


def means(numbers: int, privacy: str = DEFAULT) -> StudyPlan:
    variables = "\n".join(f"  roi{number:04d}: {{unit: mm, range: [1, 5]}}" for number in range(numbers))
    moments = 1 if privacy != EXACT else 2
    analyses = f"  means: {{kind: summary, variables: ['roi*'], moments: {moments}}}"
    return plan_of(study_of(variables, analyses, privacy))


def test_a_thousand_means_of_nine_hundred_people_under_the_default_policy() -> None:
    """Exactly, d independent means of n people separate by sqrt(d / n) standard deviations; with epsilon 1 a coin does as well."""
    found = attack(means(1000), 900, 400, np.random.default_rng(1))
    theory = NormalDist().cdf(sqrt(1000 / 900) / sqrt(2))
    assert found.numbers == 1000
    assert abs(found.without - theory) < 4 * found.error
    assert found.protected is not None
    assert found.protected < BAR < found.without
    assert abs(found.protected - 0.5) < 0.05


def test_few_numbers_of_many_people_tell_little_even_exactly() -> None:
    found = attack(means(3, EXACT), 900, 400, np.random.default_rng(2))
    assert found.protected is None
    assert found.verdict == found.without < 0.5 + 4 * found.error


def test_noise_that_is_too_small_is_seen_through() -> None:
    """The attack can fail a study: at epsilon 100 the noise of a few hundred means hides nobody."""
    loud = attack(
        means(300, "noise: distributed, epsilon: 100, delta: 1.0e-6"), 300, 200, np.random.default_rng(3)
    )
    assert loud.protected is not None
    assert loud.protected > BAR


def test_sums_of_whole_sites_are_attacked_too() -> None:
    """Centred products are computed once per site; a person's influence on them is found by putting them into one."""
    variables = "\n".join(f"  roi{number:02d}: {{unit: mm, range: [1, 5]}}" for number in range(40))
    analyses = "  pairs: {kind: covariance, variables: ['roi*'], site_effect: within}"
    found = attack(plan_of(study_of(variables, analyses, EXACT)), 300, 200, np.random.default_rng(4))
    assert found.numbers > 800
    assert found.without > 0.75


def test_invented_people_meet_the_condition_of_the_cohort() -> None:
    study = study_of()
    plan = plan_of(study)
    some = invented(plan, 50, np.random.default_rng(5))
    assert some.people == 50
    values = some.numbers["hippocampus"]
    assert abs(values.mean() - 3250) < 4 * 437.5 / sqrt(50)


def test_too_few_people_are_refused() -> None:
    with pytest.raises(StudyFileError, match="too few to attack"):
        attack(means(2), 100, 400, np.random.default_rng(6))


@pytest.mark.parametrize(("privacy", "numbers", "code"), [(DEFAULT, 30, 0), (EXACT, 400, 2)])
def test_the_command_prints_both_and_fails_above_the_bar(
    tmp_path: Path, privacy: str, numbers: int, code: int
) -> None:
    variables = "\n".join(f"  roi{number:04d}: {{unit: mm, range: [1, 5]}}" for number in range(numbers))
    moments = 1 if privacy != EXACT else 2
    text = STUDY.format(
        variables=variables,
        analyses=f"  means: {{kind: summary, variables: ['roi*'], moments: {moments}}}",
        privacy=privacy,
        sites=7,
        attempts=1,
    )
    (tmp_path / "study.yaml").write_text(text)
    done = CliRunner().invoke(
        app, ["membership", str(tmp_path / "study.yaml"), "--people", "300", "--targets", "200"]
    )
    assert "exact sums" in done.output
    assert ("distributed noise, epsilon 1" in done.output) is (privacy == DEFAULT)
    assert (done.exception is None) is (code == 0)
