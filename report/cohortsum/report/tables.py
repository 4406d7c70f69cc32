"""Tidy tables as CSV text: one row per thing estimated, the same numbers as the result document.

Floats are written as the shortest decimal that reads back as the same float64 (at most 17 significant digits), so
that nothing is lost between a table and the text. An absent cell is empty: its reason is in the row's status here and
cell by cell in the result document. CSV has no types; on reading, the kind of the table says which columns hold text.
Only text passes through here: the caller owns the files.
"""

import csv
import io
import math
import re
from collections.abc import Iterable, Sequence
from typing import Final

from cohortsum.crypto.errors import ConfigurationError
from cohortsum.study.results import NO_DATA, Absent, Cell, Status, Table

_COEFFICIENTS: Final = frozenset(
    {"b", "se", "se_sampling", "se_noise", "statistic", "p", "low", "high", "n", "df"}
    | {"d", "d_se", "d_low", "d_high", "p_fdr", "n_reference", "n_level", "vif"}
    | {"hazard_ratio", "hazard_low", "hazard_high", "odds_ratio", "odds_low", "odds_high"}
    | {"rate_ratio", "rate_low", "rate_high", "events", "people", "sites", "tau2", "sigma2", "theta", "icc"}
    | {"deviance", "dispersion", "iterations", "log_likelihood"}
)

NUMBER_COLUMNS: Final[dict[str, frozenset[str]]] = {
    "summary": frozenset(
        {"n", "missing", "mean", "variance", "sd", "mean_noise_se", "skewness", "kurtosis"}
        | {"mean_se", "low", "high"}
    ),
    "histogram": frozenset({"low", "high", "count", "missing", "count_noise_sd"}),
    "quantiles": frozenset({"probability", "value", "error_bound", "n", "missing", "n_noise_sd"}),
    "crosstab": frozenset(
        {"count", "row_percent", "column_percent"}
        | {"count_noise_sd", "row_percent_noise_se", "column_percent_noise_se"}
    ),
    "association": frozenset(
        {"n", "chi2", "df", "p", "least_expected"}
        | {"odds_ratio", "odds_low", "odds_high", "risk_ratio", "risk_low", "risk_high"}
    ),
    "proportion": frozenset(
        {"count", "n", "proportion", "low", "high", "missing"}
        | {"count_noise_sd", "n_noise_sd", "proportion_noise_se"}
    ),
    "regression": _COEFFICIENTS,
    "glm": _COEFFICIENTS,
    "cox": _COEFFICIENTS,
    "dp_sgd": frozenset({"estimate", "odds_ratio"}),
    "mixed": _COEFFICIENTS,
    "fit": frozenset(
        {"n", "events", "df", "deviance", "null_deviance", "log_likelihood", "aic", "iterations"}
        | {"null_log_likelihood", "statistic", "p"}
    ),
    "test": frozenset({"estimate", "statistic", "df", "df2", "p", "n", "low", "high"}),
    "meta": frozenset(
        {"estimate", "se", "low", "high", "p", "p_fdr", "k", "n", "q", "i2", "tau2"}
        | {"p_q", "prediction_low", "prediction_high", "n_reference", "n_level"}
    ),
    "contrast": frozenset({"estimate", "se", "statistic", "p", "low", "high", "df"}),
    "correlation": frozenset({"r", "low", "high", "p", "n", "df", "r_noise_se", "n_noise_sd"}),
    "covariance": frozenset({"covariance", "n", "covariance_noise_se", "n_noise_sd"}),
    "pca": frozenset(
        {"component", "eigenvalue", "variance_share", "loading", "n", "eigenvalue_noise_sd", "n_noise_sd"}
    ),
    "kaplan_meier": frozenset(
        {"time", "at_risk", "events", "survival", "low", "high", "se", "error_bound", "censored"}
    ),
    "median": frozenset({"n", "events", "median", "low", "high"}),
    "proportionality": frozenset({"chi2", "df", "p"}),
    "observed": frozenset({"n", "observed", "expected"}),
    "logrank": frozenset({"chi2", "df", "p", "n", "events"}),
    "normative": frozenset({"mean", "sd", "n"}),
    "combat": frozenset(
        {"gamma_star", "delta_star", "grand_mean", "pooled_sd", "b", "gamma_hat", "delta_hat", "n"}
        | {"beyond_range"}
    ),
}
"""Columns that hold numbers, by kind of table; every other column holds text.

A new kind of table must be listed here before its CSV can be read back, and a new column of numbers of a kind that
stands here as well. Columns whose names depend on the study belong to `number_columns`.
"""

_SPECIAL: Final = re.compile(r'[",\r\n]|^\s|\s$')
_CENTILE: Final = re.compile(r"p[0-9]+(\.[0-9]+)?")
_INTEGER: Final = re.compile(r"-?[0-9]{1,300}")  # Python itself refuses to read a number of thousands
_FLOAT: Final = re.compile(r"-?[0-9]+(\.[0-9]+)?(e[+-]?[0-9]+)?")


def to_csv(table: Table) -> str:
    """Return ``table`` as CSV: UTF-8 text, LF line ends, decimal point, a header line, absent cells empty.

    Raises:
        ValueError: a cell is NaN, infinite or empty text; such a cell must be `Absent` with its reason.
    """
    rows = [
        [_write(table, name, cell) for name, cell in zip(table.columns, row, strict=True)]
        for row in table.rows
    ]
    return csv_text(table.columns, rows)


def csv_text(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return CSV with LF line ends; a cell is quoted where a reader could mistake it.

    Not `csv.writer`: with lines that end in LF, Python 3.11's leaves a bare CR unquoted, and its reader then ends the row.
    """
    return "".join(",".join(map(_quote, row)) + "\n" for row in (header, *rows))


def number_columns(kind: str, columns: Sequence[str], lines: Iterable[Sequence[str]]) -> frozenset[str]:
    """Return the columns of one table that hold numbers.

    A normative table has one column per centile, named ``p05``, and grid columns before ``mean`` that are called like the
    study's variables: such a column holds numbers where each of its cells is one.
    """
    known = NUMBER_COLUMNS[kind]
    if kind != "normative":
        return known
    grid = columns[1 : columns.index("mean")] if "mean" in columns else ()
    cells = list(lines)
    numeric = {
        name
        for place, name in enumerate(grid, start=1)
        if cells and all(len(line) > place and _FLOAT.fullmatch(line[place]) for line in cells)
    }
    return known | numeric | {name for name in columns if _CENTILE.fullmatch(name) and name not in grid}


def from_csv(text: str, analysis: str, kind: str) -> Table:
    """Return the table that ``to_csv`` wrote; an empty cell is `Absent` for the reason in the row's status.

    Args:
        text: the whole file.
        analysis: name of the table, which is the file's stem.
        kind: a key of `NUMBER_COLUMNS`; it decides which columns hold numbers.

    Raises:
        ConfigurationError: the text is not such a table; names the table, line and column.
    """
    if kind not in NUMBER_COLUMNS:
        raise ConfigurationError(
            f"table {analysis}: kind {kind!r} is unknown; known are {', '.join(NUMBER_COLUMNS)}"
        )
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    try:
        columns, *lines = reader
    except (csv.Error, ValueError) as error:
        raise ConfigurationError(
            f"table {analysis}: is no CSV table with a header; write it again"
        ) from error
    if "status" not in columns or len(set(columns)) != len(columns):
        raise ConfigurationError(
            f"table {analysis}: the header must hold unique names and 'status'; write it again"
        )
    numbers = number_columns(kind, columns, lines)
    rows: list[tuple[Cell, ...]] = []
    for number, line in enumerate(lines, start=1):
        if len(line) != len(columns):
            raise ConfigurationError(
                f"table {analysis}, row {number}: {len(line)} cells, expected {len(columns)}; write it again"
            )
        status = line[columns.index("status")]
        absent = NO_DATA if status in ("", Status.OK) else Absent(status)
        rows.append(
            tuple(
                absent
                if not cell
                else _read(cell, f"table {analysis}, row {number}, column {name}", name in numbers)
                for name, cell in zip(columns, line, strict=True)
            )
        )
    return Table(analysis, kind, tuple(columns), tuple(rows))


def _quote(cell: str) -> str:
    return '"' + cell.replace('"', '""') + '"' if _SPECIAL.search(cell) else cell


def _write(table: Table, column: str, cell: Cell) -> str:
    match cell:
        case Absent():
            return ""
        case float() if math.isfinite(cell):
            return float.__repr__(cell)  # numpy's float64 is a float, and its own repr is no number
        case int():
            return str(cell)
        case str() if cell:
            return str(cell)
        case _:
            raise ValueError(
                f"table {table.analysis}, column {column}: a cell is not finite or empty text; it must be Absent"
            )


def _read(cell: str, where: str, is_number: bool) -> Cell:
    if not is_number:
        return cell
    if _INTEGER.fullmatch(cell):
        return int(cell)
    if _FLOAT.fullmatch(cell) and math.isfinite(value := float(cell)):
        return value
    raise ConfigurationError(f"{where}: is not a finite number; write the table again")
