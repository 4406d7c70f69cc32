"""Effects in the column layout of the ENIGMA Toolbox, so that existing plotting code works.

The name of the first column is the measure (``CorticalThickness``), its cells the comparison
(``asd-thickness_autism``); structures are named ``L_bankssts``, ``Lhippo``. An empty cell means `not available`; a last
column says of every row why. The ``_icv`` in the column names is the toolbox's and says nothing about the model: the
study file does.
"""

from typing import Final

from cohortsum.report.anatomy import OutcomeName, read_name
from cohortsum.report.effects import Value, read_effects
from cohortsum.report.tables import csv_text
from cohortsum.study.results import Absent, Table

COLUMNS: Final = (
    "Structure",
    "d_icv",
    "se_icv",
    "low_ci_icv",
    "up_ci_icv",
    "n_controls",
    "n_patients",
    "pobs",
    "fdr_p",
)
"""The toolbox's columns after the first."""

STATUS: Final = "status"
"""What became of a row; the toolbox reads its columns by name and passes over this one."""

NUMBERS: Final = frozenset(COLUMNS[1:])
"""Columns that hold numbers."""

_MEASURES: Final = {"thickness": "CorticalThickness", "area": "CorticalSurfaceArea", "volume": "Volume"}


def to_enigma_csv(table: Table, term: str, comparison: str) -> str:
    """Return the effects of ``term`` as CSV in the toolbox's layout, rows in table order.

    Args:
        table: a regression table with Cohen's d.
        term: the effect's term, for example ``dx[autism]``.
        comparison: what the first column says in every row.

    Raises:
        ValueError: the table has no Cohen's d or no row of this term.
    """
    effects = read_effects(table, term)
    if effects.measure != "d":
        raise ValueError(f"table {table.analysis}: has no Cohen's d; ask for `report: {{measure: cohens_d}}`")
    names = [read_name(effect.outcome) for effect in effects.rows]
    measures = {_measure(name) for name in names}
    rows: list[list[str]] = []
    for name, effect in zip(names, effects.rows, strict=True):
        estimates = map(_number, (effect.estimate, effect.se, effect.low, effect.high))
        counts = map(_count, (effect.n_reference, effect.n_level))
        p_values = map(_number, (effect.p, effect.p_fdr))
        rows.append([comparison, name.enigma, *estimates, *counts, *p_values, effect.status])
    return csv_text([measures.pop() if len(measures) == 1 else "Measure", *COLUMNS, STATUS], rows)


def _measure(name: OutcomeName) -> str:
    return "SubcorticalVolume" if name.is_subcortical else _MEASURES.get(name.measure or "", "Measure")


def _number(value: Value) -> str:
    return "" if isinstance(value, Absent) else repr(value)


def _count(value: Value) -> str:
    return "" if isinstance(value, Absent) else f"{value:.0f}"
