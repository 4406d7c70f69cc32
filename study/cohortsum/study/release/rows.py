"""Rows of finished tables that a checker leaves out, found by what their text columns name.

Only rows leave whose numbers are in no other row: where a level is in totals, percentages and tests of the rows beside it, a reader
would subtract and have it back. The components of a principal component analysis have loadings whose squares add up to one, so that
one of them follows from the others; contrasts and tests of a model say what its coefficients say, so that they leave with a term.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace

from cohortsum.crypto.errors import RefusedError
from cohortsum.study.definition.names import nearest
from cohortsum.study.release.actions import Drop, describe_rows
from cohortsum.study.results import Cell, Table
from cohortsum.study.statistics.texts import plain

VARIABLES = ("variable", "outcome", "variable_1", "variable_2")
"""Columns that name a variable or an outcome."""
DETERMINED = frozenset({"pca"})
"""Kinds of tables in which a row follows from others."""
MADE_OF_TERMS = ("contrasts", "tests", "multivariate")
"""Tables that say again what the coefficients of a model say."""
_NUMBERS = ("variable", "level")
"""Columns by which a proportion names a number and a threshold."""

Row = Mapping[str, Cell]
Test = Callable[[Row], bool]


def left_out(tables: Sequence[Table], drop: Drop, totals: Collection[str]) -> tuple[Table, ...]:
    """Return the tables without the rows that ``drop`` names; a table that has no row left is not there.

    Args:
        tables: of one analysis.
        drop: what the rows are about; a table without one of these columns stays as it is.
        totals: factors whose levels are in totals of other rows.

    Raises:
        RefusedError: no row is about one of the names, or the rows are in the totals of others.
    """
    analysis = tables[0].analysis.partition(".")[0]
    shared = [factor for factor in drop.levels if factor in totals]
    if shared:
        raise RefusedError(
            f"analysis {analysis}: the levels of {shared[0]} are in the totals of other rows; leave one out by itself, for all rows, or "
            "merge it with another"
        )
    if any(table.kind in DETERMINED for table in tables):
        raise RefusedError(
            f"analysis {analysis}: what is left out would follow from the other rows; leave out the table"
        )
    again = [f"{analysis}.{suffix}" for suffix in MADE_OF_TERMS] if drop.terms else []
    if telling := [table.analysis for table in tables if table.analysis in again]:
        raise RefusedError(
            f"analysis {analysis}: what is left out could be read off {' and '.join(telling)}; leave that out as well (drop_table)"
        )
    _refuse_unknown(analysis, tables, drop)
    found: list[Table] = []
    some = False
    for table in tables:
        tests = _tests(table, drop)
        if tests is None:
            found.append(table)
            continue
        rows = [dict(zip(table.columns, row, strict=True)) for row in table.rows]
        kept = [not all(test(row) for test in tests) for row in rows]
        if all(kept):
            found.append(table)
            continue
        some = True
        if any(kept):
            lines = tuple(row for row, stays in zip(table.rows, kept, strict=True) if stays)
            note = f"Left out when the release was checked: {describe_rows(drop)}."
            found.append(replace(table, rows=lines, notes=(*table.notes, note)))
    if not some:
        raise RefusedError(f"analysis {analysis}: no row is about {describe_rows(drop)}; correct the list")
    return tuple(found)


def _tests(table: Table, drop: Drop) -> list[Test] | None:
    """Return what a row is asked, or None where the table has no column for some of it."""
    tests: list[Test] = []
    for values, columns in _asked(table, drop):
        if not columns:
            return None
        tests.append(_about(values, columns, table.analysis.endswith(".multivariate")))
    if drop.thresholds:
        tests.append(_is_number(_factors(table)))
    return tests


def _asked(table: Table, drop: Drop) -> list[tuple[tuple[Cell, ...], tuple[str, ...]]]:
    """Return, per attribute that is given, the values and the columns of the table that hold such."""
    level = ("level",) if table.kind == "proportion" else ()
    asked: list[tuple[tuple[Cell, ...], tuple[str, ...]]] = [
        (drop.variables, VARIABLES),
        *((levels, (factor,)) for factor, levels in drop.levels.items()),
        (tuple(f"> {plain(value)}" for value in drop.thresholds), level),
        (drop.probabilities, ("probability",)),
        (drop.terms, ("term",)),
    ]
    return [
        (values, tuple(name for name in columns if name in table.columns))
        for values, columns in asked
        if values
    ]


def _about(values: tuple[Cell, ...], columns: tuple[str, ...], joint: bool) -> Test:
    """Return whether a row names one of ``values``; a joint test names several outcomes in one cell."""

    def test(row: Row) -> bool:
        cells = [row[name] for name in columns]
        if joint:
            cells += [part for cell in cells for part in str(cell).split(", ")]
        return any(cell in values for cell in cells)

    return test


def _factors(table: Table) -> frozenset[Cell]:
    """Return the variables of a proportion that are factors: those some row of which names no threshold."""
    places = [table.columns.index(name) for name in _NUMBERS]
    pairs = [(row[places[0]], str(row[places[1]])) for row in table.rows]
    return frozenset(variable for variable, level in pairs if not level.startswith("> "))


def _is_number(factors: frozenset[Cell]) -> Test:
    return lambda row: row["variable"] not in factors


def _refuse_unknown(analysis: str, tables: Sequence[Table], drop: Drop) -> None:
    """Refuse a value that no table names in the columns for it."""
    known: dict[Cell, set[Cell]] = {}
    for table in tables:
        for values, columns in _asked(table, drop):
            cells = {row[table.columns.index(name)] for row in table.rows for name in columns}
            for value in values:
                known.setdefault(value, set()).update(cells)
    for value, cells in known.items():
        if value not in cells:
            names = sorted(cell for cell in cells if isinstance(cell, str))
            cure = nearest(str(value), names, "correct the list") if names else "correct the list"
            raise RefusedError(f"analysis {analysis}: no row is about {value}; {cure}")
