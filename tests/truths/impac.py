"""Autism and control, thickness and volumes over 34 sites: the analyses of imaging consortia."""

import csv
from collections.abc import Mapping
from functools import cache
from itertools import combinations, product
from typing import Any

import numpy as np

from tests.end_to_end.studies import THICKNESS
from tests.truths.libraries import (
    FORMULA,
    NEURO,
    PANDAS,
    PROPORTION,
    SM,
    STATS,
    TABLES,
    Known,
    coefficients,
    frame,
    moments,
    quantiles,
    truth,
)
from tests.truths.registry import ITERATIVE, WITHIN_BOUND, compared
from tests.truths.running import DataSet, Finished
from tests.truths.tally import Tally, number
from tests.truths.text import study_text

FILE = "impac_asd.csv"
VOLUMES = tuple(
    f"{side}-{structure}"
    for structure in (
        *("Thalamus-Proper", "Caudate", "Putamen", "Pallidum", "Hippocampus", "Amygdala", "Accumbens-area"),
        "Lateral-Ventricle",
    )
    for side in ("Left", "Right")
)
FEATURES = (*THICKNESS[:12], "Left-Hippocampus", "Right-Hippocampus")
MEANS = ("lh_MeanThickness_thickness", "rh_MeanThickness_thickness")
PAIRED = ("age", "Left-Hippocampus", "Right-Hippocampus", "Left-Amygdala", *MEANS)
CLAMPS: Mapping[str, tuple[str, float, float]] = {
    "hippo_left": ("Left-Hippocampus", 1500, 5000),
    "hippo_right": ("Right-Hippocampus", 1500, 5000),
    "entorhinal": ("lh_entorhinal_thickness", 1, 5),
    "icv": ("EstimatedTotalIntraCranialVol", 8e5, 1.6e6),
}


def _listed(names: tuple[str, ...]) -> str:
    return "[" + ", ".join(f'"{name}"' for name in names) + "]"


def _clamped() -> str:
    return "\n".join(
        f"{name}_{rule}: {{unit: {'mm' if name == 'entorhinal' else 'mm3'}, range: [{low}, {high:.0f}], out_of_range: {rule}}}"
        for (name, (_, low, high)), rule in product(CLAMPS.items(), ("clamp", "exclude"))
    )


VARIABLES = f"""
asd: {{levels: [control, autism]}}
sex: {{levels: [female, male]}}
age: {{unit: years, range: [5, 65]}}
"lh_*_thickness": {{catalogue: freesurfer.thickness, range: [0, 5]}}
"rh_*_thickness": {{catalogue: freesurfer.thickness, range: [0, 5]}}
lh_MeanThickness_thickness: {{unit: mm, range: [0, 5]}}
rh_MeanThickness_thickness: {{unit: mm, range: [0, 5]}}
EstimatedTotalIntraCranialVol: {{unit: mm3, range: [500000, 2500000]}}
{chr(10).join(f"{name}: {{unit: mm3, range: [0, 60000]}}" for name in VOLUMES)}
{_clamped()}
"""
DERIVE = """
age2: "age^2"
hippo: "(`Left-Hippocampus` + `Right-Hippocampus`) / 1000"
icv_litres: "EstimatedTotalIntraCranialVol / 1000000"
"""
DESCRIBED = ("age", *MEANS, "EstimatedTotalIntraCranialVol", *VOLUMES, *THICKNESS[:6])
ANALYSES = f"""
describe: {{kind: summary, variables: {_listed(DESCRIBED)}}}
shape: {{kind: summary, variables: [age, lh_MeanThickness_thickness], by: [asd], moments: 4}}
clamped:
  kind: summary
  variables: {_listed(tuple(f"{name}_{rule}" for name in CLAMPS for rule in ("clamp", "exclude")))}
percentiles_mm:
  kind: quantiles
  variables: {_listed((*MEANS, *THICKNESS[:6]))}
  probabilities: [0.05, 0.25, 0.5, 0.75, 0.95]
  bins: {{from: 0, to: 5, count: 200}}
  refine: 0.001
percentiles_mm3:
  kind: quantiles
  variables: {_listed(VOLUMES)}
  probabilities: [0.05, 0.25, 0.5, 0.75, 0.95]
  bins: {{from: 0, to: 60000, count: 600}}
  refine: 1
percentiles_age:
  kind: quantiles
  variables: [age]
  probabilities: [0.05, 0.25, 0.5, 0.75, 0.95]
  bins: {{from: 5, to: 65, count: 60}}
percentiles_icv:
  kind: quantiles
  variables: [EstimatedTotalIntraCranialVol]
  probabilities: [0.05, 0.25, 0.5, 0.75, 0.95]
  bins: {{from: 500000, to: 2500000, count: 400}}
  refine: 100
ages: {{kind: histogram, variables: [age], bins: {{from: 10, to: 40, count: 12}}}}
sexes: {{kind: crosstab, factors: [asd, sex]}}
adults:
  kind: proportion
  variables: [age]
  thresholds: [12, 18, 40]
  factors: [sex]
  by: [asd]
groups:
  kind: test
  outcomes: [age, Left-Hippocampus, lh_MeanThickness_thickness]
  factor: asd
  tests: [student, welch, anova]
related: {{kind: correlation, variables: {_listed(PAIRED)}, site_effect: none}}
partial: {{kind: correlation, variables: {_listed(PAIRED[1:])}, given: [age, sex]}}
spread: {{kind: covariance, variables: {_listed(PAIRED)}}}
components: {{kind: pca, variables: {_listed(THICKNESS)}, components: 10, site_effect: none}}
thickness:
  kind: regression
  outcomes: {_listed(THICKNESS)}
  terms: [asd, age, sex]
  report: {{effect: asd, measure: cohens_d, correction: fdr_bh}}
volumes:
  kind: regression
  outcomes: {_listed(VOLUMES)}
  terms: [asd, age, sex, EstimatedTotalIntraCranialVol]
  report: {{effect: asd, measure: cohens_d, correction: fdr_bh}}
interaction:
  kind: regression
  outcomes: [Left-Hippocampus]
  terms: [asd, age, sex, EstimatedTotalIntraCranialVol, "asd:age"]
  contrasts: {{autism_at_10: {{"asd[autism]": 1, "asd[autism]:age": 10}}}}
  tests: {{dx: [asd, "asd:age"]}}
quadratic: {{kind: regression, outcomes: [rh_MeanThickness_thickness], terms: [asd, age, age2, sex]}}
diagnosis: {{kind: glm, family: binomial, outcomes: [asd], event: autism, terms: [age, sex, hippo, icv_litres]}}
meta_thickness:
  kind: meta
  outcomes: [lh_superiorfrontal_thickness, rh_superiorfrontal_thickness, lh_entorhinal_thickness]
  terms: [asd, age, sex]
  effect: asd
  models: [fixed, dl, reml]
  min_per_arm: 5
meta_volumes:
  kind: meta
  outcomes: [Left-Hippocampus, Left-Lateral-Ventricle]
  terms: [asd, age, sex, EstimatedTotalIntraCranialVol]
  effect: asd
  models: [fixed, dl, reml]
  min_per_arm: 5
harmony: {{kind: combat, outcomes: {_listed(FEATURES)}, keep: [asd, age, sex]}}
harmony_plain: {{kind: combat, outcomes: {_listed(FEATURES)}, keep: [asd, age, sex], empirical_bayes: false}}
harmonised:
  kind: regression
  needs: harmony
  outcomes: {_listed(FEATURES)}
  terms: [asd, age, sex]
  site_effect: none
"""

IMPAC = DataSet(
    "impac_asd",
    FILE,
    study_text("impac", "SubjID", VARIABLES, ANALYSES, DERIVE, min_sites=10),
    node="variables:\n"
    '  asd: {codes: {"0": control, "1": autism}}\n'
    '  sex: {codes: {"M": male, "F": female}}\n'
    + "".join(
        f"  {name}_{rule}: {{from: data.{column}}}\n"
        for (name, (column, _, _)), rule in product(CLAMPS.items(), ("clamp", "exclude"))
    ),
    split_by="site",
)
TERMS = {"asd": "asd[autism]", "age": "age", "male": "sex[male]"}
TERMS_ICV = {**TERMS, "ICV": "EstimatedTotalIntraCranialVol"}


def known(key: str) -> Any:
    """Return one of the recorded truths."""
    return truth("impac_asd")[key]


@cache
def people() -> Any:
    """Return all rows together, with 0/1 columns and ICV in mm3."""
    table = frame(FILE)
    table["male"] = (table.sex == "M").astype(int)
    return table


@compared(IMPAC, "summary", "describe", "n, mean, variance, sums of 26 measures", "`describe` (pandas)")
def describe(run: Finished, tally: Tally) -> None:
    for variable, one in known("describe").items():
        moments(run, tally, "describe", variable, one)


@compared(IMPAC, "summary", "shape", "mean, SD, skewness, kurtosis by diagnosis", "scipy `skew`, `kurtosis`")
def shape(run: Finished, tally: Tally) -> None:
    for variable in ("age", "lh_MeanThickness_thickness"):
        for code, level in enumerate(("control", "autism")):
            values = people()[people().asd == code][variable].to_numpy()
            row = run.row("shape", variable=variable, asd=level)
            tally.exact(row["n"], len(values))
            tally.all_same(
                (row[column] for column in ("mean", "sd", "skewness", "kurtosis")),
                (
                    values.mean(),
                    values.std(ddof=1),
                    STATS.skew(values, bias=False),
                    STATS.kurtosis(values, bias=False),
                ),
            )


@compared(
    IMPAC,
    "summary",
    "clamped",
    "means clamped and with values outside the range excluded",
    "`clamped_means` (pandas)",
)
def clamped(run: Finished, tally: Tally) -> None:
    for name, (column, _, _) in CLAMPS.items():
        one = known("clamped_means")[column]
        inside, outside = (run.row("clamped", variable=f"{name}_{rule}") for rule in ("clamp", "exclude"))
        tally.same(inside["mean"], one["mean_clip"])
        tally.same(outside["mean"], one["mean_drop_outside"])
        tally.exact(outside["missing"], one["n_outside"])
        tally.exact(inside["missing"], 0)


@compared(
    IMPAC,
    "quantiles",
    "percentiles_mm",
    "5, 25, 50, 75, 95 % of 8 thicknesses, refined to 0.001 mm",
    "`describe` (pandas)",
    WITHIN_BOUND,
)
def percentiles_mm(run: Finished, tally: Tally) -> None:
    for variable in (*MEANS, *THICKNESS[:6]):
        quantiles(run, tally, "percentiles_mm", variable, known("describe")[variable])


@compared(
    IMPAC,
    "quantiles",
    "percentiles_mm3",
    "5, 25, 50, 75, 95 % of 16 volumes, refined to 1 mm3",
    "`describe` (pandas)",
    WITHIN_BOUND,
)
def percentiles_mm3(run: Finished, tally: Tally) -> None:
    for variable in VOLUMES:
        quantiles(run, tally, "percentiles_mm3", variable, known("describe")[variable])


@compared(
    IMPAC,
    "quantiles",
    "percentiles_age",
    "the same of age, bins of a year",
    "`describe` (pandas)",
    WITHIN_BOUND,
)
def percentiles_age(run: Finished, tally: Tally) -> None:
    quantiles(run, tally, "percentiles_age", "age", known("describe")["age"])


@compared(
    IMPAC,
    "quantiles",
    "percentiles_icv",
    "the same of intracranial volume, refined to 100 mm3",
    "`describe` (pandas)",
    WITHIN_BOUND,
)
def percentiles_icv(run: Finished, tally: Tally) -> None:
    name = "EstimatedTotalIntraCranialVol"
    quantiles(run, tally, "percentiles_icv", name, known("describe")[name])


@compared(IMPAC, "histogram", "ages", "people per bin", "numpy `histogram`")
def ages(run: Finished, tally: Tally) -> None:
    age = people().age.to_numpy()
    inner, _ = np.histogram(age, np.linspace(10, 40, 13))
    counts = (int((age < 10).sum()), *inner.tolist(), int((age > 40).sum()))
    for row, count in zip(run.rows("ages"), counts, strict=True):
        tally.exact(row["count"], count)


@compared(
    IMPAC,
    "crosstab",
    "sexes",
    "counts, chi-square, odds and risk ratio with intervals",
    "statsmodels `Table2x2`, scipy `chi2_contingency`",
)
def sexes(run: Finished, tally: Tally) -> None:
    counts = PANDAS.crosstab(people().asd, people().male).to_numpy()
    for (place, asd), (column, sex) in product(
        enumerate(("control", "autism")), enumerate(("female", "male"))
    ):
        row = run.row("sexes", asd=asd, sex=sex)
        tally.exact(row["count"], int(counts[place, column]))
        tally.same(row["row_percent"], 100 * counts[place, column] / counts[place].sum())
        tally.same(row["column_percent"], 100 * counts[place, column] / counts[:, column].sum())
    row = run.row("sexes.association")
    test = STATS.chi2_contingency(counts, correction=False)
    tally.all_same(
        (row[column] for column in ("chi2", "p", "least_expected")),
        (test.statistic, test.pvalue, test.expected_freq.min()),
    )
    table = TABLES.Table2x2(
        counts[::-1, ::-1]
    )  # statsmodels compares the first row and column with the second
    tally.all_same(
        (row[f"{what}_{part}"] for what in ("odds", "risk") for part in ("ratio", "low", "high")),
        (
            table.oddsratio,
            *table.oddsratio_confint(),
            table.riskratio,
            *table.riskratio_confint(),
        ),
    )


@compared(
    IMPAC,
    "proportion",
    "adults",
    "shares above three ages and of each sex, by diagnosis",
    "statsmodels `proportion_confint` (Wilson)",
)
def adults(run: Finished, tally: Tally) -> None:
    for code, asd in enumerate(("control", "autism")):
        group = people()[people().asd == code]
        shares = {("age", f"> {age}"): group.age > age for age in (12, 18, 40)}
        shares |= {("sex", sex): group.male == male for male, sex in enumerate(("female", "male"))}
        for (variable, level), mask in shares.items():
            row = run.row("adults", variable=variable, level=level, asd=asd)
            count, n = int(mask.sum()), len(group)
            tally.exact((row["count"], row["n"]), (count, n))
            tally.all_same(
                (row[column] for column in ("proportion", "low", "high")),
                (count / n, *PROPORTION.proportion_confint(count, n, method="wilson")),
            )


@compared(IMPAC, "test", "groups", "Student, Welch and analysis of variance", "scipy `ttest_ind`, `f_oneway`")
def groups(run: Finished, tally: Tally) -> None:
    for outcome in ("age", "Left-Hippocampus", "lh_MeanThickness_thickness"):
        control, autism = (people()[people().asd == code][outcome] for code in (0, 1))
        for name, equal in (("student", True), ("welch", False)):
            test = STATS.ttest_ind(autism, control, equal_var=equal)
            row = run.row("groups", outcome=outcome, test=name)
            tally.all_same(
                (row[column] for column in ("estimate", "statistic", "df", "p", "low", "high")),
                (
                    autism.mean() - control.mean(),
                    test.statistic,
                    test.df,
                    test.pvalue,
                    *test.confidence_interval(),
                ),
            )
        f = STATS.f_oneway(control, autism)
        row = run.row("groups", outcome=outcome, test="anova")
        tally.all_same((row["statistic"], row["p"]), (f.statistic, f.pvalue))


@compared(IMPAC, "correlation", "related", "15 pairs: r, p, interval (one mean)", "scipy `pearsonr`")
def related(run: Finished, tally: Tally) -> None:
    for one, other in combinations(PAIRED, 2):
        test = STATS.pearsonr(people()[one], people()[other])
        row = run.row("related", variable_1=one, variable_2=other)
        tally.all_same((row["r"], row["p"]), (test.statistic, test.pvalue))
        interval = test.confidence_interval(0.95)
        tally.all_same((row["low"], row["high"]), (interval.low, interval.high))


@compared(
    IMPAC,
    "correlation",
    "partial",
    "10 pairs given age, sex and site: r, p",
    "numpy: residuals of statsmodels OLS with site dummies",
)
def partial(run: Finished, tally: Tally) -> None:
    site = PANDAS.get_dummies(people().site).to_numpy(float)
    given = SM.OLS
    design = np.column_stack((site, people().age, people().male))
    residuals = {name: given(people()[name].to_numpy(), design).fit().resid for name in PAIRED[1:]}
    df = len(site) - 34 - 2 - 1
    for one, other in combinations(PAIRED[1:], 2):
        r = float(np.corrcoef(residuals[one], residuals[other])[0, 1])
        row = run.row("partial", variable_1=one, variable_2=other)
        tally.same(row["r"], r)
        tally.same(row["df"], df)
        tally.same(row["p"], 2 * STATS.t.sf(abs(r) * np.sqrt(df / (1 - r * r)), df))


@compared(
    IMPAC, "covariance", "spread", "21 covariances within sites", "numpy `cov` of values less the site's mean"
)
def spread(run: Finished, tally: Tally) -> None:
    values = people()[list(PAIRED)]
    centred = (values - values.groupby(people().site).transform("mean")).to_numpy()
    covariance = np.cov(centred.T) * (len(centred) - 1) / (len(centred) - 34)
    for (i, one), (j, other) in product(enumerate(PAIRED), enumerate(PAIRED)):
        if i <= j:
            row = run.row("spread", variable_1=one, variable_2=other)
            tally.same(row["covariance"], covariance[i, j])


@compared(
    IMPAC,
    "pca",
    "components",
    "10 eigenvalues, shares and 680 loadings of 68 thicknesses",
    "`pca_corr_68`, numpy `eigh`",
)
def components(run: Finished, tally: Tally) -> None:
    one = known("pca_corr_68")
    values = people()[list(THICKNESS)].to_numpy()
    _, vectors = np.linalg.eigh(np.corrcoef(values.T))
    for place in range(10):
        rows = run.rows("components", component=place + 1)
        tally.same(rows[0]["eigenvalue"], one["eig_top10"][place])
        tally.same(rows[0]["variance_share"], one["explained_top10"][place])
        loadings = vectors[:, -1 - place]
        loadings = loadings * np.sign(loadings[np.argmax(np.abs(loadings))])
        by_name = {row["variable"]: row["loading"] for row in rows}
        for name, loading in zip(THICKNESS, loadings, strict=True):
            tally.near(by_name[name], loading, 1.0)


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


@cache
def _combat(empirical_bayes: bool) -> Known:
    """Return what neuroCombat says of all rows together; its covariates are single precision."""
    table = people()
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
