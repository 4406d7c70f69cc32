"""Was this person in it? The inner-product attack on the sums that a study would open.

The attacker knows what a person would add to every opened number, and how that is distributed among people (its mean and spread). The
score of a person is the sum, over all numbers, of their standardised difference from the population times the cohort's (Homer et
al. 2008; Dwork, Smith, Steinke, Ullman and Vadhan 2015). AUC is the chance that somebody who was in scores higher than somebody who
was not: 0.5 is a coin, 1 is certainty. It grows with the number of numbers and falls with the number of people.

People are invented: independent values, normal about the middle of every public range with a quarter of its half as standard
deviation, levels alike. Independent variables are the attacker's best case; real ones carry less. What a person adds is found by
putting them into a small site of others, so that statistics that are computed from a whole site are attacked as well.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from math import sqrt
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from cohortsum.crypto.errors import StudyFileError
from cohortsum.crypto.noise import NoiseStream
from cohortsum.protocol.bounds import allowed_sizes
from cohortsum.protocol.noise import draw_noise
from cohortsum.study.batch import Batch
from cohortsum.study.planning import StudyPlan
from cohortsum.study.statistics.summary_noised import ASSUMED_SD

BAR = 0.55
"""The greatest AUC that counts as protected."""
NEIGHBOURHOOD = 20
"""People of the site into which somebody is put to see what they add."""
POPULATION = 200
"""People from whom the attacker learns the spread of what a person adds."""
DRAWS = 25
"""Releases that are attacked, each with noise of its own; their AUC is the mean."""
COHORTS = 20
"""Cohorts of other people from which the attacker learns its mean: an error of theirs would be noise to the attack."""

Floats = NDArray[np.float64]


class Invention(Protocol):
    """What invents people: numpy's generators do. Never a source of noise."""

    def normal(self, loc: float, scale: float, size: int) -> Floats:
        """Return normal values, (size,) float64."""
        ...

    def integers(self, low: int, high: int, size: int) -> NDArray[np.int64]:
        """Return whole numbers from ``low`` to below ``high``, (size,) int64."""
        ...


@dataclass(frozen=True, slots=True)
class Membership:
    """What an attack found.

    Attributes:
        people: of the cohort.
        sites: in the sum.
        numbers: opened.
        targets: people who were attacked, half of whom were in.
        without: AUC on exact sums.
        protected: mean AUC on sums with the study's noise; None where it has none.
        error: standard error of an AUC of one half with so many targets.
    """

    people: int
    sites: int
    numbers: int
    targets: int
    without: float
    protected: float | None
    error: float

    @property
    def verdict(self) -> float:
        """The AUC of what would be released."""
        return self.without if self.protected is None else self.protected


def attack(
    plan: StudyPlan,
    people: int,
    targets: int,
    generator: Invention,
    progress: Callable[[int], None] = lambda _done: None,
) -> Membership:
    """Invent a cohort, add it up as the study would, with and without its noise, and attack it.

    Args:
        plan: of the study; its first round is attacked.
        people: of the cohort, spread evenly over as many sites as may take part.
        targets: how many people to attack, half in and half out.
        generator: of invented people; noise never comes from it.
        progress: told how many people have been looked at.

    Raises:
        StudyFileError: there are fewer people than the attack needs.
    """
    sites = max(allowed_sizes(plan.round.sites_invited, plan.round.protection))
    half = targets // 2
    if people // sites < max(NEIGHBOURHOOD, -(-half // sites)):
        raise StudyFileError(
            f"study {plan.study.study}: {people} people in {sites} sites are too few to attack {half} of them; ask for more people "
            "or fewer targets"
        )
    sizes = [people // sites + (site < people % sites) for site in range(sites)]
    batches = [invented(plan, size, generator) for size in sizes]
    exact = sum((_sums(plan, batch) for batch in batches), start=np.zeros(1))
    inside = [_one(batches[place % sites], place // sites) for place in range(half)]
    outside = list(_people(plan, half, generator))
    population = list(_people(plan, POPULATION, generator))
    around = invented(plan, NEIGHBOURHOOD, generator)
    base = _sums(plan, around)
    added: list[Floats] = []
    for done, person in enumerate((*inside, *outside, *population), start=1):
        added.append(_sums(plan, _joined(around, person)) - base)
        progress(done)
    mean = sum((_sums(plan, invented(plan, people, generator)) for _ in range(COHORTS)), start=np.zeros(1))
    mean /= COHORTS * people
    spread = np.array(added[2 * half :]).std(axis=0)
    varies = spread > 0.0
    varies[0] = False  # the number of people is public, or one number among many
    persons = (np.array(added[: 2 * half])[:, varies] - mean[varies]) / spread[varies]

    def auc(opened: Floats) -> float:
        scores = persons @ ((opened[varies] - people * mean[varies]) / spread[varies])
        return _auc(scores[:half], scores[half:])

    protected = None
    if plan.round.noise is not None:
        protected = sum(auc(exact + _noise(plan, sites)) for _ in range(DRAWS)) / DRAWS
    error = sqrt((2 * half + 1) / (12 * half * half))
    return Membership(people, sites, int(np.count_nonzero(varies)), 2 * half, auc(exact), protected, error)


def invented(plan: StudyPlan, people: int, generator: Invention) -> Batch:
    """Return people who are all in the cohort, with every variable that the study declares."""
    numbers: list[dict[str, Floats]] = []
    study, found = plan.study, 0
    levels: list[dict[str, NDArray[np.int16]]] = []
    for _ in range(100):
        values = {
            name: np.clip(
                generator.normal(number.middle, ASSUMED_SD * number.half_width, people),
                number.lower,
                number.upper,
            )
            for name, number in study.numbers.items()
            if name not in study.derived
        }
        chosen = {
            name: generator.integers(0, len(factor.levels), people).astype(np.int16)
            for name, factor in study.factors.items()
        }
        kept = np.flatnonzero(plan.cohort.included(Batch(people, values, chosen)))[: people - found]
        numbers.append({name: column[kept] for name, column in values.items()})
        levels.append({name: column[kept] for name, column in chosen.items()})
        found += len(kept)
        if found == people:
            return Batch(
                people,
                {name: np.concatenate([part[name] for part in numbers]) for name in numbers[0]},
                {name: np.concatenate([part[name] for part in levels]) for name in levels[0]},
            )
    raise StudyFileError(
        f"study {study.study}: hardly any invented person meets cohort.include, so nothing can be attacked"
    )


def _people(plan: StudyPlan, count: int, generator: Invention) -> Iterator[Batch]:
    everybody = invented(plan, count, generator)
    return (_one(everybody, place) for place in range(count))


def _one(batch: Batch, place: int) -> Batch:
    return Batch(
        1,
        {name: values[place : place + 1] for name, values in batch.numbers.items()},
        {name: values[place : place + 1] for name, values in batch.levels.items()},
    )


def _joined(batch: Batch, other: Batch) -> Batch:
    return Batch(
        batch.people + other.people,
        {name: np.concatenate((values, other.numbers[name])) for name, values in batch.numbers.items()},
        {name: np.concatenate((values, other.levels[name])) for name, values in batch.levels.items()},
    )


def _sums(plan: StudyPlan, batch: Batch) -> Floats:
    """Return what a site with these people would add to every number of the round, in the blocks' units, as fine as it gets."""
    fine = replace(plan, grids={})
    _, values = fine.contribution(lambda: [batch], plan.round.blocks, frozenset(plan.round.items))
    levels = {block.name: 2**block.fraction_bits for one in plan.statistics for block in one.layout()}
    return values / _levels(plan, levels)


def _levels(plan: StudyPlan, levels: Mapping[str, int]) -> Floats:
    """Return how many units of a grid make one, for every number of the round."""
    blocks = plan.round.blocks
    return np.repeat([float(levels.get(block.name, 1)) for block in blocks], [block.size for block in blocks])


def _noise(plan: StudyPlan, sites: int) -> Floats:
    """Return the noise of all sites together, drawn as in a round, in the blocks' units."""
    noise = plan.round.noise
    if noise is None:
        raise ValueError("this study has no noise")
    blocks = [(block.name, block.size) for block in plan.round.blocks]
    honest = noise.honest(sites, plan.round.protection)
    total = np.zeros(plan.round.length)
    for _ in range(sites):
        total += draw_noise(noise, blocks, honest, NoiseStream.fresh())
    return total / _levels(plan, plan.grids)


def _auc(inside: Floats, outside: Floats) -> float:
    """Return the share of pairs in which who was in scores higher; ties count half."""
    order = np.sort(outside)
    below = np.searchsorted(order, inside, "left") + np.searchsorted(order, inside, "right")
    return float(below.sum() / (2 * len(inside) * len(outside)))
