"""Healthy people of all ages over 23 sites of 3 to 198: curves, norms and centiles over age."""

import csv
from functools import cache
from typing import Any

import numpy as np

from tests.truths.libraries import FORMULA, NORMAL, PANDAS, coefficients, frame, moments, quantiles, truth
from tests.truths.registry import WITHIN_BOUND, compared
from tests.truths.running import DataSet, Finished
from tests.truths.tally import Tally
from tests.truths.text import study_text

FILE = "fcon1000.csv"
DESCRIBED = (
    *("age", "meanth", "Left-Hippocampus", "Right-Hippocampus", "Left-Lateral-Ventricle"),
    *("eTIV", "WM-hypointensities", "SurfaceHoles", "avg_en"),
)
VARIABLES = """
sex: {levels: ["0", "1"]}
age: {unit: years, range: [5, 90]}
lh_MeanThickness_thickness: {unit: mm, range: [0, 5]}
rh_MeanThickness_thickness: {unit: mm, range: [0, 5]}
Left-Hippocampus: {unit: mm3, range: [0, 9000]}
Right-Hippocampus: {unit: mm3, range: [0, 9000]}
Left-Lateral-Ventricle: {unit: mm3, range: [0, 60000]}
eTIV: {unit: mm3, range: [500000, 2500000]}
WM-hypointensities: {unit: mm3, range: [0, 20000]}
SurfaceHoles: {unit: "1", range: [0, 2000]}
avg_en: {unit: "1", range: [-2000, 0]}
"""
DERIVE = """
meanth: "(lh_MeanThickness_thickness + rh_MeanThickness_thickness) / 2"
age2: "age^2"
"""
DESCRIBE = f"describe: {{kind: summary, variables: [{', '.join(DESCRIBED)}]}}\n"
BANDS = (20, 25, 30, 40, 60)
GRID = (10, 20, 40, 60, 80)

FCON = DataSet(
    "fcon1000",
    FILE,
    study_text(
        "fcon",
        "sub_id",
        VARIABLES,
        DESCRIBE
        + """
percentiles_mm3:
  kind: quantiles
  variables: [Left-Hippocampus, Right-Hippocampus]
  probabilities: [0.05, 0.25, 0.5, 0.75, 0.95]
  bins: {from: 0, to: 9000, count: 900}
  refine: 0.1
percentiles_age:
  kind: quantiles
  variables: [age]
  probabilities: [0.05, 0.25, 0.5, 0.75, 0.95]
  bins: {from: 5, to: 90, count: 850}
bands:
  kind: quantiles
  variables: [meanth]
  probabilities: [0.05, 0.5, 0.95]
  bins: {from: 0, to: 5, count: 500}
  bands: {age: [20, 25, 30, 40, 60]}
  refine: 0.0001
quadratic: {kind: regression, outcomes: [meanth], terms: [age, age2, sex]}
norms:
  kind: normative
  outcomes: [meanth]
  over: age
  basis: linear
  terms: [sex]
  site_effect: within
  grid: {age: [10, 20, 40, 60, 80]}
  centiles: [5, 50, 95]
splines:
  kind: normative
  outcomes: [meanth, Left-Hippocampus]
  over: age
  basis: spline
  knots: [20, 30, 50]
  terms: [sex]
  scale: modelled
  grid: {age: [10, 20, 40, 60, 80]}
  centiles: [5, 50, 95]
""",
        DERIVE,
    ),
    split_by="site",
)
FCON_LARGE = DataSet(
    "fcon1000, sites of 50",
    FILE,
    study_text("fcon-large", "sub_id", VARIABLES, DESCRIBE, DERIVE, floor=50),
    split_by="site",
)


def known(key: str) -> Any:
    """Return one of the recorded truths."""
    return truth("fcon1000")[key]


@cache
def people() -> Any:
    """Return all rows together, with the mean thickness of both sides."""
    table = frame(FILE)
    return table.assign(meanth=(table.lh_MeanThickness_thickness + table.rh_MeanThickness_thickness) / 2)


@compared(FCON, "summary", "describe", "n, mean, variance, sums of 9 measures", "`describe` (pandas)")
def describe(run: Finished, tally: Tally) -> None:
    for variable in DESCRIBED:
        moments(run, tally, "describe", variable, known("describe")[variable])


@compared(
    FCON_LARGE,
    "summary",
    "describe",
    "the same over the 5 sites of at least 50 people",
    "`describe_sites_n_ge_50` (pandas)",
)
def describe_large(run: Finished, tally: Tally) -> None:
    tally.exact(len(run.document.sites.survivors), 5)
    for variable in DESCRIBED:
        moments(run, tally, "describe", variable, known("describe_sites_n_ge_50")[variable])


@compared(
    FCON,
    "quantiles",
    "percentiles_age percentiles_mm3",
    "5, 25, 50, 75, 95 % of age and hippocampi",
    "`describe` (pandas)",
    WITHIN_BOUND,
)
def percentiles(run: Finished, tally: Tally) -> None:
    quantiles(run, tally, "percentiles_age", "age", known("describe")["age"])
    for variable in DESCRIBED[2:4]:
        quantiles(run, tally, "percentiles_mm3", variable, known("describe")[variable])


@compared(
    FCON,
    "quantiles",
    "bands",
    "5, 50, 95 % of thickness in 6 bands of age, refined to 0.0001 mm",
    "`age_band_centiles_meanth` (pandas)",
    WITHIN_BOUND,
)
def bands(run: Finished, tally: Tally) -> None:
    labels = list(dict.fromkeys(row["age"] for row in run.rows("bands")))
    for label, one in zip(labels, known("age_band_centiles_meanth").values(), strict=True):
        for key, probability in (("p5", 0.05), ("p50", 0.5), ("p95", 0.95)):
            row = run.row("bands", age=label, probability=probability)
            tally.exact(row["n"], one["n"])
            tally.near(row["value"], one[key], float(str(row["error_bound"])))


@compared(
    FCON, "regression", "quadratic", "thickness by age and its square", "`quadratic_age` (statsmodels OLS)"
)
def quadratic(run: Finished, tally: Tally) -> None:
    names = {"age": "age", "I(age ** 2)": "age2", "sex": "sex[1]"}
    coefficients(run, tally, "quadratic", "meanth", names, known("quadratic_age"))


@compared(
    FCON,
    "normative",
    "norms",
    "mean, SD and 3 centiles at 10 points, sites taken out",
    "`normative_linear_resid_sd`, statsmodels OLS with site dummies",
)
def norms(run: Finished, tally: Tally) -> None:
    table = people()
    fit = FORMULA.ols("meanth ~ age + sex + C(site)", table).fit()
    for age in GRID:
        for sex in (0, 1):
            row = run.row("norms", age=float(age), sex=str(sex))
            mean = (
                table.meanth.mean()
                + fit.params["age"] * (age - table.age.mean())
                + fit.params["sex"] * (sex - table.sex.mean())
            )
            sd = known("normative_linear_resid_sd")["sigma"]
            tally.all_same(
                (row[column] for column in ("mean", "sd", "p05", "p50", "p95")),
                (mean, sd, *(mean + NORMAL.ppf(share) * sd for share in (0.05, 0.5, 0.95))),
            )


@compared(
    FCON,
    "normative",
    "norms",
    "z-scores of 1078 people (in SD), from the sites' own files",
    "statsmodels OLS with site dummies: residuals divided by their SD",
)
def scores(run: Finished, tally: Tally) -> None:
    fit = FORMULA.ols("meanth ~ age + sex + C(site)", people()).fit()
    expected = dict(zip(people().sub_id, fit.resid / np.sqrt(fit.scale), strict=True))
    for site in people().site.unique():
        with run.kept(site, "norms.csv").open(newline="") as file:
            for row in csv.DictReader(file):
                tally.near(float(row["meanth"]), expected.pop(row["sub_id"]), 1.0)
    tally.exact(len(expected), 0)


@compared(
    FCON,
    "normative",
    "splines",
    "mean, modelled SD and 3 centiles of 2 measures at 10 points, cubic splines",
    "statsmodels OLS on patsy's `bs`, then of absolute residuals",
)
def splines(run: Finished, tally: Tally) -> None:
    right = "bs(age, knots=(20, 30, 50), degree=3, lower_bound=5, upper_bound=90) + sex"
    points = [(age, sex) for age in GRID for sex in (0, 1)]
    for outcome in ("meanth", "Left-Hippocampus"):
        table = people().assign(y=people()[outcome])
        fit = FORMULA.ols(f"y ~ {right}", table).fit()
        scale = FORMULA.ols(f"absolute ~ {right}", table.assign(absolute=np.abs(fit.resid))).fit()
        for age, sex in points:
            at = PANDAS.DataFrame({"age": [age], "sex": [sex]})
            mean = float(fit.predict(at).iloc[0])
            sd = float(scale.predict(at).iloc[0] * np.sqrt(np.pi / 2))
            row = run.row("splines", outcome=outcome, age=float(age), sex=str(sex))
            tally.all_same(
                (row[column] for column in ("mean", "sd", "p05", "p50", "p95")),
                (mean, sd, *(mean + NORMAL.ppf(share) * sd for share in (0.05, 0.5, 0.95))),
            )
