"""Releases as data: which noise a participant's contribution was hidden in, and between which neighbours.

An event says nothing about who made the release or what was released; an accountant prices it
(`cohortsum.study.privacy.accountant`). Every event is relative to the sensitivity of what was released, so the neighbours
are part of what it means: the same noise on the same mean is half as strong where the neighbour's participant is replaced
as where the participant is only added or removed. That is why a `Release` names its adjacency and releases of different
adjacency never add up.
"""

from dataclasses import dataclass
from fractions import Fraction
from math import isfinite

from cohortsum.protocol.noise import Adjacency as Adjacency


@dataclass(frozen=True, slots=True)
class Gaussian:
    """Continuous Gaussian noise.

    Attributes:
        multiplier: standard deviation of the noise over the L2 sensitivity.
    """

    multiplier: float

    def __post_init__(self) -> None:
        """Refuse a multiplier that is no finite number above 0."""
        _positive("multiplier", self.multiplier)


@dataclass(frozen=True, slots=True)
class DiscreteGaussian:
    """Integer Gaussian noise on a vector, from one place or as the sum of the sites' shares.

    Attributes:
        rho: the zCDP it has, L2 sensitivity^2 / (2 variance) for noise from one place (Canonne, Kamath and Steinke 2020,
            theorem 4) and `cohortsum.study.privacy.discrete.NoisySum.rho` for a sum.
    """

    rho: Fraction

    def __post_init__(self) -> None:
        """Refuse a rho that is not above 0."""
        _positive("rho", self.rho)


@dataclass(frozen=True, slots=True)
class Laplace:
    """Laplace noise, continuous or on the integers; it is priced as any mechanism with this pure epsilon.

    On a coarse grid the noise is randomised response, the worst mechanism with its epsilon: a curve of the continuous law
    would promise too much there.

    Attributes:
        epsilon: L1 sensitivity over the scale of the noise.
    """

    epsilon: float

    def __post_init__(self) -> None:
        """Refuse an epsilon that is no finite number above 0."""
        _positive("epsilon", self.epsilon)


@dataclass(frozen=True, slots=True)
class Exponential:
    """The exponential mechanism: an option drawn with probability in proportion to exp(epsilon score / (2 sensitivity)).

    Attributes:
        epsilon: the pure epsilon, and the width of the range its privacy loss stays in (Durfee and Rogers 2019).
    """

    epsilon: float

    def __post_init__(self) -> None:
        """Refuse an epsilon that is no finite number above 0."""
        _positive("epsilon", self.epsilon)


@dataclass(frozen=True, slots=True)
class SampledGaussian:
    """Steps of private training: each sums a secret Poisson sample of participants and adds continuous Gaussian noise.

    Attributes:
        rate: probability that a participant is in the sample of a step, above 0 and at most 1.
        multiplier: standard deviation of the noise over the greatest L2 norm of one participant's part of the sum.
        steps: how many, at least 1.
    """

    rate: float
    multiplier: float
    steps: int

    def __post_init__(self) -> None:
        """Refuse numbers outside their ranges."""
        if not 0 < self.rate <= 1:
            raise ValueError(f"a rate lies above 0 and is at most 1, got {self.rate}")
        _positive("multiplier", self.multiplier)
        if self.steps < 1:
            raise ValueError(f"expected at least 1 step, got {self.steps}")


Event = Gaussian | DiscreteGaussian | Laplace | Exponential | SampledGaussian


@dataclass(frozen=True, slots=True)
class Release:
    """One release of a study.

    Attributes:
        name: what it is called in messages, such as the analysis and the round.
        event: its noise, relative to the sensitivity under ``adjacency``.
        adjacency: the neighbours that the noise hides from each other.
    """

    name: str
    event: Event
    adjacency: Adjacency


def _positive(name: str, value: float | Fraction) -> None:
    if not (isfinite(value) and value > 0):
        raise ValueError(f"{name} must be finite and above 0, got {value}")
