"""A policy only tightens, and what this version cannot honour is refused by name."""

from dataclasses import replace

import pytest

from cohortsum.crypto.errors import NotInThisVersionError, PolicyError
from cohortsum.node.config import PolicyConfig, Thresholds
from cohortsum.node.policy import Floors, floors_for
from cohortsum.study.definition import FrozenStudy
from tests.edges.harness import signed_study

STUDY: FrozenStudy = signed_study()[0]


def policy(**fields: object) -> PolicyConfig:
    return PolicyConfig.model_validate({"profile": "open_data", **fields})


def test_without_thresholds_the_study_s_bounds_hold() -> None:
    assert floors_for(STUDY, policy()) == Floors(3, 3, 2)


@pytest.mark.parametrize(
    ("thresholds", "floors"),
    [
        ({"min_sites": 5}, Floors(5, 3, 2)),
        ({"min_participants": 300}, Floors(3, 300, 2)),
        ({"min_participants_per_site": 20}, Floors(3, 3, 20)),
        ({"min_sites": 1, "min_participants": 1, "min_participants_per_site": 1}, Floors(3, 3, 2)),
    ],
)
def test_the_stricter_of_study_and_policy_holds(thresholds: dict[str, int], floors: Floors) -> None:
    assert floors_for(STUDY, policy(thresholds=thresholds)) == floors


@pytest.mark.parametrize("missing", ["summary", "histogram", "regression"])
def test_an_analysis_the_policy_does_not_list_is_refused_by_name(missing: str) -> None:
    listed = tuple({"summary", "histogram", "regression"} - {missing})
    with pytest.raises(PolicyError, match=f"does not list {missing}"):
        floors_for(STUDY, policy(statistics=listed))


def test_analyses_that_are_all_listed_are_allowed() -> None:
    allowed = policy(statistics=("summary", "histogram", "regression", "glm"), noise=("none",))
    assert floors_for(STUDY, allowed) == Floors(3, 3, 2)


def test_a_noise_the_policy_does_not_list_is_refused_by_name() -> None:
    with pytest.raises(PolicyError, match="does not list none"):
        floors_for(STUDY, policy(noise=("distributed", "local")))


def test_a_study_that_reckons_with_fewer_colluding_sites_is_refused() -> None:
    with pytest.raises(PolicyError, match="1 colluding"):
        floors_for(STUDY, policy(thresholds={"max_colluding_sites": 1}))
    stricter = replace(STUDY, protection=STUDY.protection.model_copy(update={"max_colluding_sites": 2}))
    assert floors_for(stricter, policy(thresholds={"max_colluding_sites": 1})) == Floors(3, 3, 2)


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"egress": {"checkers": ["ann"]}}, "egress"),
    ],
)
def test_what_is_not_built_is_refused_by_name_before_anything_else(
    fields: dict[str, object], named: str
) -> None:
    with pytest.raises(NotInThisVersionError, match=named):
        floors_for(STUDY, policy(statistics=(), **fields))


def test_a_policy_without_a_profile_is_the_strict_one() -> None:
    assert PolicyConfig().profile == "dpuk"
    assert floors_for(STUDY, PolicyConfig(thresholds=Thresholds())) == Floors(3, 100, 20)
