"""From a study's budget to the noise of its round: who gets which share, and on which grid.

A study's epsilon is the total of everything it does to one person: analyses, rounds and attempts. It is turned into zCDP's rho once
(Bun and Steinke 2016; conversion of Canonne, Kamath and Steinke 2020), because rho adds up. An attempt gets ``1 / max_attempts``
of it; within it every analysis an equal share, or what `privacy.shares` says, and every part of an analysis the share it declares.

The grid follows the noise: for every part as many *levels* per unit as leave no site more than `MOST_SIGMA` of them as noise, where
sampling is exact and fast. What the grid costs is part of the sensitivity (`Part`), not an error beside it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import ceil, isqrt, sqrt

import numpy as np
from numpy.typing import NDArray

from cohortsum.crypto.errors import ConfigurationError, StudyFileError
from cohortsum.protocol.bounds import Protection, allowed_sizes, threshold
from cohortsum.protocol.noise import MOST_SIGMA, NANO, NoisedCount, NoisePart, NoisePlan
from cohortsum.study.definition import FrozenStudy
from cohortsum.study.privacy import gaussian, sampled_replace
from cohortsum.study.privacy.discrete import NoisySum
from cohortsum.study.privacy.zcdp import rho_of
from cohortsum.study.statistics.dp_sgd import LEAST_ELIGIBLE
from cohortsum.study.statistics.interface import Statistic
from cohortsum.study.statistics.noised import Part

Integers = NDArray[np.int64]

HEADROOM = 2**62
"""What a site's exact sum times its levels must stay below, so that rounding it to the grid is exact in 64 bits."""
COUNT_SHARE = Fraction(1, 20)
"""Of an attempt's budget, for the number of people and for the gate each, where people may be added or removed."""
LEAST_TRAINED = 100
"""People without whom no model is trained; `LEAST_ELIGIBLE` at a site."""
ROUNDING = 1.0 + 2.0**-40
"""Covers what float64 loses in the few operations that bound a sensitivity."""


@dataclass(frozen=True, slots=True)
class Noising:
    """The noise of a round and the grid of each of its blocks.

    Attributes:
        plan: as the protocol takes it.
        levels: by block, how many units of the grid that travels make one of the block's own.
    """

    plan: NoisePlan
    levels: Mapping[str, int]


def study_rho(study: FrozenStudy) -> int:
    """Return what a study may cost a person in all, in billionths of rho.

    Raises:
        StudyFileError: epsilon and delta leave nothing that could be spent.
    """
    epsilon, delta = study.privacy.epsilon, study.privacy.delta
    if epsilon is None or delta is None:
        raise StudyFileError(f"study {study.study}: noise: none spends no budget")
    nano = int(rho_of(epsilon, delta) * NANO)
    if nano < study.protection.max_attempts:
        raise StudyFileError(
            f"study {study.study}: privacy.epsilon {epsilon:g} is too small to be spent at all"
        )
    return nano


def noising_of(study: FrozenStudy, statistics: Sequence[Statistic], honest: Sequence[int]) -> Noising:
    """Return the noise of the one round of a study.

    Args:
        study: with noise.
        statistics: of its analyses.
        honest: how many sites' noise a sum may rest on, ascending.

    Raises:
        StudyFileError: an analysis has no proven sensitivity, or its share of the budget is too small.
        ConfigurationError: the sum of the sites' noise is not close enough to a discrete Gaussian.
    """
    least = honest[0]
    blocks = [block.name for statistic in statistics for block in statistic.layout()]
    weights = shares_of(study)
    parts: list[NoisePart] = []
    public: list[str] = []
    levels: dict[str, int] = {}
    attempt = _attempt_rho(study, statistics)
    people, gate = _counts(study, attempt, least)
    if people is not None and gate is not None:
        attempt -= people.part.nano_rho + gate.part.nano_rho
    for statistic in statistics:
        declared = statistic.parts(study.privacy.neighbours)
        if not declared:
            spec = study.analyses[statistic.name]
            raise StudyFileError(
                f"study {study.study}: analysis {statistic.name}: no noise is known to suffice for kind {spec.kind} as it is asked "
                "for here; take it out, or run it in a study without noise"
            )
        own = {block.name: block.fraction_bits for block in statistic.layout()}
        room = {
            block.name: HEADROOM
            // (ceil(study.protection.max_participants * block.bound) << block.fraction_bits)
            for block in statistic.layout()
        }
        for part in declared:
            if part.l2 == 0.0:
                public += part.blocks
                levels |= {name: 2 ** own[name] for name in part.blocks}
                continue
            nano = int(attempt * weights[statistic.name] * Fraction(part.share))
            exact = not any(own[name] for name in part.blocks)
            grid = min(_levels(part, nano, least, exact), *(room[name] for name in part.blocks))
            if grid < 1:
                raise StudyFileError(
                    f"study {study.study}: analysis {statistic.name}: its share of the budget is too small for "
                    f"{part.touched} numbers per person; raise epsilon or ask for fewer numbers"
                )
            parts.append(NoisePart(part.blocks, squared_units(part, grid, exact), nano))
            check_sum(parts[-1], part.touched, honest)
            levels |= dict.fromkeys(part.blocks, grid)
    if sum(part.nano_rho for part in parts) > attempt:
        raise ValueError(
            f"study {study.study}: the shares of its parts come to more than an attempt may cost"
        )
    refuse_each(study, sum(len(one.forecast(dict.fromkeys(blocks, 1.0), 1.0)) for one in statistics))
    placed = (study.privacy.placement, study.privacy.neighbours)
    return Noising(NoisePlan(*placed, tuple(parts), tuple(public), people, gate), levels)


def _counts(
    study: FrozenStudy, attempt: Fraction, honest: int
) -> tuple[NoisedCount, NoisedCount] | tuple[None, None]:
    """Return the noise of the number of people and of the gate where people may be added or removed: each moves by one.

    Raises:
        StudyFileError: its share of the budget is too small.
    """
    if study.privacy.neighbours == "replace_one":
        return None, None
    nano = int(attempt * COUNT_SHARE)
    found: list[NoisedCount] = []
    for name in ("people", "gate"):
        part = Part((name,), 1.0, 1)
        levels = _levels(part, nano, honest, exact=True)
        if levels < 1:
            raise StudyFileError(
                f"study {study.study}: the budget is too small for the number of people; raise epsilon"
            )
        found.append(
            NoisedCount(NoisePart(part.blocks, squared_units(part, levels, exact=True), nano), levels)
        )
    return found[0], found[1]


def _attempt_rho(study: FrozenStudy, statistics: Sequence[Statistic]) -> Fraction:
    """Return what one attempt at one round may cost, in billionths of rho.

    Training on samples is accounted by Renyi divergence over all its rounds and attempts; the rho is that of a round as if
    everybody were in it, from which the noise follows. It has a study to itself.
    """
    sampled = [
        (one, part)
        for one in statistics
        for part in one.parts(study.privacy.neighbours)
        if part.rate < 1.0 or one.most_rounds > 1
    ]
    if not sampled:
        return Fraction(study_rho(study), study.protection.max_attempts)
    (statistic, part), epsilon, delta = sampled[0], study.privacy.epsilon, study.privacy.delta
    if study.privacy.neighbours == "add_or_remove":
        raise StudyFileError(
            f"study {study.study}: analysis {statistic.name}: training is accounted for one person's values replaced, which is the "
            "stricter promise; remove privacy.adjacency"
        )
    if len(statistics) > 1 or len(sampled) > 1 or epsilon is None or delta is None:
        raise StudyFileError(
            f"study {study.study}: analysis {statistic.name} spends its budget over many rounds; give it a study of its own"
        )
    _refuse_small(study)
    steps = statistic.most_rounds * study.protection.max_attempts
    if part.rate == 1.0:
        return Fraction(study_rho(study), steps)
    try:
        multiplier = sampled_replace.multiplier_for(part.rate, steps, epsilon, delta)
    except ValueError:
        raise StudyFileError(
            f"study {study.study}: privacy.epsilon {epsilon:g} is too small for {steps} rounds; raise it or take fewer steps"
        ) from None
    return Fraction(NANO) / (2 * Fraction(multiplier) ** 2)


def _refuse_small(study: FrozenStudy) -> None:
    """Refuse training where the study would open for too few people; people who may be sampled count, not the sample."""
    bounds = study.protection
    if bounds.min_participants < LEAST_TRAINED or bounds.min_participants_per_site < LEAST_ELIGIBLE:
        raise StudyFileError(
            f"study {study.study}: training needs protection.min_participants of at least {LEAST_TRAINED} and "
            f"min_participants_per_site of at least {LEAST_ELIGIBLE}; raise them"
        )


def shares_of(study: FrozenStudy) -> dict[str, Fraction]:
    """Return the share of the budget that each analysis gets; they add up to 1."""
    written = study.privacy.shares or {}
    weights = {name: Fraction(written.get(name, 1.0)) for name in study.analyses}
    total = sum(weights.values())
    return {name: weight / total for name, weight in weights.items()}


def honest_sites(study: FrozenStudy, protection: Protection, invited: int) -> tuple[int, ...]:
    """Return how many honest sites' noise every opened sum holds, for each number of sites that may take part; ascending."""
    if study.privacy.noise == "local":
        return (1,)
    sizes = allowed_sizes(invited, protection)
    return tuple(sorted({threshold(size) - protection.max_colluding_sites for size in sizes}))


def check_sum(part: NoisePart, touched: int, honest: Sequence[int]) -> None:
    """Refuse noise whose sum over sites is worth less than the part claims: the conditions of `privacy.discrete`."""
    for sites in honest:
        norm = isqrt(part.squared * touched) + 1  # of at most so many numbers, in L1
        total = NoisySum(sites, Fraction(part.sigma(sites) ** 2), touched, norm, part.squared)
        if total.rho() * NANO > part.nano_rho:
            raise ConfigurationError(
                f"block {part.blocks[0]}: the noise of {sites} sites is not close enough to one discrete Gaussian; choose another "
                "epsilon or fewer numbers"
            )


def squared_units(part: Part, levels: int, exact: bool) -> int:
    """Return the squared sensitivity of a part in units of its grid, rounding to it included; an upper bound.

    Args:
        part: the part.
        levels: grid units in one of its own.
        exact: whether its numbers are whole, so that nothing is rounded.
    """
    units = part.l2 * levels + (0.0 if exact else sqrt(part.touched))
    return ceil(units * units * ROUNDING)


def _levels(part: Part, nano: int, honest: int, exact: bool) -> int:
    """Return the most levels with which no site needs more noise than can be drawn; 0 where there are none."""
    if nano < 1:
        return 0
    units = MOST_SIGMA * sqrt(2 * nano * honest / NANO) - (0.0 if exact else sqrt(part.touched))
    levels = int(units / part.l2)
    while (
        levels > 0
        and NoisePart(part.blocks, squared_units(part, levels, exact), nano).sigma(honest) > MOST_SIGMA
    ):
        levels -= 1
    return max(levels, 0)


def regrid(values: Integers, bits: int, levels: int) -> Integers:
    """Return multiples of 2**-bits as multiples of 1 / levels, rounded to nearest, halves up; whole numbers stay exact."""
    scaled: Integers = values * levels
    return scaled if bits == 0 else (scaled + (1 << (bits - 1))) >> bits


def refuse_each(study: FrozenStudy, numbers: int) -> None:
    """Refuse a budget that is meant for each number by itself, and say what it comes to.

    Raises:
        StudyFileError: ``privacy.each`` is written and there is more than one number.
    """
    epsilon, delta = study.privacy.epsilon, study.privacy.delta
    if study.privacy.each is None or epsilon is None or delta is None or numbers == 1:
        return
    total = gaussian.epsilon_of(sqrt(numbers) / gaussian.sigma_of(epsilon, delta), delta)
    joint = gaussian.sigma_of(1.0, 1e-6) * sqrt(numbers)
    raise StudyFileError(
        f"study {study.study}: {numbers:,} numbers at epsilon {epsilon:g}, delta {delta:g} each cost every person epsilon {total:.2f} in "
        f"all. epsilon is a study's total: remove privacy.each and write the total. All of them in one release at epsilon 1, delta "
        f"1e-6 carry noise of {joint:.1f} times one number's sensitivity"
    )
