"""What a participant is promised by a set of releases together: one claim, and the method it rests on.

Every bound below holds by itself, so the least of those that apply is claimed:

- continuous Gaussians alone: their exact curve (`gaussian`);
- with discrete Gaussians, Laplace noise or exponential mechanisms: zCDP (`zcdp`). A pure epsilon has rho = epsilon^2 / 2
  (Bun and Steinke 2016, proposition 1.4), an exponential mechanism epsilon^2 / 8 (Cesar and Rogers 2021);
- with sampled Gaussians: Renyi curves, added at each of the `ORDERS` (`subsampled`; where one participant's values are
  replaced, `sampled_replace`);
- mechanisms with a pure epsilon alone: their sum, and KOV15 (`composition`);
- others with them: what the others come to, and the pure epsilons added. Privacy loss adds up, and a pure mechanism's is
  never above its epsilon.

Sums are rounded once (`fsum`): the order of releases does not change a claim in its last digit.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import fsum
from operator import itemgetter

from cohortsum.crypto.errors import ConfigurationError
from cohortsum.study.privacy import composition, gaussian, sampled_replace, subsampled, zcdp
from cohortsum.study.privacy.events import (
    Adjacency,
    DiscreteGaussian,
    Event,
    Exponential,
    Gaussian,
    Laplace,
    Release,
    SampledGaussian,
)


@dataclass(frozen=True, slots=True)
class Claim:
    """Releases are (epsilon, delta)-private together.

    Attributes:
        epsilon: in total, at least 0.
        delta: in total, in (0, 1).
        adjacency: the neighbours it holds between.
        method: the bound that gave it: ``exact Gaussian``, ``zCDP``, ``RDP``, ``KOV15`` or ``sum``, with ``+ sum`` where pure
            epsilons are added to it.
    """

    epsilon: float
    delta: float
    adjacency: Adjacency
    method: str


def epsilon(releases: Sequence[Release], delta: float) -> Claim:
    """Return what ``releases``, at least one, come to at ``delta``, in (0, 1), also where each was chosen after those before it.

    Raises:
        ConfigurationError: they are not all of one adjacency.
    """
    if not 0 < delta < 1:
        raise ValueError(f"delta lies between 0 and 1, got {delta}")
    if not releases:
        raise ValueError("expected at least one release")
    adjacency = releases[0].adjacency
    for release in releases:
        if release.adjacency != adjacency:
            raise ConfigurationError(
                f"release '{release.name}' is under {release.adjacency} and '{releases[0].name}' under {adjacency}; "
                "they do not add up: state one adjacency for all"
            )
    least, method = _least([release.event for release in releases], adjacency, delta)
    return Claim(least, delta, adjacency, method)


def _least(events: Sequence[Event], adjacency: Adjacency, delta: float) -> tuple[float, str]:
    return min(
        _bounds(events, adjacency, delta), key=itemgetter(0)
    )  # of equal ones the first, which is the simplest


def _bounds(events: Sequence[Event], adjacency: Adjacency, delta: float) -> Iterator[tuple[float, str]]:
    others = [event for event in events if not isinstance(event, Laplace | Exponential)]
    pure = [(event.epsilon, 0.0) for event in events if isinstance(event, Laplace | Exponential)]
    if not others:
        yield composition.basic(pure)[0], "sum"
        yield composition.kov15(pure, delta)[0], "KOV15"
    elif pure:
        least, method = _least(others, adjacency, delta)
        yield fsum([least, composition.basic(pure)[0]]), f"{method} + sum"
    unsampled = [event for event in events if not isinstance(event, SampledGaussian)]
    multipliers = [event.multiplier for event in events if isinstance(event, Gaussian)]
    if len(multipliers) == len(events):
        yield gaussian.epsilon_of(gaussian.compose(multipliers), delta), "exact Gaussian"
    elif len(unsampled) == len(events):
        yield zcdp.epsilon_of(fsum(map(_rho, unsampled)), delta), "zCDP"
    else:
        yield subsampled.epsilon_of(_curve(events, adjacency), delta)[0], "RDP"


def _curve(events: Sequence[Event], adjacency: Adjacency) -> dict[float, float]:
    """Return the Renyi curve of all events; equal events are evaluated once."""
    counts = Counter(events)
    return {
        order: fsum(times * _divergence(event, adjacency, order) for event, times in counts.items())
        for order in subsampled.ORDERS
    }


def _divergence(event: Event, adjacency: Adjacency, order: float) -> float:
    match event:
        case SampledGaussian(rate, multiplier, steps):
            of_step = sampled_replace.rdp if adjacency == "replace_one" else subsampled.rdp
            return steps * of_step(rate, multiplier, order)
        case Laplace(epsilon) | Exponential(epsilon):
            return min(order * _rho(event), epsilon)  # of order infinity it is the pure epsilon
        case Gaussian() | DiscreteGaussian():
            return order * _rho(event)


def _rho(event: Gaussian | DiscreteGaussian | Laplace | Exponential) -> float:
    match event:
        case Gaussian(multiplier):
            return multiplier**-2 / 2
        case DiscreteGaussian(rho):
            return float(rho)
        case Laplace(epsilon):
            return epsilon**2 / 2
        case Exponential(epsilon):
            return epsilon**2 / 8
