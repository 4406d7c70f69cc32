"""Centred products of every two of some columns, over the people who have all of them.

One set of products serves correlations, partial correlations, covariances and principal components. ``within`` centres the
columns inside each site, so that differences between sites are taken out, and costs one degree of freedom per site with
people; these are `site` blocks, summed in float64 and rounded once. ``none`` has one mean per column: every person's
products are rounded to the grid, added exactly, and centred in integer arithmetic when they are opened.

============  ==========  ====================================================================================
``people``    additive    n
``sites``     site        1 if n is at least 1
``products``  either      products of every two columns; ``none``: the sums of the columns before them
============  ==========  ====================================================================================

People sets are the complete cases and, because factors are 0/1 columns, those of them at each level and at each crossing of
levels whose columns meet in a product.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from cohortsum.study.batch import Batch
from cohortsum.study.statistics.design import Design, build_design
from cohortsum.study.statistics.interface import Block, Members, State, Sums, marked, set_name, to_grid
from cohortsum.study.statistics.opening import ROUNDING, about_means
from cohortsum.study.statistics.products import CELLS, pairs, symmetric
from cohortsum.study.statistics.units import Where, selected
from cohortsum.study.variables import Number, Variable

SiteEffect = Literal["within", "none"]


@dataclass(frozen=True, slots=True)
class Products:
    """The opened products.

    Attributes:
        people: complete cases.
        centres: means that were taken out: sites with people, or 1.
        cross: (columns, columns) float64 centred products of the normalised columns.
        floor: greatest error of an entry of ``cross`` by rounding.
    """

    people: int
    centres: int
    cross: NDArray[np.float64]
    floor: float


@dataclass(frozen=True, slots=True)
class Scatter:
    """The columns, who is asked, and how they are centred.

    Attributes:
        analysis: name of the analysis.
        label: what tells this set of products from others of the analysis, as parts of names.
        design: the columns.
        numbers: those that a site may lack; it then supplies no product.
        site_effect: ``within`` or ``none``.
        fraction_bits: grid of the products.
        where: the subgroup, or everybody.
    """

    analysis: str
    label: tuple[str, ...]
    design: Design
    numbers: tuple[Number, ...]
    site_effect: SiteEffect
    fraction_bits: int
    where: Where | None

    def layout(self) -> tuple[Block, ...]:
        """Return the blocks people, sites and products."""
        base = {number.name for number in self.numbers}
        levels = [factor.level_name(level) for factor in self.design.factors for level in factor.levels]
        supply = (frozenset(base), *(frozenset({*base, level}) for level in levels))
        people, sites, products = self._blocks
        everybody, sets = self.sets[:1], self.sets
        columns = len(self.design.columns)
        size = columns * (columns + 1) // 2 + (columns if self._plain else 0)
        kind: Literal["additive", "site"] = "additive" if self._plain else "site"
        return (
            Block(people, "additive", 1, 1.0, "person", 0, supply, everybody),
            Block(sites, "site", 1, 1.0, "site", 0, supply, everybody),
            Block(products, kind, size, 1.0, "person", self.fraction_bits, supply, sets),
        )

    def accumulate(self, batch: Batch) -> State:
        """Return people (1,), x (columns,) and xx (triangle by rows): integers on the grid for ``none``, else float64."""
        _, x = self._complete(batch)
        sums = _exact(x, self.fraction_bits) if self._plain else _floating(x)
        return {"people": np.array([len(x)], np.int64), **sums}

    def members(self, batch: Batch) -> Members:
        """Return the complete cases: all of them, then by level."""
        people, _ = self._complete(batch)
        complete = marked(batch.people, people)
        groups = self.design.groups(2)
        return {name: complete & group.holds(batch) for name, group in zip(self.sets, groups, strict=True)}

    def contribute(self, state: State) -> Sums:
        """Return the integers of every block: the exact sums as they are, or centred and rounded once."""
        n = int(state["people"][0])
        if self._plain:
            products = np.concatenate((state["x"], state["xx"])).astype(np.int64)
        else:
            x = state["x"].astype(np.float64)
            about = state["xx"].astype(np.float64) - pairs(x[np.newaxis])[0] / max(n, 1)
            products = to_grid(np.clip(about, -float(n), float(n)), self.fraction_bits)
        values = (np.array([n], np.int64), np.array([n > 0], np.int64), products)
        return dict(zip(self._blocks, values, strict=True))

    def opened(self, sums: Sums) -> Products | None:
        """Return the products behind the opened blocks; None where too few sites supply them."""
        if any(name not in sums for name in self._blocks):
            return None
        people, sites, products = (sums[name] for name in self._blocks)
        n, columns, grid = int(people[0]), len(self.design.columns), 2.0**-self.fraction_bits
        if self._plain:
            totals = [int(total) for total in products[:columns]]
            rows, others = np.triu_indices(columns)
            first, second = [totals[row] for row in rows], [totals[other] for other in others]
            triangle = about_means(n, products[columns:], first, second, self.fraction_bits)
            # three roundings of half a unit per person
            return Products(n, 1, symmetric(triangle, columns), n * (1.5 * grid + ROUNDING))
        triangle = products.astype(np.float64) * grid
        centres = int(sites[0])
        return Products(n, centres, symmetric(triangle, columns), n * ROUNDING + centres * grid)

    @property
    def sets(self) -> tuple[str, ...]:
        """The names of the people sets, the complete cases first."""
        return tuple(set_name(self.analysis, *self.label, *group.names) for group in self.design.groups(2))

    @property
    def _plain(self) -> bool:
        return self.site_effect == "none"

    @property
    def _blocks(self) -> tuple[str, str, str]:
        prefix = set_name(self.analysis, *self.label)
        return f"{prefix}/people", f"{prefix}/sites", f"{prefix}/products"

    def _complete(self, batch: Batch) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
        """Return the complete cases, and their normalised columns, (people, columns) float64."""
        people = selected(batch, self.where)
        x = self.design.values(batch, people)
        known = ~np.isnan(x).any(axis=1)
        return people[known], x[known]


def _floating(x: NDArray[np.float64]) -> dict[str, NDArray[np.float64]]:
    """Return the float64 sums of the columns, and of their products."""
    return {"x": x.sum(axis=0), "xx": (x.T @ x)[np.triu_indices(x.shape[1])]}


def _exact(x: NDArray[np.float64], fraction_bits: int) -> dict[str, NDArray[np.int64]]:
    """Return the integer sums of the columns, and of their products, each person's rounded to the grid."""
    products = np.zeros(x.shape[1] * (x.shape[1] + 1) // 2, np.int64)
    step = max(1, CELLS // len(products))  # bounded memory
    for start in range(0, len(x), step):
        products += to_grid(pairs(x[start : start + step]), fraction_bits).sum(axis=0)
    return {"x": to_grid(x, fraction_bits).sum(axis=0), "xx": products}


def scatter_of(
    analysis: str,
    label: tuple[str, ...],
    numbers: tuple[Number, ...],
    given: tuple[str, ...],
    variables: Mapping[str, Variable],
    site_effect: SiteEffect,
    fraction_bits: int,
    where: Where | None,
) -> Scatter:
    """Return the products of ``numbers`` after those of what is ``given``; factors give a 0/1 column per further level."""
    design = build_design(analysis, (*given, *(number.name for number in numbers)), variables)
    return Scatter(analysis, label, design, numbers, site_effect, fraction_bits, where)


def centring(site_effect: SiteEffect, products: Products | None) -> tuple[str, ...]:
    """Return the note that says how the columns were centred, and by how many sites."""
    if site_effect == "none":
        return ("One mean per variable over all people: differences between sites are in these numbers.",)
    sites = "" if products is None else f" Contributing sites: {products.centres}."
    return (f"Within sites: every variable is centred at each site, so the site is held fixed.{sites}",)
