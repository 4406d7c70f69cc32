"""The tables of a regression: coefficients, contrasts, nested tests.

Cohen's d of a level against the reference comes from its t (`effect_size`), with the interval d +- 1.96 se of ENIGMA's
``mass_uv_regr.R``. People of sites that hold one arm only count in n1 and n2, as there, and add nothing to the
coefficient; a note says how many sites that concerns.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import sqrt

import numpy as np
from numpy.typing import NDArray

from cohortsum.study.results import NO_DATA, Absent, Cell, Status, Table
from cohortsum.study.statistics.design import Column
from cohortsum.study.statistics.distributions import false_discovery, t_quantile, t_two_sided
from cohortsum.study.statistics.effect_size import cohens_d
from cohortsum.study.statistics.estimates import Estimate, f_test, term_names
from cohortsum.study.variables import Factor, Number

COVERAGE = 0.95
NOT_THE_EFFECT = Absent("not the effect")
NO_ERRORS = Absent("a ridge has no standard error")

COEFFICIENT_COLUMNS = ("outcome", "term", "b", "se", "statistic", "p", "low", "high", "n", "df", "status")
TEST_COLUMNS = ("outcome", "test", "comparison", "estimate", "statistic", "df", "df2", "p", "n", "status")
EFFECT_COLUMNS = ("d", "d_se", "d_low", "d_high", "p_fdr", "n_reference", "n_level")


@dataclass(frozen=True, slots=True)
class Request:
    """What the study asks of the fitted models; as the attributes of `Regression`.

    Attributes:
        analysis: name of the analysis.
        outcomes: one model each.
        columns: columns of the design.
        intercept: whether the models have an intercept, which then comes first.
        effect: the term of interest.
        factor: the effect, if it is a factor.
        correction: ``fdr_bh`` or ``none``.
        contrasts: weights by coefficient name, per contrast.
        tests: terms dropped jointly, per test.
        vif: whether coefficients have their variance inflation.
        ridge: whether the fit is penalised; it then has coefficients and nothing else.
        notes: sentences about the analysis that come before those about its outcomes.
    """

    analysis: str
    outcomes: tuple[Number, ...]
    columns: tuple[Column, ...]
    intercept: bool
    effect: str | None
    factor: Factor | None
    correction: str
    contrasts: Mapping[str, Mapping[str, float]]
    tests: Mapping[str, tuple[str, ...]]
    vif: bool = False
    ridge: bool = False
    notes: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the coefficients."""
        return term_names(self.columns, self.intercept)

    @property
    def effect_names(self) -> tuple[str, ...]:
        """Names of the coefficients of the effect."""
        return tuple(column.name for column in self.columns if column.term == self.effect)


@dataclass(frozen=True, slots=True)
class Wald:
    """A linear combination of coefficients with its t test."""

    value: float
    se: float
    t: float
    p: float
    low: float
    high: float

    @property
    def cells(self) -> tuple[Cell, ...]:
        """The numbers in the order of the tables."""
        return (self.value, self.se, self.t, self.p, self.low, self.high)


def tables(request: Request, estimates: Sequence[Estimate]) -> tuple[Table, ...]:
    """Return the table of coefficients, then contrasts and tests where there are any."""
    found = [_coefficients(request, estimates)]
    if request.contrasts:
        found.append(_contrasts(request, estimates))
    if request.tests:
        found.append(_tests(request, estimates))
    return tuple(found)


def _coefficients(request: Request, estimates: Sequence[Estimate]) -> Table:
    """Return one row per outcome and coefficient."""
    walds = {
        (row, name): _wald(fitted, _unit(request, place), fitted.errors)
        for row, fitted in enumerate(estimates)
        for place, name in enumerate(request.names)
        if fitted.statuses[place] is Status.OK
    }
    adjusted = _adjusted(request, walds)
    columns: tuple[str, ...] = (
        COEFFICIENT_COLUMNS if request.effect is None else COEFFICIENT_COLUMNS + EFFECT_COLUMNS
    )
    columns += ("vif",) if request.vif else ()
    rows: list[tuple[Cell, ...]] = []
    for row, (outcome, fitted) in enumerate(zip(request.outcomes, estimates, strict=True)):
        for place, (name, status) in enumerate(zip(request.names, fitted.statuses, strict=True)):
            wald = walds.get((row, name))
            reason = _reason(status)
            numbers: tuple[Cell, ...] = (reason,) * 6 if wald is None else wald.cells
            if request.ridge and wald is not None:
                numbers = (wald.value, *(NO_ERRORS,) * 5)
            people = reason if fitted.totals is None else fitted.totals.people
            cells: tuple[Cell, ...] = (
                outcome.name,
                name,
                *numbers,
                people,
                _df(fitted, reason),
                status.value,
            )
            if request.effect is not None:
                classical = None if wald is None else _wald(fitted, _unit(request, place), fitted.covariance)
                adjusted_p = adjusted.get((row, name), reason)
                cells += _effect_cells(request, name, fitted, classical, adjusted_p)
            if request.vif:
                cells += (_inflation(request, place, fitted, status),)
            rows.append(cells)
    return Table(request.analysis, "regression", columns, tuple(rows), _notes(request, estimates))


def _contrasts(request: Request, estimates: Sequence[Estimate]) -> Table:
    """Return one row per outcome and contrast; a contrast with a coefficient not estimated takes its status."""
    rows: list[tuple[Cell, ...]] = []
    for outcome, fitted in zip(request.outcomes, estimates, strict=True):
        for contrast, weights in request.contrasts.items():
            row = np.array([weights.get(name, 0.0) for name in request.names])
            failed = [
                status
                for name, status in zip(request.names, fitted.statuses, strict=True)
                if weights.get(name, 0.0) != 0.0 and status is not Status.OK
            ]
            status = failed[0] if failed else fitted.failure or Status.OK
            reason = _reason(status)
            numbers: tuple[Cell, ...] = (reason,) * 6
            if status is Status.OK:
                if float(row @ fitted.errors @ row) > 0.0:
                    numbers = _wald(fitted, row, fitted.errors).cells
                else:  # coefficients so entangled that rounding ate the variance of their combination
                    status = Status.NOT_ESTIMABLE
            rows.append((outcome.name, contrast, *numbers, _df(fitted, reason), status.value))
    columns = ("outcome", "contrast", "estimate", "se", "statistic", "p", "low", "high", "df", "status")
    return Table(f"{request.analysis}.contrasts", "contrast", columns, tuple(rows))


def _tests(request: Request, estimates: Sequence[Estimate]) -> Table:
    """Return one row per outcome and nested F test."""
    nothing = Absent("no single estimate")
    rows: list[tuple[Cell, ...]] = []
    for outcome, fitted in zip(request.outcomes, estimates, strict=True):
        for name, dropped in request.tests.items():
            comparison = f"without {', '.join(dropped)}"
            totals, failure = fitted.totals, fitted.failure
            if totals is None or failure is not None:
                reason = _reason(failure or Status.TOO_FEW_SITES)
                people = reason if totals is None else totals.people
                numbers: tuple[Cell, ...] = (reason, reason, _df(fitted, reason), reason, people)
                status = failure or Status.TOO_FEW_SITES
            else:
                test = f_test(totals, request.columns, dropped, fitted)
                status = Status.OK if test.df else Status.ALIASED
                if test.df:
                    numbers = (test.f, test.df, test.df2, test.p, totals.people)
                else:
                    numbers = (NO_DATA, 0, test.df2, NO_DATA, totals.people)
            rows.append((outcome.name, name, comparison, nothing, *numbers, status.value))
    return Table(f"{request.analysis}.tests", "test", TEST_COLUMNS, tuple(rows))


def _unit(request: Request, place: int) -> NDArray[np.float64]:
    """Return the weights of one coefficient alone."""
    unit: NDArray[np.float64] = np.eye(len(request.names))[place]
    return unit


def _inflation(request: Request, place: int, fitted: Estimate, status: Status) -> Cell:
    """Return the variance inflation of one coefficient."""
    if status is not Status.OK:
        return _reason(status)
    column = place - request.intercept
    return Absent("the intercept has none") if column < 0 else float(fitted.inflation[column])


def _wald(fitted: Estimate, weights: NDArray[np.float64], covariance: NDArray[np.float64]) -> Wald:
    """Return the t test and 95 % interval of ``weights`` times the coefficients."""
    value = float(weights @ fitted.b)
    se = sqrt(float(weights @ covariance @ weights))
    reach = t_quantile(0.5 + COVERAGE / 2, fitted.df) * se
    t = value / se
    return Wald(value, se, t, t_two_sided(t, fitted.df), value - reach, value + reach)


def _adjusted(request: Request, walds: Mapping[tuple[int, str], Wald]) -> dict[tuple[int, str], Cell]:
    """Return the effect's p-values adjusted over the outcomes, each coefficient for itself."""
    adjusted: dict[tuple[int, str], Cell] = {}
    for name in request.effect_names:
        keys = [key for key in walds if key[1] == name]
        if request.correction == "none":
            adjusted |= dict.fromkeys(keys, Absent("no correction asked for"))
        else:
            adjusted |= zip(keys, false_discovery([walds[key].p for key in keys]), strict=True)
    return adjusted


def _effect_cells(
    request: Request, name: str, fitted: Estimate, wald: Wald | None, adjusted: Cell
) -> tuple[Cell, ...]:
    """Return d, d_se, d_low, d_high, p_fdr, n_reference and n_level of one row."""
    if name not in request.effect_names:
        return (NOT_THE_EFFECT,) * len(EFFECT_COLUMNS)
    if request.factor is None:
        ungrouped = Absent("the effect is not a factor")
        return (ungrouped,) * 4 + (adjusted, ungrouped, ungrouped)
    if fitted.totals is None:
        return (_reason(Status.TOO_FEW_SITES),) * len(EFFECT_COLUMNS)
    level = request.effect_names.index(name) + 1
    n1, n2 = fitted.totals.levels[0], fitted.totals.levels[level]
    if wald is None:
        return (NO_DATA,) * 5 + (n1, n2)
    if (
        n1 == 0
    ):  # other levels against each other carry the coefficients; there is no reference to compare with
        return (NO_DATA,) * 4 + (adjusted, n1, n2)
    d, se = cohens_d(wald.t, n1, n2, fitted.df)
    return (d, se, d - 1.96 * se, d + 1.96 * se, adjusted, n1, n2)


def _df(fitted: Estimate, reason: Absent) -> Cell:
    return fitted.df if fitted.df >= 1 else reason


def _reason(status: Status) -> Absent:
    """Return why a row of this status has no numbers."""
    return Absent(status.value) if status is Status.TOO_FEW_SITES else NO_DATA


def _notes(request: Request, estimates: Sequence[Estimate]) -> tuple[str, ...]:
    """Return how many sites contributed, which of them say nothing about the effect, and what is aliased."""
    notes = list(request.notes)
    totals = [fitted.totals for fitted in estimates if fitted.totals is not None]
    if totals:
        notes.append(f"Contributing sites: {_span([total.sites[0] for total in totals])}.")
    if request.factor is not None and not request.intercept:
        for place, level in enumerate(request.factor.levels[1:], start=1):
            one_arm = [total.sites[0] - total.sites[place] for total in totals]
            if any(one_arm):
                notes.append(
                    f"{request.factor.level_name(level)}: sites with people of one arm only: {_span(one_arm)}; they "
                    "count in n_reference and n_level and add nothing to b."
                )
    for place, name in enumerate(request.names):
        lost = sum(
            fitted.failure is None and fitted.statuses[place] is Status.ALIASED for fitted in estimates
        )
        if lost:
            cause = "the terms before it" if request.intercept else "the site effect and the terms before it"
            notes.append(
                f"{name}: aliased, that is determined by {cause}, in {lost} of {len(estimates)} outcomes; the other "
                "terms are estimated without it."
            )
    return tuple(notes)


def _span(counts: Sequence[int]) -> str:
    """Return one count, or the least and the greatest where outcomes differ."""
    low, high = min(counts), max(counts)
    return str(low) if low == high else f"{low} to {high}, by outcome"
