"""Sums of products under noise: how far one person moves them, and the centred matrix that is made of them.

Per set of products (`scatter`) with p columns a complete case adds to the sums of z z', z = (1, u), |u_i| <= 1; whoever lacks a value,
or is not of the subgroup, adds nothing. With m = p + 1 there are M = m (m + 1) / 2 numbers, n among them.

*One mean* (``none``). Each of the M numbers of one person is at most 1 in magnitude, so one person more or less moves them by at most
sqrt(M) in L2 norm; at a corner of the ranges exactly that. Other values, z to w, with s_i = z_i^2 and t_i = w_i^2: the sum over the
upper triangle is half that over the matrix and half that over the diagonal,

    F = (|z|^4 + |w|^4 - 2 (z'w)^2 + sum (s_i - t_i)^2) / 2 <= ((sum s)^2 + (sum t)^2 + sum (s_i - t_i)^2) / 2,

which is convex in (s, t) and so greatest where each of them is 0 or 1. With a of s and b of t being 0, the last sum is at most
a + b, and (m - a)^2 + a <= m^2 for a < m: F <= m^2. A corner against one that differs in half of all signs of z attains it where m is
even; where m is odd, the best corners reach m^2 - 1. Becoming incomplete moves the sums by sqrt(M) <= m. Each person's products are
rounded to the study's grid, half a unit each: M such roundings of two persons add at most one unit times sqrt(M).

*A mean per site* (``within``). With the k other complete cases at the site, m_i their means, a = u - m and b = w - m, leaving one out
gives T(u) = T(others) + k / (k + 1) a a' and so T(u) - T(w) = k / (k + 1) (a a' - b b'). Off the diagonal a_i a_j - b_i b_j is affine
in each of u, w and m, so its extremes are at corners, where each of a_i, b_i is 0 or -2 m_i: at most 4 in magnitude. On the diagonal
both squares are at most 4. Someone who comes or goes moves T by k / (k + 1) a a': at most 4 too. Together with n, which moves by 1 at
most, that is sqrt(16 p (p + 1) / 2 + 1); no number of people need be public for it. It is approached, not attained: by everybody
else at one corner and a person who moves to the opposite one, all p (p + 1) / 2 products move by 4 k / (k + 1). The sums of a site
are made in float64 and rounded once, which `SITE_ROUNDING` covers for sites of up to a million people.

Whether a site has people is sent as well, and nothing is read from it: `UNREAD` of the budget covers it.

After the noise, G in the sums of zz' (independent, standard deviation s each), the matrix about the means is moved to first order by
v'Gv for v = (-mean, e_i), e_j: `Noised.vectors`. It may have negative eigenvalues; the nearest matrix without them, in squares over all
entries, is the one with these set to 0 (Higham 1988).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt

import numpy as np
from numpy.typing import NDArray

from cohortsum.protocol.noise import Adjacency
from cohortsum.study.results import Status
from cohortsum.study.statistics.counts_noised import whole
from cohortsum.study.statistics.fit import TOLERANCE
from cohortsum.study.statistics.noised import Noisy, Part
from cohortsum.study.statistics.products import symmetric
from cohortsum.study.statistics.scatter import Scatter, SiteEffect
from cohortsum.study.statistics.summary_noised import LEAST_COUNTS

Floats = NDArray[np.float64]

UNREAD = 2.0**-6
"""Costs the rest 0.8 % more noise; with less of a small budget the noise of a count of sites would be off every grid."""
SITE_ROUNDING = 2.0**-10
"""By so much more the products of two cohorts of at most 2**20 people at a site may differ than in exact arithmetic. Added in any
order, n values in [-1, 1] are off by at most n^2 2**-53 in float64 (Higham 2002, section 4.2); the sums of products and what is taken
from them for the means by three times that, the products of two cohorts by six times: 0.75 of this. The rest covers rounding to a grid
of 2**-13 or finer."""


def scatter_parts(scatters: Sequence[Scatter], adjacency: Adjacency) -> tuple[Part, ...]:
    """Return the parts of some sets of products; the module says why."""
    read: list[str] = []
    unread: list[str] = []
    squared, touched = 0.0, 0
    for scatter in scatters:
        people, sites, products = scatter.layout()
        read += [people.name, products.name]
        unread.append(sites.name)
        columns = len(scatter.design.columns)
        if scatter.site_effect == "within":
            entries = columns * (columns + 1) // 2
            squared += entries * (4.0 + SITE_ROUNDING) ** 2 + 1.0
            touched += entries + 1
            continue
        side = columns + 1
        entries = side * (side + 1) // 2
        norm = sqrt(entries) if adjacency == "add_or_remove" else float(side)
        squared += (norm + sqrt(entries) * 2.0**-products.fraction_bits) ** 2
        touched += entries
    return (
        Part(tuple(read), sqrt(squared), touched, 1.0 - UNREAD),
        Part(tuple(unread), sqrt(len(unread)), len(unread), UNREAD),
    )


@dataclass(frozen=True, slots=True)
class Noised:
    """One set of products under noise, in normalised units.

    Attributes:
        n: complete cases, with their noise.
        centres: means that were taken out: of every site in the sum, or 1.
        status: ``ok``, or why there is no matrix.
        means: (columns,) float64 of the columns; 0 where sites have taken out their own.
        raw: (columns, columns) float64 centred products, as they were opened.
        cross: the nearest matrix to it without negative eigenvalues.
        sd: of the noise in n, and in each sum of products.
    """

    n: float
    centres: int
    status: Status
    means: Floats
    raw: Floats
    cross: Floats
    sd: float

    @property
    def people(self) -> int:
        """Complete cases as they are shown."""
        return whole(self.n)

    @property
    def repaired(self) -> bool:
        """Whether the noise had made eigenvalues negative."""
        return self.cross is not self.raw

    def vectors(self, combinations: Floats) -> Floats:
        """Return what makes centred products of some combinations of the columns, of the sums of zz'.

        Args:
            combinations: (k, columns) float64.

        Returns:
            (k, 1 + columns) float64; n comes first.
        """
        return np.column_stack((-combinations @ self.means, combinations))

    def drowned(self, combinations: Floats, least: float) -> NDArray[np.bool_]:
        """Return which combinations of the columns vary by less than ``least`` standard deviations of the noise, (k,) bool.

        A combination of which rounding leaves nothing is among them.
        """
        squares = ((combinations @ self.raw) * combinations).sum(axis=1)
        weights = self.vectors(combinations) ** 2
        noise = self.sd * np.sqrt(2 * weights.sum(axis=1) ** 2 - (weights * weights).sum(axis=1))
        whole_of_it = (combinations**2) @ np.abs(np.diag(self.raw))
        return np.asarray(squares <= least * noise + TOLERANCE * whole_of_it, np.bool_)


def triangle_noise(vectors: Floats) -> Floats:
    """Return the variance of v'Gw for every two of some vectors, G symmetric, its upper triangle independent of variance 1.

    v'Gw = sum_i v_i w_i G_ii + sum_(i<j) (v_i w_j + v_j w_i) G_ij has the variance |v|^2 |w|^2 + (v'w)^2 - sum v_i^2 w_i^2.
    """
    inner, squares = vectors @ vectors.T, vectors * vectors
    lengths = np.diag(inner)
    return np.asarray(np.outer(lengths, lengths) + inner * inner - squares @ squares.T, np.float64)


def noised_products(scatter: Scatter, noisy: Noisy) -> Noised | None:
    """Return the matrix of a set of products, or None where too few sites supply it."""
    people_block, _, products_block = (block.name for block in scatter.layout())
    people, products = noisy.of(people_block), noisy.of(products_block)
    if people is None or products is None:
        return None
    n, sd, columns = float(people[0]), noisy.sd[products_block], len(scatter.design.columns)
    plain = scatter.site_effect == "none"
    centres = 1 if plain else noisy.sites
    status = _status(n, sd, centres)
    means, raw = np.zeros(columns), np.zeros((columns, columns))
    if status is Status.OK and plain:
        totals, triangle = products[:columns], products[columns:]
        means = totals / n
        raw = symmetric(triangle, columns) - np.outer(totals, totals) / n
    elif status is Status.OK:
        raw = symmetric(products, columns)
    return Noised(n, centres, status, means, raw, nearest_positive(raw), sd)


def nearest_positive(matrix: Floats) -> Floats:
    """Return the positive semidefinite matrix nearest to a symmetric one in the Frobenius norm."""
    values, vectors = np.linalg.eigh(matrix)
    if values[0] >= 0.0:
        return matrix
    repaired = (vectors * np.maximum(values, 0.0)) @ vectors.T
    return np.asarray((repaired + repaired.T) / 2, np.float64)


def noised_centring(site_effect: SiteEffect, sets: Sequence[Noised | None]) -> tuple[str, ...]:
    """Return the notes on how the columns were centred, and what noise does to n and to the matrix."""
    centred = (
        "One mean per variable over all people: differences between sites are in these numbers."
        if site_effect == "none"
        else "Within sites: every variable is centred at each site, so the site is held fixed; every site in the sum counts as "
        "one with people."
    )
    notes = [centred, "n carries noise, of standard deviation n_noise_sd, and is rounded."]
    if any(opened is not None and opened.repaired for opened in sets):
        notes.append(
            "The noise had made eigenvalues negative: in place of the matrix stands the nearest one without any, in which small "
            "eigenvalues are too great."
        )
    return tuple(notes)


def _status(n: float, sd: float, centres: int) -> Status:
    if n < LEAST_COUNTS * sd:
        return Status.NOISE_TOO_LARGE
    if whole(n) == 0:
        return Status.ALL_MISSING
    return Status.OK if whole(n) > centres else Status.NOT_ESTIMABLE
