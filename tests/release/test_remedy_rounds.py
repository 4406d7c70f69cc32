"""Remedies of studies of several rounds, and of studies under noise."""

from functools import partial
from math import sqrt

import numpy as np
import pytest

from cohortsum.crypto.errors import RefusedError
from cohortsum.study.batch import Batch
from cohortsum.study.planning import Sites, StudyPlan, by_block
from cohortsum.study.release.remedy import Action, Drop, DropTable, Merge, MergeBins, Remedy, apply_remedy
from cohortsum.study.results import Table
from tests.noise.noisy import contributions, noise_of, plan_of, study_of
from tests.release.coarse import Sums, numbers_of, planned, tables_of

SEVERAL = """\
study: several
title: Several rounds
version: 1
roster: 1
expires: 2099-12-31
person: id
variables:
  dx: {levels: [control, case]}
  site: {levels: [left, middle, right]}
  age: {unit: years, range: [0, 100]}
  y: {unit: mm, range: [0, 5]}
cohort: {epoch: 2026-11}
analyses:
  cells: {kind: crosstab, factors: [dx, site]}
  odds: {kind: glm, family: binomial, outcomes: [dx], terms: [age, y]}
  fine:
    kind: quantiles
    variables: [y, age]
    probabilities: [0.25, 0.5]
    edges: [0, 1, 2, 5, 50]
    by: [site]
    refine: 0.5
protection: {min_participants: 50, max_participants: 1000}
privacy: {noise: none}
"""


def people(seed: int, size: int) -> Batch:
    rng = np.random.default_rng(seed)
    numbers = {
        "age": rng.uniform(5, 95, size),
        "y": rng.uniform(0, 5, size),
        "volume": rng.normal(3300, 400, size),
    }
    levels = {"dx": rng.integers(0, 2, size), "site": rng.integers(0, 3, size)}
    return Batch(size, numbers, {name: codes.astype(np.int16) for name, codes in levels.items()})


@pytest.fixture(scope="module")
def last() -> tuple[StudyPlan, Sums, Sums]:
    """The plan of the last round, its sums, and those of the first."""
    plan, batch, first = planned(SEVERAL), people(1, 300), None
    while True:
        _, values = plan.contribution(partial(iter, [batch]), plan.round.blocks, frozenset(plan.round.items))
        sums = by_block(plan.round.blocks, values)
        first = first or sums
        following = plan.advance(sums)
        if following is None:
            return plan, sums, first
        plan = following


def of_last(last: tuple[StudyPlan, Sums, Sums], item: str, *actions: Action) -> tuple[Table, ...]:
    return apply_remedy(last[0], last[1], None, item, Remedy(actions))


def test_an_analysis_that_ended_earlier_is_computed_from_the_sums_of_its_own_round(
    last: tuple[StudyPlan, Sums, Sums],
) -> None:
    assert last[0].round.iteration > 2
    merge = Merge("site", ("left", "right"), "sides")
    found = of_last(last, "cells", merge)
    assert numbers_of(found) == numbers_of(
        apply_remedy(planned(SEVERAL), last[2], None, "cells", Remedy((merge,)))
    )
    assert [row[:2] for row in found[0].rows][:2] == [("control", "sides"), ("control", "middle")]


def test_of_a_fit_rows_and_tables_leave_and_nothing_else(last: tuple[StudyPlan, Sums, Sums]) -> None:
    coefficients, fit = tables_of(last[0], last[1], "odds")
    found = of_last(last, "odds", Drop(terms=("age",)), DropTable("odds.fit"))
    assert [table.analysis for table in found] == ["odds"]
    assert found[0].rows == tuple(row for row in coefficients.rows if row[1] != "age")
    assert of_last(last, "odds.fit", DropTable())[0] == coefficients
    assert of_last(last, "odds", DropTable())[0] == fit
    with pytest.raises(RefusedError, match="has no groups, or sums that do not add up"):
        of_last(last, "odds", Merge("site", ("left", "right"), "sides"))


def test_refined_quantiles_keep_their_groups_and_bins(last: tuple[StudyPlan, Sums, Sums]) -> None:
    (before,) = tables_of(last[0], last[1], "fine")
    assert "yes" in {row[before.columns.index("refined")] for row in before.rows}
    (found,) = of_last(last, "fine", Drop(variables=("y",), levels={"site": ("left",)}))
    assert found.rows == tuple(row for row in before.rows if row[:2] != ("y", "left"))
    for action in (Merge("site", ("left", "right"), "sides"), MergeBins("y", (0.0, 5.0, 50.0))):
        with pytest.raises(RefusedError, match="refined in a second round"):
            of_last(last, "fine", action)
        with pytest.raises(RefusedError, match="refined in a second round"):
            apply_remedy(planned(SEVERAL), last[2], None, "fine", Remedy((action,)))


NOISED = plan_of(
    study_of(
        variables="  site: {levels: [left, middle, right]}\n  volume: {unit: mm3, range: [1500, 5000]}",
        analyses="  means: {kind: summary, variables: [volume], by: [site]}\n"
        "  cells: {kind: crosstab, factors: [site]}\n"
        "  bins: {kind: histogram, variables: [volume], edges: [1500, 2500, 3500, 5000]}",
        privacy="noise: distributed, epsilon: 10, delta: 1.0e-6",
    )
)
NINE = Sites(9, 9)


@pytest.fixture(scope="module")
def noised() -> Sums:
    total = np.sum(contributions(NOISED, [people(site, 200) for site in range(9)]), axis=0)
    for _ in range(9):
        total = total + noise_of(NOISED, 9)
    return by_block(NOISED.round.blocks, total)


def test_the_noise_of_merged_means_adds_up(noised: Sums) -> None:
    (table,) = apply_remedy(
        NOISED, noised, NINE, "means", Remedy((Merge("site", ("left", "right"), "sides"),))
    )
    found = dict(zip(table.columns, next(row for row in table.rows if row[1] == "sides"), strict=True))
    exact, parts = NOISED.noisy(noised, NINE), ("left", "right")
    n, u = (
        sum(float(exact.values[f"means/volume/site[{part}]/{block}"][0]) for part in parts)
        for block in ("people", "sums")
    )
    sd_n, sd_u = (
        sqrt(sum(exact.sd[f"means/volume/site[{part}]/{block}"] ** 2 for part in parts))
        for block in ("people", "sums")
    )
    assert found["status"] == "ok"
    assert found["n"] == round(n)
    assert found["mean"] == pytest.approx(3250 + 1750 * u / n, rel=1e-12)
    assert found["mean_noise_se"] == pytest.approx(1750 * sqrt(sd_u**2 + (u / n * sd_n) ** 2) / n, rel=1e-12)
    (before,) = NOISED.finish(noised, NINE)[-1:]
    assert before.analysis == "means"
    assert [row for row in table.rows if row[1] == "middle"] == [
        row for row in before.rows if row[1] == "middle"
    ]


def test_counts_under_noise_are_not_merged(noised: Sums) -> None:
    for item, action in (
        ("cells", Merge("site", ("left", "right"), "sides")),
        ("bins", MergeBins("volume", (1500.0, 5000.0))),
    ):
        with pytest.raises(RefusedError, match="carry noise of one size"):
            apply_remedy(NOISED, noised, NINE, item, Remedy((action,)))


def test_levels_and_rows_under_noise_may_leave(noised: Sums) -> None:
    before = {table.analysis: table for table in NOISED.finish(noised, NINE)}
    (cells,) = apply_remedy(NOISED, noised, NINE, "cells", Remedy((Drop(levels={"site": ("left",)}),)))
    count, noise = (cells.columns.index(name) for name in ("count", "count_noise_sd"))
    kept = [row for row in before["cells"].rows if row[0] != "left"]
    assert [(row[0], row[count], row[noise]) for row in cells.rows] == [
        (row[0], row[count], row[noise]) for row in kept
    ]
    percent = cells.columns.index("column_percent")
    assert sum(cell for row in cells.rows if isinstance(cell := row[percent], float)) == pytest.approx(100)
    (means,) = apply_remedy(NOISED, noised, NINE, "means", Remedy((Drop(levels={"site": ("left",)}),)))
    assert means.rows == tuple(row for row in before["means"].rows if row[1] != "left")


def test_under_noise_the_number_of_sites_is_needed(noised: Sums) -> None:
    with pytest.raises(ValueError, match="the number of sites is needed"):
        apply_remedy(NOISED, noised, None, "means", Remedy((DropTable(),)))
