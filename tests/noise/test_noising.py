"""From a budget to grids: shares add up, rounding costs what is said, and what cannot be covered is refused by name."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cohortsum.crypto.errors import ConfigurationError, StudyFileError
from cohortsum.protocol.bounds import threshold
from cohortsum.protocol.noise import MOST_SIGMA, NANO, NoisePart
from cohortsum.study.amendment import unchanged_blocks
from cohortsum.study.batch import Batch
from cohortsum.study.claim import claim_of, sentences
from cohortsum.study.noising import check_sum, honest_sites, regrid, shares_of, squared_units, study_rho
from cohortsum.study.planning import Sites
from cohortsum.study.privacy import gaussian
from cohortsum.study.privacy.discrete import NoisySum
from cohortsum.study.privacy.zcdp import epsilon_of
from cohortsum.study.spending import spending_of
from cohortsum.study.statistics.noised import Part
from tests.noise.noisy import DISTRIBUTED, HIPPOCAMPUS, MEANS, plan_of, study_of

TWO = HIPPOCAMPUS + "\n  sex: {levels: [F, M]}\n  age: {unit: years, range: [0, 100]}"
BOTH = (
    "  means: {kind: summary, variables: [hippocampus], moments: 1}\n"
    "  counts: {kind: crosstab, factors: [sex]}"
)


def test_the_budget_is_shared_and_never_exceeded() -> None:
    plan = plan_of(study_of(TWO, BOTH, DISTRIBUTED + ", shares: {means: 3}", attempts=2))
    assert plan.round.noise is not None
    total = study_rho(plan.study)
    by_analysis = {part.blocks[0].split("/")[0]: part.nano_rho for part in plan.round.noise.parts}
    assert total == 24_355_970
    assert by_analysis == {"means": total * 3 // 8, "counts": total // 8}
    assert 2 * plan.round.noise.nano_rho <= total
    spending = spending_of(plan)
    assert spending is not None
    assert spending.attempts == 2
    assert 0.999 < spending.epsilon <= 1.0


def test_equal_shares_by_default() -> None:
    assert shares_of(study_of(TWO, BOTH)) == {"counts": Fraction(1, 2), "means": Fraction(1, 2)}


def test_shares_of_unknown_analyses_are_refused_with_their_line() -> None:
    with pytest.raises(StudyFileError, match=r"noised.yaml:\d+: privacy.shares.mean: .*did you mean 'means'"):
        study_of(privacy=DISTRIBUTED + ", shares: {mean: 3}")


@given(
    st.lists(st.integers(-(2**40), 2**40), min_size=1, max_size=20), st.integers(0, 24), st.integers(1, 2**12)
)
def test_rounding_to_the_grid_is_to_nearest_and_exact_for_whole_numbers(
    values: list[int], bits: int, levels: int
) -> None:
    found = regrid(np.array(values, np.int64), bits, levels)
    for value, rounded in zip(values, found.tolist(), strict=True):
        exact = Fraction(value * levels, 2**bits)
        assert abs(exact - rounded) <= Fraction(1, 2)
        assert bits or exact == rounded


@given(st.integers(-(2**40), 2**40), st.integers(-(2**30), 2**30), st.integers(1, 24), st.integers(1, 4000))
def test_two_sums_differ_by_less_than_one_unit_more_after_rounding(
    value: int, change: int, bits: int, levels: int
) -> None:
    one, other = (int(regrid(np.array([x], np.int64), bits, levels)[0]) for x in (value, value + change))
    assert abs(one - other) < abs(Fraction(change * levels, 2**bits)) + 1


@pytest.mark.parametrize(("touched", "exact", "units"), [(1, False, 11.0), (4, False, 12.0), (4, True, 10.0)])
def test_the_grid_is_part_of_the_sensitivity(touched: int, exact: bool, units: float) -> None:
    squared = squared_units(Part(("x",), 2.0, touched), 5, exact)
    assert units**2 <= squared <= units**2 + 1


@pytest.mark.parametrize("numbers", [1, 10, 100, 1000])
def test_no_site_needs_more_noise_than_can_be_drawn_and_the_grid_is_as_fine_as_that_allows(
    numbers: int,
) -> None:
    variables = "\n".join(f"  roi{number:04d}: {{unit: mm, range: [1, 5]}}" for number in range(numbers))
    plan = plan_of(study_of(variables, "  means: {kind: summary, variables: ['roi*'], moments: 1}"))
    assert plan.round.noise is not None
    (part,) = plan.round.noise.parts
    worst = min(plan.round.noise.honest(size, plan.round.protection) for size in (7, 8, 9))
    assert 0.95 * MOST_SIGMA < part.sigma(worst) <= MOST_SIGMA  # levels are whole


@pytest.mark.parametrize(
    "analysis",
    [
        "  x: {kind: quantiles, variables: [age], probabilities: [0.5], edges: [0, 50, 100], refine: 1}",
        "  x: {kind: test, outcomes: [age], factor: sex, tests: [welch]}",
        "  x: {kind: glm, family: binomial, outcomes: [sex], terms: [age]}",
        "  x: {kind: meta, outcomes: [age], terms: [sex], effect: sex}",
        "  x: {kind: mixed, outcomes: [age], terms: [sex]}",
        "  x: {kind: combat, outcomes: [age, hippocampus]}",
    ],
)
def test_what_no_noise_is_known_for_is_refused_by_name(analysis: str) -> None:
    kind = analysis.split("kind: ")[1].split(",")[0]
    with pytest.raises(StudyFileError, match=rf"analysis x: no noise is known to suffice for kind {kind}"):
        plan_of(study_of(TWO, analysis))


@pytest.mark.parametrize(
    ("analysis", "privacy", "said"),
    [
        ("  x: {kind: summary, variables: [age], moments: 1}", "noise: none", "moments: 1 needs noise"),
        ("  x: {kind: summary, variables: [age], moments: 4}", DISTRIBUTED, "not given under noise"),
        (
            "  x: {kind: regression, outcomes: [age], terms: [sex], under_noise: {clip: 3}}",
            "noise: none",
            "has no noise",
        ),
        ("  x: {kind: regression, outcomes: [age], terms: [sex]}", DISTRIBUTED, "under_noise"),
        (
            "  x: {kind: dp_sgd, outcome: sex, terms: [age], sampling_rate: 0.1, steps: 5, clip: 1, learning_rate: 1}",
            "noise: none",
            "training under noise",
        ),
    ],
)
def test_keys_that_need_noise_or_none_are_refused_with_the_cure(
    analysis: str, privacy: str, said: str
) -> None:
    with pytest.raises(StudyFileError, match=said):
        plan_of(study_of(TWO, analysis, privacy))


def test_a_budget_too_small_for_a_grid_is_refused() -> None:
    variables = "\n".join(f"  roi{number:04d}: {{unit: mm, range: [1, 5]}}" for number in range(2000))
    with pytest.raises(StudyFileError, match="share of the budget is too small for 2000 numbers"):
        plan_of(
            study_of(
                variables,
                "  means: {kind: summary, variables: ['roi*'], moments: 1}",
                "noise: local, epsilon: 0.02, delta: 1.0e-9",
            )
        )


def test_new_versions_ask_noised_blocks_anew() -> None:
    exact = "  counts: {kind: crosstab, factors: [sex]}"
    old, new = (plan_of(study_of(TWO, exact, privacy)) for privacy in ("noise: none", DISTRIBUTED))
    assert (
        unchanged_blocks(old, old) == unchanged_blocks(old, new) == unchanged_blocks(new, new) == frozenset()
    )


def test_which_columns_a_site_has_is_all_that_it_tells() -> None:
    """Under noise a site supplies what its table has, whoever has a value; without, only what enough people have."""
    empty = Batch(30, {"hippocampus": np.full(30, np.nan)}, {"sex": np.zeros(30, np.int16)})
    noised, exact = (
        plan_of(study_of(TWO, BOTH.replace(", moments: 1", ""), one)) for one in (DISTRIBUTED, "noise: none")
    )
    _, with_noise = noised.supply([empty], 20)
    _, without = exact.supply([empty], 20)
    assert {"hippocampus", "sex[F]", "sex[M]"} <= with_noise
    assert {"hippocampus", "sex[M]"}.isdisjoint(without)


def test_the_claim_says_what_it_rests_on() -> None:
    plan = plan_of(study_of(attempts=2))
    claim = claim_of(plan, Sites(9, 8), 1)
    assert claim is not None
    assert claim.honest == 6
    assert claim.epsilon == pytest.approx(epsilon_of(Fraction(24_355_970 // 2, NANO), 1e-6))
    assert claim.fallback_epsilon == pytest.approx(epsilon_of(Fraction(6 * (24_355_970 // 2), NANO), 1e-6))
    text = " ".join(sentences(claim))
    assert "at least 6 of the sites in the sum follow the protocol" in text
    assert "replacing one person's values" in text
    assert "not protected" in text
    assert f"epsilon {claim.fallback_epsilon:.3g}" in text
    for word in ("anonymous", "no information"):
        assert word not in text


def test_local_noise_rests_on_nobody() -> None:
    plan = plan_of(study_of(privacy="noise: local, epsilon: 1, delta: 1.0e-6"))
    claim = claim_of(plan, Sites(9, 9), 1)
    assert claim is not None
    assert (claim.honest, claim.fallback_epsilon) == (1, claim.epsilon)
    assert "protects its own people by itself" in " ".join(sentences(claim))


def test_a_public_contrast_is_named_in_the_claim() -> None:
    regression = (
        "  r: {kind: regression, outcomes: [age], terms: [sex], report: {effect: sex, measure: cohens_d}, "
        "under_noise: {clip: 3, protect_diagnosis: false}}"
    )
    claim = claim_of(plan_of(study_of(TWO, regression)), Sites(9, 9), 1)
    assert claim is not None
    assert claim.unprotected == ("sex",)
    assert "does not protect: sex" in " ".join(sentences(claim))


def test_each_is_refused_only_where_there_is_more_than_one() -> None:
    each = DISTRIBUTED + ", each: number"
    plan_of(study_of(privacy=each))
    with pytest.raises(StudyFileError, match=r"2 numbers at epsilon 1.* cost every person epsilon") as caught:
        plan_of(study_of(TWO, MEANS.replace("[hippocampus]", "[hippocampus, age]"), each))
    total = gaussian.epsilon_of(2**0.5 / gaussian.sigma_of(1, 1e-6), 1e-6)
    assert f"{total:.2f} in all" in caught.value.message


TRAINING = "  t: {kind: dp_sgd, outcome: sex, terms: [age], sampling_rate: 0.1, steps: 20, clip: 1, learning_rate: 2}"


def test_training_is_accounted_over_all_rounds_and_has_a_study_to_itself() -> None:
    plan = plan_of(study_of(TWO, TRAINING, "noise: distributed, epsilon: 2, delta: 1.0e-6"))
    spending = spending_of(plan)
    assert spending is not None
    assert (spending.attempts, spending.cost.rate) == (20, 0.1)
    assert 1.8 < spending.epsilon <= 2.0
    with pytest.raises(StudyFileError, match="give it a study of its own"):
        plan_of(study_of(TWO, TRAINING + "\n" + MEANS, "noise: distributed, epsilon: 2, delta: 1.0e-6"))


def test_training_on_everybody_composes_plainly() -> None:
    plan = plan_of(
        study_of(TWO, TRAINING.replace("0.1", "1"), "noise: distributed, epsilon: 2, delta: 1.0e-6")
    )
    spending = spending_of(plan)
    assert spending is not None
    assert spending.cost.rate == 1.0
    assert 1.99 < spending.epsilon <= 2.0


def test_training_for_too_few_people_is_refused() -> None:
    study = study_of(TWO, TRAINING, "noise: distributed, epsilon: 2, delta: 1.0e-6")
    for field, value in (("min_participants", 99), ("min_participants_per_site", 19)):
        small = study.protection.model_copy(update={field: value})
        with pytest.raises(StudyFileError, match=r"training needs .* of at least 100"):
            plan_of(replace(study, protection=small))


ADDED = "noise: distributed, epsilon: 2, delta: 1.0e-6, adjacency: add_or_remove"


def test_one_person_more_or_less_pays_for_the_number_of_people_and_the_gate() -> None:
    plan = plan_of(study_of(TWO, "  counts: {kind: crosstab, factors: [sex]}", ADDED))
    assert plan.round.noise is not None
    noise, total = plan.round.noise, study_rho(plan.study)
    assert noise.people is not None
    assert noise.gate is not None
    assert noise.people.part.nano_rho == noise.gate.part.nano_rho == total // 20
    assert 0.9999 * total < noise.nano_rho <= total
    assert plan.round.blocks[0].unit_bound == noise.people.levels
    spending = spending_of(plan)
    assert spending is not None
    assert spending.cost.adjacency == "add_or_remove"


@pytest.mark.parametrize(
    ("analysis", "said"),
    [
        (MEANS, "moments: 1 divides by a number of people"),
        (
            "  x: {kind: regression, outcomes: [age], terms: [sex], under_noise: {clip: 3}}",
            "privacy.adjacency",
        ),
        (TRAINING, "remove privacy.adjacency"),
    ],
)
def test_what_needs_a_public_number_of_people_is_refused(analysis: str, said: str) -> None:
    with pytest.raises(StudyFileError, match=said):
        plan_of(study_of(TWO, analysis, ADDED))


def test_the_sum_of_the_sites_noise_keeps_the_claim_at_every_number_of_sites() -> None:
    """The conditions on sums of discrete Gaussians are looked at for every number of sites that may take part."""
    plan = plan_of(study_of(TWO, BOTH), 34)
    assert plan.round.noise is not None
    sizes = honest_sites(plan.study, plan.round.protection, 34)
    assert sizes == tuple(sorted({threshold(size) - 1 for size in range(7, 35)}))
    for part in plan.round.noise.parts:
        for honest in sizes:
            total = NoisySum(honest, Fraction(part.sigma(honest) ** 2), 2, part.squared, part.squared)
            assert total.rho() * NANO <= part.nano_rho


def test_a_sum_that_is_not_close_enough_to_a_discrete_gaussian_is_refused() -> None:
    coarse = NoisePart(("x",), 4, NANO // 6)  # 3 units at each of two sites
    with pytest.raises(ConfigurationError, match="expected at least 4"):
        check_sum(coarse, 1, (2,))
