"""Models over 34 sites that need a likelihood: logistic, meta-analysis, random intercepts."""

from tests.truths.impac import IMPAC, TERMS, known
from tests.truths.libraries import coefficients
from tests.truths.registry import ITERATIVE, MIXED, compared
from tests.truths.running import Finished
from tests.truths.tally import Tally


@compared(
    IMPAC,
    "glm",
    "diagnosis",
    "logistic: b, se, deviance, log-likelihood",
    "`logistic` (statsmodels GLM)",
    ITERATIVE,
)
def diagnosis(run: Finished, tally: Tally) -> None:
    one, names = known("logistic"), {"Intercept": "intercept", "age": "age", "male": "sex[male]"}
    names |= {"hippo": "hippo", "icvL": "icv_litres"}
    coefficients(run, tally, "diagnosis", "asd[autism]", names, one)
    fit = run.row("diagnosis.fit")
    tally.all_same((fit["deviance"], fit["log_likelihood"]), (one["deviance"], one["loglik"]))


@compared(
    IMPAC,
    "meta",
    "meta_thickness",
    "3 thicknesses, 31 sites: fixed, DL and REML",
    "`meta_sites_ge5_per_arm` (statsmodels OLS per site, scipy `minimize_scalar`)",
    ITERATIVE,
)
def meta_thickness(run: Finished, tally: Tally) -> None:
    _meta(run, tally, "meta_thickness")


@compared(
    IMPAC,
    "meta",
    "meta_volumes",
    "2 volumes with ICV: the same",
    "`meta_sites_ge5_per_arm` (statsmodels OLS per site, scipy `minimize_scalar`)",
    ITERATIVE,
)
def meta_volumes(run: Finished, tally: Tally) -> None:
    _meta(run, tally, "meta_volumes")


def _meta(run: Finished, tally: Tally, analysis: str) -> None:
    outcomes = {str(row["outcome"]) for row in run.rows(analysis)}
    for outcome in sorted(outcomes):
        one = known("meta_sites_ge5_per_arm")[outcome]
        fixed = run.row(analysis, outcome=outcome, model="fixed")
        tally.exact(fixed["k"], one["k"])
        tally.all_same(
            (fixed["estimate"], fixed["se"], fixed["q"]), (one["fixed"]["d"], one["fixed"]["se"], one["Q"])
        )
        for model in ("dl", "reml"):
            row, right = run.row(analysis, outcome=outcome, model=model), one[model]
            tally.all_same((row["estimate"], row["se"]), (right["d"], right["se"]))
            # tau2 is judged against the sampling variance of the average site, because it may be 0
            tally.near(row["tau2"], right["tau2"], one["fixed"]["se"] ** 2 * one["k"])


@compared(
    IMPAC,
    "mixed",
    "mixed",
    "random intercept per site by REML: b, se, tau2, sigma2",
    "`lmm_reml_site_intercept` (scipy `minimize_scalar` of the profile likelihood)",
    MIXED,
)
def mixed(run: Finished, tally: Tally) -> None:
    one = known("lmm_reml_site_intercept")
    for theirs, ours in {"Intercept": "intercept", **TERMS}.items():
        row = run.row("mixed", term=ours)
        tally.all_same(
            (row[column] for column in ("b", "se", "tau2", "sigma2")),
            (one["coef"][theirs]["b"], one["coef"][theirs]["se"], one["tau2"], one["sigma2"]),
        )
