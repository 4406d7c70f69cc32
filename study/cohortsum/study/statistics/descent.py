"""Gradient descent from noised sums: what everybody derives for himself, to the last bit.

After every step the coefficients move against the gradient, b <- b - r g / (q N): g is the noised sum over the sample, q N the
expected size of the sample. The size it really had is secret; dividing by it would give it away, and would not help.

The rate r is the same for every step, or falls with the root of the step. Noise never lets the steps come to rest: the last point
scatters about the optimum, the further the greater r. What is reported is by default the mean of the points of the second half (Polyak
and Juditsky 1992; tail averages: Jain, Kakade, Kidambi, Netrapalli and Sidford 2018). The way from 0 is left out of it, and the noise of
its steps averages out, so that r may be chosen large enough to arrive.

Only additions, multiplications, divisions and square roots are used, each of which every platform rounds alike, in a fixed order.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt

Numbers = tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Schedule:
    """How a fit descends; all of it is in the study.

    Attributes:
        steps: how many, at least 1.
        learning_rate: of the first step.
        decaying: whether the rate of step t is ``learning_rate`` over the root of t.
        averaged: whether the mean of the second half is reported, and not the last point.
    """

    steps: int
    learning_rate: float
    decaying: bool
    averaged: bool

    @property
    def tail_begins(self) -> int:
        """The number of steps before the second half."""
        return self.steps // 2


@dataclass(frozen=True, slots=True)
class Descent:
    """Where a fit stands.

    Attributes:
        point: the coefficients at which the next gradient is taken.
        taken: steps taken.
        total: sums of the points of the second half so far.
    """

    point: Numbers
    taken: int
    total: Numbers

    def after(self, gradient: Sequence[float], schedule: Schedule) -> "Descent":
        """Return where it stands after one more step; ``gradient`` is the sum over the sample by its expected size."""
        taken = self.taken + 1
        rate = schedule.learning_rate / sqrt(taken) if schedule.decaying else schedule.learning_rate
        point = tuple(
            before - rate * float(slope) for before, slope in zip(self.point, gradient, strict=True)
        )
        total = self.total
        if taken > schedule.tail_begins:
            total = tuple(summed + value for summed, value in zip(total, point, strict=True))
        return Descent(point, taken, total)

    def reported(self, schedule: Schedule) -> Numbers:
        """Return the coefficients that are reported: the last ones where the second half has not begun."""
        averaged = self.taken - schedule.tail_begins
        if not schedule.averaged or averaged < 1:
            return self.point
        return tuple(summed / averaged for summed in self.total)


def start(coefficients: int) -> Descent:
    """Return the start: every coefficient 0."""
    nothing = (0.0,) * coefficients
    return Descent(nothing, 0, nothing)
