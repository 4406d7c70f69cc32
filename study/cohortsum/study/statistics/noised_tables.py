"""The table of a regression under noise: the columns of the exact one, then both errors.

One row per outcome: the contrast. Cohen's d is b over the residual standard deviation; the exact table takes it from t and the sizes of
the arms, which under noise may be nobody's to know, and is then a little smaller where arms are unequal between sites.
"""

from math import sqrt

from cohortsum.study.results import NO_DATA, Absent, Cell, Status, Table
from cohortsum.study.statistics.distributions import false_discovery, t_quantile, t_two_sided
from cohortsum.study.statistics.noised_design import NoisedDesign
from cohortsum.study.statistics.noised_fit import NoisedEffects, NoisedTotals, noised_fit
from cohortsum.study.statistics.regression_tables import COEFFICIENT_COLUMNS, COVERAGE, EFFECT_COLUMNS

NOISED_REGRESSION_COLUMNS = ("se_sampling", "se_noise")
PROTECTED = Absent("protected by noise")


def noised_table(
    analysis: str,
    design: NoisedDesign,
    totals: NoisedTotals | None,
    arms: tuple[int, int] | None,
    correction: str,
) -> Table:
    """Return the table.

    Args:
        analysis: its name.
        design: of the regression.
        totals: the opened sums; None where too few sites supply them.
        arms: people at the two levels of the contrast, where that is public.
        correction: ``fdr_bh`` or ``none``.
    """
    columns = (*COEFFICIENT_COLUMNS, *EFFECT_COLUMNS, *NOISED_REGRESSION_COLUMNS)
    term, notes = design.columns[0].name, _notes(design)
    if totals is None:
        status = Status.TOO_FEW_SITES.value
        before, after = (Absent(status),) * 8, (Absent(status),) * (len(EFFECT_COLUMNS) + 2)
        withheld: list[tuple[Cell, ...]] = [
            (outcome.name, term, *before, status, *after) for outcome in design.outcomes
        ]
        return Table(analysis, "regression", columns, tuple(withheld), notes)
    effects = noised_fit(totals)
    counts: tuple[Cell, Cell] = (PROTECTED, PROTECTED) if arms is None else arms
    people, adjusted = max(round(totals.people), 0), _adjusted(effects, correction)
    rows: list[tuple[Cell, ...]] = [
        (outcome.name, term, *_cells(design, effects, place, people, adjusted[place], counts))
        for place, outcome in enumerate(design.outcomes)
    ]
    return Table(
        analysis, "regression", columns, tuple(rows), (*notes, f"Contributing sites: {totals.sites}.")
    )


def _cells(
    design: NoisedDesign,
    effects: NoisedEffects,
    place: int,
    people: int,
    adjusted: Cell,
    counts: tuple[Cell, Cell],
) -> tuple[Cell, ...]:
    """Return the cells of one outcome from b on."""
    unit, status = float(design.units[place]), effects.status.value
    if not effects.estimated:
        return (*(NO_DATA,) * 6, people, NO_DATA, status, *(NO_DATA,) * 5, *counts, *(NO_DATA,) * 2)
    b, noise = unit * float(effects.b[place]), unit * float(effects.noise[place])
    if effects.status is not Status.OK:
        return (b, *(NO_DATA,) * 5, people, NO_DATA, status, *(NO_DATA,) * 5, *counts, NO_DATA, noise)
    se, df = unit * float(effects.se[place]), float(effects.df[place])
    reach = t_quantile(0.5 + COVERAGE / 2, df)
    d, d_se = _cohens_d(design, effects, place)
    return (
        *(b, se, b / se, t_two_sided(b / se, df), b - reach * se, b + reach * se, people, df, status),
        *(d, d_se, d - reach * d_se, d + reach * d_se, adjusted, *counts),
        *(unit * effects.sampling, noise),
    )


def _cohens_d(design: NoisedDesign, effects: NoisedEffects, place: int) -> tuple[float, float]:
    """Return b / s and its standard error: that of b over s, and half the relative error of s^2."""
    per_level = 1.0 / (design.columns[0].half_width * effects.residual_sd)
    d = per_level * float(effects.b[place])
    return d, sqrt((per_level * float(effects.se[place])) ** 2 + d * d * effects.residual_error / 4)


def _adjusted(effects: NoisedEffects, correction: str) -> list[Cell]:
    """Return the p-values adjusted over the outcomes."""
    if effects.status is not Status.OK:
        return [NO_DATA] * len(effects.b)
    if correction == "none":
        return [Absent("no correction asked for")] * len(effects.b)
    t = effects.b / effects.se
    return list(
        false_discovery([t_two_sided(float(one), float(df)) for one, df in zip(t, effects.df, strict=True)])
    )


def _notes(design: NoisedDesign) -> tuple[str, ...]:
    """Return what a reader must know: the model, what is protected, and what no interval covers."""
    factor, covariates = design.contrast.name, len(design.columns) > 1
    if design.cap is None:
        protected = f"the record of one person, {factor} included"
        public = "people per site, ranges and the clip radius" + (
            ", the reference model" if covariates else ""
        )
        counted = "n carries noise; people without a term are not counted."
    else:
        protected = f"the outcomes of one person, not {factor}"
        public = f"who has which {factor}, people per site, ranges and the clip radius"
        counted = f"n is exact: people with a {factor}. Sites whose larger arm exceeds {design.cap:g} of them count less."
    model = f"{factor} within sites"
    if covariates:
        model += ", and covariates that a ridge draws to the public reference model"
    missing = (
        "People without every outcome are not counted."
        if design.complete
        else "Who lacks an outcome stands in the middle of its range, or where the reference expects it: b is drawn to 0 by about the "
        "share of missing values, which is in no interval."
    )
    return (
        f"Model: {model}. Protected: {protected}. Public: {public}.",
        f"A person's outcomes, in public standard deviations (a range is four each way), were shortened to norm {design.radius:g}; the "
        "bias is in no interval.",
        "se is se_sampling and se_noise together; p, low and high rest on it. One residual standard deviation, in public ones, stands "
        "for all outcomes; d is b over it.",
        counted,
        missing,
    )
