"""Three simulated clinical cohorts: every pooled number that DataSHIELD publishes of them."""

from pathlib import Path
from typing import Any

from tests.truths.libraries import STATS, coefficients, frame, moments, truth
from tests.truths.registry import ITERATIVE, WITHIN_BOUND, compared
from tests.truths.running import DATA, DataSet, Finished
from tests.truths.tally import Tally
from tests.truths.text import study_text

FILES = ("cnsim1.csv", "cnsim2.csv", "cnsim3.csv")
GAUSSIAN = {"Intercept": "intercept", "LAB_TRIG": "LAB_TRIG"}
BINOMIAL = {
    "Intercept": "intercept",
    "GENDER": "GENDER[1]",
    "PM_BMI_CONTINUOUS": "PM_BMI_CONTINUOUS",
    "GENDER:PM_BMI_CONTINUOUS": "GENDER[1]:PM_BMI_CONTINUOUS",
    "LAB_HDL": "LAB_HDL",
}
PROBABILITIES = (0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95)


def _tables(folder: Path) -> None:
    for name in FILES:
        (folder / name).write_bytes((DATA / name).read_bytes())


CNSIM = DataSet(
    "cnsim1-3",
    FILES[0],
    study_text(
        "cnsim",
        "column_1",
        """
LAB_TSC: {unit: mmol/l, range: [0, 20]}
LAB_HDL: {unit: mmol/l, range: [-1, 5]}
LAB_TRIG: {unit: mmol/l, range: [-20, 20]}
PM_BMI_CONTINUOUS: {unit: kg/m2, range: [0, 100]}
GENDER: {levels: ["0", "1"]}
DIS_DIAB: {levels: ["0", "1"]}
""",
        """
labs: {kind: summary, variables: [LAB_TSC, LAB_HDL]}
diabetes: {kind: crosstab, factors: [GENDER, DIS_DIAB]}
hdl:
  kind: quantiles
  variables: [LAB_HDL]
  probabilities: [0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95]
  bins: {from: 0, to: 5, count: 50}
hdl_refined:
  kind: quantiles
  variables: [LAB_HDL]
  probabilities: [0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95]
  bins: {from: 0, to: 5, count: 50}
  refine: 0.001
gaussian: {kind: regression, outcomes: [LAB_TSC], terms: [LAB_TRIG], site_effect: none}
with_study:
  kind: regression
  outcomes: [LAB_TSC]
  terms: [LAB_TRIG, PM_BMI_CONTINUOUS, GENDER]
binomial:
  kind: glm
  family: binomial
  outcomes: [DIS_DIAB]
  terms: [GENDER, PM_BMI_CONTINUOUS, LAB_HDL, "GENDER:PM_BMI_CONTINUOUS"]
labs_by_pair: {kind: correlation, variables: [LAB_TSC, LAB_HDL, LAB_TRIG], site_effect: none, missing: per_pair}
""",
        floor=20,
        colluding=0,
    ),
    prepare=_tables,
)


def known(key: str) -> Any:
    """Return one of the recorded truths."""
    return truth("cnsim")[key]


@compared(
    CNSIM,
    "summary",
    "labs",
    "n, mean, variance, sums of two laboratory values",
    "`LAB_TSC`, `LAB_HDL` (pandas)",
)
def labs(run: Finished, tally: Tally) -> None:
    for variable in ("LAB_TSC", "LAB_HDL"):
        moments(run, tally, "labs", variable, known(variable)["pooled"])


@compared(CNSIM, "crosstab", "diabetes", "counts by sex and diabetes", "`table_GENDER_DIS_DIAB` (pandas)")
def diabetes(run: Finished, tally: Tally) -> None:
    for cell, count in known("table_GENDER_DIS_DIAB").items():
        gender, level = cell.split("/")
        tally.exact(run.row("diabetes", GENDER=gender, DIS_DIAB=level)["count"], count)


@compared(
    CNSIM,
    "quantiles",
    "hdl",
    "7 quantiles of HDL cholesterol, bins of 0.1 mmol/l",
    "`LAB_HDL_quantileMean`, `exact_pooled` (pandas)",
    WITHIN_BOUND,
)
def hdl(run: Finished, tally: Tally) -> None:
    _hdl(run, tally, "hdl", PROBABILITIES, known("LAB_HDL_quantileMean")["exact_pooled"])


@compared(
    CNSIM,
    "quantiles",
    "hdl_refined",
    "the same, refined to 0.001 mmol/l",
    "`LAB_HDL_quantileMean`, `exact_pooled` (pandas)",
    WITHIN_BOUND,
)
def hdl_refined(run: Finished, tally: Tally) -> None:
    _hdl(run, tally, "hdl_refined", PROBABILITIES, known("LAB_HDL_quantileMean")["exact_pooled"])
    pooled = known("LAB_HDL")["pooled"]
    _hdl(run, tally, "hdl_refined", (0.05, 0.25), (pooled["p5"], pooled["p25"]))


def _hdl(run: Finished, tally: Tally, table: str, probabilities: tuple[float, ...], values: Any) -> None:
    for probability, value in zip(probabilities, values, strict=True):
        row = run.row(table, probability=probability)
        tally.near(row["value"], value, float(str(row["error_bound"])))


@compared(CNSIM, "regression", "gaussian", "cholesterol on triglycerides", "`gaussian` (statsmodels OLS)")
def gaussian(run: Finished, tally: Tally) -> None:
    coefficients(run, tally, "gaussian", "LAB_TSC", GAUSSIAN, known("gaussian"))


@compared(
    CNSIM,
    "regression",
    "with_study",
    "the same with covariates, studies taken out",
    "`with_study_effect` (statsmodels OLS)",
)
def with_study(run: Finished, tally: Tally) -> None:
    names = {
        "LAB_TRIG": "LAB_TRIG",
        "PM_BMI_CONTINUOUS": "PM_BMI_CONTINUOUS",
        "GENDER": "GENDER[1]",
    }
    coefficients(run, tally, "with_study", "LAB_TSC", names, known("with_study_effect"))


@compared(
    CNSIM,
    "glm",
    "binomial",
    "diabetes with an interaction: b, se, deviance, log-likelihood",
    "`binomial` (statsmodels GLM)",
    ITERATIVE,
)
def binomial(run: Finished, tally: Tally) -> None:
    coefficients(run, tally, "binomial", "DIS_DIAB[1]", BINOMIAL, known("binomial"))
    fit = run.row("binomial.fit")
    tally.all_same(
        (fit["deviance"], fit["log_likelihood"]), (known("binomial")["deviance"], known("binomial")["loglik"])
    )


@compared(
    CNSIM,
    "correlation",
    "labs_by_pair",
    "3 pairs, each with its own complete cases",
    "scipy `pearsonr`",
)
def labs_by_pair(run: Finished, tally: Tally) -> None:
    for row in run.rows("labs_by_pair"):
        both = frame(*FILES)[[row["variable_1"], row["variable_2"]]].dropna()
        test = STATS.pearsonr(both.iloc[:, 0], both.iloc[:, 1])
        tally.exact(row["n"], len(both))
        tally.all_same((row["r"], row["p"]), (test.statistic, test.pvalue))
