"""Tables as text for a terminal: cells as short strings, with sensible digits, and nothing about colour or frames.

The command line puts the cells into its own frames; `render` aligns them for plain output. A number that is not there
shows its reason in words, except where none was asked for.
"""

import math
from dataclasses import dataclass

from cohortsum.report.effects import Effect, Effects, Value
from cohortsum.study.results import Absent, Cell, Table
from cohortsum.study.statistics.regression_tables import NOT_THE_EFFECT


@dataclass(frozen=True, slots=True)
class TextTable:
    """Cells ready to print.

    Attributes:
        header: one name per column.
        right: whether a column is aligned to the right.
        rows: one tuple of texts per row.
        left_out: rows that the limit kept out.
    """

    header: tuple[str, ...]
    right: tuple[bool, ...]
    rows: tuple[tuple[str, ...], ...]
    left_out: int = 0


def top_effects(effects: Effects, limit: int = 10) -> TextTable:
    """Return the ``limit`` effects with the smallest p-value, smallest first; those without a p-value come last.

    Equal p-values are ordered by the size of the estimate, then by name.
    """
    ranked = sorted(effects.rows, key=_rank)
    p_heads = ("p", "p (FDR)") if effects.corrected else ("p",)
    header = ("outcome", effects.measure, "95 % interval", *p_heads, "n")
    rows: list[tuple[str, ...]] = []
    for effect in ranked[:limit]:
        p_values = [_p(effect.p), _p(effect.p_fdr)][: len(p_heads)]
        if effect.interval is None:
            estimate, interval = "", effect.reason
        else:
            low, estimate, high = (_estimate(value, effects) for value in effect.interval)
            interval = f"{low} to {high}"
        rows.append((effect.outcome, estimate, interval, *p_values, _count(effect.n)))
    right = (False, *(True for _ in header[1:]))
    return TextTable(header, right, tuple(rows), len(ranked) - len(rows))


def text_table(table: Table, limit: int | None = None) -> TextTable:
    """Return the rows of any table in their order, at most ``limit`` of them.

    A column that holds a number is aligned to the right.
    """
    right = tuple(
        any(isinstance(row[column], int | float) for row in table.rows)
        for column in range(len(table.columns))
    )
    rows = tuple(
        tuple(cell_text(name, cell) for name, cell in zip(table.columns, row, strict=True))
        for row in table.rows[:limit]
    )
    return TextTable(table.columns, right, rows, len(table.rows) - len(rows))


def turned(table: TextTable) -> TextTable:
    """Return ``table`` on its side: a row per column, led by the column's name; for few rows of many columns."""
    number = len(table.rows)
    heads = (
        ("column", *(f"row {place}" for place in range(1, number + 1))) if number > 1 else ("column", "value")
    )
    rows = tuple(zip(table.header, *table.rows, strict=True))
    return TextTable(heads, (False, *(True,) * (len(heads) - 1)), rows, table.left_out)


def width_of(table: TextTable, gap: int) -> int:
    """Return the characters of a line, with ``gap`` beside each column."""
    return sum(max(map(len, column)) + gap for column in zip(table.header, *table.rows, strict=True))


def render(table: TextTable) -> str:
    """Return lines with aligned columns two blanks apart, without blanks at line ends; no final line end."""
    widths = [max(map(len, column)) for column in zip(table.header, *table.rows, strict=True)]
    lines = [
        "  ".join(
            text.rjust(width) if right else text.ljust(width)
            for text, width, right in zip(cells, widths, table.right, strict=True)
        ).rstrip()
        for cells in (table.header, *table.rows)
    ]
    if table.left_out:
        lines.append(f"... and {table.left_out} more")
    return "\n".join(lines)


def digits(value: float) -> str:
    """Return ``value`` with four significant digits, in plain notation where that is short."""
    return f"{value:.4g}"


def cell_text(column: str, cell: Cell) -> str:
    """Return a cell with four significant digits; the reason of an absent one, except where none was asked for."""
    match cell:
        case Absent(reason):
            return "" if cell == NOT_THE_EFFECT else reason
        case float():
            return _p(cell) if column in ("p", "p_fdr") else digits(cell)
        case _:
            return str(cell)


def _rank(effect: Effect) -> tuple[float, float, str]:
    if effect.interval is None or isinstance(effect.p, Absent):
        return (math.inf, 0.0, effect.outcome)
    _, estimate, _ = effect.interval
    return (effect.p, -abs(estimate), effect.outcome)


def _estimate(value: float, effects: Effects) -> str:
    return f"{value:.3f}" if effects.measure == "d" else digits(value)


def _p(value: Value) -> str:
    if isinstance(value, Absent):
        return ""
    return f"{value:.3f}" if value >= 0.001 else f"{value:.1e}"


def _count(value: Value) -> str:
    return "" if isinstance(value, Absent) else f"{value:.0f}"
