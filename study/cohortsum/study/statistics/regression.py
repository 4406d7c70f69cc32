"""Mass-univariate linear regression: many outcomes, shared terms, one round.

``within`` centres every product inside its site, which equals one dummy per site without showing any site's level.
These are `site` blocks: sums in float64 about the public centres, centred and rounded once by `contribute`. An entry is
right to ``n * 2**-50`` before that rounding. ``none`` has one intercept; every person's products are rounded to the
grid and added exactly, and centred in integer arithmetic when they are opened.

Per outcome, over the people who have it and every covariate (``complete``: who have all outcomes):

==============  =========  ======================================================================================
``people``      additive   n, then the people at each level of the effect
``sites``       site       1 if n is at least 1; then, per further level of the effect, 1 if both arms have people
``covariates``  either     the products of the columns; ``none``: their sums before them
``products``    either     columns times outcome, outcome squared; ``none``: the sum of the outcome before them
==============  =========  ======================================================================================

Under ``complete`` the first three are shared by all outcomes. A site supplies an outcome, and is asked for each level of
each factor that its outcome be supplied together with it.

People sets are those who count for an outcome and, because factors are 0/1 columns, those of them at each level, and at
each crossing of levels whose columns meet in a product.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from cohortsum.crypto.errors import StudyFileError
from cohortsum.study.batch import Batch
from cohortsum.study.results import Table
from cohortsum.study.statistics.design import Design, Group, build_design
from cohortsum.study.statistics.estimates import Totals, estimate, term_names
from cohortsum.study.statistics.interface import (
    Block,
    Members,
    State,
    Statistic,
    Sums,
    merge,
    set_name,
    to_grid,
)
from cohortsum.study.statistics.opening import opened
from cohortsum.study.statistics.products import Slice, centred, exact, floating, people_by_level, slices
from cohortsum.study.statistics.regression_tables import Request, tables
from cohortsum.study.statistics.units import Where
from cohortsum.study.variables import Factor, Number, Variable


@dataclass(frozen=True, slots=True, kw_only=True)
class Regression(Statistic):
    """A linear model per outcome on shared terms.

    Attributes:
        name: name of the analysis.
        outcomes: one model each.
        terms: variables and interactions ``a:b``.
        variables: the study's variables by name; those of ``terms`` are used.
        site_effect: ``within`` centres inside each site, ``none`` fits one intercept.
        missing: ``per_outcome`` uses each outcome's own complete cases, ``complete`` those of all outcomes.
        effect: the term of interest; a factor gets Cohen's d per level against its reference.
        correction: adjustment of the effect's p-values over the outcomes.
        contrasts: weights of coefficients by their names, per contrast.
        tests: terms that are dropped jointly, per F test.
        fraction_bits: grid of the products.
        where: the subgroup, or everybody.

    Raises:
        StudyFileError: a term, effect, contrast or test names something the model does not have.
    """

    name: str
    outcomes: tuple[Number, ...]
    terms: tuple[str, ...]
    variables: Mapping[str, Variable]
    site_effect: Literal["within", "none"]
    missing: Literal["per_outcome", "complete"]
    fraction_bits: int
    effect: str | None = None
    correction: Literal["fdr_bh", "none"] = "none"
    contrasts: Mapping[str, Mapping[str, float]] = field(default_factory=dict[str, Mapping[str, float]])
    tests: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    where: Where | None = None
    _design: Design = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Build the design and refuse what it does not have."""
        object.__setattr__(self, "_design", build_design(self.name, self.terms, self.variables))
        if not self.outcomes:
            raise StudyFileError(f"analysis '{self.name}', field 'outcomes': expected at least one; name it")
        names = term_names(self._design.columns, self._intercept)
        if self.effect is not None:
            self._check("report.effect", (self.effect,), self.terms)
        for contrast, weights in self.contrasts.items():
            self._check(f"contrasts.{contrast}", tuple(weights), names)
            if not any(weights.values()):
                raise StudyFileError(
                    f"analysis '{self.name}', field 'contrasts.{contrast}': every weight is 0; expected one that is not"
                )
        for test, dropped in self.tests.items():
            self._check(f"tests.{test}", dropped, self.terms)

    def layout(self) -> tuple[Block, ...]:
        """Return the blocks in the order of the outcomes; the shared ones of ``complete`` come first."""
        blocks: list[Block] = []
        columns, further, additive = len(self._design.columns), self._intercept, self._intercept
        kind: Literal["additive", "site"] = "additive" if additive else "site"
        triangle = columns * (columns + 1) // 2
        bits = self.fraction_bits
        single, pairs = self._design.groups(1), self._design.groups(2)
        counted = [group for group in single if not group.factors or group.factors == (self._effect_factor,)]
        for position, outcome in enumerate(self.outcomes):
            supply = self._supply(outcome)
            if position == 0 or not self._complete:
                people, sites, covariates = self._shared_blocks(outcome)
                sets, size = self._sets(outcome, counted), 1 + self._levels
                blocks.append(Block(people, "additive", size, 1.0, "person", 0, supply, sets))
                blocks.append(Block(sites, "site", max(1, self._levels), 1.0, "site", 0, supply, sets))
                sets, size = self._sets(outcome, pairs), triangle + further * columns
                blocks.append(Block(covariates, kind, size, 1.0, "person", bits, supply, sets))
            name, size = self._products_block(outcome), columns + 1 + further
            sets = self._sets(outcome, single)
            blocks.append(Block(name, kind, size, 1.0, "person", bits, supply, sets))
        return tuple(blocks)

    def accumulate(self, batch: Batch) -> State:
        """Return people, x, xx, y, xy and yy; float64 sums for ``within``, integers on the grid for ``none``."""
        return reduce(lambda state, other: merge((state, other)), map(self._sums, self._slices(batch)))

    def members(self, batch: Batch) -> Members:
        """Return who counts for each outcome, or for all under ``complete``: everybody, then by level."""
        outcomes = self.outcomes[:1] if self._complete else self.outcomes
        counted = np.zeros((len(outcomes), batch.people), np.bool_)
        for part in self._slices(batch):
            counted[:, part.people] = part.counted > 0
        groups = self._design.groups(2)
        held = [group.holds(batch) for group in groups]
        return {
            name: cases & at_levels
            for outcome, cases in zip(outcomes, counted, strict=True)
            for name, at_levels in zip(self._sets(outcome, groups), held, strict=True)
        }

    def contribute(self, state: State) -> Sums:
        """Return the integers of every block: centred and rounded once, or the exact sums as they are."""
        people = state["people"].astype(np.int64)
        if self._intercept:
            integers = {name: state[name].astype(np.int64) for name in ("x", "xx", "y", "xy", "yy")}
            covariates = np.hstack((integers["x"], integers["xx"]))
            products = np.hstack(
                (integers["y"][:, np.newaxis], integers["xy"], integers["yy"][:, np.newaxis])
            )
        else:
            sums = {name: state[name].astype(np.float64) for name in ("x", "xx", "y", "xy", "yy")}
            about_means = centred(people[:, 0], sums)
            covariates = to_grid(about_means["xx"], self.fraction_bits)
            products = to_grid(np.hstack((about_means["xy"], about_means["yy"])), self.fraction_bits)
        sites = _sites(people)
        contribution: dict[str, NDArray[np.int64]] = {}
        for position, outcome in enumerate(self.outcomes):
            if position == 0 or not self._complete:
                shared = (people[position], sites[position], covariates[position])
                contribution.update(zip(self._shared_blocks(outcome), shared, strict=True))
            contribution[self._products_block(outcome)] = products[position]
        return contribution

    def finish(self, sums: Sums) -> tuple[Table, ...]:
        """Return the table of coefficients, then those of contrasts and tests where they are asked for."""
        request = Request(
            analysis=self.name,
            outcomes=self.outcomes,
            columns=self._design.columns,
            intercept=self._intercept,
            effect=self.effect,
            factor=self._effect_factor,
            correction=self.correction,
            contrasts=self.contrasts,
            tests=self.tests,
        )
        return tables(
            request,
            [
                estimate(outcome, self._design.columns, self._totals(outcome, sums), self._intercept)
                for outcome in self.outcomes
            ],
        )

    @property
    def _intercept(self) -> bool:
        return self.site_effect == "none"

    @property
    def _complete(self) -> bool:
        return self.missing == "complete"

    @property
    def _effect_factor(self) -> Factor | None:
        """The effect, if it is a factor by itself."""
        variable = None if self.effect is None else self.variables.get(self.effect)
        return variable if isinstance(variable, Factor) else None

    @property
    def _levels(self) -> int:
        """How many levels of the effect are counted."""
        return 0 if self._effect_factor is None else len(self._effect_factor.levels)

    def _check(self, key: str, asked: tuple[str, ...], known: tuple[str, ...]) -> None:
        """Refuse names that the model does not have, and empty lists of them."""
        unknown = [name for name in asked if name not in known]
        if unknown or not asked:
            found = f"'{unknown[0]}' is not in the model" if unknown else "nothing is named"
            raise StudyFileError(
                f"analysis '{self.name}', field '{key}': {found}; expected one or more of {', '.join(known)}"
            )

    def _slices(self, batch: Batch) -> Iterator[Slice]:
        effect = None if self._effect_factor is None else self._effect_factor.name
        return slices(batch, self._design, self.outcomes, effect, self._complete, self.where)

    def _sums(self, part: Slice) -> State:
        """Return the state of one slice."""
        sums = exact(part, self.fraction_bits) if self._intercept else floating(part)
        return {"people": people_by_level(part, self._levels), **sums}

    def _supply(self, outcome: Number) -> tuple[frozenset[str], ...]:
        """Return the supply groups: the outcome, then the outcome together with each level of each factor."""
        base = {other.name for other in self.outcomes} if self._complete else {outcome.name}
        levels = [factor.level_name(level) for factor in self._design.factors for level in factor.levels]
        return (frozenset(base), *(frozenset({*base, level}) for level in levels))

    def _sets(self, outcome: Number, groups: Sequence[Group]) -> tuple[str, ...]:
        """Return the names of the people sets: the people who count for an outcome, by group."""
        counted = "complete" if self._complete else outcome.name
        return tuple(set_name(self.name, counted, *group.names) for group in groups)

    def _shared_blocks(self, outcome: Number) -> tuple[str, str, str]:
        """Return the names of the blocks people, sites and covariates."""
        prefix = self.name if self._complete else f"{self.name}/{outcome.name}"
        return f"{prefix}/people", f"{prefix}/sites", f"{prefix}/covariates"

    def _products_block(self, outcome: Number) -> str:
        return f"{self.name}/{outcome.name}/products"

    def _totals(self, outcome: Number, sums: Sums) -> Totals | None:
        """Return the opened sums of one outcome, centred; None where too few sites supply it."""
        names = (*self._shared_blocks(outcome), self._products_block(outcome))
        if any(name not in sums for name in names):
            return None
        people, sites, covariates, products = (sums[name] for name in names)
        return opened(people, sites, covariates, products, self.fraction_bits, self._intercept)


def _sites(people: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return 1 for a group with people; then, per further level, 1 if it and the reference have people."""
    some = people > 0
    return np.column_stack((some[:, 0], some[:, 2:] & some[:, 1:2])).astype(np.int64)
