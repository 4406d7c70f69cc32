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

Under ``complete`` the first three are shared by all outcomes. With weights every product is weighted and the sum of the
weights stands before those of the columns; n and the levels count people of a weight above 0. Each joint test of several
outcomes adds a block of the products of every two of them (`joint`). Robust standard errors need a second round (`sandwich`).

A site supplies an outcome, and is asked for each level of each factor that its outcome be supplied together with it.

People sets are those who count for an outcome and, because factors are 0/1 columns, those of them at each level, and at
each crossing of levels whose columns meet in a product.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from math import inf
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from cohortsum.crypto.errors import StudyFileError
from cohortsum.study.batch import Batch
from cohortsum.study.results import Table
from cohortsum.study.statistics.curves import Curve
from cohortsum.study.statistics.design import Design, Group, build_design
from cohortsum.study.statistics.estimates import Estimate, Totals, estimate, term_names
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
from cohortsum.study.statistics.joint import Joint, joint_block, joint_products, joint_table
from cohortsum.study.statistics.opening import opened
from cohortsum.study.statistics.products import (
    Slice,
    centred,
    exact,
    floating,
    people_by_level,
    slices,
    who_counts,
)
from cohortsum.study.statistics.regression_tables import Request, tables
from cohortsum.study.statistics.sandwich import Sandwich
from cohortsum.study.statistics.units import Where
from cohortsum.study.variables import Factor, Number, Variable

Summed = NDArray[np.float64] | NDArray[np.int64]


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
        weights: a variable of non-negative range by which people are weighted; nobody counts whose weight is 0.
        ridge: penalty on the squared coefficients of the standardised columns (`estimates`), or none.
        vif: whether variance inflation factors are given.
        covariance: ``HC0`` or ``HC1`` for standard errors that stand without equal variances, or None.
        multivariate: tests of terms on several outcomes at once; needs ``complete``.
        curves: variables that enter as a curve, with the columns of its basis.

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
    weights: Number | None = None
    ridge: float | None = None
    vif: bool = False
    covariance: Literal["HC0", "HC1"] | None = None
    multivariate: Mapping[str, Joint] = field(default_factory=dict[str, Joint])
    curves: Mapping[str, Curve] = field(default_factory=dict[str, Curve])
    design: Design = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Build the design and refuse what it does not have."""
        design = build_design(self.name, self.terms, self.variables, self.curves)
        object.__setattr__(self, "design", design)
        if not self.outcomes:
            raise StudyFileError(f"analysis '{self.name}', field 'outcomes': expected at least one; name it")
        names = term_names(self.design.columns, self._intercept)
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
        known = tuple(outcome.name for outcome in self.outcomes)
        for test, joint in self.multivariate.items():
            self._check(f"multivariate.{test}.outcomes", joint.outcomes, known)
            self._check(f"multivariate.{test}.terms", joint.terms, self.terms)
            if not self._complete:
                raise StudyFileError(
                    f"analysis '{self.name}', field 'multivariate.{test}': needs the same people for every outcome; "
                    "write missing: complete"
                )

    def layout(self) -> tuple[Block, ...]:
        """Return the blocks in the order of the outcomes; the shared ones of ``complete`` come first."""
        blocks: list[Block] = []
        columns, further = len(self.design.columns), self._intercept
        kind: Literal["additive", "site"] = "additive" if self._intercept else "site"
        triangle = columns * (columns + 1) // 2
        bits = self.fraction_bits
        single, pairs = self.design.groups(1), self.design.groups(2)
        counted = [group for group in single if not group.factors or group.factors == (self._effect_factor,)]
        for position, outcome in enumerate(self.outcomes):
            supply = self._supply(outcome)
            if position == 0 or not self._complete:
                people, sites, covariates = self.shared_blocks(outcome)
                sets, size = self._sets(outcome, counted), 1 + self._levels
                blocks.append(Block(people, "additive", size, 1.0, "person", 0, supply, sets))
                blocks.append(Block(sites, "site", max(1, self._levels), 1.0, "site", 0, supply, sets))
                sets, size = self._sets(outcome, pairs), triangle + further * (columns + self._weighted)
                blocks.append(Block(covariates, kind, size, 1.0, "person", bits, supply, sets))
            name, size = self._products_block(outcome), columns + 1 + further
            sets = self._sets(outcome, single)
            blocks.append(Block(name, kind, size, 1.0, "person", bits, supply, sets))
        for test, joint in self.multivariate.items():
            name, sets = joint_block(self.name, test), self._sets(self.outcomes[0], single[:1])
            supply = self._supply(self.outcomes[0])
            blocks.append(Block(name, kind, joint.pairs, 1.0, "person", bits, supply, sets))
        return tuple(blocks)

    def accumulate(self, batch: Batch) -> State:
        """Return people, x, xx, y, xy and yy; float64 sums for ``within``, integers on the grid for ``none``.

        With weights also w; and the products of every joint test, by its block's name.
        """
        return reduce(lambda state, other: merge((state, other)), map(self._sums, self.slices(batch)))

    def members(self, batch: Batch) -> Members:
        """Return who counts for each outcome, or for all under ``complete``: everybody, then by level."""
        outcomes = self.outcomes[:1] if self._complete else self.outcomes
        counted = who_counts(self.slices(batch), len(outcomes), batch.people)
        groups = self.design.groups(2)
        held = [group.holds(batch) for group in groups]
        return {
            name: cases & at_levels
            for outcome, cases in zip(outcomes, counted, strict=True)
            for name, at_levels in zip(self._sets(outcome, groups), held, strict=True)
        }

    def contribute(self, state: State) -> Sums:
        """Return the integers of every block: centred and rounded once, or the exact sums as they are."""
        people = state["people"].astype(np.int64)
        summed = ("x", "xx", "y", "xy", "yy", *(("w",) if self._weighted else ()))
        joint = {name: state[name] for name in map(self._joint_block, self.multivariate)}
        if self._intercept:
            integers = {name: state[name].astype(np.int64) for name in summed}
            weights = [integers["w"][:, np.newaxis]] if self._weighted else []
            covariates = np.hstack((*weights, integers["x"], integers["xx"]))
            products = np.hstack(
                (integers["y"][:, np.newaxis], integers["xy"], integers["yy"][:, np.newaxis])
            )
        else:
            sums = {name: state[name].astype(np.float64) for name in summed}
            about_means = centred(people[:, 0], sums)
            covariates = to_grid(about_means["xx"], self.fraction_bits)
            products = to_grid(np.hstack((about_means["xy"], about_means["yy"])), self.fraction_bits)
            mass = float(sums.get("w", people)[0, ...].flat[0])
            joint = {
                self._joint_block(test): to_grid(
                    asked.centred(
                        joint[self._joint_block(test)], self.outcomes, sums["y"], mass, people[0, 0]
                    ),
                    self.fraction_bits,
                )
                for test, asked in self.multivariate.items()
            }
        sites = _sites(people)
        contribution: dict[str, NDArray[np.int64]] = {}
        for position, outcome in enumerate(self.outcomes):
            if position == 0 or not self._complete:
                shared = (people[position], sites[position], covariates[position])
                contribution.update(zip(self.shared_blocks(outcome), shared, strict=True))
            contribution[self._products_block(outcome)] = products[position]
        return contribution | {name: values.astype(np.int64) for name, values in joint.items()}

    def finish(self, sums: Sums) -> tuple[Table, ...]:
        """Return the table of coefficients, then those of contrasts and tests where they are asked for."""
        return self.tables(self.estimates(sums), sums)

    @property
    def most_rounds(self) -> int:
        """Two with robust standard errors."""
        return 1 if self.covariance is None else 2

    def further(self, sums: Sums) -> Statistic | None:
        """Return the round that sums squared residuals, where it is asked for and there is a model to take them from."""
        if self.covariance is None:
            return None
        estimates = self.estimates(sums)
        return (
            Sandwich.of(self, sums, estimates) if any(found.failure is None for found in estimates) else None
        )

    def effective_people(self, state: State) -> float:
        """Return on how many of the site's people the weights rest, for the outcome where that is least."""
        if not self._weighted:
            return inf
        weights, squares = state["w"].astype(np.float64), state["ww"].astype(np.float64)
        some = squares > 0.0
        return float(np.min(weights[some] ** 2 / squares[some])) if some.any() else inf

    def estimates(self, sums: Sums) -> tuple[Estimate, ...]:
        """Return the model of every outcome."""
        return tuple(
            estimate(outcome, self.design.columns, self.totals(outcome, sums), self._intercept, self.ridge)
            for outcome in self.outcomes
        )

    def tables(self, estimates: Sequence[Estimate], sums: Sums) -> tuple[Table, ...]:
        """Return the tables of ``estimates``; joint tests are made of the sums of the first round."""
        request = Request(
            analysis=self.name,
            outcomes=self.outcomes,
            columns=self.design.columns,
            intercept=self._intercept,
            effect=self.effect,
            factor=self._effect_factor,
            correction=self.correction,
            contrasts=self.contrasts,
            tests=self.tests,
            vif=self.vif,
            ridge=self.ridge is not None,
            notes=self._notes,
        )
        found = tables(request, estimates)
        if not self.multivariate:
            return found
        opened_pairs = {test: sums.get(self._joint_block(test)) for test in self.multivariate}
        by_outcome = dict(zip((outcome.name for outcome in self.outcomes), estimates, strict=True))
        return (
            *found,
            joint_table(
                self.name,
                self.multivariate,
                self.design.columns,
                by_outcome,
                opened_pairs,
                self.fraction_bits,
            ),
        )

    @property
    def _intercept(self) -> bool:
        return self.site_effect == "none"

    @property
    def _weighted(self) -> bool:
        return self.weights is not None

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

    def slices(self, batch: Batch) -> Iterator[Slice]:
        """Return the people who have every covariate, in slices of bounded size."""
        effect = None if self._effect_factor is None else self._effect_factor.name
        return slices(batch, self.design, self.outcomes, effect, self._complete, self.where, self.weights)

    def _sums(self, part: Slice) -> State:
        """Return the state of one slice."""
        bits = self.fraction_bits if self._intercept else None
        sums: dict[str, Summed] = {"people": people_by_level(part, self._levels)}
        sums |= floating(part) if bits is None else exact(part, bits)
        if part.weights is not None:
            sums["ww"] = part.over_counted(part.weights**2)
        for test, joint in self.multivariate.items():
            sums[self._joint_block(test)] = joint_products(joint, self.outcomes, part, bits)
        return sums

    def _joint_block(self, test: str) -> str:
        return joint_block(self.name, test)

    @property
    def _notes(self) -> tuple[str, ...]:
        """What a reader must know of the way the models were fitted."""
        notes: list[str] = []
        if self.weights is not None:
            notes.append(f"Weighted by {self.weights.name}; n counts people of a weight above 0.")
        if self.ridge is not None:
            notes.append(
                f"Ridge with penalty {self.ridge:g} on the squared coefficients of the standardised columns."
            )
        if self.covariance is not None:
            notes.append(
                f"Standard errors are {self.covariance} (White 1980); d rests on those of equal variances."
                if self.effect is not None
                else f"Standard errors are {self.covariance} (White 1980)."
            )
        return tuple(notes)

    def _supply(self, outcome: Number) -> tuple[frozenset[str], ...]:
        """Return the supply groups: the outcome, then the outcome together with each level of each factor."""
        base = {other.name for other in self.outcomes} if self._complete else {outcome.name}
        levels = [factor.level_name(level) for factor in self.design.factors for level in factor.levels]
        return (frozenset(base), *(frozenset({*base, level}) for level in levels))

    def _sets(self, outcome: Number, groups: Sequence[Group]) -> tuple[str, ...]:
        """Return the names of the people sets: the people who count for an outcome, by group."""
        counted = "complete" if self._complete else outcome.name
        return tuple(set_name(self.name, counted, *group.names) for group in groups)

    def shared_blocks(self, outcome: Number) -> tuple[str, str, str]:
        """Return the names of the blocks people, sites and covariates."""
        prefix = self.name if self._complete else f"{self.name}/{outcome.name}"
        return f"{prefix}/people", f"{prefix}/sites", f"{prefix}/covariates"

    def _products_block(self, outcome: Number) -> str:
        return f"{self.name}/{outcome.name}/products"

    def totals(self, outcome: Number, sums: Sums) -> Totals | None:
        """Return the opened sums of one outcome, centred; None where too few sites supply it."""
        names = (*self.shared_blocks(outcome), self._products_block(outcome))
        if any(name not in sums for name in names):
            return None
        people, sites, covariates, products = (sums[name] for name in names)
        return opened(
            people, sites, covariates, products, self.fraction_bits, self._intercept, self._weighted
        )


def _sites(people: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return 1 for a group with people; then, per further level, 1 if it and the reference have people."""
    some = people > 0
    return np.column_stack((some[:, 0], some[:, 2:] & some[:, 1:2])).astype(np.int64)
