"""The table of a privately trained regression: coefficients in natural units, and what is not said about them."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, fsum

from cohortsum.study.results import INTERCEPT, Absent, Cell, Status, Table
from cohortsum.study.statistics.descent import Descent, Numbers, Schedule
from cohortsum.study.statistics.design import Column
from cohortsum.study.statistics.likelihood_tables import LARGEST

COLUMNS = ("outcome", "term", "estimate", "odds_ratio", "status")


@dataclass(frozen=True, slots=True)
class Training:
    """What the model is and how it was fitted; as the attributes of `DpSgd`."""

    analysis: str
    outcome: str
    columns: tuple[Column, ...]
    rate: float
    clip: float
    schedule: Schedule

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the coefficients."""
        return (INTERCEPT, *(column.name for column in self.columns))


def table(training: Training, descent: Descent | None) -> Table:
    """Return the coefficients; None for ``descent``: too few sites supply the outcome or a term."""
    rows: list[tuple[Cell, ...]] = []
    if descent is None:
        lost = Absent(Status.TOO_FEW_SITES)
        rows += [(training.outcome, name, lost, lost, Status.TOO_FEW_SITES.value) for name in training.names]
    else:
        estimates = natural(descent.reported(training.schedule), training.columns)
        rows += [
            (training.outcome, name, estimate, _odds(estimate), Status.OK.value)
            for name, estimate in zip(training.names, estimates, strict=True)
        ]
    return Table(training.analysis, "dp_sgd", COLUMNS, tuple(rows), _notes(training, descent))


def natural(normalised: Numbers, columns: Sequence[Column]) -> Numbers:
    """Return coefficients per unit of each column; the intercept takes up the middles."""
    slopes = [value / column.half_width for value, column in zip(normalised[1:], columns, strict=True)]
    moved = (-slope * column.middle for slope, column in zip(slopes, columns, strict=True))
    return (fsum((normalised[0], *moved)), *slopes)


def _notes(training: Training, descent: Descent | None) -> tuple[str, ...]:
    schedule = training.schedule
    early = descent is not None and descent.taken < schedule.steps
    taken = f"{descent.taken} of {schedule.steps}" if early and descent is not None else f"{schedule.steps}"
    whom = (
        f"a secret sample that everybody was in with probability {training.rate:g}"
        if training.rate < 1.0
        else "everybody"
    )
    reported = "mean of the points of the second half" if schedule.averaged else "last point"
    return (
        f"Fitted by {taken} steps down noised gradients, each over {whom}; reported is the {reported}.",
        "There are no standard errors: no formula says how far the noise, and steps that did not arrive, have moved an estimate.",
        "A person's gradient, in columns that run from -1 to 1 over their public ranges, was shortened to norm "
        f"{training.clip:g}; the bias of that is in no number. The model is made to predict; do not read an odds ratio as an effect.",
        "People without a value of the outcome or of a term are not in it; how many they are is not told.",
    )


def _odds(estimate: float) -> Cell:
    return exp(estimate) if abs(estimate) <= LARGEST else Absent("beyond the range of numbers")
