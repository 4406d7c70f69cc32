"""Descriptions, tests and components of thickness, volumes and age over 34 sites."""

from itertools import combinations, product

import numpy as np

from tests.end_to_end.studies import THICKNESS
from tests.truths.impac import CLAMPS, IMPAC, MEANS, PAIRED, VOLUMES, known, people
from tests.truths.libraries import PANDAS, PROPORTION, SM, STATS, TABLES, moments, quantiles
from tests.truths.registry import WITHIN_BOUND, compared
from tests.truths.running import Finished
from tests.truths.tally import Tally


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
    design = np.column_stack((site, people().age, people().male))
    residuals = {name: SM.OLS(people()[name].to_numpy(), design).fit().resid for name in PAIRED[1:]}
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
