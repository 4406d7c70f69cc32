"""Every kind of analysis, through the whole protocol on real tables, equals another library on the same rows together."""

from math import inf, nan

import pytest

from cohortsum.study.definition.kinds import KINDS
from cohortsum.study.results import NO_DATA
from tests.truths.every import UNDER_NOISE, every
from tests.truths.registry import Comparison, Runs
from tests.truths.tally import Tally


@pytest.mark.parametrize("comparison", every(), ids=str)
def test_all_numbers_equal_those_of_all_rows_together(comparison: Comparison, runs: Runs) -> None:
    if not comparison.data.present:
        pytest.skip(f"{comparison.data.file} is not beside this repository")
    tally = comparison.error(runs[comparison.data])
    assert tally.largest <= comparison.tolerance


def test_every_kind_of_analysis_is_compared() -> None:
    assert {comparison.kind for comparison in every()} == set(KINDS) - UNDER_NOISE
    assert len(every()) > 60


def test_a_tally_keeps_the_largest_error_and_takes_nothing_for_a_number() -> None:
    tally = Tally()
    tally.same(2.00002, 2.0)
    tally.near(0.5, 0.0, 1000.0)
    assert tally.largest == pytest.approx(5e-4)
    tally.exact((3, "ok"), (3, "ok"))
    assert tally.count == 3
    tally.exact(3, 4)
    assert tally.largest == inf
    wrong = Tally()
    wrong.same(nan, 1.0)
    assert wrong.largest == inf
    with pytest.raises(ValueError, match="expected a number"):
        wrong.same(NO_DATA, 1.0)
