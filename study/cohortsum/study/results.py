"""Typed results. A cell is a number, text, or absent with the reason; never 0, NaN or null for a withheld number."""

from dataclasses import dataclass, field
from enum import StrEnum


class Status(StrEnum):
    """What became of a row, as written to every table."""

    OK = "ok"
    CONSTANT = "constant, not estimated"
    ALL_MISSING = "all missing"
    BELOW_THRESHOLD = "below threshold"
    HIDDEN = "hidden"
    ALIASED = "aliased"
    NOT_ESTIMABLE = "not estimable"
    TOO_FEW_SITES = "too few sites"
    NOT_FINISHED = "not finished"
    NOISE_TOO_LARGE = "noise too large"
    VARIANCE_FLOORED = "variance below noise"


@dataclass(frozen=True, slots=True)
class Absent:
    """No number here, and why: `no data`, or the name of the rule that withheld it."""

    reason: str


NO_DATA = Absent("no data")
HIDDEN = Absent("hidden: primary_suppression, complement_suppression")
"""What stands for every hidden count, small or not: the mark must not tell which ones are small."""
INTERCEPT = "intercept"
"""The name of that coefficient, in study files and in tables."""

Cell = str | int | float | Absent

SUMMARY_COLUMNS = ("n", "missing", "mean", "sd", "mean_noise_se", "status", "variance")
SHAPE_COLUMNS = ("skewness", "kurtosis")
NOISED_COLUMNS = ("mean_se", "low", "high")
"""What a summary under noise has besides: the sampling error, and an interval from both errors."""
CROSSTAB_COLUMNS = ("count", "row_percent", "column_percent", "status")
ASSOCIATION_COLUMNS = (
    *("n", "chi2", "df", "p", "least_expected"),
    *("odds_ratio", "odds_low", "odds_high", "risk_ratio", "risk_low", "risk_high", "status"),
)
PROPORTION_COLUMNS = ("count", "n", "proportion", "low", "high", "status", "missing")
QUANTILE_COLUMNS = ("value", "error_bound", "status", "n", "missing")
REFINED_COLUMN = "refined"
SURVIVAL_COLUMNS = (
    *("time", "at_risk", "events", "survival", "low", "high", "status"),
    *("se", "error_bound", "censored"),
)
MEDIAN_COLUMNS = ("n", "events", "median", "low", "high", "status")
OBSERVED_COLUMNS = ("n", "observed", "expected", "status")
NORMATIVE_COLUMNS = ("outcome", "mean", "sd", "n", "status")
"""Columns that stand beside columns named after factors of the study, which must be called otherwise."""


@dataclass(frozen=True, slots=True)
class Table:
    """One result table; every row has one cell per column and its status in the column ``status``.

    Attributes:
        analysis: name of the analysis in the study; with a suffix for further tables (``thickness.tests``).
        kind: what the rows are: summary, histogram, crosstab, association, regression, glm, dp_sgd, fit, kaplan_meier, median, logrank, observed, cox, proportionality, contrast or test.
        columns: column names in order; ``status`` is one of them.
        rows: one tuple of cells per row.
        notes: sentences a reader of the table must know.
    """

    analysis: str
    kind: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    notes: tuple[str, ...] = field(default=())

    def __post_init__(self) -> None:
        """Refuse ragged rows."""
        for row in self.rows:
            if len(row) != len(self.columns):
                raise ValueError(f"table {self.analysis}: {len(row)} cells for {len(self.columns)} columns")
