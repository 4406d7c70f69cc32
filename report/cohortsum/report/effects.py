"""The effect rows of a regression table: what a forest plot, a terminal and an ENIGMA table show.

Where a study asks for the effect of a factor, the rows of its levels carry Cohen's d (``d``, ``d_se``, ``d_low``,
``d_high``, ``p_fdr``); otherwise the coefficient ``b`` is the effect. A value that is not there is `Absent`, never 0.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final, Literal

from cohortsum.study.results import INTERCEPT, NO_DATA, Absent, Cell, Status, Table
from cohortsum.study.statistics.regression_tables import EFFECT_COLUMNS, NOT_THE_EFFECT

Measure = Literal["d", "b"]
Value = float | Absent

_INTERVALS: Final[dict[Measure, tuple[str, str, str]]] = {
    "d": ("d_se", "d_low", "d_high"),
    "b": ("se", "low", "high"),
}


@dataclass(frozen=True, slots=True)
class Effect:
    """One outcome's effect of one term.

    Attributes:
        outcome: name of the outcome in the study.
        estimate: Cohen's d, or b in the outcome's unit per unit of the term.
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
    """The effects of one term on all outcomes of an analysis.

    Attributes:
        term: the term as the table names it, for example ``dx[autism]``.
        measure: ``d`` for Cohen's d if any outcome has one, else ``b`` for the coefficient.
        corrected: whether the p-values that count are those after correction over the outcomes.
        rows: one per outcome, in table order; at least one.
    """

    term: str
    measure: Measure
    corrected: bool
    rows: tuple[Effect, ...]

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
    """Return the effects of ``term`` from a regression table.

    Raises:
        ValueError: the table has no row of this term.
    """
    rows = [row for row in _rows(table) if row["term"] == term]
    if not rows:
        raise ValueError(f"table {table.analysis}: no row of term {term!r}")
    measure: Measure = "b" if all(isinstance(row.get("d", NO_DATA), Absent) for row in rows) else "d"
    se, low, high = _INTERVALS[measure]
    effects = tuple(
        Effect(
            outcome=str(row["outcome"]),
            estimate=_number(row, measure),
            se=_number(row, se),
            low=_number(row, low),
            high=_number(row, high),
            p=_number(row, "p"),
            p_fdr=_number(row, "p_fdr"),
            n=_number(row, "n"),
            n_reference=_number(row, "n_reference"),
            n_level=_number(row, "n_level"),
            status=str(row["status"]),
        )
        for row in rows
    )
    corrected = any(not isinstance(effect.p_fdr, Absent) for effect in effects)
    return Effects(term, measure, corrected, effects)


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
