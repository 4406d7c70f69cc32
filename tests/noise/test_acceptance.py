"""The acceptance checks of the privacy design: a named input, and what has to come out."""

import subprocess
import sys
from fractions import Fraction
from importlib import import_module
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cohortsum.crypto.errors import ConfigurationError, StudyFileError
from cohortsum.crypto.noise import NoiseStream, discrete_gaussian
from cohortsum.protocol.bounds import Protection, threshold
from cohortsum.protocol.noise import NANO, NoisePart, NoisePlan, draw_noise
from cohortsum.study.batch import Batch
from cohortsum.study.planning import PEOPLE, Sites, by_block
from cohortsum.study.privacy import accountant, composition, discrete, gaussian, zcdp
from cohortsum.study.privacy.events import DiscreteGaussian, Gaussian, Laplace, Release
from tests.noise.noisy import HIPPOCAMPUS, column, contributions, noise_of, plan_of, released, study_of

STATS: Any = import_module("scipy.stats")
PLACEMENTS = {
    # mm^3 on the cohort mean of 9 sites x 100 people, eps 1, delta 1e-6, with the multiplier of the rho ledger:
    # sigma/Delta 4.530877, range 3500. Computed here from the formula the design's table was computed from.
    (1, "local"): 52.86,
    (1, "distributed"): 21.58,
    (1000, "local"): 1559 * 4.530877 / 4.224679,
    (1000, "distributed"): 636 * 4.530877 / 4.224679,
}


def releases(count: int, event: Gaussian | DiscreteGaussian | Laplace) -> list[Release]:
    return [Release(f"release {number}", event, "replace_one") for number in range(count)]


def test_check_1_analytic_sigma() -> None:
    assert gaussian.sigma_of(1, 1e-6) == pytest.approx(4.2246788893, rel=1e-9)
    assert gaussian.sigma_of(10, 1e-5) == pytest.approx(0.4998886197, rel=1e-9)


def test_check_2_a_hundred_releases_by_name_of_the_bound() -> None:
    exact = accountant.epsilon(releases(100, Gaussian(10)), 1e-5)
    assert exact.epsilon == pytest.approx(4.3771781, rel=1e-8)
    assert exact.method == "exact Gaussian"
    ledger = accountant.epsilon(releases(100, DiscreteGaussian(Fraction(1, 200))), 1e-6)
    assert ledger.epsilon == pytest.approx(5.2215344445, rel=1e-10)
    assert ledger.method == "zCDP"


def test_check_3_a_thousand_means_at_epsilon_one_each_are_refused_with_the_true_total() -> None:
    variables = "\n".join(f"  roi{number:04d}: {{unit: mm, range: [1, 5]}}" for number in range(1000))
    analyses = "  means: {kind: summary, variables: ['roi*'], moments: 1}"
    each = "noise: distributed, epsilon: 1, delta: 1.0e-5, each: number"
    with pytest.raises(
        StudyFileError, match=r"1,000 numbers at epsilon 1.*epsilon 71\.27 in all.*133\.6 times"
    ):
        plan_of(study_of(variables, analyses, each))


def test_check_4_laplace_is_never_reported_too_cheap() -> None:
    found = accountant.epsilon(releases(1000, Laplace(0.1)), 1e-6).epsilon
    assert 18.95 <= found < 27.2  # the truth is 18.95, and DRV10 says 27.14; the seed's formula says 16.62
    assert composition.kov15([(0.1, 0.0)] * 1000, 1e-6)[0] == pytest.approx(21.62, abs=5e-3)


def test_check_5_noise_of_one_mean_at_one_site() -> None:
    study = study_of(privacy="noise: local, epsilon: 1, delta: 1.0e-5")
    plan = plan_of(study)
    batch = Batch(100, {"hippocampus": np.full(100, 3000.0)}, {})
    (table,) = released(plan, contributions(plan, [batch])[0], 1)
    (noise,) = column(table, "mean_noise_se")
    assert noise == pytest.approx(
        141.58, rel=3e-3
    )  # the grid costs 0.1 %; 1.4 would be a division by n too many


def test_check_6_out_of_range_and_missing_values() -> None:
    plan = plan_of(study_of())
    odd = Batch(100, {"hippocampus": np.array([9000.0, -9000.0, np.nan] + [3250.0] * 97)}, {})
    clamped = Batch(100, {"hippocampus": np.array([5000.0, 1500.0, 3250.0] + [3250.0] * 97)}, {})
    (one,), (other,) = contributions(plan, [odd]), contributions(plan, [clamped])
    assert one.tolist() == other.tolist()
    (table,) = released(plan, 9 * one, 9)
    assert column(table, "n") == [900]


def test_check_7_noise_follows_each_variables_own_range() -> None:
    variables = "  tbv: {unit: mm3, range: [900000, 1700000]}\n  fa: {unit: any, range: [0, 1]}"
    plan = plan_of(study_of(variables, "  means: {kind: summary, variables: [tbv, fa], moments: 1}"))
    sums = np.zeros(plan.round.length, np.int64)
    sums[:] = 900  # people, and in the sums a value that does not matter
    (table,) = plan.finish(by_block(plan.round.blocks, sums), Sites(9, 9))
    noise = dict(zip(column(table, "variable"), column(table, "mean_noise_se"), strict=True))
    assert noise["tbv"] == pytest.approx(800_000 * float(str(noise["fa"])), rel=1e-12)


@given(st.randoms(use_true_random=False))
def test_check_8_sums_do_not_depend_on_the_order_of_people(random: object) -> None:
    plan = plan_of(study_of(analyses="  all: {kind: summary, variables: [hippocampus]}"))
    values = np.array([1500.0 + 2.0**-20 * step for step in range(200)] + [5000.0] * 5)
    shuffled = values.copy()
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    one, other = (Batch(len(values), {"hippocampus": held}, {}) for held in (values, shuffled))
    first, second = contributions(plan, [one, other])
    assert first.tolist() == second.tolist()


def test_check_8_neighbours_differ_by_no_more_than_is_claimed() -> None:
    """10,000 random pairs, offsets of the whole range included, over every number on the grid of the noise."""
    variables = (
        HIPPOCAMPUS
        + "\n  sex: {levels: [F, M]}\n  age: {unit: year, range: [-1125899906842624, 1125899906842624]}"
    )
    analyses = (
        "  all: {kind: summary, variables: [hippocampus, age], by: [sex]}\n"
        "  means: {kind: summary, variables: [hippocampus, age], moments: 1, clip: 0.7}"
    )
    plan = plan_of(study_of(variables, analyses))
    assert plan.round.noise is not None
    parts = plan.round.noise.parts
    names = np.repeat(
        [block.name for block in plan.round.blocks], [block.size for block in plan.round.blocks]
    )
    generator = np.random.default_rng(8)
    people, pairs = 3, 10_000
    greatest = [0 for _ in parts]

    def batch() -> Batch:
        hippocampus = generator.choice([1500.0, 3250.0, 5000.0, 9e9, np.nan, 2222.2], people)
        age = generator.choice([-(2.0**50), 2.0**50, 0.0, 1.5, np.nan], people)
        sex = generator.integers(-1, 2, people).astype(np.int16)
        return Batch(people, {"hippocampus": hippocampus, "age": age}, {"sex": sex})

    for _ in range(pairs):
        one, other = batch(), batch()
        kept = {
            name: np.concatenate((values[:-1], other.numbers[name][-1:]))
            for name, values in one.numbers.items()
        }
        levels = {"sex": np.concatenate((one.levels["sex"][:-1], other.levels["sex"][-1:]))}
        first, second = contributions(plan, [one, Batch(people, kept, levels)])
        for place, part in enumerate(parts):
            here = np.isin(names, part.blocks)
            greatest[place] = max(greatest[place], int(np.sum((first - second)[here] ** 2)))
    for place, part in enumerate(parts):
        assert 0.5 * part.squared < greatest[place] <= part.squared


def test_check_9_a_million_draws_at_sigma_one() -> None:
    """Rejects a right sampler once in 10^7 runs; tests/crypto/test_noise.py does the same for 300 and 1000."""
    drawn = discrete_gaussian(1, 10**6, NoiseStream.fresh())
    values = np.arange(-5, 6)
    weights = np.exp(-(values.astype(float) ** 2) / 2)
    chances = weights / (2.5066282880429055)  # the sum over all integers
    seen = np.array([np.count_nonzero(drawn == value) for value in values], float)
    expected = chances * 10**6
    rest, expected_rest = 10**6 - seen.sum(), 10**6 - expected.sum()
    assert chances[5] == pytest.approx(0.398942, abs=1e-6)
    statistic = np.sum((seen - expected) ** 2 / expected) + (rest - expected_rest) ** 2 / expected_rest
    assert STATS.chi2.sf(statistic, len(values)) > 1e-7
    np.random.seed(9)
    expected_next = np.random.random(3).tolist()
    np.random.seed(9)
    discrete_gaussian(1000, 100, NoiseStream.fresh())
    assert np.random.random(3).tolist() == expected_next


def test_check_10_a_grid_that_is_too_coarse() -> None:
    assert float(discrete.tau(9, 1)) * 1000 == pytest.approx(0.54, abs=0.01)
    protection = Protection(7, 300, 2000, 20, 1, 3, 1)
    for sigma, fine in ((1, False), (3, False), (4, True)):
        part = NoisePart(
            ("numbers",), sigma * sigma, -(-NANO // (2 * 6))
        )  # h = 6 of 9 sites: sigma grid units each
        assert part.sigma(6) == sigma
        noise = NoisePlan("distributed", "replace_one", (part,))
        if fine:
            noise.bounds(9, Protection(9, 300, 2000, 20, 1, 3, 1))
        else:
            with pytest.raises(ConfigurationError, match="expected 4 to 4000"):
                noise.bounds(9, protection)


def test_check_11_the_noise_that_is_left_after_colluders_take_theirs_out() -> None:
    """Nine sites, t = 7, c = 1, h = 6: any six sites' noise has the variance that the claim needs, and five's has not."""
    plan = plan_of(study_of())
    assert plan.round.noise is not None
    assert threshold(9) == 7
    (part,) = plan.round.noise.parts
    sigma = part.sigma(6)
    needed = Fraction(part.squared * NANO, 2 * part.nano_rho)
    assert 6 * sigma**2 >= needed > 5 * sigma**2
    assert plan.round.noise.honest(9, plan.round.protection) == 6
    drawn = np.array([noise_of(plan, 9)[-1] for _ in range(4000)], float)
    spread = np.var(drawn) / sigma**2  # chi-square with 4000 degrees of freedom: 5 standard errors
    assert abs(spread - 1) < 5 * np.sqrt(2 / 4000)


@pytest.mark.parametrize(("numbers", "noise"), PLACEMENTS)
def test_placements_cost_what_the_design_says(numbers: int, noise: str) -> None:
    """9 x 100 people, one and a thousand variables: the spread of the opened means is that of the table, within 5 Monte Carlo
    standard errors and what the grid costs (0.2 %, and at most 4 % for a thousand)."""
    variables = "\n".join(
        f"  roi{number:04d}: {{unit: mm3, range: [1500, 5000]}}" for number in range(numbers)
    )
    analyses = "  means: {kind: summary, variables: ['roi*'], moments: 1}"
    plan = plan_of(study_of(variables, analyses, f"noise: {noise}, epsilon: 1, delta: 1.0e-6"))
    noise_plan, people = plan.round.noise, 900
    assert noise_plan is not None
    name, runs = plan.round.blocks[-1].name, 20_000
    honest = noise_plan.honest(9, plan.round.protection)
    drawn = sum(draw_noise(noise_plan, [(name, runs)], honest, NoiseStream.fresh()) for _ in range(9))
    means = 1750.0 * drawn / plan.grids[name] / people
    found, expected = float(np.sqrt(np.mean(np.square(means)))), PLACEMENTS[numbers, noise]
    grid = 0.04 if numbers > 1 else 0.002
    assert -5 / np.sqrt(2 * runs) < found / expected - 1 < 5 / np.sqrt(2 * runs) + grid


def test_local_noise_protects_one_site_and_distributed_noise_falls_back() -> None:
    distributed, local = (
        plan_of(study_of(privacy=f"noise: {noise}, epsilon: 1, delta: 1.0e-6")).round
        for noise in ("distributed", "local")
    )
    assert distributed.noise is not None
    assert local.noise is not None
    assert local.noise.parts[0].nano_rho == distributed.noise.parts[0].nano_rho
    # one site's own noise under distributed placement: h times the rho
    assert zcdp.epsilon_of(6 * distributed.noise.nano_rho / NANO, 1e-6) == pytest.approx(2.635, abs=1e-3)


def test_numpy_is_no_source_of_noise() -> None:
    """In a process where numpy's generators refuse to work, noise is drawn all the same."""
    program = (
        "import numpy as np\n"
        "def refuse(*_a, **_k): raise SystemExit('numpy.random was asked')\n"
        "np.random.default_rng = np.random.normal = np.random.randint = refuse\n"
        "from cohortsum.crypto.noise import NoiseStream, discrete_gaussian\n"
        "assert len(discrete_gaussian(300, 10, NoiseStream.fresh())) == 10\n"
    )
    done = subprocess.run([sys.executable, "-c", program], check=False, capture_output=True, text=True)  # noqa: S603
    assert done.returncode == 0, done.stderr


def test_the_number_of_people_carries_no_noise_and_everything_else_does() -> None:
    plan = plan_of(study_of(analyses="  all: {kind: summary, variables: [hippocampus]}"))
    assert plan.round.blocks[0] == PEOPLE
    assert plan.round.noise is not None
    assert plan.round.noise.public == ("all/hippocampus/everybody",)
    drawn = np.array([noise_of(plan, 9) for _ in range(20)])
    assert not drawn[:, :2].any()
    assert drawn[:, 2:].any(axis=0).all()
