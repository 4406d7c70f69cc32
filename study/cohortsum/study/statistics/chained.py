"""An analysis of harmonised values: it waits for the sums of a ComBat, and runs in the rounds after.

The first round asks nothing of its own. From the sums of the ComBat in that round everybody derives the same standards,
and they are the parameters of every round that follows; each site derives its own effects, harmonises its people's
outcomes and adds what the analysis asks for. Covariates, and whom ``where`` picks, stay as they were prepared.

A harmonised value is clipped to the outcome's declared range like any other, because the bound of a sum rests on it; the
site's own table counts those beyond it. Somebody without a harmonised value, at a site that is not harmonised or without
a kept covariate, is missing.

People sets are those of the analysis itself; counts are about them alone. Sums of values are also about everybody whom
the site's effects were estimated from, in the set ``harmonised``: the effect on one outcome is drawn towards those on the
others. Nothing after ComBat has a proven sensitivity: one person moves everybody's values, so no noise could be
calibrated to these sums.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from cohortsum.study.batch import Batch
from cohortsum.study.results import Status, Table
from cohortsum.study.statistics.combat import Combat
from cohortsum.study.statistics.harmonised import Harmonised
from cohortsum.study.statistics.interface import Block, Members, State, Statistic, Sums, marked, set_name
from cohortsum.study.statistics.standards import Standard
from cohortsum.study.statistics.units import Where, selected

People = Callable[[], Iterable[Batch]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Chained(Statistic):
    """The first round: nothing but waiting.

    Attributes:
        name: name of the analysis.
        inner: the analysis, over everybody.
        combat: what it needs.
        outcomes: the variables that it takes harmonised, outcomes of ``combat``.
        where: the subgroup, judged on values that are not harmonised.
    """

    name: str
    inner: Statistic
    combat: Combat
    outcomes: frozenset[str]
    where: Where | None = None

    def layout(self) -> tuple[Block, ...]:
        """Return nothing: the sums of the ComBat travel with that analysis."""
        return ()

    @property
    def supplied_later(self) -> frozenset[str]:
        """The supply items of the analysis itself."""
        groups = (group for block in self.inner.layout() for group in block.supply)
        return frozenset[str]().union(*groups)

    def accumulate(self, batch: Batch) -> State:
        """Return nothing."""
        return {}

    def members(self, batch: Batch) -> Members:
        """Return nothing."""
        return {}

    def contribute(self, state: State) -> Sums:
        """Return nothing."""
        return {}

    def finish(self, sums: Sums) -> tuple[Table, ...]:
        """Return the tables of an analysis that nothing was opened of; a further round always follows this one."""
        return self.inner.finish({})

    @property
    def most_rounds(self) -> int:
        """One more than the analysis itself."""
        return 1 + self.inner.most_rounds

    def further(self, sums: Sums) -> Statistic:
        """Return the first round of the analysis itself, under the standards in ``sums``."""
        return OnHarmonised(
            name=self.name,
            inner=self.inner,
            combat=self.combat,
            standards=self.combat.standards(sums),
            outcomes=self.outcomes,
            where=self.where,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class OnHarmonised(Statistic):
    """A round of the analysis itself.

    Attributes:
        name: name of the analysis.
        inner: this round of it, over everybody.
        combat: what it needs.
        standards: of ``combat``, alike everywhere.
        outcomes: the variables that are taken harmonised.
        where: the subgroup, judged on values that are not harmonised.
        site: the effects of the site this is at; None elsewhere.
    """

    name: str
    inner: Statistic
    combat: Combat
    standards: tuple[Standard, ...]
    outcomes: frozenset[str]
    where: Where | None
    site: Harmonised | None = None

    def layout(self) -> tuple[Block, ...]:
        """Return the blocks of the analysis; sums of values are about all people harmonised here as well."""
        return tuple(
            replace(block, sets=(*block.sets, self._everybody)) if block.fraction_bits else block
            for block in self.inner.layout()
        )

    def at_site(self, people: People) -> "OnHarmonised":
        """Return the round with the site's own effects, from all its people."""
        here = replace(self, site=self.combat.harmonised(self.standards, people))

        def harmonised() -> Iterator[Batch]:
            return (here.prepared(batch) for batch in people())

        return replace(here, inner=self.inner.at_site(harmonised))

    def accumulate(self, batch: Batch) -> State:
        """Return the state of the analysis over the harmonised people of ``batch``; only `at_site`."""
        return self.inner.accumulate(self.prepared(batch))

    def members(self, batch: Batch) -> Members:
        """Return who enters which set of the analysis, and who is harmonised at all; by who has values, whatever they are."""
        z, _, _ = self.combat.method.standardised(batch, self.standards)
        people = selected(batch, self.where)
        masks = self.inner.members(self._replaced(_slice(batch, people), z[people]))
        known: NDArray[np.bool_] = ~np.isnan(z)
        everybody: dict[str, NDArray[np.bool_]] = {self._everybody: np.logical_or.reduce(known, axis=1)}
        return everybody | {name: marked(batch.people, people[mask]) for name, mask in masks.items()}

    def contribute(self, state: State) -> Sums:
        """Return the integers of the analysis."""
        return self.inner.contribute(state)

    def merge(self, states: Sequence[State]) -> State:
        """Return the state of all people behind ``states``."""
        return self.inner.merge(states)

    def effective_people(self, state: State) -> float:
        """Return on how many of the site's people the weights of this round rest."""
        return self.inner.effective_people(state)

    @property
    def most_rounds(self) -> int:
        """As many as the analysis."""
        return self.inner.most_rounds

    @property
    def parameters(self) -> tuple[float, ...]:
        """Grand mean, pooled SD and kept effects of every outcome, normalised, then the parameters of the analysis."""
        numbers = [(one.grand, one.spread, *one.b.tolist()) for one in self.standards]
        return (*(value for values in numbers for value in values), *self.inner.parameters)

    def further(self, sums: Sums) -> "Statistic | None":
        """Return the next round of the analysis under the same standards, or None."""
        following = self.inner.further(sums)
        return None if following is None else replace(self, inner=following)

    def finish(self, sums: Sums) -> tuple[Table, ...]:
        """Return the tables of the analysis, which say whose values they are about."""
        notes = [f"Values as {self.combat.name} harmonised them, clipped to their declared ranges."]
        lost = [
            one.outcome.name
            for one in self.standards
            if one.status is not Status.OK and one.outcome.name in self.outcomes
        ]
        if lost:
            notes.append(f"Not harmonised there, hence missing here: {', '.join(lost)}.")
        return tuple(replace(table, notes=(*table.notes, *notes)) for table in self.inner.finish(sums))

    @property
    def _everybody(self) -> str:
        return set_name(self.name, "harmonised")

    def prepared(self, batch: Batch) -> Batch:
        """Return the people of the subgroup with their outcomes harmonised."""
        if self.site is None:
            raise ValueError(
                f"analysis {self.name}: harmonised values exist at a site only; call at_site first"
            )
        part = _slice(batch, selected(batch, self.where))
        return self._replaced(part, self.site.values(part))

    def _replaced(self, batch: Batch, values: NDArray[np.float64]) -> Batch:
        """Return ``batch`` with the outcomes taken from ``values``, (people, outcomes of the ComBat)."""
        names = [one.outcome.name for one in self.standards]
        taken: Mapping[str, NDArray[np.float64]] = {
            name: values[:, place] for place, name in enumerate(names) if name in self.outcomes
        }
        return Batch(batch.people, {**batch.numbers, **taken}, batch.levels)


def _slice(batch: Batch, people: NDArray[np.intp]) -> Batch:
    """Return some people of a batch."""
    return Batch(
        len(people),
        {name: values[people] for name, values in batch.numbers.items()},
        {name: levels[people] for name, levels in batch.levels.items()},
    )
