"""Private training of logistic regression: descent on noised gradients of secret samples, one round per step.

A person who has the outcome and every term (and is in the subgroup) can be *sampled*. Every round, each site throws a coin of chance
``rate`` for everyone who can be (`poisson_sampling`), and adds for those who are in

    v = (1 / (1 + exp(-x b)) - y) x / C,    shortened to norm 1,

x starting with a 1 for the intercept, followed by the columns in [-1, 1]: the gradient of minus the person's log-likelihood, in
units of the clip C. Noise is put on the sum, and everybody moves b by it (`descent`).

**How far one person moves the sum.** v is a function of the person's record and the public b alone, in operations on single numbers,
whoever else is there. It is shortened to `SHORT`, which is 2**-40 below 1 and so by more than rounding can make of the norm of 1001
numbers, and then rounded toward 0 to the grid of the exact sums, which lengthens nothing. So the integers that a person adds have a
norm of at most 1 in the block's unit, and 0 where the person cannot be sampled. Adding or removing a person moves the sum by at most 1,
replacing one person's values by at most 2. A `Part` with a rate below 1 states the norm of what one person adds, 1, whatever the
neighbours are: the accountant of the sampled Gaussian knows what they make of it. With rate 1 nothing is amplified, and the part is one
like any other. No gradient is longer than the root of the number of coefficients; a clip beyond that is cut to it.

People sets hold who can be sampled, not who was: nobody knows the sample, and it is kept nowhere. A site where fewer than
`LEAST_ELIGIBLE` people can be sampled adds nothing.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from math import sqrt

import numpy as np
from numpy.typing import NDArray

from cohortsum.crypto.errors import PolicyError, StudyFileError
from cohortsum.crypto.noise import NoiseStream
from cohortsum.protocol.noise import Adjacency
from cohortsum.study.batch import Batch
from cohortsum.study.results import Table
from cohortsum.study.statistics.descent import Descent, Schedule, start
from cohortsum.study.statistics.design import Design, build_design
from cohortsum.study.statistics.dp_sgd_table import Training, table
from cohortsum.study.statistics.families import BINOMIAL
from cohortsum.study.statistics.glm_sums import Rows, rows_of
from cohortsum.study.statistics.interface import Block, Members, State, Statistic, Sums, set_name
from cohortsum.study.statistics.noised import Forecast, Noisy, Part
from cohortsum.study.statistics.poisson_sampling import sampled
from cohortsum.study.statistics.targets import Event
from cohortsum.study.statistics.units import Where
from cohortsum.study.variables import Variable

LEAST_ELIGIBLE = 20
"""The floor is on who can be sampled, not on the sample: that is secret, and small is what it should be."""
SHORT = 1.0 - 2.0**-40

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class DpSgd(Statistic):
    """A step of a logistic regression of one outcome.

    Attributes:
        name: name of the analysis.
        target: the outcome.
        terms: variables and interactions ``a:b``.
        variables: the study's variables by name; those of ``terms`` are used.
        fraction_bits: grid of the exact sums.
        rate: probability with which a person is in the sample of a step, above 0 and at most 1.
        clip: greatest norm of a person's gradient; above 0.
        schedule: how the fit descends.
        where: the subgroup, or everybody.
        descent: where the fit stands; None at the start.

    Raises:
        StudyFileError: a term names something the study does not have.
    """

    name: str
    target: Event
    terms: tuple[str, ...]
    variables: Mapping[str, Variable]
    fraction_bits: int
    rate: float
    clip: float
    schedule: Schedule
    where: Where | None = None
    descent: Descent | None = None
    _design: Design = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Build the design and refuse what it does not have."""
        object.__setattr__(self, "_design", build_design(self.name, self.terms, self.variables))

    def layout(self) -> tuple[Block, ...]:
        """Return one block: the sum of the gradients."""
        return (
            Block(
                self._block,
                "additive",
                self._size,
                1.0,
                "person",
                self.fraction_bits,
                (frozenset(),),
                (self._set,),
            ),
        )

    def accumulate(self, batch: Batch) -> State:
        """Return ``gradient`` of a fresh sample and how many people can be sampled, ``eligible``."""
        stream = NoiseStream.fresh()
        try:
            return self.accumulate_with(batch, stream)
        finally:
            stream.wipe()

    def accumulate_with(self, batch: Batch, stream: NoiseStream) -> State:
        """Return what `accumulate` does with the coins of ``stream``.

        Everybody's gradient is formed, in the sample or not: how long it takes says nothing about the sample.
        """
        eligible, gradient = 0, np.zeros(self._size, np.int64)
        for rows, y in self.eligible(batch):
            inside = sampled(len(y), self.rate, stream)
            added: Integers = np.sum(self.gradients(rows, y) * inside[:, np.newaxis], axis=0)
            gradient, eligible = gradient + added, eligible + len(y)
        return {"gradient": gradient, "eligible": np.array([eligible], np.int64)}

    def eligible(self, batch: Batch) -> list[tuple[Rows, Floats]]:
        """Return who can be sampled, in runs of bounded size, each with the outcomes."""
        found: list[tuple[Rows, Floats]] = []
        for rows in rows_of(batch, self._design, None, self.where):
            y = self.target.values(batch, rows.people)
            found.append((rows.where(~np.isnan(y)), y[~np.isnan(y)]))
        return found

    def gradients(self, rows: Rows, y: Floats) -> Integers:
        """Return what each of these people would add, (people, coefficients) int64; no row is longer than 2**fraction_bits."""
        predictor = np.zeros(len(y))
        for column, coefficient in zip(rows.x.T, self._descent.point, strict=True):
            predictor = predictor + column * coefficient
        residuals = BINOMIAL.means(np.clip(predictor, BINOMIAL.lowest, BINOMIAL.highest)) - y
        v = residuals[:, np.newaxis] * rows.x / self._clip
        squares = np.zeros(len(y))
        for column in v.T:
            squares = squares + column * column
        v *= (SHORT / np.maximum(np.sqrt(squares), SHORT))[:, np.newaxis]
        return np.trunc(v * 2.0**self.fraction_bits).astype(np.int64)

    def members(self, batch: Batch) -> Members:
        """Return who can be sampled."""
        mask = np.zeros(batch.people, np.bool_)
        for rows, _ in self.eligible(batch):
            mask[rows.people] = True
        return {self._set: mask}

    def contribute(self, state: State) -> Sums:
        """Return the sum of the gradients.

        Raises:
            PolicyError: too few people can be sampled here.
        """
        if int(state["eligible"][0]) < LEAST_ELIGIBLE:
            raise PolicyError(
                f"analysis {self.name}: too few people here have the outcome and every term; this site adds nothing"
            )
        return {self._block: state["gradient"].astype(np.int64)}

    def parts(self, adjacency: Adjacency) -> tuple[Part, ...]:
        """Return the part of the gradient; the module says why its norm suffices."""
        twice = self.rate == 1.0 and adjacency == "replace_one"
        return (Part((self._block,), 2.0 if twice else 1.0, self._size, rate=self.rate),)

    @property
    def most_rounds(self) -> int:
        """One round per step."""
        return self.schedule.steps

    @property
    def parameters(self) -> tuple[float, ...]:
        """The point at which gradients are taken."""
        return () if self.descent is None else self.descent.point

    def further_noised(self, values: Mapping[str, Floats], people: int) -> "DpSgd | None":
        """Return the next step, or None after the last one, or where too few sites supply the outcome or a term."""
        after = self._after(values, people)
        if after is None or after.taken == self.schedule.steps:
            return None
        return replace(self, descent=after)

    def finish(self, sums: Sums) -> tuple[Table, ...]:
        """Refuse: what is there without noise is a worse `glm`."""
        raise StudyFileError(f"analysis {self.name}: kind dp_sgd needs noise; without it write kind: glm")

    def finish_noised(self, noisy: Noisy) -> tuple[Table, ...]:
        """Return the coefficients after the last step."""
        return (table(self._training, self._after(noisy.values, noisy.people)),)

    def without(self) -> tuple[Table, ...]:
        """Return the coefficients as they stand after the steps that were taken."""
        return () if self.descent is None else (table(self._training, self.descent),)

    def forecast(self, sd: Mapping[str, float], people: float) -> tuple[Forecast, ...]:
        """Return the errors of the mean gradient over the steps that are reported: of the noise, and of who is in the cohort.

        Per coefficient, at most: over the coefficients, the squares of a person's gradient add up to at most clip^2.
        """
        steps = self.schedule.steps - self.schedule.tail_begins if self.schedule.averaged else 1
        noise = self._clip * sd[self._block] / (self.rate * people * sqrt(steps))
        sampling = self._clip / sqrt(self._size * people)
        return (Forecast(f"gradient, over {steps} steps", "", noise, sampling, self._size),)

    @property
    def _block(self) -> str:
        return set_name(self.name, "gradient")

    @property
    def _set(self) -> str:
        return set_name(self.name, self.target.name)

    @property
    def _size(self) -> int:
        return 1 + len(self._design.columns)

    @property
    def _clip(self) -> float:
        return min(self.clip, sqrt(self._size))

    @property
    def _descent(self) -> Descent:
        return start(self._size) if self.descent is None else self.descent

    @property
    def _training(self) -> Training:
        return Training(
            self.name, self.target.name, self._design.columns, self.rate, self._clip, self.schedule
        )

    def _after(self, values: Mapping[str, Floats], people: int) -> Descent | None:
        """Return where the fit stands after the step whose noised sums these are; None without any."""
        sums = values.get(self._block)
        if sums is None:
            return None
        expected = self.rate * people
        return self._descent.after([self._clip * float(value) / expected for value in sums], self.schedule)
