"""Which blocks of a new version mean the same as before: everything they are computed from, and nothing else, decides."""

import pytest

from cohortsum.study.amendment import unchanged_blocks
from cohortsum.study.definition import freeze, load_study
from cohortsum.study.planning import StudyPlan, plan_study
from tests.edges.harness import pinned_roster
from tests.protocol.committee.played import roster_of
from tests.study.committee_studies import PROTECTION, study_of
from tests.study.definitions import frozen

STUDY = """
study: grows
title: Grows
version: 1
roster: 1
expires: 2099-12-31
person: id
variables:
  dx: {levels: [control, case]}
  age: {unit: years, range: [0, 100]}
  thick: {unit: mm, range: [0, 5]}
  thin: {unit: mm, range: [0, 5]}
derive: {age2: "age^2"}
cohort: {epoch: 2026-11, include: "age >= 18"}
analyses:
  ages: {kind: summary, variables: [age], by: [dx]}
  bands: {kind: histogram, variables: [age], edges: [0, 50, 100]}
  arms: {kind: crosstab, factors: [dx]}
  shares: {kind: proportion, variables: [thick], thresholds: [2, 3], factors: [dx]}
  means: {kind: test, outcomes: [thick], factor: dx, tests: [welch]}
  centiles: {kind: quantiles, variables: [thick], probabilities: [0.5], edges: [1, 3], bands: {age: [40]}}
  pairs: {kind: correlation, variables: [thick, age], missing: per_pair}
  main: {kind: pca, variables: [thick, age], components: 1}
  thickness: {kind: regression, outcomes: [thick], terms: [dx, age, age2]}
  pooled: {kind: meta, outcomes: [thick], terms: [dx, age], effect: dx, models: [fixed]}
  together: {kind: regression, outcomes: [thick, thin], terms: [dx], missing: complete}
protection:
  min_sites: 3
  min_participants: 3
  max_participants: 100000
  min_participants_per_site: 2
  max_colluding_sites: 0
privacy: {noise: none}
release: {checkers: {consortium: 0, sites: none}}
"""


def plan(text: str) -> StudyPlan:
    return plan_study(freeze(load_study(text.encode(), "study.yaml")), pinned_roster(5))


def changed(before: str, after: str, version: int = 2) -> StudyPlan:
    assert before in STUDY
    return plan(STUDY.replace(before, after).replace("version: 1", f"version: {version}"))


OLD = plan(STUDY)
ALL = frozenset(block.name for block in OLD.round.blocks[1:])


def of(analysis: str) -> frozenset[str]:
    return frozenset(name for name in ALL if name.startswith(f"{analysis}/"))


BY_LEVEL = frozenset({"thickness/thick/people", "thickness/thick/sites"})
"""What counts people by the level of an effect that is asked for."""


def test_nothing_changed_leaves_every_block_but_the_number_of_people() -> None:
    assert unchanged_blocks(OLD, changed("title: Grows", "title: Grown")) == ALL
    assert "people" not in ALL


@pytest.mark.parametrize(
    ("before", "after", "kept"),
    [
        ("outcomes: [thick], terms", "outcomes: [thick, thin], terms", ALL),
        ("variables: [age], by", "variables: [age, thick], by", ALL),
        ("by: [dx]}", "by: [dx], moments: 4}", ALL),
        ("by: [dx]}", "by: [dx], moments: 2}", ALL),
        ("expires: 2099-12-31", "expires: 2099-12-30", ALL),
        ("terms: [dx, age, age2]", "terms: [dx, age, age2], report: {effect: dx}", ALL - BY_LEVEL),
        ("terms: [dx, age, age2]", "terms: [dx, age]", ALL - of("thickness")),
        ("models: [fixed]", "models: [fixed], correction: fdr_bh", ALL),
        ("models: [fixed]", "models: [fixed], min_per_arm: 5", ALL - of("pooled")),
        ("outcomes: [thick, thin], terms", "outcomes: [thick], terms", ALL - of("together")),
        ("edges: [0, 50, 100]", "edges: [0, 60, 100]", ALL - of("bands")),
        ("by: [dx]", "by: []", ALL - of("ages")),
        ("variables: [thick], thresholds", "variables: [thick, thin], thresholds", ALL),
        ("tests: [welch]", "tests: [student, anova]", ALL),
        ("outcomes: [thick], factor", "outcomes: [thick, thin], factor", ALL),
        ("[thick, age], missing", "[thick, age, thin], missing", ALL),
        ("components: 1", "components: 2, shrinkage: 0.1", ALL),
        ("components: 1", "components: 1, site_effect: none", ALL - of("main")),
        ("probabilities: [0.5], edges", "probabilities: [0.1, 0.9], edges", ALL),
        ("probabilities: [0.5], edges", "probabilities: [0.5], refine: 0.1, edges", frozenset[str]()),
        ("bands: {age: [40]}", "bands: {age: [50]}", ALL - of("centiles")),
        ("edges: [1, 3], bands", "edges: [1, 2], bands", ALL - of("centiles")),
        ("thresholds: [2, 3]", "thresholds: [2, 4]", ALL - of("shares")),
        (
            "arms: {kind: crosstab, factors: [dx]}",
            "arms: {kind: crosstab, factors: [dx], where: age > 30}",
            ALL - of("arms"),
        ),
        ("thin: {unit: mm, range: [0, 5]}", "thin: {unit: mm, range: [0, 6]}", ALL - of("together")),
        ('age2: "age^2"', 'age2: "age^2 + 1"', ALL - of("thickness")),
        ("age >= 18", "age >= 19", frozenset[str]()),
        ("age: {unit: years, range: [0, 100]}", "age: {unit: years, range: [0, 101]}", frozenset[str]()),
        ("epoch: 2026-11", "epoch: 2027-01", frozenset[str]()),
        ("person: id", "person: number", frozenset[str]()),
        ("study: grows", "study: other", frozenset[str]()),
        ("max_participants: 100000", "max_participants: 1000000", None),
        (
            "levels: [control, case]",
            "levels: [case, control]",
            of("bands") | of("centiles") | of("pairs") | of("main"),
        ),
    ],
)
def test_a_change_costs_the_blocks_that_depend_on_it(
    before: str, after: str, kept: frozenset[str] | None
) -> None:
    found = unchanged_blocks(OLD, changed(before, after))
    if kept is None:  # another grid: only counts mean the same
        assert found < ALL
        assert all(
            name.endswith(("people", "sites", "included"))
            or name in of("bands") | of("arms") | of("shares") | of("centiles")
            for name in found
        ), found
    else:
        assert found == kept


def test_only_an_earlier_version_serves() -> None:
    assert unchanged_blocks(OLD, OLD) == frozenset()
    assert unchanged_blocks(changed("title: Grows", "title: Grown", 3), OLD) == frozenset()


def test_what_a_committee_answered_is_no_block_of_a_later_version() -> None:
    masking = PROTECTION.replace("mode: committee, committee: [site0, site1, site2], ", "")
    first, later = (
        plan_study(
            frozen(
                study_of(["kind: crosstab, factors: [dx]"], protection).replace(
                    "version: 1", f"version: {number}"
                )
            ),
            roster_of(5),
        )
        for number, protection in ((1, PROTECTION), (2, masking))
    )
    third = plan_study(
        frozen(later.study.canonical.decode().replace('"version":2', '"version":3')), roster_of(5)
    )
    assert unchanged_blocks(first, later) == frozenset()
    assert unchanged_blocks(later, third)
