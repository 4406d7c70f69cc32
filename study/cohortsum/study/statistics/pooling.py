"""The course of a meta-analysis of one outcome and one column: what each round asked and found, and what it asks next."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from cohortsum.study.statistics.random_effects import Trial, dersimonian_laird, next_reml

Model = Literal["fixed", "dl", "dl_hk", "reml", "reml_hk"]
"""Fixed effect; random effects by DerSimonian-Laird or REML, each with normal or with Hartung-Knapp intervals."""


@dataclass(frozen=True, slots=True)
class Pair:
    """An outcome and a column of the effect, by name."""

    outcome: str
    term: str


@dataclass(frozen=True, slots=True)
class Course:
    """What is known of one pair.

    Attributes:
        pair: what it is about.
        asks: the trial value of this round; None when the pair is done.
        sites: sites with an estimate, sites with the people but none, and per other column the sites that fitted without it;
            empty where too few sites supply the pair.
        included: n, and for a factor the people at reference and level, of the sites with an estimate.
        trials: the sums of the rounds so far, the first at 0.
    """

    pair: Pair
    asks: float | None
    sites: tuple[int, ...] = ()
    included: tuple[int, ...] = ()
    trials: tuple[Trial, ...] = ()


def next_trial(course: Course, models: Sequence[Model], most: int, min_sites: int) -> float | None:
    """Return the trial value that the next round asks about, or None.

    Args:
        course: with the trials of all rounds so far.
        models: what is to be reported.
        most: rounds that there may be.
        min_sites: with fewer estimates no random effect is looked for.
    """
    if (
        course.asks is None
        or not course.trials
        or course.sites[0] < max(2, min_sites)
        or len(course.trials) >= most
    ):
        return None
    wants_dl, wants_reml = (any(model.startswith(kind) for model in models) for kind in ("dl", "reml"))
    if not (wants_dl or wants_reml):
        return None
    first = course.trials[0]
    moments = dersimonian_laird(first, course.sites[0])
    untried = moments > 0 and all(trial.tau2 != moments for trial in course.trials)
    if untried and (wants_dl or first.step > 0):
        return moments
    return next_reml(course.trials) if wants_reml else None
