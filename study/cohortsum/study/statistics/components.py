"""Principal components of a covariance or correlation matrix.

The components are the unit eigenvectors of the matrix, ordered by eigenvalue; the share of the variance of one is its
eigenvalue divided by the trace (Pearson 1901; Hotelling 1933). The sign of an eigenvector says nothing: the loading of
greatest magnitude is made positive, the first of those that are equal. Where two eigenvalues agree the directions are not
determined, and none is given.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

NEAR = 1e-6
"""Eigenvalues that differ by less than this share of the greatest are equal: between them rounding of the sums, some 1e-13 of
the greatest, would turn the directions by more than about 1e-7."""
TIED = 1e-9
"""Loadings whose magnitudes differ by less are equal when the sign is chosen."""


@dataclass(frozen=True, slots=True)
class Component:
    """One principal component.

    Attributes:
        eigenvalue: its variance.
        share: of the variance of all variables.
        loadings: (variables,) float64 of length 1; None where the direction is not determined.
    """

    eigenvalue: float
    share: float
    loadings: NDArray[np.float64] | None


def principal_components(matrix: NDArray[np.float64], components: int) -> tuple[Component, ...]:
    """Return the first ``components`` of a symmetric positive matrix, (variables, variables) float64, or all there are."""
    ascending, vectors = np.linalg.eigh(matrix)
    values = np.maximum(ascending[::-1], 0.0)
    trace = float(np.trace(matrix))
    found: list[Component] = []
    for place in range(min(components, len(values))):
        others = np.delete(values, place)
        alone = len(others) == 0 or float(np.abs(others - values[place]).min()) > NEAR * float(values[0])
        loadings = _signed(vectors[:, ::-1][:, place]) if alone else None
        found.append(Component(float(values[place]), float(values[place]) / trace, loadings))
    return tuple(found)


def _signed(vector: NDArray[np.float64]) -> NDArray[np.float64]:
    magnitudes = np.abs(vector)
    leading = int(np.flatnonzero(magnitudes >= magnitudes.max() - TIED)[0])
    return vector if vector[leading] > 0 else -vector
