"""One test on several outcomes at once: multivariate analysis of variance from sums.

All outcomes share their people and their columns, so with the products of every two outcomes the residual cross-products E
and those that dropped terms explain, H, follow from sums alone. The criteria are functions of the eigenvalues l of E^-1 H:

======================  ==================
Wilks' lambda           prod 1 / (1 + l)
Pillai's trace          sum l / (1 + l)
Hotelling-Lawley trace  sum l
Roy's greatest root     max l
======================  ==================

Their F approximations are those of SAS PROC GLM and statsmodels: Rao's for Wilks, McKeon (1974) for Hotelling-Lawley; that of
Roy's root is an upper bound of F. Columns are swept one by one, the dropped ones last, and H is what those add.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cohortsum.study.results import NO_DATA, Absent, Cell, Status, Table
from cohortsum.study.statistics.design import Column
from cohortsum.study.statistics.distributions import f_upper
from cohortsum.study.statistics.estimates import Estimate, Totals
from cohortsum.study.statistics.fit import fit, sweep
from cohortsum.study.statistics.interface import to_grid
from cohortsum.study.statistics.products import Slice
from cohortsum.study.statistics.regression_tables import TEST_COLUMNS
from cohortsum.study.variables import Number

CRITERIA = ("Wilks' lambda", "Pillai's trace", "Hotelling-Lawley trace", "Roy's greatest root")
SINGULAR = 1e-9
"""Least share of its residual sum of squares that the outcomes before leave of one."""

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Joint:
    """A joint test: do ``terms`` explain anything of ``outcomes``?"""

    outcomes: tuple[str, ...]
    terms: tuple[str, ...]

    @property
    def pairs(self) -> int:
        """How many products of two different outcomes there are."""
        return len(self.outcomes) * (len(self.outcomes) - 1) // 2

    def places(self, outcomes: Sequence[Number]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Return the positions of the first and of the second outcome of every pair."""
        names = [outcome.name for outcome in outcomes]
        chosen = np.array([names.index(name) for name in self.outcomes], np.intp)
        first, second = np.triu_indices(len(chosen), 1)
        return chosen[first], chosen[second]

    def centred(
        self,
        products: Floats | Integers,
        outcomes: Sequence[Number],
        sums: Floats,
        mass: float,
        people: int | np.int64,
    ) -> Floats:
        """Return the products about the means, within one unit per person; nobody gives zeros."""
        first, second = self.places(outcomes)
        about = products - sums[first] * sums[second] / (mass if people else 1.0)
        return np.clip(about, -float(people), float(people))


def joint_block(analysis: str, test: str) -> str:
    """Return the name of the block of a joint test."""
    return f"{analysis}/{test}/pairs"


def joint_products(
    joint: Joint, outcomes: Sequence[Number], part: Slice, fraction_bits: int | None
) -> Floats | Integers:
    """Return the sums of the products of every two outcomes, (pairs,): float64, or on the grid exactly."""
    first, second = joint.places(outcomes)
    weighted = part.weighted(part.y.T).T
    if fraction_bits is None:
        floating: Floats = np.einsum("ij,ij->i", weighted[first], part.y[second])
        return floating
    summed: Integers = to_grid(weighted[first] * part.y[second], fraction_bits).sum(axis=1)
    return summed


def joint_table(
    analysis: str,
    tests: Mapping[str, Joint],
    columns: tuple[Column, ...],
    estimates: Mapping[str, Estimate],
    opened: Mapping[str, Integers | None],
    fraction_bits: int,
) -> Table:
    """Return one row per joint test and criterion; the column ``outcome`` names the outcomes.

    Args:
        analysis: name of the analysis.
        tests: the joint tests by name.
        columns: columns of the design.
        estimates: the model of every outcome, over the same people.
        opened: the products of every two outcomes, as they were opened, centred where sites centred; None where too few
            sites supply them.
        fraction_bits: their grid.
    """
    rows: list[tuple[Cell, ...]] = []
    for name, joint in tests.items():
        fitted, pairs = [estimates[outcome] for outcome in joint.outcomes], opened[name]
        failures = [one.failure for one in fitted if one.failure is not None]
        failure = Status.TOO_FEW_SITES if pairs is None else failures[0] if failures else None
        found: Sequence[tuple[Cell, ...]] | Status = failure or Status.NOT_ESTIMABLE
        totals = [one.totals for one in fitted if one.totals is not None]
        if failure is None and pairs is not None:
            scaled = np.ldexp(pairs.astype(np.float64), -fraction_bits)
            found = _criteria(joint, columns, totals, scaled, fitted[0].df)
        head = (", ".join(joint.outcomes), name)
        comparison = f"without {', '.join(joint.terms)}"
        for place, criterion in enumerate(CRITERIA):
            start = (head[0], f"{head[1]}: {criterion}", comparison)
            if isinstance(found, Status):
                reason = Absent(found.value) if found is Status.TOO_FEW_SITES else NO_DATA
                rows.append((*start, *(reason,) * 6, found.value))
            else:
                rows.append((*start, *found[place], totals[0].people, Status.OK.value))
    return Table(f"{analysis}.multivariate", "test", TEST_COLUMNS, tuple(rows))


def _criteria(
    joint: Joint, columns: tuple[Column, ...], totals: Sequence[Totals], pairs: Floats, df: float
) -> Sequence[tuple[Cell, ...]] | Status:
    """Return estimate, F, df, df2 and p of every criterion, or why there are none."""
    size, outcomes = len(columns), len(joint.outcomes)
    cross = np.zeros((size + outcomes, size + outcomes))
    cross[:size, :size] = totals[0].cross[:size, :size]
    for place, one in enumerate(totals, start=size):
        cross[:size, place] = cross[place, :size] = one.cross[:size, size]
        cross[place, place] = one.cross[size, size]
    first, second = np.triu_indices(outcomes, 1)
    means = [one.means[-1] if one.means is not None else 0.0 for one in totals]
    about = pairs - totals[0].mass * np.array(means)[first] * np.array(means)[second]
    cross[size + first, size + second] = cross[size + second, size + first] = about
    last = [position for position, column in enumerate(columns) if column.term in joint.terms]
    order = [*(position for position in range(size) if position not in last), *last]
    hypothesis, hypothesis_df = np.zeros((outcomes, outcomes)), 0
    for position in fit(totals[0].cross, order, totals[0].floor).kept:
        if position in last:
            gained = cross[position, size:]
            hypothesis += np.outer(gained, gained) / cross[position, position]
            hypothesis_df += 1
        sweep(cross, position)
    residual = cross[size:, size:]
    if not hypothesis_df:
        return Status.ALIASED
    scale = np.sqrt(np.diag(residual))
    correlation = residual / np.outer(scale, scale)
    if df < outcomes or np.linalg.eigvalsh(correlation)[0] < SINGULAR:
        return Status.NOT_ESTIMABLE
    root = np.linalg.inv(np.linalg.cholesky(correlation))
    eigenvalues = np.maximum(np.linalg.eigvalsh(root @ (hypothesis / np.outer(scale, scale)) @ root.T), 0.0)
    return [
        (estimate, f, df1, df2, f_upper(f, df1, df2))
        for estimate, f, df1, df2 in _approximations(eigenvalues, outcomes, hypothesis_df, df)
    ]


def _approximations(
    eigenvalues: Floats, p: int, q: int, v: float
) -> Iterator[tuple[float, float, float, float]]:
    """Yield criterion, F and its degrees of freedom; p outcomes, q and v degrees of freedom of H and E."""
    s, m, n = min(p, q), (abs(p - q) - 1) / 2, (v - p - 1) / 2
    wilks = float(np.prod(1.0 / (1.0 + eigenvalues)))
    t = np.sqrt((p * p * q * q - 4) / (p * p + q * q - 5)) if p * p + q * q > 5 else 1.0
    df1, df2 = float(p * q), float((v - (p - q + 1) / 2) * t - (p * q - 2) / 2)
    power = wilks ** (1.0 / t)
    yield wilks, float((1.0 - power) / power * df2 / df1), df1, df2
    pillai = float(np.sum(eigenvalues / (1.0 + eigenvalues)))
    df1, df2 = float(s * (2 * m + s + 1)), float(s * (2 * n + s + 1))
    yield pillai, df2 / df1 * pillai / (s - pillai), df1, df2
    hotelling = float(np.sum(eigenvalues))
    if n > 1:  # McKeon's needs it
        b = (p + 2 * n) * (q + 2 * n) / (2 * (2 * n + 1) * (n - 1))
        df1, df2 = float(p * q), 4 + (p * q + 2) / (b - 1)
        yield hotelling, df2 / df1 * hotelling / ((df2 - 2) / (2 * n)), df1, df2
    else:
        df2 = float(s * (s * max(n, 0.0) + 1))
        yield hotelling, df2 / df1 / s * hotelling, df1, df2
    roy, df1 = float(eigenvalues.max()), float(max(p, q))
    df2 = v - df1 + q
    yield roy, df2 / df1 * roy, df1, df2
