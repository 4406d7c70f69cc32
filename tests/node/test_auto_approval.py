"""Which studies a site's policy approves without asking: what ``max_epsilon`` lets through."""

from datetime import UTC, date, datetime

import pytest

from cohortsum.node.auto_approval import describes
from cohortsum.node.config import AutoApproval
from tests.noise.noisy import study_of
from tests.study.committee_studies import PROTECTION
from tests.study.committee_studies import study_of as committee_study
from tests.study.definitions import frozen

NOW = datetime(2030, 1, 1, tzinfo=UTC)


def entry(max_epsilon: float | None) -> AutoApproval:
    return AutoApproval(
        statisticians=("stat",),
        statistics=("summary",),
        outcomes=("hippo*",),
        until=date(2031, 1, 1),
        max_epsilon=max_epsilon,
    )


@pytest.mark.parametrize(
    ("privacy", "most", "expected"),
    [
        ("noise: distributed, epsilon: 1, delta: 1.0e-6", 1.0, True),
        ("noise: distributed, epsilon: 1.001, delta: 1.0e-6", 1.0, False),
        ("noise: distributed, epsilon: 1, delta: 1.0e-6", 0.5, False),
        ("noise: none", 1000.0, False),  # exact numbers are within no epsilon
        ("noise: none", None, True),
        ("noise: distributed, epsilon: 1, delta: 1.0e-6", None, True),
    ],
)
def test_a_study_is_described_up_to_its_epsilon(privacy: str, most: float | None, expected: bool) -> None:
    assert describes(entry(most), study_of(privacy=privacy), "stat", NOW) is expected


def test_a_study_over_a_committee_is_for_the_admin_to_decide() -> None:
    asked = ["kind: histogram, variables: [age], edges: [0, 50, 100]"]
    masking = PROTECTION.replace("mode: committee, committee: [site0, site1, site2], ", "")
    described = AutoApproval(
        statisticians=("stat",), statistics=("histogram",), outcomes=("*",), until=date(2031, 1, 1)
    )
    assert describes(described, frozen(committee_study(asked, masking)), "stat", NOW)
    assert not describes(described, frozen(committee_study(asked)), "stat", NOW)
