"""The effect rows of a table of coefficients: what a forest plot, a terminal and an ENIGMA table show.

Where a study asks for the effect of a factor, the rows of its levels carry Cohen's d (``d``, ``d_se``, ``d_low``,
``d_high``, ``p_fdr``); otherwise the coefficient ``b`` is the effect. A table with a column ``odds_ratio``,
``rate_ratio`` or ``hazard_ratio`` and its interval shows that, and a Cox model without one exp(b), its hazard ratio. A
meta-analysis has one estimate per outcome and model. A value that is not there is `Absent`, never 0.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final, Literal

from cohortsum.study.results import INTERCEPT, NO_DATA, Absent, Cell, Status, Table
from cohortsum.study.statistics.regression_tables import EFFECT_COLUMNS, NOT_THE_EFFECT

Measure = Literal["d", "b", "estimate", "odds ratio", "rate ratio", "hazard ratio"]
Value = float | Absent

RATIOS: Final[frozenset[Measure]] = frozenset({"odds ratio", "rate ratio", "hazard ratio"})
"""Measures that belong on a logarithmic axis about 1."""

COEFFICIENTS: Final = frozenset({"regression", "glm", "cox", "mixed"})
"""Kinds of tables with one row per outcome and term."""

_INTERVALS: Final[dict[Measure, tuple[str, str, str, str]]] = {
    "d": ("d", "d_se", "d_low", "d_high"),
    "b": ("b", "se", "low", "high"),
    "estimate": ("estimate", "se", "low", "high"),
    "odds ratio": ("odds_ratio", "odds_se", "odds_low", "odds_high"),
    "rate ratio": ("rate_ratio", "rate_se", "rate_low", "rate_high"),
    "hazard ratio": ("hazard_ratio", "hazard_se", "hazard_low", "hazard_high"),
}
_TOO_LARGE: Final = Absent("too large to show")


@dataclass(frozen=True, slots=True)
class Effect:
    """One outcome's effect of one term.

    Attributes:
        outcome: name of the outcome in the study, or of the term where the rows are terms.
        estimate: Cohen's d, b in the outcome's unit per unit of the term, or a ratio.
        se: standard error of ``estimate``.
        low: lower end of the 95 % interval.
        high: upper end of the 95 % interval.
        p: p-value of the term.
        p_fdr: p-value after false discovery rate correction over the outcomes.
        n: people with a value of this outcome.
        n_reference: of these, people at the factor's reference level.
        n_level: of these, people at the term's level.
        status: what became of the row.
    """

    outcome: str
    estimate: Value
    se: Value
    low: Value
    high: Value
    p: Value
    p_fdr: Value
    n: Value
    n_reference: Value
    n_level: Value
    status: str

    @property
    def interval(self) -> tuple[float, float, float] | None:
        """Lower end, estimate and upper end where all three are numbers."""
        match self.low, self.estimate, self.high:
            case float(low), float(estimate), float(high):
                return low, estimate, high
            case _:
                return None

    @property
    def reason(self) -> str:
        """Why there is no estimate: the row's status, or where that is `ok` the reason of the cell."""
        return (
            self.estimate.reason
            if isinstance(self.estimate, Absent) and self.status == Status.OK
            else self.status
        )


@dataclass(frozen=True, slots=True)
class Effects:
    """The effects of one term on all outcomes of an analysis, or of all terms on one outcome.

    Attributes:
        term: what the effects have in common: a term as the table names it, for example ``dx[autism]``; a model of a
            meta-analysis; or an outcome, where the rows are terms.
        measure: what the estimates are: ``d`` for Cohen's d if any outcome has one, ``b`` for the coefficient, ...
        corrected: whether the p-values that count are those after correction over the outcomes.
        rows: one per outcome, in table order; at least one.
        of_terms: whether the rows are terms of one outcome.
    """

    term: str
    measure: Measure
    corrected: bool
    rows: tuple[Effect, ...]
    of_terms: bool = False

    @property
    def null(self) -> float:
        """The estimate that stands for no effect."""
        return 1.0 if self.measure in RATIOS else 0.0

    def p(self, effect: Effect) -> Value:
        """Return the p-value that counts; a corrected and an uncorrected one are never mixed in one display."""
        return effect.p_fdr if self.corrected else effect.p

    def strongest(self, most: int) -> "Effects":
        """Return the ``most`` effects with the smallest p-values, in table order; those without one come last."""

        def rank(place: int) -> tuple[bool, float]:
            p = self.p(self.rows[place])
            return (True, 0.0) if isinstance(p, Absent) else (False, float(p))

        kept = sorted(sorted(range(len(self.rows)), key=rank)[:most])
        return replace(self, rows=tuple(self.rows[place] for place in kept))

    def significant(self, effect: Effect, level: float) -> bool:
        """Whether the p-value that counts is a number below ``level``."""
        p = self.p(effect)
        return not isinstance(p, Absent) and p < level


def effect_terms(table: Table) -> tuple[str, ...]:
    """Return the terms of the effect that the study asks for, in table order; without one, all but the intercept.

    A table read back from CSV no longer says which rows are `not the effect`; there, terms with numbers count.
    """
    rows = _rows(table)
    asked = [
        row for row in rows if any(not isinstance(row.get(name, NO_DATA), Absent) for name in EFFECT_COLUMNS)
    ]
    found = asked or [row for row in rows if row.get("d") != NOT_THE_EFFECT and row["term"] != INTERCEPT]
    return tuple(dict.fromkeys(str(row["term"]) for row in found))


def read_effects(table: Table, term: str) -> Effects:
    """Return the effects of ``term`` from a table of coefficients, one per outcome.

    Raises:
        ValueError: the table has no row of this term.
    """
    rows = [row for row in _rows(table) if row["term"] == term]
    if not rows:
        raise ValueError(f"table {table.analysis}: no row of term {term!r}")
    return _effects(table, term, rows, "outcome")


def read_terms(table: Table, outcome: str) -> Effects:
    """Return the effects of all terms but the intercept on ``outcome``, each under the name of its term.

    Raises:
        ValueError: the table has no such row.
    """
    rows = [row for row in _rows(table) if row["outcome"] == outcome and row["term"] != INTERCEPT]
    if not rows:
        raise ValueError(f"table {table.analysis}: no row of outcome {outcome!r}")
    return _effects(table, outcome, rows, "term")


def read_meta(table: Table, model: str, term: str | None = None) -> Effects:
    """Return the estimates of ``model`` from a table of kind ``meta``, one per outcome.

    Args:
        table: the table.
        model: how the estimates were pooled.
        term: the level of the effect, where the table has several.

    Raises:
        ValueError: the table has no row of this model and term.
    """
    rows = [row for row in _rows(table) if row["model"] == model and term in (None, row.get("term"))]
    name = model if term is None else f"{model}, {term}"
    if not rows:
        raise ValueError(f"table {table.analysis}: no row of model {name!r}")
    return _effects(table, name, rows, "outcome")


def meta_plots(table: Table) -> tuple[Effects, ...]:
    """Return what each plot of a table of kind ``meta`` shows: a model, of one level where the effect has several."""
    rows = _rows(table)
    models = dict.fromkeys(str(row["model"]) for row in rows)
    terms = dict.fromkeys(str(row["term"]) for row in rows if "term" in row)
    levels: tuple[str | None, ...] = tuple(terms) if len(terms) > 1 else (None,)
    return tuple(read_meta(table, model, level) for level in levels for model in models)


def measure_of(table: Table) -> Measure:
    """Return what the estimates of a table of coefficients or a meta-analysis are."""
    if table.kind == "meta":
        return "estimate"
    for measure in sorted(RATIOS):
        estimate, _, low, high = _INTERVALS[measure]
        if {estimate, low, high} <= set(table.columns):
            return measure
    if table.kind == "cox":
        return "hazard ratio"
    place = table.columns.index("d") if "d" in table.columns else None
    return "b" if place is None or all(isinstance(row[place], Absent) for row in table.rows) else "d"


def _effects(table: Table, name: str, rows: list[dict[str, Cell]], label: str) -> Effects:
    measure = measure_of(table)
    if measure == "d" and all(isinstance(row["d"], Absent) for row in rows):
        measure = "b"
    estimate, se, low, high = _INTERVALS[measure]
    read = _number
    if measure == "hazard ratio" and estimate not in table.columns:
        (estimate, _, low, high), read = _INTERVALS["b"], _exponential
    effects = tuple(
        Effect(
            outcome=str(row[label]),
            estimate=read(row, estimate),
            se=_number(row, se),
            low=read(row, low),
            high=read(row, high),
            p=_number(row, "p"),
            p_fdr=_number(row, "p_fdr"),
            n=_number(row, "n"),
            n_reference=_number(row, "n_reference"),
            n_level=_number(row, "n_level"),
            status=str(row["status"]),
        )
        for row in rows
    )
    if measure in RATIOS:
        effects = tuple(map(_positive, effects))
    corrected = any(not isinstance(effect.p_fdr, Absent) for effect in effects)
    return Effects(name, measure, corrected, effects, label == "term")


def _rows(table: Table) -> list[dict[str, Cell]]:
    return [dict(zip(table.columns, cells, strict=True)) for cells in table.rows]


def _number(row: Mapping[str, Cell], column: str) -> Value:
    """Return a number as float; a column that the table does not have is `no data`."""
    cell = row.get(column, NO_DATA)
    match cell:
        case int() | float():
            return float(cell)
        case Absent():
            return cell
        case str():
            raise ValueError(f"column {column}: text where a number was expected")


def _exponential(row: Mapping[str, Cell], column: str) -> Value:
    """Return exp of a number; one that no double holds is not shown."""
    value = _number(row, column)
    if isinstance(value, Absent):
        return value
    return math.exp(value) if abs(value) < 700.0 else _TOO_LARGE


def _positive(effect: Effect) -> Effect:
    """A ratio whose interval reaches 0 has no place on a logarithmic axis; its row stays and says so."""
    if effect.interval is None or effect.interval[0] > 0.0:
        return effect
    return replace(effect, estimate=Absent("interval reaches 0"))
