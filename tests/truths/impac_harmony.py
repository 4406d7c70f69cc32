"""ComBat over 34 sites: what is released, what stays at the sites, and a regression of harmonised values."""

import csv
from contextlib import redirect_stdout
from functools import cache
from io import StringIO
from typing import Any

import numpy as np

from tests.truths.impac import FEATURES, IMPAC, known, people
from tests.truths.libraries import NEURO, SM, Known
from tests.truths.registry import compared
from tests.truths.running import Finished
from tests.truths.tally import Tally, number


@cache
def _combat(empirical_bayes: bool) -> Known:
    """Return what neuroCombat says of all rows together; its covariates are single precision."""
    table = people()
    with redirect_stdout(StringIO()):  # it says what it does
        found: Known = NEURO.neuroCombat(
            dat=table[list(FEATURES)].T.to_numpy(float),
            covars=table[["site", "age", "male", "asd"]],
            batch_col="site",
            categorical_cols=["male", "asd"],
            continuous_cols=["age"],
            eb=empirical_bayes,
        )
    return found


@compared(
    IMPAC,
    "combat",
    "harmony",
    "grand mean and pooled variance of 14 measures",
    "`combat` (neuroCombat)",
)
def harmony(run: Finished, tally: Tally) -> None:
    one = known("combat")
    for place, outcome in enumerate(FEATURES):
        row = run.row("harmony", outcome=outcome, term="age")
        tally.same(row["grand_mean"], one["stand_mean"][place])
        tally.same(number(row["pooled_sd"]) ** 2, one["var_pooled"][place])


@compared(
    IMPAC,
    "combat",
    "harmony",
    "gamma* (in pooled SD) and delta* of 34 sites, from each site's own file",
    "`combat` (neuroCombat)",
)
def effects(run: Finished, tally: Tally) -> None:
    one = known("combat")
    for place, site in enumerate(one["batch_order"]):
        with run.kept(site, "harmony.site.csv").open(newline="") as file:
            rows = {row["outcome"]: row for row in csv.DictReader(file)}
        for column, outcome in enumerate(FEATURES):
            tally.near(float(rows[outcome]["gamma_star"]), one["gamma_star"][place][column], 1.0)
            tally.same(float(rows[outcome]["delta_star"]), one["delta_star"][place][column])


def _harmonised(run: Finished, tally: Tally, analysis: str, expected: Any) -> None:
    """Compare every harmonised value of every person, read from the files that stay at the sites."""
    found: dict[str, dict[str, str]] = {}
    for site in known("combat")["batch_order"]:
        with run.kept(site, f"{analysis}.csv").open(newline="") as file:
            found |= {row["SubjID"]: row for row in csv.DictReader(file)}
    for person, values in zip(people().SubjID, expected, strict=True):
        tally.all_same((float(found[person][outcome]) for outcome in FEATURES), values)


@compared(
    IMPAC,
    "combat",
    "harmony",
    "16 100 harmonised values, from the sites' own files",
    "neuroCombat (its first rows are `combat`)",
)
def values(run: Finished, tally: Tally) -> None:
    expected = _combat(True)["data"].T
    tally.all_same(np.ravel(expected[:5]).tolist(), np.ravel(known("combat")["first5_harmonised"]).tolist())
    _harmonised(run, tally, "harmony", expected)


@compared(IMPAC, "combat", "harmony_plain", "the same without empirical Bayes", "neuroCombat, `eb=False`")
def values_plain(run: Finished, tally: Tally) -> None:
    _harmonised(run, tally, "harmony_plain", _combat(False)["data"].T)


@compared(
    IMPAC,
    "regression",
    "harmonised",
    "14 regressions of harmonised values: b, se, t, p",
    "neuroCombat, then statsmodels OLS",
)
def harmonised(run: Finished, tally: Tally) -> None:
    design = np.column_stack((np.ones(len(people())), people().asd, people().age, people().male))
    for outcome, y in zip(FEATURES, _combat(True)["data"], strict=True):
        fit = SM.OLS(y, design).fit()
        for place, term in enumerate(("intercept", "asd[autism]", "age", "sex[male]")):
            row = run.row("harmonised", outcome=outcome, term=term)
            tally.near(row["b"], fit.params[place], fit.bse[place])
            tally.same(row["se"], fit.bse[place])
            tally.near(row["statistic"], fit.tvalues[place], 1.0)
