"""Other libraries, which ship no types, and shapes in which their results are compared."""

import json
from collections.abc import Mapping
from functools import cache
from importlib import import_module
from typing import Any

from tests.truths.running import DATA, Finished
from tests.truths.tally import Tally

PANDAS: Any = import_module("pandas")
SM: Any = import_module("statsmodels.api")
FORMULA: Any = import_module("statsmodels.formula.api")
PROPORTION: Any = import_module("statsmodels.stats.proportion")
TABLES: Any = import_module("statsmodels.stats.contingency_tables")
MANOVA: Any = import_module("statsmodels.multivariate.manova").MANOVA
INFLATION: Any = import_module("statsmodels.stats.outliers_influence").variance_inflation_factor
HAZARD: Any = import_module("statsmodels.duration.hazard_regression")
CONDITIONAL: Any = import_module("statsmodels.discrete.conditional_models").ConditionalLogit
OPTIMISE: Any = import_module("scipy.optimize")
STATS: Any = import_module("scipy.stats")
NORMAL: Any = STATS.norm
LIFELINES: Any = import_module("lifelines")
SURVIVAL: Any = import_module("lifelines.statistics")
NEURO: Any = import_module("neuroCombat")

Known = Mapping[str, Any]


@cache
def truth(name: str) -> Known:
    """Return the recorded truths of a data set."""
    held: Known = json.loads((DATA / f"{name}.truth.json").read_text())
    return held


@cache
def frame(*names: str) -> Any:
    """Return tables under each other as a data frame; ``file`` says which one a row is from, counted from 1."""
    parts = [
        PANDAS.read_csv(DATA / name, na_values=["-9999"]).assign(file=place)
        for place, name in enumerate(names, start=1)
    ]
    whole = PANDAS.concat(parts, ignore_index=True)
    whole.columns = [column.strip().replace(".", "_") for column in whole.columns]
    return whole


def moments(run: Finished, tally: Tally, table: str, variable: str, known: Known) -> None:
    """Compare n, mean, variance, and sum and sum of squares as they follow from them, of a table of a summary without groups."""
    row = run.row(table, variable=variable)
    n, mean, variance = (float(str(row[column])) for column in ("n", "mean", "variance"))
    tally.exact(row["n"], known["n"])
    tally.all_same(
        (mean, variance, n * mean, (n - 1) * variance + n * mean**2),
        (known["mean"], known["var_ddof1"], known["sum"], known["sumsq"]),
    )


def quantiles(run: Finished, tally: Tally, table: str, variable: str, known: Known) -> None:
    """Compare the five percentiles of the truths, each relative to its own bound."""
    for key, probability in (("p5", 0.05), ("p25", 0.25), ("p50", 0.5), ("p75", 0.75), ("p95", 0.95)):
        row = run.row(table, variable=variable, probability=probability)
        tally.near(row["value"], known[key], float(str(row["error_bound"])))


def coefficients(
    run: Finished, tally: Tally, table: str, outcome: str, names: Mapping[str, str], known: Known
) -> None:
    """Compare b and se, and where the truth has them n, df, t and p, of the terms ``names``: theirs to ours."""
    for theirs, ours in names.items():
        row, one = run.row(table, outcome=outcome, term=ours), known["coef"][theirs]
        tally.exact(row["status"], "ok")
        tally.exact(row["n"], known["n"])
        if "df_resid" in known:
            tally.same(row["df"], known["df_resid"])
        columns = {"b": "b", "se": "se", "t": "statistic", "p": "p"}
        for key, column in columns.items():
            if key in one:
                tally.same(row[column], one[key])


def fitted(run: Finished, tally: Tally, table: str, outcome: str, fit: Any, names: Mapping[str, str]) -> None:
    """Compare b, se, statistic, p and interval of the terms ``names`` with a fit by statsmodels."""
    interval = fit.conf_int()
    for theirs, ours in names.items():
        row = run.row(table, outcome=outcome, term=ours)
        tally.exact(row["n"], int(fit.nobs))
        tally.all_same(
            (row[column] for column in ("b", "se", "statistic", "p", "low", "high")),
            (
                fit.params[theirs],
                fit.bse[theirs],
                fit.tvalues[theirs],
                fit.pvalues[theirs],
                *interval.loc[theirs],
            ),
        )
