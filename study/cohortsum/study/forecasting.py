"""What noise will do to the results, before anybody has seen data: the noise beside the sampling error.

A ratio r of noise to sampling error makes N people count as N / (1 + r^2). At 0.5 intervals are 12 % wider; above 2 the study is
refused unless it says that it accepts that. For a fixed number of sites the noise of a mean falls with N and its sampling error with
sqrt(N), so r falls with sqrt(N); it falls with the root of rho, and grows with the root of how many numbers share a budget.
"""

from dataclasses import dataclass
from fractions import Fraction
from math import ceil

from cohortsum.crypto.errors import StudyFileError
from cohortsum.protocol.bounds import allowed_sizes
from cohortsum.study.definition import FrozenStudy
from cohortsum.study.noising import study_rho
from cohortsum.study.planning import Sites, StudyPlan
from cohortsum.study.privacy import zcdp
from cohortsum.study.statistics.noised import Forecast

USEFUL, NONSENSE = 0.5, 2.0


@dataclass(frozen=True, slots=True)
class Cure:
    """What would bring a ratio down to `USEFUL`, each by itself.

    Attributes:
        people: so many of them.
        epsilon: this total, at the study's delta; None beyond 100.
        numbers: so few numbers; None where one would still be too many.
    """

    people: int
    epsilon: float | None
    numbers: int | None


@dataclass(frozen=True, slots=True)
class Line:
    """A forecast of one analysis, with what would help; ``cure`` is None where nothing needs to."""

    analysis: str
    forecast: Forecast
    cure: Cure | None


def forecasts(plan: StudyPlan, people: int | None = None) -> tuple[Line, ...]:
    """Return what noise will do to every number of a study.

    Args:
        plan: of a study with noise.
        people: of the cohort, all sites together; by default the least that the study opens for.
    """
    if plan.round.noise is None:
        return ()
    protection = plan.round.protection
    people = protection.min_participants if people is None else people
    most = max(allowed_sizes(plan.round.sites_invited, protection))
    sd = plan.noise_sd(Sites(most, most))
    return tuple(
        Line(statistic.name, forecast, _cure(plan.study, forecast, people))
        for statistic in plan.statistics
        for forecast in statistic.forecast(sd, float(people))
    )


def _cure(study: FrozenStudy, forecast: Forecast, people: int) -> Cure | None:
    excess = (forecast.ratio / USEFUL) ** 2
    if excess <= 1:
        return None
    delta = study.privacy.delta
    rho = Fraction(study_rho(study), zcdp.NANO) * Fraction(excess)
    epsilon = None if delta is None else zcdp.epsilon_of(rho, delta)
    numbers = int(forecast.per / excess)
    return Cure(
        ceil(people * excess),
        epsilon if epsilon is not None and epsilon <= 100 else None,
        numbers if numbers >= 1 else None,
    )


def refuse_nonsense(plan: StudyPlan, people: int | None = None) -> tuple[Line, ...]:
    """Return the forecasts; refuse a study whose noise would drown its results.

    Raises:
        StudyFileError: a ratio is above `NONSENSE` and the study does not accept that.
    """
    lines = forecasts(plan, people)
    worst = max(lines, key=lambda line: line.forecast.ratio, default=None)
    if worst is None or worst.forecast.ratio <= NONSENSE or plan.study.privacy.accept_noise:
        return lines
    raise StudyFileError(
        f"study {plan.study.study}: analysis {worst.analysis}, {worst.forecast.what}: the noise would be "
        f"{worst.forecast.ratio:.1f} times the sampling error. {advice(worst.cure)}, or write privacy.accept_noise: true"
    )


def advice(cure: Cure | None) -> str:
    """Return in words what would help; empty where nothing needs to."""
    if cure is None:
        return ""
    ways = [f"{cure.people:,} people"]
    if cure.epsilon is not None:
        ways.append(f"epsilon {cure.epsilon:.3g}")
    if cure.numbers is not None:
        ways.append(f"{cure.numbers:,} numbers instead")
    return f"Half the sampling error it would be with {' or '.join(ways)}"
