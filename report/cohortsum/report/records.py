"""Rows of a result table by column name, for whatever draws or describes it."""

from collections.abc import Mapping, Sequence

from cohortsum.study.results import NO_DATA, Absent, Cell, Table

Record = Mapping[str, Cell]


def records(table: Table) -> list[Record]:
    """Return the rows, each as a mapping from column to cell."""
    return [dict(zip(table.columns, row, strict=True)) for row in table.rows]


def value(record: Record, column: str) -> float | None:
    """Return the number in ``column``; None where the cell is absent, text, or there is no such column."""
    cell = record.get(column, NO_DATA)
    return float(cell) if isinstance(cell, int | float) else None


def leading(table: Table, before: str) -> tuple[str, ...]:
    """Return the columns to the left of ``before``: what tells rows apart."""
    return table.columns[: table.columns.index(before)]


def grouped(rows: Sequence[Record], columns: Sequence[str]) -> dict[tuple[str, ...], list[Record]]:
    """Return the rows by what they hold in ``columns``, in the order of the table."""
    groups: dict[tuple[str, ...], list[Record]] = {}
    for row in rows:
        groups.setdefault(tuple(words(row[column]) for column in columns), []).append(row)
    return groups


def words(cell: Cell) -> str:
    """Return a cell that names something as text."""
    match cell:
        case Absent(reason):
            return reason
        case float():
            return f"{cell:.6g}"
        case _:
            return str(cell)
