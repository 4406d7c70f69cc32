"""Private training: it descends to the maximum, nobody moves a sum by more than is charged, and the sample is a fair secret."""

from collections.abc import Callable, Sequence
from importlib import import_module
from math import sqrt
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from cohortsum.crypto.errors import PolicyError, StudyFileError
from cohortsum.crypto.noise import NoiseStream, discrete_gaussian
from cohortsum.crypto.secret import SecretBytes
from cohortsum.study.batch import Batch
from cohortsum.study.definition import DpSgdSpec
from cohortsum.study.privacy.sampled_replace import multiplier_for
from cohortsum.study.results import Absent, Table
from cohortsum.study.statistics.descent import Descent, Schedule
from cohortsum.study.statistics.dp_sgd import DpSgd
from cohortsum.study.statistics.interface import State
from cohortsum.study.statistics.noised import Noisy
from cohortsum.study.statistics.poisson_sampling import sampled
from cohortsum.study.statistics.targets import Event
from tests.study.definitions import frozen, with_analysis
from tests.study.models import SEX, VARIABLES, cohort, seeds
from tests.study.pooled import Floats, number, row, slice_of, split

SM: Any = import_module("statsmodels.api")
BITS = 24
BLOCK = "t/gradient"
UNIT = 2**BITS
TERMS = ("dx", "age", "dx:age")
Noise = Callable[[int], NDArray[np.int64]]


def training(steps: int = 1, learning_rate: float = 1.0, **changes: Any) -> DpSgd:
    """Return the first step of a fit of sex; without sampling and clipping unless asked for."""
    decaying, averaged = changes.pop("decaying", False), changes.pop("averaged", False)
    asked: dict[str, Any] = {
        "name": "t",
        "target": Event(SEX, "male"),
        "terms": TERMS,
        "variables": VARIABLES,
        "fraction_bits": BITS,
        "rate": 1.0,
        "clip": 1e6,
        "schedule": Schedule(steps, learning_rate, decaying, averaged),
    }
    return DpSgd(**(asked | changes))


def at(statistic: DpSgd, point: Sequence[float]) -> DpSgd:
    """Return the step that begins at ``point``."""
    nothing = (0.0,) * len(point)
    return training(
        **{name: getattr(statistic, name) for name in ("terms", "rate", "clip", "schedule", "where")},
        descent=Descent(tuple(point), 1, nothing),
    )


def keyed(key: int) -> NoiseStream:
    return NoiseStream(SecretBytes(key.to_bytes(32, "big"), "noise key"))


def patients(seed: int, people: int) -> tuple[Batch, NDArray[Any]]:
    """Return a cohort whose sex depends on diagnosis and age, with holes in all three."""
    batch, site = cohort(seed, people=people)
    rng = np.random.default_rng(seed + 1)
    age, dx = np.nan_to_num(batch.numbers["age"], nan=35.0), batch.levels["dx"]
    u = 0.2 + 0.05 * (age - 35) - 1.0 * (dx == 1) + 0.03 * (dx == 2) * (age - 35)
    sex = (rng.random(people) < 1 / (1 + np.exp(-u))).astype(np.int16)
    sex[rng.random(people) < 0.05] = -1
    return Batch(people, batch.numbers, {"dx": dx, "sex": sex}), site


def opened(statistic: DpSgd, sites: Sequence[Batch], stream: NoiseStream) -> NDArray[np.int64]:
    """Return the sum of what sites contribute, each read in two batches."""
    total = np.zeros(statistic.layout()[0].size, np.int64)
    for site in sites:
        half = site.people // 2
        batches = [slice_of(site, np.arange(half)), slice_of(site, np.arange(half, site.people))]
        state: State = statistic.merge([statistic.accumulate_with(one, stream) for one in batches])
        total = total + statistic.contribute(state)[BLOCK]
    return total


def trained(statistic: DpSgd, sites: Sequence[Batch], key: int, noise: Noise | None = None) -> Table:
    """Return the table after all steps; the coins come from ``key``."""
    people, stream = sum(site.people for site in sites), keyed(key)
    for _ in range(statistic.most_rounds):
        sums = opened(statistic, sites, stream)
        if noise is not None:
            sums = sums + noise(len(sums))
        values = {BLOCK: sums / UNIT}
        following = statistic.further_noised(values, people)
        if following is None:
            (table,) = statistic.finish_noised(Noisy(values, {BLOCK: 0.0}, people, len(sites)))
            return table
        assert np.all(np.isfinite(following.parameters))
        statistic = following
    raise AssertionError("more rounds than the statistic said")


def natural(batch: Batch) -> tuple[Floats, Floats]:
    """Return outcome and design of the complete cases in natural units, made independently of `Design`."""
    dx, sex, age = batch.levels["dx"], batch.levels["sex"], batch.numbers["age"]
    kept = (dx >= 0) & (sex >= 0) & ~np.isnan(age)
    autism, other, age = dx[kept] == 1, dx[kept] == 2, age[kept]
    columns = (np.ones(len(age)), autism, other, age, autism * age, other * age)
    return (sex[kept] == 1).astype(np.float64), np.column_stack(columns).astype(np.float64)


def estimates(table: Table) -> Floats:
    return np.array([number(row(table, term=str(line[1]))["estimate"]) for line in table.rows])


@pytest.mark.parametrize("averaged", [True, False])
def test_without_noise_it_descends_to_the_fit_of_statsmodels(averaged: bool) -> None:
    batch, site = patients(5, 400)
    y, x = natural(batch)
    table = trained(training(4000, 1.5, averaged=averaged), split(batch, site), 1)
    assert [line[1] for line in table.rows] == [
        *("intercept", "dx[autism]", "dx[other]", "age", "dx[autism]:age", "dx[other]:age")
    ]
    model = SM.Logit(y, x).fit(disp=0, tol=1e-12)
    # a normalised coefficient is the natural one times half the width of its column, at most 65 / 2
    scale = np.array([1.0, 0.5, 0.5, 30.0, 32.5, 32.5])
    assert scale[1:] * estimates(table)[1:] == pytest.approx(scale[1:] * model.params[1:], abs=1e-3)
    predicted = x @ (estimates(table) - model.params)
    assert float(np.max(np.abs(predicted))) < 2e-3
    found = row(table, term="age")
    assert found["odds_ratio"] == pytest.approx(np.exp(number(found["estimate"])), rel=1e-12)
    assert set(table.columns) == {"outcome", "term", "estimate", "odds_ratio", "status"}
    assert any("no standard errors" in note for note in table.notes)


def test_a_subgroup_is_all_that_is_sampled() -> None:
    batch, _ = patients(6, 200)

    def old(one: Batch) -> NDArray[np.bool_]:
        mask: NDArray[np.bool_] = one.numbers["age"] > 30
        return mask

    inside = slice_of(batch, np.flatnonzero(old(batch)))
    here, there = training(where=old), training()
    state, other = here.accumulate(batch), there.accumulate(inside)
    assert np.array_equal(state["gradient"], other["gradient"])
    assert state["eligible"] == other["eligible"]
    members = here.members(batch)["t/sex[male]"]
    assert int(np.count_nonzero(members)) == int(state["eligible"][0])
    assert not np.any(members & ~old(batch))


@pytest.mark.parametrize("rate", [0.003, 0.1, 0.5, 0.97])
def test_everybody_is_sampled_with_the_same_chance(rate: float) -> None:
    """The key is fixed; for a random one each line would raise a false alarm with probability 1e-6 (5 standard deviations)."""
    people = 200_000
    first, second = sampled(people, rate, keyed(3)), sampled(people, rate, keyed(4))
    assert abs(float(np.mean(first)) - rate) < 5 * sqrt(rate * (1 - rate) / people)
    both = rate**2  # in two steps, or two neighbours in one
    for pairs in (first & second, first[::2] & first[1::2]):
        assert abs(float(np.mean(pairs)) - both) < 5 * sqrt(both * (1 - both) / len(pairs))


def test_the_chance_is_exact_to_the_word() -> None:
    class Fixed(NoiseStream):
        def words(self, count: int) -> NDArray[np.uint64]:
            below, top = int(0.3 * 2**64), 2**64 - 1
            return np.array([0, below - 1, below, top][:count], np.uint64)

    stream = Fixed(SecretBytes(bytes(32), "noise key"))
    assert sampled(4, 0.3, stream).tolist() == [True, True, False, False]
    assert sampled(4, 1.0, stream).all()
    assert sampled(4, 1 - 2**-53, stream).tolist() == [True, True, True, False]


def test_no_two_samples_are_alike_and_no_seed_of_numpy_matters() -> None:
    batch, _ = patients(7, 400)
    step = training(rate=0.5)
    sums: set[bytes] = set()
    for _ in range(5):
        np.random.seed(0)
        sums.add(step.accumulate(batch)["gradient"].tobytes())
    assert len(sums) == 5
    again = [step.accumulate_with(batch, keyed(1))["gradient"].tobytes() for _ in range(2)]
    assert again[0] == again[1]


def test_the_sum_is_over_the_sample() -> None:
    batch, _ = patients(8, 300)
    step = training(rate=0.25)
    ((rows, y),) = step.eligible(batch)
    inside = sampled(len(y), 0.25, keyed(9))
    expected = step.gradients(rows, y)[inside].sum(axis=0)
    assert np.array_equal(step.accumulate_with(batch, keyed(9))["gradient"], expected)


points = st.lists(st.floats(-50, 50), min_size=6, max_size=6)
clips = st.floats(1e-6, 10.0)


def lengths(rows: NDArray[np.int64]) -> list[int]:
    """Return the squared norms of integer vectors, exactly."""
    return [sum(int(value) ** 2 for value in one) for one in rows]


@settings(max_examples=60, deadline=None)
@given(seeds, points, clips)
def test_no_gradient_is_longer_than_the_clip(seed: int, point: Sequence[float], clip: float) -> None:
    batch, _ = patients(seed, 40)
    step = at(training(clip=clip), point)
    for rows, y in step.eligible(batch):
        integers = step.gradients(rows, y)
        assert max(lengths(integers), default=0) <= UNIT**2
        natural_norm = np.sqrt(np.sum((integers / UNIT) ** 2, axis=1)) * min(clip, sqrt(6))
        assert np.all(natural_norm <= clip)


def test_a_gradient_shorter_than_the_clip_is_left_alone() -> None:
    batch, _ = patients(3, 60)
    step = at(training(clip=2.0), [0.1, -0.2, 0.3, 0.0, 0.1, 0.2])
    ((rows, y),) = step.eligible(batch)
    wanted = (1 / (1 + np.exp(-rows.x @ np.array([0.1, -0.2, 0.3, 0.0, 0.1, 0.2]))) - y)[:, None] * rows.x
    norms = np.sqrt(np.sum(wanted**2, axis=1, keepdims=True))
    found = 2.0 * step.gradients(rows, y) / UNIT
    assert np.any(norms > 1.0)
    assert found == pytest.approx(wanted * np.minimum(1.0, 2.0 / norms), abs=4.0 / UNIT)


@settings(max_examples=60, deadline=None)
@given(seeds, points, clips, st.integers(0, 59))
def test_one_person_moves_the_sum_by_the_clip_or_twice(
    seed: int, point: Sequence[float], clip: float, who: int
) -> None:
    """Whatever the record held and holds instead: missing values, and levels and numbers at the ends, are among them."""
    batch, _ = patients(seed, 60)
    other, _ = patients(seed + 1, 60)
    step = at(training(clip=clip), point)
    replaced = Batch(
        60,
        {name: np.where(np.arange(60) == who, other.numbers[name], v) for name, v in batch.numbers.items()},
        {
            name: np.where(np.arange(60) == who, other.levels[name], v).astype(np.int16)
            for name, v in batch.levels.items()
        },
    )
    without = slice_of(batch, np.flatnonzero(np.arange(60) != who))
    whole, swapped, left = (step.accumulate(one)["gradient"] for one in (batch, replaced, without))
    assert lengths(np.array([whole - left], np.int64))[0] <= UNIT**2
    assert lengths(np.array([whole - swapped], np.int64))[0] <= 4 * UNIT**2
    # nobody else's integers changed
    assert np.array_equal(whole - left, step.accumulate(slice_of(batch, np.array([who])))["gradient"])


@pytest.mark.parametrize(
    ("rate", "adjacency", "norm"),
    [
        (0.1, "replace_one", 1.0),
        (0.1, "add_or_remove", 1.0),
        (1.0, "replace_one", 2.0),
        (1.0, "add_or_remove", 1.0),
    ],
)
def test_the_part_states_what_one_person_adds(rate: float, adjacency: Any, norm: float) -> None:
    step = training(rate=rate, clip=0.5)
    (part,) = step.parts(adjacency)
    (block,) = step.layout()
    assert (part.blocks, part.l2, part.touched, part.rate, part.share) == ((BLOCK,), norm, 6, rate, 1.0)
    assert (block.size, block.bound, block.fraction_bits, block.sets) == (6, 1.0, BITS, ("t/sex[male]",))


def test_everybody_derives_the_same_next_point() -> None:
    values = {BLOCK: np.array([3.25, -1e-9, 7.125, 0.1, -12.3, 1e5])}
    step = training(5, 0.3, rate=0.07, clip=0.9, decaying=True, averaged=True)
    assert step.parameters == ()
    first, again = step.further_noised(values, 431), step.further_noised(values, 431)
    assert first is not None
    assert again is not None
    assert first.parameters == again.parameters
    assert first.parameters == tuple(-(0.3 / 1.0) * (0.9 * float(v) / (0.07 * 431)) for v in values[BLOCK])
    second = first.further_noised(values, 430)
    assert second is not None
    moved = [
        b - 0.3 / sqrt(2) * (0.9 * float(v) / (0.07 * 430))
        for b, v in zip(first.parameters, values[BLOCK], strict=True)
    ]
    assert second.parameters == tuple(moved)


def test_the_tail_average_is_of_the_second_half() -> None:
    schedule = Schedule(5, 1.0, False, True)
    stand, seen = Descent((0.0,), 0, (0.0,)), list[float]()
    for slope in (1.0, -4.0, 2.0, 0.5, 8.0):
        stand = stand.after([slope], schedule)
        seen.append(stand.point[0])
        if stand.taken <= 2:
            assert stand.reported(schedule) == stand.point
    (found,) = stand.reported(schedule)
    assert found == pytest.approx(sum(seen[2:]) / 3, rel=1e-15)
    assert stand.reported(Schedule(5, 1.0, False, False)) == (seen[-1],)


def test_after_the_last_step_there_is_none() -> None:
    values, step = {BLOCK: np.ones(6)}, training(3)
    assert step.most_rounds == 3
    for _ in range(2):
        following = step.further_noised(values, 100)
        assert following is not None
        step = following
    assert step.further_noised(values, 100) is None


def test_what_stands_where_a_step_could_not_be_opened() -> None:
    step = training(3)
    assert step.without() == ()
    following = step.further_noised({BLOCK: np.ones(6)}, 100)
    assert following is not None
    (table,) = following.without()
    assert row(table, term="dx[other]")["estimate"] == pytest.approx(-2 * sqrt(6) / 100)
    assert "1 of 3 steps" in table.notes[0]


def test_too_few_sites_leave_no_estimate() -> None:
    step = training(3)
    assert step.further_noised({}, 100) is None
    (table,) = step.finish_noised(Noisy({}, {}, 100, 5))
    assert {line[-1] for line in table.rows} == {"too few sites"}
    assert all(isinstance(line[2], Absent) for line in table.rows)


def test_a_site_with_few_who_can_be_sampled_adds_nothing() -> None:
    batch, _ = patients(11, 300)
    step = training(rate=0.001)
    eligible = np.flatnonzero(step.members(batch)["t/sex[male]"])
    enough, few = slice_of(batch, eligible[:20]), slice_of(batch, eligible[:19])
    assert set(step.contribute(step.accumulate(enough))) == {BLOCK}  # however few of them are in the sample
    with pytest.raises(PolicyError, match=r"analysis t: too few people here .* this site adds nothing"):
        step.contribute(step.accumulate(few))


def test_without_noise_there_are_no_tables() -> None:
    with pytest.raises(StudyFileError, match=r"dp_sgd needs noise; without it write kind: glm"):
        training().finish({BLOCK: np.zeros(6, np.int64)})
    with pytest.raises(StudyFileError, match="no variable of the study"):
        training(terms=("iq",))


def test_the_forecast_is_of_the_steps_that_are_reported() -> None:
    step = training(50, rate=0.1, clip=0.6, averaged=True)
    (one,) = step.forecast({BLOCK: 3.0}, 2000.0)
    assert one.what == "gradient, over 25 steps"
    assert one.noise_se == pytest.approx(0.6 * 3.0 / 200 / 5)
    assert one.sampling_se == pytest.approx(0.6 / sqrt(6 * 2000))
    assert one.per == 6


def auc(scores: Floats, y: Floats) -> float:
    order = np.argsort(scores, kind="stable")
    ranks = np.empty(len(order))
    ranks[order] = np.arange(1, len(order) + 1)
    cases = float(np.sum(y))
    return (float(np.sum(ranks[y == 1.0])) - cases * (cases + 1) / 2) / (cases * (len(y) - cases))


def test_at_epsilon_three_two_thousand_people_give_a_model_that_predicts() -> None:
    """Noise of the multiplier that 100 steps need, on a grid of 1024 levels per clip; coins and noise come from fixed keys."""
    batch, site = patients(12, 2000)
    y, x = natural(batch)
    rate, steps, levels, size = 0.1, 100, 1024, 6
    multiplier = multiplier_for(rate, steps, 3.0, 1e-6)
    sigma = int(multiplier * (levels + sqrt(size))) + 1
    stream = keyed(21)

    def noise(count: int) -> NDArray[np.int64]:
        drawn: NDArray[np.int64] = discrete_gaussian(sigma, count, stream) * (UNIT // levels)
        return drawn

    step = training(steps, 2.0, rate=rate, clip=0.5, averaged=True)
    table = trained(step, split(batch, site), 22, noise)
    best = auc(x @ SM.Logit(y, x).fit(disp=0).params, y)
    found = auc(x @ estimates(table), y)
    assert 2.0 < multiplier < 4.0
    assert best > 0.7
    assert found > best - 0.02


def spec(entry: str) -> DpSgdSpec:
    found = frozen(with_analysis(entry)).analyses["a"]
    assert isinstance(found, DpSgdSpec)
    return found


SHORT_ENTRY = "kind: dp_sgd, outcome: sex, terms: [age, dx], sampling_rate: 0.05, steps: 200, clip: 0.5, learning_rate: 2"


def test_an_entry_is_read_and_written_out() -> None:
    found = spec(f"{{{SHORT_ENTRY}}}")
    assert (found.event, found.schedule, found.average, found.where) == ("male", "constant", "tail", None)
    assert found.terms == (("age",), ("dx",))
    assert (found.sampling_rate, found.steps, found.clip, found.learning_rate) == (0.05, 200, 0.5, 2.0)
    assert found.required == {"sex", "age", "dx"}
    assert found.about == {"sex"}
    asked = spec(f"{{{SHORT_ENTRY}, event: female, average: last, schedule: decaying, where: 'age > 20'}}")
    assert (asked.event, asked.schedule, asked.average) == ("female", "decaying", "last")
    assert asked.where is not None


@pytest.mark.parametrize(
    ("old", "new", "field", "cure"),
    [
        ("outcome: sex", "outcome: age", "outcome", "is a number"),
        ("outcome: sex", "outcome: sax", "outcome", "no variable 'sax'"),
        ("outcome: sex", "outcome: dx", "outcome", "add event"),
        ("outcome: sex", "outcome: sex, event: other", "outcome", "no level 'other'"),
        ("[age, dx]", "[age, sex]", "outcome", "in a term"),
        ("[age, dx]", "[]", "terms", "at least 1"),
        ("sampling_rate: 0.05", "sampling_rate: 0", "sampling_rate", "0.000001"),
        ("sampling_rate: 0.05", "sampling_rate: 1.01", "sampling_rate", "less than or equal to 1"),
        ("steps: 200", "steps: 1001", "steps", "less than or equal to 1000"),
        ("clip: 0.5", "clip: 0", "clip", "greater than"),
        ("learning_rate: 2", "learning_rate: -1", "learning_rate", "greater than 0"),
        ("learning_rate: 2", "learning_rate: 2, average: mean", "average", "'tail'"),
        (", learning_rate: 2", "", "learning_rate", "is missing"),
    ],
)
def test_what_an_entry_may_not_say(old: str, new: str, field: str, cure: str) -> None:
    with pytest.raises(StudyFileError) as caught:
        spec(f"{{{SHORT_ENTRY.replace(old, new)}}}")
    assert f"analyses.a.{field}" in caught.value.message
    assert cure in caught.value.message
