"""The table of a meta-analysis: one row per outcome, column of the effect and model.

Normal intervals are estimate -+ z se, those of Hartung and Knapp -+ t se on k - 1 degrees of freedom. I^2 = (Q - (k - 1)) / Q in
percent, at least 0 (Higgins and Thompson 2002). The prediction interval of a new site's effect is estimate -+ t sqrt(tau2 + se^2)
on k - 2 degrees of freedom (Higgins, Thompson and Spiegelhalter 2009).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import sqrt

from cohortsum.study.results import NO_DATA, Absent, Cell, Status, Table
from cohortsum.study.statistics.distributions import (
    chi2_upper,
    false_discovery,
    normal_quantile,
    normal_two_sided,
    t_quantile,
    t_two_sided,
)
from cohortsum.study.statistics.pooling import Course, Model, Pair
from cohortsum.study.statistics.random_effects import Trial, dersimonian_laird, reml
from cohortsum.study.variables import Factor

PROBABILITY = 0.975
META_COLUMNS = (
    *("outcome", "model", "estimate", "se", "low", "high", "p", "k", "q", "i2", "tau2", "status", "term"),
    *("p_q", "prediction_low", "prediction_high", "p_fdr", "n", "n_reference", "n_level"),
)
NO_TAU2 = Absent("fixed effect")
NO_CORRECTION = Absent("no correction asked for")
NOT_A_FACTOR = Absent("the effect is not a factor")


@dataclass(frozen=True, slots=True)
class Request:
    """What the study asks for; as the attributes of `Meta`.

    Attributes:
        analysis: name of the analysis.
        models: the rows of every outcome and column.
        min_sites: least estimates behind a row.
        min_per_arm: least people of an arm.
        correction: ``fdr_bh`` or ``none``.
        factor: the effect, if it is a factor.
        others: names of the other columns of the model.
        sums_per_trial: how many sums a round opens of each effect.
    """

    analysis: str
    models: tuple[Model, ...]
    min_sites: int
    min_per_arm: int
    correction: str
    factor: Factor | None
    others: tuple[str, ...]
    sums_per_trial: int


@dataclass(frozen=True, slots=True)
class Pooled:
    """One pooled effect.

    Attributes:
        cells: estimate, se, low, high and p.
        p: the p-value.
        tau2: variance between sites; None for a fixed effect.
        prediction: the interval for a new site's effect.
    """

    cells: tuple[float, float, float, float, float]
    p: float
    tau2: float | None
    prediction: tuple[Cell, Cell]


def meta_table(request: Request, courses: Sequence[Course], units: Mapping[Pair, float]) -> Table:
    """Return the table.

    Args:
        request: what is asked for.
        courses: what was opened, in the order of the rows.
        units: factor from the pooled to the natural unit of each pair.
    """
    pooled: dict[tuple[Pair, Model], Pooled] = {}
    for course in courses:
        for model in request.models if _status(course, request) is Status.OK else ():
            found = _pool(course, model, units[course.pair])
            if found is not None:
                pooled[course.pair, model] = found
    corrected = _corrected(request, pooled)
    rows: list[tuple[Cell, ...]] = []
    for course in courses:
        for model in request.models:
            key = (course.pair, model)
            rows.append(_row(course, request, model, pooled.get(key), corrected.get(key)))
    return Table(request.analysis, "meta", META_COLUMNS, tuple(rows), _notes(request, courses))


def _status(course: Course, request: Request) -> Status:
    """Return why a pair has no row with numbers, or ok."""
    if not course.sites:
        return Status.TOO_FEW_SITES
    if course.sites[0] == 0:
        return Status.NOT_ESTIMABLE
    return Status.OK if course.sites[0] >= request.min_sites else Status.TOO_FEW_SITES


def _pool(course: Course, model: Model, unit: float) -> Pooled | None:
    """Return the pooled effect, or None where this model has none."""
    sites = course.sites[0]
    trial = _trial(course, model)
    if trial is None:
        return None
    estimate = unit * float(trial.mean)
    if model.endswith("_hk"):
        se = unit * sqrt(float(trial.spread / ((sites - 1) * trial.w)))
        if se == 0.0:  # all estimates alike
            return None
        reach = t_quantile(PROBABILITY, sites - 1) * se
        p = t_two_sided(estimate / se, sites - 1)
    else:
        se = unit / sqrt(float(trial.w))
        reach = normal_quantile(PROBABILITY) * se
        p = normal_two_sided(estimate / se)
    cells = (estimate, se, estimate - reach, estimate + reach, p)
    if model == "fixed":
        return Pooled(cells, p, None, (NO_TAU2, NO_TAU2))
    tau2 = trial.tau2 * unit**2
    if sites < 3:
        return Pooled(cells, p, tau2, (NO_DATA, NO_DATA))
    reach = t_quantile(PROBABILITY, sites - 2) * sqrt(tau2 + se**2)
    return Pooled(cells, p, tau2, (estimate - reach, estimate + reach))


def _trial(course: Course, model: Model) -> Trial | None:
    """Return the sums at the model's tau2, or None where it was not found."""
    if model == "fixed":
        return course.trials[0]
    if course.sites[0] < 2:
        return None
    if model.startswith("reml"):
        return reml(course.trials)
    moments = dersimonian_laird(course.trials[0], course.sites[0])
    return next((trial for trial in course.trials if trial.tau2 == moments), None)


def _corrected(
    request: Request, pooled: Mapping[tuple[Pair, Model], Pooled]
) -> dict[tuple[Pair, Model], Cell]:
    """Return the p-values adjusted over the outcomes, each model and column for itself."""
    corrected: dict[tuple[Pair, Model], Cell] = {}
    if request.correction == "none":
        return dict.fromkeys(pooled, NO_CORRECTION)
    for family in dict.fromkeys((pair.term, model) for pair, model in pooled):
        keys = [key for key in pooled if (key[0].term, key[1]) == family]
        corrected |= zip(keys, false_discovery([pooled[key].p for key in keys]), strict=True)
    return corrected


def _row(
    course: Course, request: Request, model: Model, pooled: Pooled | None, corrected: Cell | None
) -> tuple[Cell, ...]:
    head: tuple[Cell, ...] = (course.pair.outcome, model)
    status = _status(course, request)
    why = Absent(status.value) if status is Status.TOO_FEW_SITES else NO_DATA
    k: Cell = course.sites[0] if course.sites else why
    cells: tuple[Cell, ...]
    if status is not Status.OK:
        cells = (*(why,) * 5, k, why, why, why, status.value, course.pair.term, *(why,) * 7)
        return head + cells
    counts: tuple[Cell, ...] = course.included
    included = counts if len(counts) == 3 else (*counts, NOT_A_FACTOR, NOT_A_FACTOR)
    q, df = float(course.trials[0].spread), course.sites[0] - 1
    i2: Cell = 100.0 * max(0.0, (q - df) / q) if q > 0 else 0.0
    p_q: Cell = chi2_upper(q, df) if df else NO_DATA
    if pooled is None:
        cells = (*(NO_DATA,) * 5, k, q, i2, NO_DATA, Status.NOT_ESTIMABLE.value, course.pair.term, p_q)
        return (*head, *cells, NO_DATA, NO_DATA, NO_DATA, *included)
    tau2: Cell = NO_TAU2 if pooled.tau2 is None else pooled.tau2
    cells = (*pooled.cells, k, q, i2, tau2, status.value, course.pair.term, p_q, *pooled.prediction)
    return (*head, *cells, NO_CORRECTION if corrected is None else corrected, *included)


def _notes(request: Request, courses: Sequence[Course]) -> tuple[str, ...]:
    """Return what the reader must know of the sites behind the rows."""
    arm = f"{request.min_per_arm} people of each arm"
    if request.factor is None:
        arm = f"{2 * request.min_per_arm} people"
    notes = [
        f"A site counts in k with at least {arm} and an estimate of its own; n are the people of these sites."
    ]
    known = [course for course in courses if course.sites]
    few = sum(0 < course.sites[0] < request.min_sites for course in known)
    if few:
        notes.append(
            f"{few} of {len(courses)} effects rest on fewer than {request.min_sites} estimates and are not reported."
        )
    without = max((course.sites[1] for course in known), default=0)
    if without:
        notes.append(
            f"Sites that have the people and no estimate, because their other terms determine the effect or nothing is left "
            f"to estimate from: up to {without}."
        )
    for place, column in enumerate(request.others):
        dropped = max((course.sites[2 + place] for course in known), default=0)
        if dropped:
            notes.append(
                f"{column}: up to {dropped} sites fitted without it, because it does not vary there or the terms before it "
                "determine it."
            )
    opened = request.sums_per_trial
    solvable = [course for course in known if len(course.trials) * opened >= 2 * course.sites[0] > 0]
    if solvable:
        notes.append(
            f"{len(solvable)} of {len(courses)} effects: at least as many sums were opened as there are unknown estimates and "
            "variances of sites, which could be solved for, without saying which site is which."
        )
    return tuple(notes)
