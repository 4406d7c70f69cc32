"""People who decide a fit alone: hat values of a site's own design.

With the design X of the people who count, the fitted values are ``H y``, ``H = X (X'X)^+ X'``. The hat value of a person is
``h_i = x_i' (X'X)^+ x_i = dy^_i / dy_i``, from 0 to 1, and all of them add up to the rank of X. Everybody else weighs
``sqrt(sum over j of h_ij^2) = sqrt(h_i (1 - h_i))`` together, less than the person as soon as ``h_i > 1/2``: then more than half of the
fit at that person is the person's own outcome, and whoever reads coefficients reads it. A person alone at a level has ``h_i = 1``: the
level's coefficient is the person's residual. Two people who share a level of their own have 1/2 each in a model of levels, which
passes, being a matter of the threshold of counts; with a covariate in which they differ they have more.

X'X is never formed: it squares the condition. A first pass keeps the triangle R of a QR factorisation, updated by stacking a batch
under it (``R'R = X'X``; (columns, columns), whatever the number of people, and two of them merge alike). A singular value decomposition
of R, with columns scaled to length 1 so that units do not matter, drops directions below `TOLERANCE` of the greatest: aliases. A second
pass has ``h_i = |x_i V S^-1|^2``, to about ``2**-53 / TOLERANCE``. Two passes of ``people * columns**2`` steps.

Columns are those of the fit: a constant where there is an intercept, or ``within`` this site; rows times the square root of the
weight where people are weighted. More people never raise anybody's hat value: if every site's own design passes, so does the cohort's.
Fewer never lower it: outcomes with people sets of their own are asked one by one, each distinct set once. Hat values stay here.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from cohortsum.study.disclosure.site.finding import Finding, SiteRule

Floats = NDArray[np.float64]

LIMIT = 0.5
SLACK = 1e-6
"""What rounding may add to a hat value of exactly one half."""
TOLERANCE = 1e-10
"""Below this share of the greatest singular value a direction of the scaled design is an alias."""
ROWS = 4096
"""Of a batch that are worked on at once."""


@dataclass(frozen=True, slots=True)
class Triangle:
    """What one pass keeps of a design: R of its QR factorisation, and how many people there were."""

    upper: Floats = field(repr=False)
    people: int = field(default=0, repr=False)

    @classmethod
    def nobody(cls, columns: int) -> "Triangle":
        """Return the triangle of a design of ``columns`` columns without people."""
        return cls(np.zeros((columns, columns)))

    def with_rows(self, rows: Floats) -> "Triangle":
        """Return the triangle with more people, (people, columns) finite; raises ValueError for other shapes and values."""
        upper, columns = self.upper, len(self.upper)
        for part in _parts(rows, columns):
            reduced = np.linalg.qr(np.concatenate((upper, part)), mode="r")
            upper = np.zeros((columns, columns))
            upper[: len(reduced)] = reduced
        return Triangle(upper, self.people + len(rows))

    def merged(self, other: "Triangle") -> "Triangle":
        """Return the triangle of both designs' people."""
        return Triangle(self.with_rows(other.upper).upper, self.people + other.people)

    def basis(self) -> Floats:
        """Return ``V S^-1`` in the columns' own units, (columns, rank): rows times it are orthonormal over the people."""
        lengths = np.linalg.norm(self.upper, axis=0)
        scale = np.divide(1.0, lengths, out=np.zeros_like(lengths), where=lengths > 0)
        _, sizes, directions = np.linalg.svd(self.upper * scale, full_matrices=False)
        held = sizes > TOLERANCE * sizes.max(initial=0.0)
        return np.asarray(scale[:, None] * directions[held].T / sizes[held], dtype=np.float64)


def triangle(batches: Iterable[Floats], columns: int) -> Triangle:
    """Return the triangle of a design that comes in batches, (people, columns) each; raises ValueError as `Triangle.with_rows`."""
    whole = Triangle.nobody(columns)
    for rows in batches:
        whole = whole.with_rows(rows)
    return whole


def hat_values(basis: Floats, rows: Floats) -> Floats:
    """Return the hat value of every person of a batch, (people,) from 0 to 1; never to leave the site.

    Args:
        basis: `Triangle.basis` of the whole design.
        rows: (people, columns), of people of that design.
    """
    parts = [np.square(part @ basis).sum(axis=1) for part in _parts(rows, len(basis))]
    return np.minimum(np.concatenate(parts), 1.0) if parts else np.zeros(0)


def leverage_findings(
    item: str, batches: Callable[[], Iterable[Floats]], columns: int, limit: float = LIMIT
) -> tuple[Finding, ...]:
    """Return one finding if anybody's hat value is above ``limit``; not how many people, nor who.

    Args:
        item: the analysis, or the outcome in it.
        batches: returns the design's rows, (people, columns) float64 each, as often as it is called: twice.
        columns: of the design.
        limit: the greatest hat value that passes.

    Raises:
        ValueError: a batch of another shape, or a value that is not finite: people who do not count are left out before.
    """
    basis = triangle(batches(), columns).basis()
    if not any((hat_values(basis, rows) > limit + SLACK).any() for rows in batches()):
        return ()
    return (
        Finding(
            SiteRule.HIGH_LEVERAGE,
            item,
            "the fit rests on single people: a hat value is above the limit, as of somebody alone at a level",
        ),
    )


def _parts(rows: Floats, columns: int) -> Iterator[Floats]:
    if rows.ndim != 2 or rows.shape[1] != columns:
        raise ValueError(f"rows of a design have {columns} columns")
    if not np.isfinite(rows).all():
        raise ValueError("a row of a design is not finite; leave out who does not count")
    for start in range(0, len(rows), ROWS):
        yield rows[start : start + ROWS]
