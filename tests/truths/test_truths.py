"""Every kind of analysis, through the whole protocol on real tables, equals another library on the same rows together."""

import pytest

from cohortsum.study.definition.kinds import KINDS
from tests.truths.every import every
from tests.truths.registry import Comparison, Runs


@pytest.mark.parametrize("comparison", every(), ids=str)
def test_all_numbers_equal_those_of_all_rows_together(comparison: Comparison, runs: Runs) -> None:
    if not comparison.data.present:
        pytest.skip(f"{comparison.data.file} is not beside this repository")
    tally = comparison.error(runs[comparison.data])
    assert tally.largest <= comparison.tolerance


def test_every_kind_of_analysis_is_compared() -> None:
    assert {comparison.kind for comparison in every()} == set(KINDS)
    assert len(every()) > 60
