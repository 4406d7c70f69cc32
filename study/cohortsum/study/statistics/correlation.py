"""Pearson correlations of every two of some numbers, and partial correlations with other variables held fixed.

With C the centred products (`scatter`), the columns held fixed are swept out of C, and of what is left

    r = C_ij / sqrt(C_ii C_jj)        t = r sqrt(df / (1 - r^2))        df = n - centres - g - 1

where ``centres`` is 1, or the sites with people when each site centres its own, and g the columns held fixed that vary by
themselves; p is two-sided from t on df. The interval is Fisher's (1921): tanh(atanh r -+ z / sqrt(df - 1)).

``complete`` takes the people who have every variable and all that is held fixed, one set of products; ``per_pair`` those who
have both of a pair, and a set of products per pair. `scatter_noised` says how far one person moves C, and `correlation_noised` finishes
under noise.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import combinations
from math import atanh, sqrt, tanh
from typing import Literal

from cohortsum.protocol.noise import Adjacency
from cohortsum.study.batch import Batch
from cohortsum.study.results import NO_DATA, Absent, Cell, Status, Table
from cohortsum.study.statistics.correlation_noised import (
    CORRELATION_NOISE_COLUMNS,
    INTERVAL_NOTE,
    correlation_cells,
    forecast_correlation,
)
from cohortsum.study.statistics.distributions import normal_quantile, t_two_sided
from cohortsum.study.statistics.fit import Residuals, residuals
from cohortsum.study.statistics.interface import Block, Members, State, Statistic, Sums
from cohortsum.study.statistics.noised import Forecast, Noisy, Part
from cohortsum.study.statistics.scatter import Products, Scatter, SiteEffect, centring, scatter_of
from cohortsum.study.statistics.scatter_noised import noised_centring, noised_products, scatter_parts
from cohortsum.study.statistics.units import Where
from cohortsum.study.variables import Number, Variable

COLUMNS = ("variable_1", "variable_2", "given", "r", "low", "high", "p", "n", "status", "df")
COVERAGE = 0.95
NOTHING = "nothing"


@dataclass(frozen=True, slots=True, kw_only=True)
class Correlation(Statistic):
    """Correlations of every two variables.

    Attributes:
        name: name of the analysis.
        numbers: at least two.
        given: variables held fixed; factors by a 0/1 column per further level.
        variables: the study's variables by name.
        site_effect: ``within`` holds the site fixed, ``none`` does not.
        missing: ``complete`` or ``per_pair``.
        fraction_bits: grid of the products.
        where: the subgroup, or everybody.
    """

    name: str
    numbers: tuple[Number, ...]
    given: tuple[str, ...]
    variables: Mapping[str, Variable]
    site_effect: SiteEffect
    missing: Literal["complete", "per_pair"]
    fraction_bits: int
    where: Where | None = None
    _scatters: tuple[Scatter, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Build the sets of products: one, or one per pair."""
        together: list[tuple[tuple[Number, ...], tuple[str, ...]]] = [(self.numbers, ("complete",))]
        if self.missing == "per_pair":
            together = [(pair, (pair[0].name, pair[1].name)) for pair in combinations(self.numbers, 2)]
        scatters = tuple(
            scatter_of(
                self.name,
                label,
                numbers,
                self.given,
                self.variables,
                self.site_effect,
                self.fraction_bits,
                self.where,
            )
            for numbers, label in together
        )
        object.__setattr__(self, "_scatters", scatters)

    def layout(self) -> tuple[Block, ...]:
        """Return the blocks of every set of products."""
        return tuple(block for scatter in self._scatters for block in scatter.layout())

    def accumulate(self, batch: Batch) -> State:
        """Return the sums of every set of products, its place before their names."""
        return {
            f"{place}/{name}": array
            for place, scatter in enumerate(self._scatters)
            for name, array in scatter.accumulate(batch).items()
        }

    def members(self, batch: Batch) -> Members:
        """Return the complete cases of every set of products, all of them and by level."""
        return {name: mask for scatter in self._scatters for name, mask in scatter.members(batch).items()}

    def contribute(self, state: State) -> Sums:
        """Return the integers of every block."""
        return {
            name: values
            for place, scatter in enumerate(self._scatters)
            for name, values in scatter.contribute(
                {part: state[f"{place}/{part}"] for part in ("people", "x", "xx")}
            ).items()
        }

    def finish(self, sums: Sums) -> tuple[Table, ...]:
        """Return one table, one row per pair of variables."""
        rows: list[tuple[Cell, ...]] = []
        dropped: set[str] = set()
        given = ", ".join(self.given) or NOTHING
        for scatter in self._scatters:
            opened = scatter.opened(sums)
            held = len(scatter.design.columns) - len(scatter.numbers)
            left = None if opened is None else residuals(opened.cross, held, opened.floor)
            dropped |= set() if left is None else {scatter.design.columns[j].name for j in left.dropped}
            for (i, one), (j, other) in combinations(enumerate(scatter.numbers), 2):
                rows.append((one.name, other.name, given, *_cells(opened, left, i, j)))
        return (Table(self.name, "correlation", COLUMNS, tuple(rows), tuple(self._notes(sums, dropped))),)

    def parts(self, adjacency: Adjacency) -> tuple[Part, ...]:
        """Return the parts of every set of products together."""
        return scatter_parts(self._scatters, adjacency)

    def finish_noised(self, noisy: Noisy) -> tuple[Table, ...]:
        """Return one table, as without noise, with intervals that hold the noise."""
        sets = [noised_products(scatter, noisy) for scatter in self._scatters]
        given = ", ".join(self.given) or NOTHING
        rows: list[tuple[Cell, ...]] = []
        for scatter, opened in zip(self._scatters, sets, strict=True):
            held = len(scatter.design.columns) - len(scatter.numbers)
            cells = correlation_cells(opened, held, len(scatter.numbers))
            for (one, other), line in zip(combinations(scatter.numbers, 2), cells, strict=True):
                rows.append((one.name, other.name, given, *line))
        notes = [*noised_centring(self.site_effect, sets), INTERVAL_NOTE]
        if self.given:
            notes.append(f"Held fixed: {', '.join(self.given)}.")
        columns = (*COLUMNS, *CORRELATION_NOISE_COLUMNS)
        return (Table(self.name, "correlation", columns, tuple(rows), tuple(notes)),)

    def forecast(self, sd: Mapping[str, float], people: float) -> tuple[Forecast, ...]:
        """Return the errors of the correlation of two variables that do not go together."""
        *_, products = self._scatters[0].layout()
        pairs = len(self.numbers) * (len(self.numbers) - 1) // 2
        return (forecast_correlation(pairs, sd[products.name], people),)

    def _notes(self, sums: Sums, dropped: set[str]) -> Iterator[str]:
        alone = self._scatters[0].opened(sums) if len(self._scatters) == 1 else None
        yield from centring(self.site_effect, alone)
        if self.given:
            yield f"Held fixed: {', '.join(self.given)}."
        for name in sorted(dropped):
            yield (
                f"{name}: held fixed already by the site or by what is given before it, or the same for everybody; it costs "
                "no degree of freedom."
            )


def _cells(opened: Products | None, left: Residuals | None, i: int, j: int) -> tuple[Cell, ...]:
    """Return r, low, high, p, n, status and df of one pair."""
    if opened is None or left is None:
        why = Absent(Status.TOO_FEW_SITES)
        return (why, why, why, why, why, Status.TOO_FEW_SITES.value, why)
    n, df = opened.people, opened.people - opened.centres - len(left.kept) - 1
    status = _status(n, df, left, i, j)
    if status is not Status.OK:
        return (NO_DATA, NO_DATA, NO_DATA, NO_DATA, n, status.value, df if df >= 1 else NO_DATA)
    products = left.products
    r = float(products[i, j] / sqrt(products[i, i] * products[j, j]))
    r = max(-1.0, min(1.0, r))
    rest = (1.0 - r) * (1.0 + r)
    p = t_two_sided(r * sqrt(df / rest), df) if rest > 0.0 else 0.0
    low: Cell = NO_DATA
    high: Cell = NO_DATA
    if rest == 0.0:
        low = high = r
    elif df > 1:
        reach = normal_quantile(0.5 + COVERAGE / 2) / sqrt(df - 1)
        low, high = tanh(atanh(r) - reach), tanh(atanh(r) + reach)
    return (r, low, high, p, n, status.value, df)


def _status(n: int, df: int, left: Residuals, i: int, j: int) -> Status:
    if n == 0:
        return Status.ALL_MISSING
    if df < 1:
        return Status.NOT_ESTIMABLE
    if i in left.unvarying or j in left.unvarying:
        return Status.CONSTANT
    return Status.ALIASED if i in left.explained or j in left.explained else Status.OK
