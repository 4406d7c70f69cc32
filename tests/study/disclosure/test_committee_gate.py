"""The gate behind a committee: what stayed closed stays so, what was opened is printed by the rules, and rules that ask for more withhold."""

import numpy as np
import pytest

from cohortsum.study.batch import Batch
from cohortsum.study.disclosure.committee_gate import committee_gate, refused_here
from cohortsum.study.disclosure.verdict import Gated, Outcome, Regime
from cohortsum.study.results import HIDDEN, Absent, Cell
from tests.study.committee_studies import PROTECTION, planned, play, site_of
from tests.study.disclosure.release_of import DPUK

OPEN = Regime("open_data")
LOW = PROTECTION.replace("mode: committee", "mode: committee, min_cell: 5")
CELLS = "kind: crosstab, factors: [dx, sex]"
QUANTILES = "kind: quantiles, variables: [iq], step: 0.1, probabilities: [0, 0.05, 0.5]"


def sites() -> list[Batch]:
    draw = np.random.default_rng(11)
    return [
        site_of(30, seed, dx=draw.choice(4, 30, p=[0.5, 0.3, 0.15, 0.05]), sex=draw.integers(0, 2, 30))
        for seed in range(5)
    ]


def gated(
    entry: str, regime: Regime, protection: str = PROTECTION
) -> tuple[Gated, tuple[dict[str, Cell], ...]]:
    plan = planned(entry, protection=protection)
    ended = play(plan, sites()).ended
    assert isinstance(ended, tuple)
    found = committee_gate(plan.study, ended, regime)
    first = found.tables[0]
    return found, tuple(dict(zip(first.columns, row, strict=True)) for row in first.rows)


def test_open_data_shows_what_the_committee_opened() -> None:
    found, rows = gated(CELLS, OPEN)
    counts = [row["count"] for row in rows]
    assert HIDDEN in counts
    assert found.results == ()
    assert all(count is HIDDEN or (isinstance(count, int) and count >= 10) for count in counts)


def test_dpuk_rounds_counts_and_makes_shares_of_the_rounded_ones() -> None:
    _, exact = gated(CELLS, OPEN)
    found, rows = gated(CELLS, DPUK)
    for row, before in zip(rows, exact, strict=True):
        count = before["count"]
        assert row["count"] == (HIDDEN if count is HIDDEN else 5 * round(int(str(count)) / 5))
    first = [row["count"] for row in rows[:2]]
    assert all(isinstance(count, int) for count in first)
    assert rows[0]["row_percent"] == pytest.approx(
        100 * int(str(first[0])) / sum(int(str(one)) for one in first)
    )
    assert {result.outcome for result in found.results if result.rule == "primary_suppression"} == {
        Outcome.CHANGED
    }
    measures = dict(zip(found.tables[1].columns, found.tables[1].rows[0], strict=True))
    assert measures["chi2"] == HIDDEN


def test_counts_that_are_smaller_than_the_rules_let_anybody_publish_withhold_every_table() -> None:
    found, rows = gated(CELLS, DPUK, LOW)
    assert all(row["count"] == HIDDEN for row in rows)
    assert {result.outcome for result in found.results} == {Outcome.WITHHELD}
    assert refused_here(planned(CELLS, protection=LOW).study, DPUK) is not None
    assert refused_here(planned(CELLS, protection=LOW).study, OPEN) is None
    assert refused_here(planned(CELLS).study, DPUK) is None


def test_extremes_are_for_open_data_alone() -> None:
    study = planned(QUANTILES).study
    assert refused_here(study, OPEN) is None
    assert "minimum or a maximum" in (refused_here(study, DPUK) or "")
    _, rows = gated(QUANTILES, OPEN)
    assert [row["status"] for row in rows] == ["ok", "hidden", "ok"]
    _, rows = gated(QUANTILES, DPUK)
    assert [row["value"] for row in rows[:2]] == [Absent("quantile_tails")] * 2
    assert rows[2]["status"] == "ok"
    assert rows[2]["n"] == 150


def test_a_histogram_prints_what_was_opened() -> None:
    entry = "kind: histogram, variables: [age], bins: {from: 0, to: 100, count: 12}"
    _, exact = gated(entry, OPEN)
    found, rows = gated(entry, DPUK)
    for row, before in zip(rows, exact, strict=True):
        count = before["count"]
        assert row["count"] == (HIDDEN if count is HIDDEN else 5 * round(int(str(count)) / 5))
        assert row["missing"] == Absent("not opened")
    assert found.results
