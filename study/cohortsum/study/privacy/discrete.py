"""The sum of integer Gaussian noise from several sites, which is not quite integer Gaussian noise.

Every site adds its own share of N_Z(0, s^2) to every coordinate of its integers; nobody sees one alone. One discrete
Gaussian has the zCDP of the continuous one of the same sigma, in every dimension (Canonne, Kamath and Steinke 2020). The sum
of n is close to the discrete Gaussian of variance n s^2, and tau says how close (Kairouz, Liu and Steinke 2021, theorem 1
and proposition 14, for s >= 1/2):

    tau = 10 sum over j = 1..n-1 of exp(-2 pi^2 s^2 j / (j + 1))

The Renyi divergence of order a of the sum of vectors with d coordinates, L1 sensitivity D1 and L2 sensitivity D2, is at most
each of

    a D2^2 / (2 n s^2) + tau d
    a/2 (D2^2 / (n s^2) + 2 tau D1 / (sqrt(n) s) + tau^2 d)
    a/2 (D2 / (sqrt(n) s) + tau sqrt(d))^2

tau falls so fast that from s = 4 on it is nil; a grid on which s is smaller is refused. Here n counts the shares that are
counted on, the honest sites' in the opened sum: whatever else is added to it changes nothing of the claim.
"""

from dataclasses import dataclass
from fractions import Fraction
from math import exp, fsum, pi, sqrt
from sys import float_info

from cohortsum.crypto.errors import ConfigurationError
from cohortsum.protocol.noise import LEAST_SIGMA as LEAST_SIGMA


def tau(sites: int, sigma: float) -> float:
    """Return tau for the shares of ``sites``, at least 1, of standard deviation ``sigma`` units of the grid each.

    Where it is too small for a float, the least float that keeps all its digits stands for it, which is above the truth.
    """
    if sites == 1:
        return 0.0
    terms = fsum(exp(-2 * (pi * sigma) ** 2 * j / (j + 1)) for j in range(1, sites))
    return max(10 * terms, float_info.min)


@dataclass(frozen=True, slots=True)
class NoisySum:
    """A sum of vectors of integers that hides in the shares of noise of several sites.

    Attributes:
        sites: shares counted on, at least 1.
        variance: of one share, in squared units of the grid, at least 1/4.
        dimensions: coordinates of the vector.
        l1: L1 sensitivity in units of the grid.
        squared_l2: square of the L2 sensitivity, in squared units of the grid.
    """

    sites: int
    variance: Fraction
    dimensions: int
    l1: int
    squared_l2: int

    def __post_init__(self) -> None:
        """Refuse numbers that the theorem does not cover."""
        if min(self.sites, self.dimensions, self.l1, self.squared_l2) < 1 or self.variance < Fraction(1, 4):
            raise ValueError("expected counts and sensitivities of at least 1 and a variance of at least 1/4")

    def rdp(self, order: float) -> float:
        """Return the bound on the Renyi divergence of ``order``, above 1."""
        sigma = sqrt(self.variance)
        off = tau(self.sites, sigma)
        d1, d2 = (norm / (sqrt(self.sites) * sigma) for norm in (self.l1, sqrt(self.squared_l2)))
        return min(
            order / 2 * d2**2 + off * self.dimensions,
            order / 2 * (d2**2 + 2 * off * d1 + off**2 * self.dimensions),
            order / 2 * (d2 + off * sqrt(self.dimensions)) ** 2,
        )

    def rho(self) -> Fraction:
        """Return the zCDP of the sum: that of the continuous Gaussian, and what tau adds to it at most.

        Raises:
            ConfigurationError: the noise is too fine for the grid.
        """
        if self.variance < LEAST_SIGMA**2:
            raise ConfigurationError(
                f"a site's noise has a standard deviation of {sqrt(self.variance):.3g} units of the grid, expected at least "
                f"{LEAST_SIGMA}; take more levels"
            )
        off = Fraction(tau(self.sites, sqrt(self.variance)))
        # half the second bound, with sqrt(n) s replaced by 1, which is less
        return (
            self.squared_l2 / (2 * self.sites * self.variance) + off * self.l1 + off**2 * self.dimensions / 2
        )
