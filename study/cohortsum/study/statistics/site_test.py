"""A regression within sites with an F test of the site effect: both kinds of sums of the same people in one round.

Products about the sites' means give the residual sum of squares of the model with one dummy per site, plain sums that of
the model with one intercept. With R0, d0 of the latter and R1, d1 of the former,

    F = ((R0 - R1) / (d0 - d1)) / (R1 / d1)  on d0 - d1 and d1 degrees of freedom,

which is K - 1 for K sites, less the columns that only vary between sites.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from cohortsum.study.batch import Batch
from cohortsum.study.results import NO_DATA, Absent, Cell, Status, Table
from cohortsum.study.statistics.distributions import f_upper
from cohortsum.study.statistics.estimates import Estimate
from cohortsum.study.statistics.interface import Block, Members, State, Statistic, Sums
from cohortsum.study.statistics.regression import Regression
from cohortsum.study.statistics.regression_tables import TEST_COLUMNS

PLAIN = "/plain"
"""What the names of the blocks of plain sums end with."""


@dataclass(frozen=True, slots=True)
class SiteTest(Statistic):
    """A regression and the test of its site effect.

    Attributes:
        name: name of the analysis.
        within: the regression; its site effect is ``within``.
    """

    name: str
    within: Regression
    _plain: Regression = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Derive the model without sites."""
        plain = replace(self.within, site_effect="none", effect=None, contrasts={}, tests={}, multivariate={})
        object.__setattr__(self, "_plain", plain)

    def layout(self) -> tuple[Block, ...]:
        """Return the blocks of the regression, then its covariates and products as plain sums."""
        return (
            *self.within.layout(),
            *(
                replace(block, name=block.name + PLAIN)
                for block in self._plain.layout()
                if _is_product(block.name)
            ),
        )

    def accumulate(self, batch: Batch) -> State:
        """Return the states of both, the names of the second's ending in `PLAIN`."""
        plain = {name + PLAIN: array for name, array in self._plain.accumulate(batch).items()}
        return {**self.within.accumulate(batch), **plain}

    def members(self, batch: Batch) -> Members:
        """Return those of the regression; plain sums are about the same people."""
        return self.within.members(batch)

    def contribute(self, state: State) -> Sums:
        """Return the integers of both."""
        plain = self._plain.contribute(
            {name.removesuffix(PLAIN): array for name, array in state.items() if name.endswith(PLAIN)}
        )
        within = {name: array for name, array in state.items() if not name.endswith(PLAIN)}
        return {
            **self.within.contribute(within),
            **{name + PLAIN: values for name, values in plain.items() if _is_product(name)},
        }

    def effective_people(self, state: State) -> float:
        """Return on how many people the weights rest."""
        return self.within.effective_people(state)

    def finish(self, sums: Sums) -> tuple[Table, ...]:
        """Return the tables of the regression, then one with the test of the site effect per outcome."""
        within = self.within.estimates(sums)
        return (*self.within.tables(within, sums), self._tests(within, self.plain_estimates(sums)))

    def plain_estimates(self, sums: Sums) -> tuple[Estimate, ...]:
        """Return the models with one intercept."""
        plain = {
            name.removesuffix(PLAIN): values
            for name, values in sums.items()
            if name.endswith(PLAIN) or not _is_product(name)
        }
        return self._plain.estimates(plain)

    def _tests(self, within: Sequence[Estimate], plain: Sequence[Estimate]) -> Table:
        rows = [
            (
                outcome.name,
                "site",
                "without the site effect",
                Absent("no single estimate"),
                *_test(full, reduced),
            )
            for outcome, full, reduced in zip(self.within.outcomes, within, plain, strict=True)
        ]
        return Table(f"{self.name}.site", "test", TEST_COLUMNS, tuple(rows))


def _is_product(block: str) -> bool:
    return block.endswith(("/covariates", "/products"))


def _test(full: Estimate, reduced: Estimate) -> tuple[Cell, ...]:
    """Return F, both degrees of freedom, p, n and status."""
    failure = full.failure or reduced.failure
    freed = reduced.df - full.df
    if failure is None and freed < 1:  # one site, or the columns tell the sites apart
        failure = Status.ALIASED
    if failure is not None or full.totals is None:
        reason = Absent(Status.TOO_FEW_SITES) if failure is Status.TOO_FEW_SITES else NO_DATA
        people: Cell = reason if full.totals is None else full.totals.people
        return (*(reason,) * 4, people, (failure or Status.TOO_FEW_SITES).value)
    explained = max(reduced.residual * reduced.df - full.residual * full.df, 0.0)
    f = explained / freed / full.residual
    return (f, freed, full.df, f_upper(f, freed, full.df), full.totals.people, Status.OK.value)
