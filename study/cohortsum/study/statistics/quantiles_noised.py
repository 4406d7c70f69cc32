"""Quantiles from noised counts in bins, and how far off they can be. `counts_noised` says how far one person moves the counts.

Added up from the left, the noised counts make a curve that does not only rise. It is replaced by the rising curve nearest to it, in
squares (isotonic regression by pooling adjacent violators: Ayer et al. 1955), not below 0, and rounded to whole people. Its steps are
the people of the bins, and the quantile is read off them as without noise (`ranks`). All this happens after the noise and costs nothing.

The error bound rests on the noised counts themselves. With G(b) the people of the first b bins, true and whole, and N all of them,
the people whose values a quantile at p weighs have the ranks floor(h) + 1 and ceil(h) + 1, h = (N - 1) p. One of them is

    beyond the first b bins exactly where  G(b) - p N < 1 - p,
    within them             exactly where  G(b) - p N > -p.

G(b) - p N carries noise of standard deviation s_b = s sqrt(b (1 - p)^2 + (B - b) p^2), B bins having noise s each. Going from the
last bin down, the upper limit is the lower end of every bin that is ruled out: as long as the noised G(b) - p N is at least
1 - p + 1.96 s_b. The statements tested are nested and tested in a fixed order, so that the first true one alone decides: the limit is
too low with a probability of at most 2.5 %, whatever the number of bins. So is the lower limit, from the first bin up, too high. With
95 % confidence over the noise the quantile of these people is between the two, and no farther from the value given than the greater
of the distances; that, or the bound without noise where it is greater, is the error bound.
"""

from collections.abc import Mapping, Sequence
from math import exp, pi, sqrt

import numpy as np
from numpy.typing import NDArray

from cohortsum.study.results import NO_DATA, Absent, Cell, Status, Table
from cohortsum.study.statistics.counts_noised import too_small, whole
from cohortsum.study.statistics.distributions import normal_quantile
from cohortsum.study.statistics.noised import Forecast
from cohortsum.study.statistics.quantile_table import Request
from cohortsum.study.statistics.summary_noised import ASSUMED_SD, NORMAL_95

Floats = NDArray[np.float64]
QUANTILE_NOISE_COLUMN = "n_noise_sd"
BOUND_NOTE = (
    "n and missing carry noise, of standard deviation n_noise_sd for n, and are rounded. error_bound holds the noise: with 95 % "
    "confidence the quantile of these people is no farther from the value; it is one of many if there are many rows."
)
FLOATING = 1e-9
"""People by which sums of counts may be off in float64."""


def rising(values: Sequence[float]) -> Floats:
    """Return the sequence nearest to ``values`` that never falls, in squares."""
    levels: list[float] = []
    sizes: list[int] = []
    for value in values:
        level, size = float(value), 1
        while levels and levels[-1] > level:
            before, people = levels.pop(), sizes.pop()
            level = (people * before + size * level) / (people + size)
            size += people
        levels.append(level)
        sizes.append(size)
    return np.repeat(levels, sizes)


def people_of_bins(noised: Floats) -> tuple[int, ...]:
    """Return the people of the bins, and those without a value, as whole numbers that are not negative."""
    curve = np.rint(np.maximum(rising(np.cumsum(noised[:-1]).tolist()), 0.0)).astype(np.int64)
    return (*np.diff(curve, prepend=0).tolist(), whole(noised[-1]))


def limits(
    noised: Floats, probability: float, sd: float, bins: Sequence[tuple[float, float]]
) -> tuple[float, float]:
    """Return between which ends of bins the quantile is with 95 % confidence; ``noised`` are the people of the bins."""
    below = np.arange(1, len(bins))  # as many bins are below each inner edge
    curve = np.cumsum(noised)
    excess = curve[:-1] - probability * curve[-1]
    reach = NORMAL_95 * sd * np.sqrt(below * (1 - probability) ** 2 + (len(bins) - below) * probability**2)
    low, high = bins[0][0], bins[-1][1]
    for place in range(len(below)):
        if excess[place] > -probability - reach[place] + FLOATING:
            break
        low = bins[place][1]
    for place in reversed(range(len(below))):
        if excess[place] < 1 - probability + reach[place] - FLOATING:
            break
        high = bins[place][1]
    return low, high


def noised_table(request: Request, values: Mapping[str, Floats], sd: Mapping[str, float]) -> Table:
    """Return the table of a study without noise, made of noised counts, with bounds that hold the noise."""
    counts = {block: people_of_bins(values[block]) for _, _, block in request.blocks if block in values}
    exact = request.table(counts, {})
    lines = iter(exact.rows)
    rows = [
        _row(next(lines), values.get(block), probability, sd[block], request.bins(row).intervals)
        for row, _, block in request.blocks
        for probability in request.probabilities
    ]
    return Table(
        request.analysis,
        exact.kind,
        (*exact.columns, QUANTILE_NOISE_COLUMN),
        tuple(rows),
        (*exact.notes, BOUND_NOTE),
    )


def _row(
    exact: tuple[Cell, ...],
    held: Floats | None,
    probability: float,
    sd: float,
    bins: Sequence[tuple[float, float]],
) -> tuple[Cell, ...]:
    """Return a row with the bound and the noise of n; ``exact`` ends with value, error_bound, status, n and missing."""
    *head, value, bound, _, n, missing = exact
    if held is None:
        return (*exact, Absent(Status.TOO_FEW_SITES))
    noise = sd * sqrt(len(bins))
    why = too_small(float(held[:-1].sum()), noise)
    if why is None and n == 0:
        why = NO_DATA
    if why is not None or not isinstance(value, float) or not isinstance(bound, float):
        status = Status.ALL_MISSING if why == NO_DATA else Status.NOISE_TOO_LARGE
        shown = NO_DATA if why is None else why
        return (*head, shown, shown, status.value, n, missing, noise)
    low, high = limits(held[:-1], probability, sd, bins)
    return (*head, value, max(bound, value - low, high - value), Status.OK.value, n, missing, noise)


def forecast_quantile(
    request: Request, row: int, probability: float, noise: float, people: float
) -> Forecast:
    """Return the errors of a quantile, were the values normal about the middle of the range.

    Both errors are those of the people below it, divided by how many more there are per unit: of the noise s_b as the module
    says, of sampling sqrt(N p (1 - p)).
    """
    variable, bins = request.variables[row], request.bins(row).intervals
    spread = ASSUMED_SD * variable.half_width
    z = normal_quantile(probability)
    density = people * exp(-z * z / 2) / (sqrt(2 * pi) * spread)
    below = sum(high <= variable.middle + z * spread for _, high in bins[:-1])
    counted = noise * sqrt(below * (1 - probability) ** 2 + (len(bins) - below) * probability**2)
    return Forecast(
        f"quantile {probability:g} of {variable.name}",
        variable.unit,
        counted / density,
        sqrt(people * probability * (1 - probability)) / density,
        len(request.variables),
    )
