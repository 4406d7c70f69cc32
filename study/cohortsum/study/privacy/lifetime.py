"""What all studies together have cost one person, whatever each of them promised.

A lifetime is accounted for one person's values replaced. Rounds without sampling that were accounted for one person more or less
count 4 times, because replacing is removing and adding (group privacy for two: Bun and Steinke 2016, Proposition 1.9). A round on a
sample states the norm of what one person adds, from which `sampled_replace` knows what replacing costs, whatever it was accounted for.

Rounds without sampling add up as whole billionths of rho, so that the last cent of a budget can be spent; where a round sampled
people, Renyi divergences add up order by order.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import sqrt

from cohortsum.study.privacy import sampled_replace, subsampled, zcdp
from cohortsum.study.privacy.events import Adjacency

GROUP_RHO = 4


@dataclass(frozen=True, slots=True)
class Cost:
    """What one opening of a round costs each of its people.

    Attributes:
        nano_rho: in billionths of rho, as if everybody were in it.
        rate: probability with which a person is in it, 1 without sampling.
        adjacency: what it is about.
    """

    nano_rho: int
    rate: float
    adjacency: Adjacency


Costs = Mapping[Cost, int]
"""How often each cost was incurred."""


def within(costs: Iterable[Costs], epsilon: float, delta: float) -> bool:
    """Return whether everything together stays within a budget."""
    total = _together(costs)
    if all(cost.rate == 1.0 for cost in total):
        return _nano(total) <= int(zcdp.rho_of(epsilon, delta) * zcdp.NANO)
    return lifetime_epsilon((total,), delta) <= epsilon


def lifetime_epsilon(costs: Iterable[Costs], delta: float) -> float:
    """Return the epsilon that everything together is worth at ``delta``, for one person's values replaced."""
    total = _together(costs)
    if all(cost.rate == 1.0 for cost in total):
        return zcdp.epsilon_of(Fraction(_nano(total), zcdp.NANO), delta)
    curve = {
        order: sum(times * _divergence(cost, order) for cost, times in total.items())
        for order in subsampled.ORDERS
    }
    return subsampled.epsilon_of(curve, delta)[0]


def multiplier_of(nano_rho: int) -> float:
    """Return noise over sensitivity behind a rho."""
    return sqrt(zcdp.NANO / (2 * nano_rho))


def _together(costs: Iterable[Costs]) -> Counter[Cost]:
    total: Counter[Cost] = Counter()
    for one in costs:
        total.update(one)
    return total


def _nano(total: Costs) -> int:
    return sum(
        times * cost.nano_rho * (GROUP_RHO if cost.adjacency == "add_or_remove" else 1)
        for cost, times in total.items()
    )


def _divergence(cost: Cost, order: float) -> float:
    rho = cost.nano_rho / zcdp.NANO
    if cost.rate == 1.0:
        return order * rho * (GROUP_RHO if cost.adjacency == "add_or_remove" else 1)
    return sampled_replace.rdp(cost.rate, multiplier_of(cost.nano_rho), order)
