"""A small invented table of every kind, by the column conventions; level names are as nasty as a study may have them."""

import math

from cohortsum.study.results import NO_DATA, Absent, Cell, Status, Table
from tests.report.example import TERM, THICKNESS, effect_row, regression, thickness_table

NASTY = "<script>alert('x') & \"y\"</script>"
HIDDEN = Absent(Status.BELOW_THRESHOLD.value)
OK = Status.OK.value
COEFFICIENTS = ("outcome", "term", "b", "se", "statistic", "p", "low", "high", "n", "df", "status")


def coefficient(outcome: str, term: str, b: float, se: float, p: float) -> tuple[Cell, ...]:
    return (outcome, term, b, se, b / se, p, b - 1.96 * se, b + 1.96 * se, 226, 221, OK)


SUMMARY = Table(
    "demographics",
    "summary",
    ("variable", "sex", "n", "missing", "mean", "sd", "mean_noise_se", "status", "variance"),
    (
        ("age", "female", 601, 3, 17.4, 8.1, Absent("no noise"), OK, 65.61),
        ("age", NASTY, 549, 0, 16.9, 7.6, Absent("no noise"), OK, 57.76),
        ("iq", NASTY, 3, 0, HIDDEN, HIDDEN, Absent("no noise"), Status.BELOW_THRESHOLD.value, HIDDEN),
    ),
    ("2 people without a level of sex are in no row.", f"A note that says {NASTY}."),
)
HISTOGRAM = Table(
    "ages",
    "histogram",
    ("variable", "low", "high", "count", "status", "missing"),
    (
        *(
            ("age", 6.0 + 2 * k, 8.0 + 2 * k, round(300 * math.exp(-((k - 4) ** 2) / 18)), OK, 3)
            for k in range(28)
        ),
        ("age", 62.0, 64.0, HIDDEN, Status.BELOW_THRESHOLD.value, 3),
        ("wmh", 0.0, 1.0, 40, OK, 0),
        ("wmh", 1.0, 2.0, 20, OK, 0),
        ("wmh", 2.0, 12.0, 50, OK, 0),
    ),
)
QUANTILES = Table(
    "hdl",
    "quantiles",
    ("variable", "sex", "probability", "value", "error_bound", "status"),
    (("LAB_HDL", "female", 0.05, 0.8714, 0.01, OK), ("LAB_HDL", "female", 0.5, 1.58, 0.01, OK)),
)
CROSSTAB = Table(
    "sexes",
    "crosstab",
    ("dx", "sex", "count", "row_percent", "column_percent", "status"),
    (
        ("control", NASTY, 300, 60.0, 50.0, OK),
        ("autism", NASTY, HIDDEN, HIDDEN, HIDDEN, Status.BELOW_THRESHOLD.value),
    ),
)
LOGISTIC = Table(
    "conversion",
    "glm",
    (*COEFFICIENTS, "odds_ratio", "odds_low", "odds_high"),
    tuple(
        (*row, math.exp(b), math.exp(b - 1.96 * se), math.exp(b + 1.96 * se))
        for row, b, se in (
            (coefficient("DIS_DIAB", "intercept", -4.0, 0.2, 1e-9), -4.0, 0.2),
            (coefficient("DIS_DIAB", "age", 0.04, 0.01, 1e-4), 0.04, 0.01),
            (coefficient("DIS_DIAB", f"sex[{NASTY}]", 0.7, 0.3, 0.02), 0.7, 0.3),
            (coefficient("DIS_DIAB", "bmi", -0.2, 0.3, 0.4), -0.2, 0.3),
        )
    ),
)
FIT = Table(
    "conversion.fit",
    "fit",
    (
        *("outcome", "n", "events", "df", "deviance", "null_deviance", "log_likelihood", "aic", "iterations"),
        "status",
    ),
    (("DIS_DIAB", 7485, 139, 7480, 1036.03, 1399.5, -518.0, 1046.0, 9, OK),),
)
COX = Table(
    "survival_model",
    "cox",
    COEFFICIENTS,
    (
        coefficient("death", "age", 0.011, 0.0093, 0.23),
        coefficient("death", "sex[female]", -0.5526, 0.1677, 0.00098),
        coefficient("death", "ecog", 0.4637, 0.1136, 4.4e-5),
        ("death", "karno", *(NO_DATA,) * 6, 226, NO_DATA, Status.ALIASED.value),
    ),
    ("Ties: Efron.",),
)
MIXED = Table(
    "thick_mixed", "mixed", COEFFICIENTS, (coefficient("lh_cuneus_thickness", TERM, 0.011, 0.0057, 0.05),)
)
META = Table(
    "meta_volumes",
    "meta",
    ("outcome", "model", "estimate", "se", "low", "high", "p", "k", "q", "i2", "tau2", "status"),
    tuple(
        (name, model, d, se, d - 1.96 * se, d + 1.96 * se, p, 31, 39.7, 0.24, tau2, OK)
        for model, tau2 in (("fixed", NO_DATA), ("random", 0.034))
        for place, name in enumerate(
            f"{side}-{part}"
            for side in ("Left", "Right")
            for part in (
                "Lateral-Ventricle", "Thalamus-Proper", "Caudate", "Putamen", "Pallidum", "Hippocampus", "Amygdala",
                "Accumbens-area",
            )
        )
        for d, se, p in [(0.03 * (place % 9) - 0.1, 0.05, 0.01 if place % 3 == 0 else 0.4)]
    ),
)  # fmt: skip


def curve(sex: str, rate: float, n: int) -> list[tuple[Cell, ...]]:
    rows: list[tuple[Cell, ...]] = []
    for step in range(0, 35):
        time = 30 * step
        s = math.exp(-rate * time)
        at_risk = round(n * s * (1 - step / 60))
        half = 1.2 * math.sqrt(s * (1 - s) / max(at_risk, 1))
        few = at_risk < 10
        rows.append(
            (
                sex,
                time,
                HIDDEN if few else at_risk,
                HIDDEN if few else 4,
                s,
                max(0.0, s - half),
                min(1.0, s + half),
                OK,
            )
        )
    return rows


KAPLAN_MEIER = Table(
    "survival",
    "kaplan_meier",
    ("sex", "time", "at_risk", "events", "survival", "low", "high", "status"),
    tuple(curve("female", 0.0015, 90) + curve(NASTY, 0.0025, 138)),
    ("Grid of 30 days.",),
)
LOGRANK = Table(
    "survival.logrank",
    "logrank",
    ("comparison", "chi2", "df", "p", "n", "events", "status"),
    (("sex", 10.3267, 1, 0.00131, 228, 165, OK),),
)
MEDIAN = Table(
    "survival.median",
    "median",
    ("sex", "n", "events", "median", "low", "high", "status"),
    (
        ("male", 138, 112, 270.0, 210.0, 306.0, OK),
        ("female", 90, 53, 426.0, 345.0, Absent("not reached"), OK),
    ),
)
OBSERVED = Table(
    "difference.groups",
    "observed",
    ("sex", "n", "observed", "expected", "status"),
    (("male", 138, 112, 91.6, OK), ("female", 90, 53, 73.4, OK)),
)
PROPORTIONALITY = Table(
    "hazards.proportionality",
    "proportionality",
    ("outcome", "term", "chi2", "df", "p", "status"),
    (("seen[dead]", "age", 0.5, 1, 0.48, OK), ("seen[dead]", "all", 0.9, 2, 0.64, OK)),
)
PCA = Table(
    "components",
    "pca",
    ("component", "variance_share", "variable", "loading", "status"),
    tuple(
        (component, share, name, 0.1, OK)
        for component, share in enumerate((0.4332, 0.0862, 0.0639, 0.05, 0.04, 0.03, 0.02), start=1)
        for name in THICKNESS[:6]
    ),
)
TEST = Table(
    "thickness.tests",
    "test",
    ("outcome", "test", "comparison", "estimate", "statistic", "df", "df2", "p", "n", "status"),
    (("lh_cuneus_thickness", "F", "site", NO_DATA, 15.378, 33, 1113, 2.27e-69, 1150, OK),),
)
CONTRAST = Table(
    "thickness.contrasts",
    "contrast",
    ("outcome", "contrast", "estimate", "se", "statistic", "p", "low", "high", "df", "status"),
    (("lh_cuneus_thickness", "a-b", 0.1, 0.05, 2.0, 0.046, 0.0, 0.2, 1113, OK),),
)
NAMES = ("age", "LAB_HDL", "LAB_TSC", "bmi", NASTY, "glucose")
CORRELATION = Table(
    "labs",
    "correlation",
    ("variable_1", "variable_2", "given", "r", "low", "high", "p", "n", "status"),
    tuple(
        (a, b, "age", NO_DATA, NO_DATA, NO_DATA, NO_DATA, 4, Status.NOT_ESTIMABLE.value)
        if (i, j) == (1, 3)
        else (a, b, "age", r, r - 0.05, r + 0.05, 0.01, 7485, OK)
        for i, a in enumerate(NAMES)
        for j, b in enumerate(NAMES)
        if i < j
        for r in [round(math.cos(1.7 * i + j), 3) * 0.9]
    ),
)
COVARIANCE = Table(
    "spread",
    "covariance",
    ("variable_1", "variable_2", "covariance", "n", "status"),
    (("age", "age", 61.2, 1150, OK), ("age", "bmi", -1.5, 1150, OK)),
)
PROPORTION = Table(
    "prevalence",
    "proportion",
    ("variable", "level", "sex", "count", "n", "proportion", "low", "high", "status"),
    (("dx", "autism", "female", 120, 400, 0.3, 0.257, 0.347, OK),),
)
NORMATIVE = Table(
    "norms",
    "normative",
    ("outcome", "age", "sex", "mean", "sd", "p05", "p25", "p50", "p75", "p95", "n", "status"),
    tuple(
        ("mean_thickness", age, sex, m, 0.07, m - 0.115, m - 0.047, m, m + 0.047, m + 0.115, 1054, OK)
        if (age, sex) != (40, "female")
        else ("mean_thickness", age, sex, *(HIDDEN,) * 7, 1054, Status.BELOW_THRESHOLD.value)
        for sex, shift in (("female", 0.01), (NASTY, 0.0))
        for age in range(10, 85, 5)
        for m in [2.75 - 0.0085 * age + 4.8e-5 * age * age + shift]
    ),
)
COMBAT = Table(
    "combat1",
    "combat",
    ("outcome", "grand_mean", "pooled_sd", "term", "b", "status"),
    (("lh_cuneus_thickness", 1.86, 0.16, "age", -0.004, OK),),
)
STRANGE = Table("poem", "poem", ("line", "status"), ((NASTY, OK),))
VOLUMES = regression(effect_row("lh_S&T_thickness", 0.1, 0.2), *thickness_table().rows)

KINDS = (
    SUMMARY, HISTOGRAM, QUANTILES, CROSSTAB, thickness_table(), LOGISTIC, FIT, COX, MIXED, META, KAPLAN_MEIER, MEDIAN, LOGRANK,
    OBSERVED, PROPORTIONALITY, PCA, TEST, CONTRAST, CORRELATION, COVARIANCE, PROPORTION, NORMATIVE, COMBAT, STRANGE,
)  # fmt: skip
"""One table of every kind, and one of a kind that nobody knows."""
