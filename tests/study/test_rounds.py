"""The rounds of a study as planned: what binds one to the next, what sites see, and what is refused."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from numpy.typing import NDArray

from cohortsum.crypto.errors import PolicyError, StudyFileError
from cohortsum.study import planning
from cohortsum.study.batch import Batch
from cohortsum.study.planning import StudyPlan, by_block, plan_study
from tests.protocol.consortium import roster_of
from tests.study.definitions import frozen

STUDY = """\
study: rounds
title: Rounds
version: 1
roster: 1
expires: 2099-12-31
person: id
variables:
  dx: {levels: [control, case]}
  age: {unit: years, range: [0, 100]}
  y: {unit: mm, range: [0, 5]}
cohort: {epoch: 2026-11}
analyses:
  ages: {kind: summary, variables: [age]}
  odds: {kind: glm, family: binomial, outcomes: [dx], terms: [age, y]}
protection: {min_sites: 4, min_participants: 30, max_participants: 100000, min_participants_per_site: 5}
privacy: {noise: none}
"""
ONE_ROUND = "\n".join(line for line in STUDY.splitlines() if "odds:" not in line)


def people(seed: int, size: int = 200) -> Batch:
    rng = np.random.default_rng(seed)
    numbers = {"age": rng.uniform(5, 95, size), "y": rng.uniform(1, 4, size)}
    return Batch(size, numbers, {"dx": rng.integers(0, 2, size).astype(np.int16)})


def once(batch: Batch) -> Iterator[Batch]:
    yield batch


def opened(plan: StudyPlan, batch: Batch) -> Mapping[str, NDArray[np.int64]]:
    _, values = plan.contribution(partial(once, batch), plan.round.blocks, frozenset(plan.round.items))
    return by_block(plan.round.blocks, values)


def planned(text: str = STUDY) -> StudyPlan:
    return plan_study(frozen(text), roster_of(5))


def test_the_next_round_has_the_same_items_and_only_what_goes_on() -> None:
    plan = planned()
    following = plan.advance(opened(plan, people(1)))
    assert following is not None
    assert following.round.iteration == 2
    assert following.round.items == plan.round.items
    assert [statistic.name for statistic in following.statistics] == ["odds"]
    assert [ended.statistic.name for ended in following.ended] == ["ages"]
    assert following.round.blocks[0] == plan.round.blocks[0]
    assert all(block.name == "people" or block.name.startswith("odds/") for block in following.round.blocks)


def test_other_sums_give_another_plan_and_the_same_sums_the_same() -> None:
    plan = planned()
    one, again, other = (plan.advance(opened(plan, people(seed))) for seed in (1, 1, 2))
    assert one is not None
    assert again is not None
    assert other is not None
    assert one.round.digest == again.round.digest
    assert one.round.digest != other.round.digest
    assert len({plan.round.digest, one.round.digest, other.round.digest}) == 3


def test_a_parameter_in_its_last_kept_bit_changes_the_plan() -> None:
    plan = planned()
    following = plan.advance(opened(plan, people(1)))
    assert following is not None
    (odds,) = following.statistics
    values = np.array(odds.parameters)
    assert len(values)
    digests = {
        planning._parameters_digest([_With(odds.name, tuple(values * factor))])  # type: ignore[list-item]
        for factor in (1.0, 1.0 + 2.0**-52)
    }
    assert len(digests) == 2


class _With:
    def __init__(self, name: str, parameters: tuple[float, ...]) -> None:
        self.name, self.parameters = name, parameters


def test_a_parameter_that_is_not_finite_goes_nowhere() -> None:
    with pytest.raises(ValueError, match="odds: a parameter is not finite"):
        planning._parameters_digest([_With("odds", (1.0, float("nan")))])  # type: ignore[list-item]


def test_a_study_of_one_round_shows_sites_nothing() -> None:
    plan = planned(ONE_ROUND)
    assert not plan.round.seen
    assert plan.seen_by_sites == ()
    assert plan.most_rounds == 1
    sums = opened(plan, people(1))
    assert plan.advance(sums) is None
    assert not plan.needs_sight(sums)


def test_sums_are_shown_while_a_round_follows_and_not_after_the_last() -> None:
    plan, batch, rounds = planned(), people(3), 1
    while (following := plan.advance(sums := opened(plan, batch))) is not None:
        assert plan.needs_sight(sums)
        plan, rounds = following, rounds + 1
    assert not plan.needs_sight(sums)
    assert 3 <= rounds <= 8
    assert [table.analysis for table in plan.finish(sums)] == ["ages", "odds", "odds.fit"]


def test_a_fit_cut_short_leaves_what_had_ended_and_a_line_for_the_rest() -> None:
    plan = planned()
    following = plan.advance(opened(plan, people(1)))
    assert following is not None
    ages, odds = following.cut_short("a retry needs every survivor")
    assert ages.analysis == "ages"
    assert ages.rows[0][1] == 200
    assert (odds.analysis, odds.kind) == ("odds", "unfinished")
    assert odds.rows == (("not finished", "a retry needs every survivor"),)


def test_quantiles_whose_second_round_is_cut_short_keep_the_bounds_of_the_first() -> None:
    refined = "{kind: quantiles, variables: [age], probabilities: [0.5], bins: {from: 0, to: 100, count: 4}, refine: 1}"
    plan = planned(STUDY.replace("  odds: ", f"  odds: {refined}\n  fit: "))
    sums = opened(plan, people(1))
    following = plan.advance(sums)
    assert following is not None
    left = {table.analysis: table for table in following.cut_short("a retry needs every survivor")}
    assert left["fit"].kind == "unfinished"
    odds = left["odds"]
    found = dict(zip(odds.columns, odds.rows[0], strict=True))
    assert found["error_bound"] == 25.0
    assert (found["refined"], found["status"], found["n"]) == ("no", "ok", 200)
    assert abs(float(str(found["value"])) - np.median(people(1).numbers["age"])) <= 25.0
    assert odds.notes[-1] == "A further round could not be opened: a retry needs every survivor."


def test_weights_that_rest_on_too_few_people_add_nothing() -> None:
    plan, batch = planned(), people(1)
    following = plan.advance(opened(plan, batch))
    assert following is not None
    everything = (following.round.blocks, frozenset(following.round.items))
    count, _ = following.contribution(partial(once, batch), *everything, 100.0)
    assert count == 200
    few = replace(batch)
    few.numbers["age"][:] = np.where(np.arange(200) < 3, 50.0, np.nan)  # three people are left to the fit
    with pytest.raises(PolicyError, match="odds: the weights of round 2 rest on fewer than 10 people here"):
        following.contribution(partial(once, few), *everything, 10.0)
    plan.contribution(partial(once, few), plan.round.blocks, everything[1], 10.0)  # no weights in the first


def test_masked_inputs_that_every_site_would_be_sent_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planning, "MOST_SEEN_BYTES", 8 * 5 * (planned().round.length - 1))
    with pytest.raises(StudyFileError, match="sites recompute the sums behind odds"):
        planned()
    planned(ONE_ROUND)
