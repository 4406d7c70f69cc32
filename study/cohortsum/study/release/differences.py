"""What is another number than in an earlier version of a table, for whoever decides about the later one.

Rows are matched by what names them: their text columns, and the numbers that stand for a bin, a probability, a time or a grid point.
Rows of one name are matched in their order. A cell that was hidden and is shown now undoes a suppression, and one that was shown and
is hidden now is hidden in vain, for it can be fetched from the earlier version: these come first.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from cohortsum.study.results import Absent, Cell, Table
from cohortsum.study.statistics.texts import plain

NUMBERED: Mapping[str, tuple[str, ...]] = {
    "histogram": ("low", "high"),
    "quantiles": ("probability",),
    "kaplan_meier": ("time",),
    "pca": ("component",),
}
"""Columns of numbers that name a row, by kind of table; a normative table has those before ``mean``."""
SAID = frozenset({"status", "refined", "reason"})
"""Columns of text that name no row."""

Name = tuple[tuple[Cell, ...], int]
"""The cells that name a row, and how many rows before it have the same."""


@dataclass(frozen=True, slots=True)
class CellChange:
    """One cell that is another one than before.

    Attributes:
        what: whether a number is another one, stands where none stood, or is gone.
        row: what names the row, with commas between.
        column: the cell's column.
        before: the earlier cell; None where there was no such row or column.
        after: the cell now; None where there is none.
    """

    what: Literal["changed", "appeared", "vanished"]
    row: str
    column: str
    before: Cell | None
    after: Cell | None

    @property
    def uncovers(self) -> bool:
        """Whether the cell was hidden, and is shown now."""
        return isinstance(self.before, Absent) and _shown(self.after)

    @property
    def hides(self) -> bool:
        """Whether the cell was shown, and is hidden now."""
        return _shown(self.before) and isinstance(self.after, Absent)


def changes(before: Table, after: Table) -> tuple[CellChange, ...]:
    """Return every cell that differs: what is uncovered first, then what is hidden, then the rest in the order of the tables.

    Args:
        before: the earlier version, of any columns and rows.
        after: the later one.
    """
    naming = _naming(before, after)
    old, new = _rows(before, naming), _rows(after, naming)
    found = [
        change
        for name in dict.fromkeys((*new, *old))
        for change in _of_row(name, old.get(name), new.get(name), naming)
    ]
    return tuple(sorted(found, key=lambda change: (not change.uncovers, not change.hides)))


def _of_row(
    name: Name, old: Mapping[str, Cell] | None, new: Mapping[str, Cell] | None, naming: tuple[str, ...]
) -> Iterator[CellChange]:
    """Yield the changes of one row."""
    label = ", ".join(plain(cell) if isinstance(cell, float) else str(cell) for cell in name[0])
    for column in dict.fromkeys((*(new or ()), *(old or ()))):
        before, after = (None if row is None else row.get(column) for row in (old, new))
        if column in naming or before == after:
            continue
        what: Literal["changed", "appeared", "vanished"] = "changed"
        if _shown(before) != _shown(after):
            what = "appeared" if _shown(after) else "vanished"
        elif before is None or after is None:
            what = "appeared" if before is None else "vanished"
        yield CellChange(what, label, column, before, after)


def _naming(before: Table, after: Table) -> tuple[str, ...]:
    """Return the columns that name rows in both tables."""
    numbered = {name for table in (before, after) for name in _numbered(table)}
    return tuple(
        name
        for name in after.columns
        if name in before.columns
        and name not in SAID
        and (name in numbered or (_is_text(before, name) and _is_text(after, name)))
    )


def _numbered(table: Table) -> tuple[str, ...]:
    if table.kind == "normative":
        return table.columns[: table.columns.index("mean")]
    return NUMBERED.get(table.kind, ())


def _is_text(table: Table, column: str) -> bool:
    place = table.columns.index(column)
    return all(isinstance(row[place], str) for row in table.rows)


def _rows(table: Table, naming: tuple[str, ...]) -> dict[Name, Mapping[str, Cell]]:
    """Return the rows by name, in their order."""
    found: dict[Name, Mapping[str, Cell]] = {}
    seen: dict[tuple[Cell, ...], int] = {}
    for cells in table.rows:
        row = dict(zip(table.columns, cells, strict=True))
        name = tuple(row[column] for column in naming)
        found[name, seen.get(name, 0)] = row
        seen[name] = seen.get(name, 0) + 1
    return found


def _shown(cell: Cell | None) -> bool:
    return cell is not None and not isinstance(cell, Absent)
