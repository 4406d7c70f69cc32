"""What a site makes of the standards of ComBat: its own location and scale per outcome, and harmonised values of its people.

With z = (y - grand - x b) / spread, a site's effects are gamma* and delta* (`empirical_bayes`), estimated from its people in the
fit; where it has fewer than the minimum of those, from all its people, and the table says so. A harmonised value is
spread (z - gamma*) / sqrt(delta*) + grand + x b. Everything here stays at the site.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cohortsum.study.batch import Batch
from cohortsum.study.results import NO_DATA, Absent, Cell, Status, Table
from cohortsum.study.statistics.design import Design
from cohortsum.study.statistics.empirical_bayes import posterior, posterior_means
from cohortsum.study.statistics.interface import Local
from cohortsum.study.statistics.standards import Standard
from cohortsum.study.statistics.units import Where, clipped, normalised, selected

LOCAL_COLUMNS = (
    *("outcome", "gamma_star", "delta_star", "n", "status"),
    *("gamma_hat", "delta_hat", "estimated_from", "beyond_range"),
)
FIT, EVERYBODY = "people in the fit", "everybody"

Floats = NDArray[np.float64]
People = Callable[[], Iterable[Batch]]


@dataclass(frozen=True, slots=True)
class Method:
    """How a site adjusts; as the attributes of `Combat`.

    Attributes:
        design: the kept columns.
        fit_on: who of the subgroup is in the fit, or everybody.
        empirical_bayes: whether effects are drawn towards each other.
        mean_only: whether variances are left alone.
        min_per_site: least people that effects are estimated from.
        where: the subgroup, or everybody.
    """

    design: Design
    fit_on: Where | None
    empirical_bayes: bool
    mean_only: bool
    min_per_site: int
    where: Where | None

    def standardised(self, batch: Batch, standards: tuple[Standard, ...]) -> tuple[Floats, Floats, Floats]:
        """Return z, normalised values and x b + grand of a batch, (people, outcomes) each; NaN where there is none."""
        people = selected(batch, self.where)
        x = self.design.values(batch, people)
        z, u, model = (np.full((batch.people, len(standards)), np.nan) for _ in range(3))
        for place, one in enumerate(standards):
            if one.status is not Status.OK:
                continue
            outcome = one.outcome
            values = normalised(clipped(batch, outcome, people), outcome.middle, outcome.half_width)
            expected = one.grand + x @ one.b
            values[np.isnan(expected)] = np.nan
            u[people, place], model[people, place] = values, expected
            z[people, place] = (values - expected) / one.spread
        return z, u, model


@dataclass(frozen=True, slots=True)
class SiteEffect:
    """A site's effect on one outcome; NaN where the status is not ``ok``."""

    status: Status
    people: int
    estimated_from: str
    gamma_hat: float
    delta_hat: float
    gamma: float
    delta: float


@dataclass(frozen=True, slots=True)
class Harmonised(Local):
    """The harmonised values of one site, in natural units; they may lie beyond the declared range.

    Attributes:
        analysis: name of the analysis.
        method: how the site adjusts.
        standards: per outcome.
        effects: per outcome.
        beyond: per outcome, people of the site whose harmonised value lies beyond the declared range.
    """

    analysis: str
    method: Method
    standards: tuple[Standard, ...]
    effects: tuple[SiteEffect, ...]
    beyond: tuple[int, ...] = ()

    @property
    def columns(self) -> tuple[str, ...]:
        """The outcomes."""
        return tuple(one.outcome.name for one in self.standards)

    def values(self, batch: Batch) -> Floats:
        """Return the harmonised values of a batch, (people, outcomes) float64; NaN where there is none."""
        z, _, model = self.method.standardised(batch, self.standards)
        spread = np.array([one.spread for one in self.standards])
        gamma = np.array([effect.gamma for effect in self.effects])
        scale = np.sqrt(np.array([effect.delta for effect in self.effects]))
        middle = np.array([one.outcome.middle for one in self.standards])
        half_width = np.array([one.outcome.half_width for one in self.standards])
        harmonised: Floats = middle + half_width * (spread * (z - gamma) / scale + model)
        return harmonised

    @property
    def tables(self) -> tuple[Table, ...]:
        """The site's effects, one row per outcome."""
        rows: list[tuple[Cell, ...]] = []
        for one, effect, beyond in zip(self.standards, self.effects, self.beyond, strict=True):
            head: tuple[Cell, ...] = (one.outcome.name,)
            if effect.status is not Status.OK:
                cells: tuple[Cell, ...] = (NO_DATA, NO_DATA, effect.people, effect.status.value)
                rows.append((*head, *cells, NO_DATA, NO_DATA, Absent(effect.status.value), NO_DATA))
                continue
            cells = (effect.gamma, effect.delta, effect.people, effect.status.value)
            rows.append((*head, *cells, effect.gamma_hat, effect.delta_hat, effect.estimated_from, beyond))
        return (Table(f"{self.analysis}.site", "combat", LOCAL_COLUMNS, tuple(rows), _notes(self)),)


def harmonise(analysis: str, method: Method, standards: tuple[Standard, ...], people: People) -> Harmonised:
    """Return a site's effects and harmonised values; looks at its people three times."""
    effects = _drawn(method, _moments(method, standards, people))
    found = Harmonised(analysis, method, standards, effects)
    lower = np.array([one.outcome.lower for one in standards])
    upper = np.array([one.outcome.upper for one in standards])
    beyond = np.zeros(len(standards), np.int64)
    for batch in people():
        values = found.values(batch)
        beyond += ((values < lower) | (values > upper)).sum(axis=0)
    return Harmonised(analysis, method, standards, effects, tuple(int(count) for count in beyond))


def _moments(method: Method, standards: tuple[Standard, ...], people: People) -> tuple[SiteEffect, ...]:
    """Return n, mean and variance of z per outcome, from the people in the fit or, where these are too few, from all."""
    size = len(standards)
    counts, sums = np.zeros((2, size)), np.zeros((2, size))
    lowest, highest = np.full((2, size), np.inf), np.full((2, size), -np.inf)
    for batch in people():
        z, u, _ = method.standardised(batch, standards)
        for place, known in enumerate(_groups(method, batch, z)):
            counts[place] += known.sum(axis=0)
            sums[place] += np.where(known, z, 0.0).sum(axis=0)
            lowest[place] = np.minimum(lowest[place], np.where(known, u, np.inf).min(axis=0, initial=np.inf))
            highest[place] = np.maximum(
                highest[place], np.where(known, u, -np.inf).max(axis=0, initial=-np.inf)
            )
    means = sums / np.maximum(counts, 1)
    squares = np.zeros((2, size))
    for batch in people():
        z, _, _ = method.standardised(batch, standards)
        for place, known in enumerate(_groups(method, batch, z)):
            squares[place] += (np.where(known, z - means[place], 0.0) ** 2).sum(axis=0)
    effects: list[SiteEffect] = []
    for place, one in enumerate(standards):
        group = 0 if counts[0, place] >= method.min_per_site else 1
        n = int(counts[group, place])
        variance = float(squares[group, place] / max(n - 1, 1))
        varies = bool(highest[group, place] > lowest[group, place])
        status = _usable(one.status, n >= method.min_per_site, varies, variance)
        source = FIT if group == 0 else EVERYBODY
        mean = float(means[group, place])
        effects.append(SiteEffect(status, n, source, mean, variance, np.nan, np.nan))
    return tuple(effects)


def _usable(standard: Status, enough: bool, varies: bool, variance: float) -> Status:
    """Return whether a site's moments of one outcome say anything, or why not."""
    if standard is not Status.OK:
        return standard
    if not enough:
        return Status.BELOW_THRESHOLD
    if not varies:
        return Status.CONSTANT
    return Status.OK if variance > 0.0 else Status.NOT_ESTIMABLE


def _groups(method: Method, batch: Batch, z: Floats) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Return, per person and outcome, who has a z and is in the fit, and who has one."""
    known = ~np.isnan(z)
    return (known if method.fit_on is None else known & method.fit_on(batch)[:, np.newaxis]), known


def _drawn(method: Method, moments: tuple[SiteEffect, ...]) -> tuple[SiteEffect, ...]:
    """Return the effects with gamma* and delta*."""
    usable = [place for place, effect in enumerate(moments) if effect.status is Status.OK]
    people = np.array([moments[place].people for place in usable], np.float64)
    gamma_hat = np.array([moments[place].gamma_hat for place in usable])
    delta_hat = np.array([moments[place].delta_hat for place in usable])
    gamma: Floats | None = gamma_hat
    delta: Floats | None = np.ones(len(usable)) if method.mean_only else delta_hat
    if method.empirical_bayes and method.mean_only:
        gamma = posterior_means(gamma_hat)
    elif method.empirical_bayes:
        found = posterior(people, gamma_hat, delta_hat)
        gamma, delta = (None, None) if found is None else found
    effects = list(moments)
    for position, place in enumerate(usable):
        one = moments[place]
        status, values = Status.NOT_ESTIMABLE, (np.nan, np.nan)
        if gamma is not None and delta is not None:
            status, values = Status.OK, (float(gamma[position]), float(delta[position]))
        effects[place] = SiteEffect(
            status, one.people, one.estimated_from, one.gamma_hat, one.delta_hat, *values
        )
    return tuple(effects)


def _notes(harmonised: Harmonised) -> tuple[str, ...]:
    """Return what the site must know of its own table."""
    notes = ["These numbers describe this site alone and stay here."]
    if any(effect.status is Status.BELOW_THRESHOLD for effect in harmonised.effects):
        notes.append(
            f"With fewer than {harmonised.method.min_per_site} people an outcome is not harmonised here, and has no value "
            "in analyses that need it."
        )
    estimated = {effect.estimated_from for effect in harmonised.effects if effect.status is Status.OK}
    if harmonised.method.fit_on is not None and EVERYBODY in estimated:
        notes.append(
            "This site has too few people in the fit: its effect was estimated from everybody, so what sets its people "
            "apart from those in the fit is taken away with it."
        )
    return tuple(notes)
