"""Linear models over 34 sites: effects of diagnosis on 84 measures, and everything else a regression can be asked for."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from tests.end_to_end.studies import THICKNESS
from tests.truths.impac import IMPAC, MEANS, TERMS, TERMS_ICV, VOLUMES, known, people
from tests.truths.libraries import FORMULA, INFLATION, MANOVA, PANDAS, SM, coefficients
from tests.truths.registry import compared
from tests.truths.running import Finished
from tests.truths.tally import Tally


def _mega(
    run: Finished, tally: Tally, analysis: str, outcomes: tuple[str, ...], names: Mapping[str, str]
) -> None:
    adjusted = SM.stats.multipletests(
        [known("mega_fixed_site")[outcome]["coef"]["asd"]["p"] for outcome in outcomes], method="fdr_bh"
    )[1]
    for outcome, p_fdr in zip(outcomes, adjusted, strict=True):
        one = known("mega_fixed_site")[outcome]
        coefficients(run, tally, analysis, outcome, names, one)
        row, effect = run.row(analysis, outcome=outcome, term="asd[autism]"), one["cohen_d"]
        # an end of an interval may lie near 0: judged against the standard error
        tally.same(row["d"], effect["d"])
        tally.same(row["d_se"], effect["se"])
        tally.near(row["d_low"], effect["lo"], effect["se"])
        tally.near(row["d_high"], effect["hi"], effect["se"])
        tally.exact((row["n_reference"], row["n_level"]), (effect["n_ctl"], effect["n_pat"]))
        tally.same(row["p_fdr"], float(p_fdr))


@compared(
    IMPAC,
    "regression",
    "thickness",
    "68 thicknesses: b, se, t, p, Cohen's d, FDR",
    "`mega_fixed_site` (statsmodels OLS, one dummy per site)",
)
def thickness(run: Finished, tally: Tally) -> None:
    _mega(run, tally, "thickness", THICKNESS, TERMS)


@compared(
    IMPAC,
    "regression",
    "volumes",
    "16 volumes with ICV: the same",
    "`mega_fixed_site` (statsmodels OLS, one dummy per site)",
)
def volumes(run: Finished, tally: Tally) -> None:
    _mega(run, tally, "volumes", VOLUMES, TERMS_ICV)


@compared(
    IMPAC,
    "regression",
    "interaction",
    "diagnosis x age, a contrast and an F test",
    "`interaction`, statsmodels `t_test`, `f_test`",
)
def interaction(run: Finished, tally: Tally) -> None:
    names = {**TERMS_ICV, "asd:age": "asd[autism]:age"}
    coefficients(run, tally, "interaction", "Left-Hippocampus", names, known("interaction"))
    table = people().rename(columns={"Left-Hippocampus": "y"})
    table = table.assign(icv=table.EstimatedTotalIntraCranialVol / 1e6)
    fit = FORMULA.ols("y ~ asd*age + male + icv + C(site)", table).fit()
    contrast, row = fit.t_test("asd + 10 * asd:age = 0"), run.row("interaction.contrasts")
    tally.all_same(
        (row[column] for column in ("estimate", "se", "statistic", "p")),
        (float(np.ravel(one)[0]) for one in (contrast.effect, contrast.sd, contrast.tvalue, contrast.pvalue)),
    )
    f, row = fit.f_test("asd = 0, asd:age = 0"), run.row("interaction.tests")
    tally.all_same(
        (row[column] for column in ("statistic", "df", "df2", "p")),
        (float(f.fvalue), f.df_num, f.df_denom, float(f.pvalue)),
    )


@compared(IMPAC, "regression", "quadratic", "age and its square", "`age2` (statsmodels OLS)")
def quadratic(run: Finished, tally: Tally) -> None:
    names = {**TERMS, "I(age ** 2)": "age2"}
    coefficients(run, tally, "quadratic", MEANS[1], names, known("age2"))


def _site_dummies() -> Any:
    return PANDAS.get_dummies(people().site).to_numpy(float)


def _columns() -> Any:
    return np.column_stack((people().asd, people().age, people().male)).astype(float)


@compared(
    IMPAC,
    "regression",
    "site_effect",
    "F test of the site effect, variance inflation",
    "`ancova_site_effect` (statsmodels `anova_lm`), `variance_inflation_factor`",
)
def site_effect(run: Finished, tally: Tally) -> None:
    one, row = known("ancova_site_effect"), run.row("site_effect.site")
    tally.all_same(
        (row[column] for column in ("statistic", "df", "df2", "p")),
        (one[key] for key in ("F", "df1", "df2", "p")),
    )
    site = _site_dummies()
    inside = np.column_stack([SM.OLS(column, site).fit().resid for column in _columns().T])
    for place, term in enumerate(TERMS.values()):
        tally.same(run.row("site_effect", term=term)["vif"], INFLATION(inside, place))


@compared(
    IMPAC,
    "regression",
    "robust_hc0",
    "robust standard errors HC0, sites taken out",
    "statsmodels OLS with site dummies, `cov_type='HC0'`",
)
def robust_hc0(run: Finished, tally: Tally) -> None:
    _robust(run, tally, "robust_hc0", "HC0", np.column_stack((_columns(), _site_dummies())))


@compared(
    IMPAC,
    "regression",
    "robust_hc1",
    "robust standard errors HC1, one intercept",
    "statsmodels OLS, `cov_type='HC1'`",
)
def robust_hc1(run: Finished, tally: Tally) -> None:
    _robust(run, tally, "robust_hc1", "HC1", np.column_stack((_columns(), np.ones(len(people())))))


def _robust(run: Finished, tally: Tally, analysis: str, kind: str, design: Any) -> None:
    for outcome in VOLUMES[:4]:
        fit = SM.OLS(people()[outcome].to_numpy(), design).fit(cov_type=kind, use_t=True)
        _three_terms(run, tally, analysis, outcome, fit)


@compared(
    IMPAC,
    "regression",
    "weighted",
    "weighted by intracranial volume, sites taken out",
    "statsmodels WLS with site dummies",
)
def weighted(run: Finished, tally: Tally) -> None:
    design = np.column_stack((_columns(), _site_dummies()))
    weights = people().EstimatedTotalIntraCranialVol.to_numpy() / 1e6
    for outcome in VOLUMES[:4]:
        fit = SM.WLS(people()[outcome].to_numpy(), design, weights=weights).fit()
        _three_terms(run, tally, "weighted", outcome, fit)


def _three_terms(run: Finished, tally: Tally, analysis: str, outcome: str, fit: Any) -> None:
    for place, term in enumerate(TERMS.values()):
        row = run.row(analysis, outcome=outcome, term=term)
        tally.all_same(
            (row[column] for column in ("b", "se", "statistic", "p")),
            (fit.params[place], fit.bse[place], fit.tvalues[place], fit.pvalues[place]),
        )


@compared(
    IMPAC,
    "regression",
    "ridge",
    "ridge penalty 0.1, sites taken out",
    "statsmodels `fit_regularized` on standardised columns",
)
def ridge(run: Finished, tally: Tally) -> None:
    site = _site_dummies()
    inside = np.column_stack([SM.OLS(column, site).fit().resid for column in _columns().T])
    length = np.sqrt((inside**2).sum(axis=0))
    for outcome in VOLUMES[:4]:
        y = SM.OLS(people()[outcome].to_numpy(), site).fit().resid
        fit = SM.OLS(y, inside / length).fit_regularized(L1_wt=0.0, alpha=0.1 / len(y))
        tally.all_same(
            (run.row("ridge", outcome=outcome, term=term)["b"] for term in TERMS.values()),
            fit.params / length,
        )


@compared(
    IMPAC,
    "regression",
    "jointly",
    "four volumes at once: Wilks, Pillai, Hotelling-Lawley, Roy",
    "statsmodels `MANOVA` with site dummies",
)
def jointly(run: Finished, tally: Tally) -> None:
    design = np.column_stack((_columns(), _site_dummies()))
    contrast = np.zeros((1, design.shape[1]))
    contrast[0, 0] = 1.0
    litres = people()[list(VOLUMES[:4])].to_numpy() / 1000
    found = MANOVA(litres, design).mv_test(hypotheses=[("dx", contrast, None)]).results["dx"]["stat"]
    rows = run.rows("jointly.multivariate")
    for row, (_, one) in zip(rows, found.iterrows(), strict=True):
        tally.all_same(
            (row[column] for column in ("estimate", "statistic", "df", "df2", "p")),
            (float(one[key]) for key in ("Value", "F Value", "Num DF", "Den DF", "Pr > F")),
        )
