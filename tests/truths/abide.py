"""Image quality and intelligence over 20 sites, five of one sex, with a code for missing values among the numbers."""

from functools import cache
from typing import Any

import numpy as np

from tests.truths.libraries import (
    FORMULA,
    OPTIMISE,
    PANDAS,
    PROPORTION,
    coefficients,
    fitted,
    frame,
    moments,
    quantiles,
    truth,
)
from tests.truths.registry import WITHIN_BOUND, compared
from tests.truths.running import DataSet, Finished
from tests.truths.tally import Tally
from tests.truths.text import study_text

FILE = "abide1_qc.csv"
DESCRIBED = ("AGE_AT_SCAN", "FIQ", "anat_snr", "anat_cnr", "func_mean_fd", "func_quality")
"""BMI, which the truths describe too, exists at two sites of 20 and is never summed."""
TERMS = {"asd": "dx[autism]", "AGE_AT_SCAN": "AGE_AT_SCAN", "male": "sex[male]"}

ABIDE = DataSet(
    "abide1_qc",
    FILE,
    study_text(
        "abide",
        "SUB_ID",
        """
dx: {levels: [control, autism]}
sex: {levels: [female, male]}
AGE_AT_SCAN: {unit: years, range: [5, 65]}
FIQ: {unit: points, range: [40, 160]}
fiq_with_codes: {unit: points, range: [-10000, 200]}
BMI: {unit: kg/m2, range: [5, 60]}
anat_snr: {unit: "1", range: [0, 6000]}
anat_cnr: {unit: "1", range: [0, 60]}
func_mean_fd: {unit: mm, range: [0, 2]}
func_quality: {unit: "1", range: [0, 0.2]}
""",
        """
describe:
  kind: summary
  variables: [AGE_AT_SCAN, FIQ, anat_snr, anat_cnr, func_mean_fd, func_quality, BMI]
coded: {kind: summary, variables: [fiq_with_codes]}
ages:
  kind: quantiles
  variables: [AGE_AT_SCAN]
  probabilities: [0.05, 0.25, 0.5, 0.75, 0.95]
  bins: {from: 5, to: 65, count: 60}
  refine: 0.01
intelligence:
  kind: quantiles
  variables: [FIQ]
  probabilities: [0.05, 0.25, 0.5, 0.75, 0.95]
  bins: {from: 40.25, to: 159.75, count: 239}
snr:
  kind: quantiles
  variables: [anat_snr]
  probabilities: [0.05, 0.25, 0.5, 0.75, 0.95]
  bins: {from: 0, to: 60, count: 300}
cnr:
  kind: quantiles
  variables: [anat_cnr]
  probabilities: [0.05, 0.25, 0.5, 0.75, 0.95]
  bins: {from: 0, to: 60, count: 300}
motion:
  kind: quantiles
  variables: [func_mean_fd]
  probabilities: [0.05, 0.25, 0.5, 0.75, 0.95]
  bins: {from: 0, to: 2, count: 200}
  refine: 0.0001
quality:
  kind: quantiles
  variables: [func_quality]
  probabilities: [0.05, 0.25, 0.5, 0.75, 0.95]
  bins: {from: 0, to: 0.2, count: 200}
moving: {kind: proportion, variables: [func_mean_fd], thresholds: [0.2], by: [dx]}
sexes: {kind: crosstab, factors: [dx, sex]}
fd_model: {kind: regression, outcomes: [func_mean_fd], terms: [dx, AGE_AT_SCAN, sex], report: {effect: sex}}
cnr_model: {kind: regression, outcomes: [anat_cnr], terms: [dx, AGE_AT_SCAN, sex]}
fiq_model: {kind: regression, outcomes: [FIQ], terms: [dx, AGE_AT_SCAN, sex, func_mean_fd]}
complete:
  kind: regression
  outcomes: [FIQ, anat_cnr]
  terms: [dx, AGE_AT_SCAN, sex]
  missing: complete
slopes: {kind: meta, outcomes: [func_mean_fd], terms: [AGE_AT_SCAN, dx, sex], effect: AGE_AT_SCAN, measure: b}
""",
        min_sites=5,
    ),
    node="""
variables:
  dx: {from: data.DX_GROUP, codes: {"1": autism, "2": control}}
  sex: {from: data.SEX, codes: {"1": male, "2": female}}
  FIQ: {missing: ["-9999"]}
  fiq_with_codes: {from: data.FIQ}
  BMI: {missing: ["-9999"]}
""",
    split_by="SITE_ID",
)


def known(key: str) -> Any:
    """Return one of the recorded truths."""
    return truth("abide1_qc")[key]


@cache
def people() -> Any:
    """Return all rows together, with 0/1 columns."""
    table = frame(FILE)
    return table.assign(asd=(table.DX_GROUP == 1).astype(int), male=(table.SEX == 1).astype(int))


@compared(
    ABIDE,
    "summary",
    "describe",
    "n, mean, variance, sums of 6 measures with missing values",
    "`describe` (pandas)",
)
def describe(run: Finished, tally: Tally) -> None:
    for variable in DESCRIBED:
        moments(run, tally, "describe", variable, known("describe")[variable])


@compared(
    ABIDE,
    "summary",
    "coded",
    "mean intelligence with -9999 declared missing, and taken for a number",
    "`describe`, `wrong_if_9999_kept` (pandas)",
)
def coded(run: Finished, tally: Tally) -> None:
    tally.same(run.row("coded")["mean"], known("wrong_if_9999_kept")["FIQ_mean"])
    row = run.row("describe", variable="FIQ")
    tally.same(row["mean"], known("describe")["FIQ"]["mean"])
    tally.exact(row["n"], 1040)


@compared(
    ABIDE,
    "quantiles",
    "ages intelligence snr cnr motion quality",
    "5, 25, 50, 75, 95 % of 6 measures, bins as wide as each needs",
    "`describe` (pandas)",
    WITHIN_BOUND,
)
def percentiles(run: Finished, tally: Tally) -> None:
    tables = ("ages", "intelligence", "snr", "cnr", "motion", "quality")
    for variable, table in zip(DESCRIBED, tables, strict=True):
        quantiles(run, tally, table, variable, known("describe")[variable])


@compared(
    ABIDE,
    "proportion",
    "moving",
    "people with mean displacement above 0.2 mm, by diagnosis",
    "`fd_gt_0.2_by_dx`, statsmodels `proportion_confint` (Wilson)",
)
def moving(run: Finished, tally: Tally) -> None:
    for code, level in (("0", "control"), ("1", "autism")):
        row = run.row("moving", dx=level)
        count = known("fd_gt_0.2_by_dx")[code]
        n = int(people()[people().asd == int(code)].func_mean_fd.notna().sum())
        tally.exact((row["count"], row["n"]), (count, n))
        low, high = PROPORTION.proportion_confint(count, n, method="wilson")
        tally.all_same((row["proportion"], row["low"], row["high"]), (count / n, low, high))


@compared(
    ABIDE, "crosstab", "sexes", "counts by diagnosis and sex, five sites without a level", "pandas `crosstab`"
)
def sexes(run: Finished, tally: Tally) -> None:
    counts = PANDAS.crosstab(people().asd, people().male).to_numpy()
    for row, count in zip(run.rows("sexes"), counts.ravel(), strict=True):
        tally.exact(row["count"], int(count))


@compared(
    ABIDE, "regression", "fd_model", "head motion, five sites of one sex", "`fd_model` (statsmodels OLS)"
)
def fd_model(run: Finished, tally: Tally) -> None:
    coefficients(run, tally, "fd_model", "func_mean_fd", TERMS, known("fd_model"))


@compared(ABIDE, "regression", "cnr_model", "contrast-to-noise ratio", "`snr_model` (statsmodels OLS)")
def cnr_model(run: Finished, tally: Tally) -> None:
    coefficients(run, tally, "cnr_model", "anat_cnr", TERMS, known("snr_model"))


@compared(
    ABIDE,
    "regression",
    "fiq_model",
    "intelligence of those with every covariate",
    "`fiq_complete_case` (statsmodels OLS)",
)
def fiq_model(run: Finished, tally: Tally) -> None:
    names = {**TERMS, "func_mean_fd": "func_mean_fd"}
    coefficients(run, tally, "fiq_model", "FIQ", names, known("fiq_complete_case"))


@compared(
    ABIDE,
    "regression",
    "complete",
    "two outcomes over the people who have both",
    "statsmodels OLS with site dummies",
)
def complete(run: Finished, tally: Tally) -> None:
    both = people().dropna(subset=["FIQ", "anat_cnr"])
    for outcome in ("FIQ", "anat_cnr"):
        fit = FORMULA.ols(f"{outcome} ~ asd + AGE_AT_SCAN + male + C(SITE_ID)", both).fit()
        fitted(run, tally, "complete", outcome, fit, TERMS)


@compared(
    ABIDE,
    "meta",
    "slopes",
    "slope of age at each site, pooled: fixed and REML",
    "statsmodels OLS per site, scipy `minimize_scalar`",
)
def slopes(run: Finished, tally: Tally) -> None:
    estimates: list[tuple[float, float]] = []
    for _, site in people().dropna(subset=["func_mean_fd"]).groupby("SITE_ID"):
        if len(site) < 20:
            continue
        varying = " + ".join(name for name in ("AGE_AT_SCAN", "asd", "male") if site[name].nunique() > 1)
        fit = FORMULA.ols(f"func_mean_fd ~ {varying}", site).fit()
        estimates.append((fit.params["AGE_AT_SCAN"], fit.bse["AGE_AT_SCAN"] ** 2))
    pooled(run, tally, "slopes", estimates)


def pooled(run: Finished, tally: Tally, table: str, estimates: list[tuple[float, float]]) -> None:
    """Compare fixed and REML estimates of the sites' own (b, variance)."""
    b, v = (np.array(column) for column in zip(*estimates, strict=True))

    def mean_at(tau2: float) -> tuple[float, float]:
        w = 1 / (v + tau2)
        return float((w * b).sum() / w.sum()), float(w.sum() ** -0.5)

    def deviance(tau2: float) -> float:
        w = 1 / (v + tau2)
        return float(-np.log(w).sum() + np.log(w.sum()) + (w * (b - mean_at(tau2)[0]) ** 2).sum())

    top = float(v.max())

    def scaled(share: float) -> float:
        return deviance(share * top)

    found = OPTIMISE.minimize_scalar(scaled, bounds=(0, 100), method="bounded", options={"xatol": 1e-13})
    tau2 = float(found.x) * top
    for model, at in (("fixed", 0.0), ("reml", tau2)):
        row = run.row(table, model=model)
        tally.exact(row["k"], len(b))
        tally.all_same((row["estimate"], row["se"]), mean_at(at))
