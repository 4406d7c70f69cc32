"""Shamir's secret sharing over a field of `field` (Shamir 1979, "How to share a secret").

A secret is the value at 0 of a polynomial of degree threshold - 1 with uniform further coefficients; a share is its value
at the holder's point. Any ``threshold`` shares give the secret by Lagrange interpolation, fewer fit every secret equally
well. Points come from the roster (index + 1), in a committee from a member's number in it: never 0, never chosen by the
coordinator.
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache

from cohortsum.crypto.errors import ShareError
from cohortsum.crypto.field import PRIME


def split(
    secret: int, coefficients: Sequence[int], points: Sequence[int], prime: int = PRIME
) -> dict[int, int]:
    """Return the share at every point.

    Args:
        secret: element of [0, p).
        coefficients: ``threshold - 1`` uniform elements, fresh for every secret (t - 1 in Bonawitz et al. 2017).
        points: distinct points in [1, p); at least ``threshold`` of them.
        prime: p, of the field.

    Raises:
        ShareError: for repeated or zero points, or fewer points than the threshold.
    """
    _check_points(points, prime)
    if len(points) <= len(coefficients):
        raise ShareError(f"{len(points)} holders cannot reach a threshold of {len(coefficients) + 1}")
    shares: dict[int, int] = {}
    for point in points:
        value = 0
        for coefficient in reversed(coefficients):
            value = (value + coefficient) * point % prime
        shares[point] = (value + secret) % prime
    return shares


def combine(shares: Mapping[int, int], threshold: int, prime: int = PRIME) -> int:
    """Return the secret behind at least ``threshold`` shares, given by point.

    Exactly ``threshold`` shares are used, those of the lowest points. What comes out is checked by the caller against the
    dealer's commitment: wrong shares give a wrong element, not an error.

    Raises:
        ShareError: for too few shares, or a zero point.
    """
    if len(shares) < threshold:
        raise ShareError(f"{len(shares)} shares, the threshold is {threshold}")
    points = tuple(sorted(shares)[:threshold])
    return (
        sum(weight * shares[point] for weight, point in zip(weights(points, prime), points, strict=True))
        % prime
    )


@lru_cache(maxsize=8)  # one set of holders opens all seeds of a round
def weights(points: tuple[int, ...], prime: int = PRIME) -> tuple[int, ...]:
    """Return the Lagrange weight of each point for interpolation at 0."""
    _check_points(points, prime)
    result: list[int] = []
    for point in points:
        above, below = 1, 1
        for other in points:
            if other != point:
                above = above * other % prime
                below = below * (other - point) % prime
        result.append(above * pow(below, -1, prime) % prime)
    return tuple(result)


def _check_points(points: Sequence[int], prime: int) -> None:
    if len(set(points)) != len(points) or not all(0 < point < prime for point in points):
        raise ShareError("share points must be distinct and not 0")
