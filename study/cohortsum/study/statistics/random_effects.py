"""Pooling estimates of sites from sums over sites alone.

With weights w = 1 / (v + t) at a trial value t of the variance between sites, the sums of w, wb, wb^2, w^2, w^2 b and w^2 b^2
give everything:

- fixed effect: mu = Swb / Sw at t = 0, se = Sw^-1/2; Cochran's Q = Swb^2 - (Swb)^2 / Sw.
- DerSimonian and Laird (1986): tau2 = max(0, (Q - (k - 1)) / (Sw - Sw^2 / Sw)), then mu and se at t = tau2.
- REML: tau2 is where the score S w^2 (b - mu)^2 - Sw + Sw^2 / Sw is 0, or 0 where it is not positive there.
- Hartung and Knapp (2001), Sidik and Jonkman (2002): se^2 = S w (b - mu)^2 / ((k - 1) Sw), t on k - 1 degrees of freedom.

The score may have several roots where variances differ by orders of magnitude; the one reported is a maximum of the restricted
likelihood reached from the estimate of DerSimonian and Laird, as in other programs. It is found by inverse interpolation
through the trial values so far, kept inside the bracket of a positive and a negative step. Sums are rational numbers here, so
nothing cancels; a trial value is a float64 that everybody derives alike.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import inf

import numpy as np

from cohortsum.study.statistics.parameters import rounded

CLOSE = 1e-7
"""REML ends where the next trial value differs from the last by less than this share of it."""
NEAR = 1e-2
"""And where another trial value lies within this share of the last: from further away, interpolation over a flat score says
nothing about the next digits."""
NOTHING = 1e-11
"""A step below this share of the trial value is what rounding of the value leaves: two sites have their root at once."""
FLAT = 1e-5
"""And where the step is below this share of it: interpolation that creeps towards a value of its own, because the score turns
inside the bracket, says that it is close as well."""
CREEP = 0.1
"""Interpolation that moves by less than this share of the bracket, and is not `NEARLY` there, is given up for halving it."""
NEARLY = 1e-3
GROWTH = 4
"""While no step was negative, interpolation is trusted up to this many times the greatest trial value; else the next one is this
many times as great, or lies this many steps beyond."""


@dataclass(frozen=True, slots=True)
class Trial:
    """Sums over sites at one trial value.

    Attributes:
        tau2: the trial value t.
        w: sum of w; greater than 0.
        wb: sum of w b.
        wbb: sum of w b^2.
        ww: sum of w^2.
        wwb: sum of w^2 b.
        wwbb: sum of w^2 b^2.
    """

    tau2: float
    w: Fraction
    wb: Fraction
    wbb: Fraction
    ww: Fraction
    wwb: Fraction
    wwbb: Fraction

    @property
    def mean(self) -> Fraction:
        """The weighted mean."""
        return self.wb / self.w

    @property
    def spread(self) -> Fraction:
        """The weighted sum of squares about the mean; Cochran's Q at t = 0. Rounding of the sums never makes it negative."""
        return max(Fraction(0), self.wbb - self.wb**2 / self.w)

    @property
    def step(self) -> float:
        """How far the next value of the iteration tau2 = S w^2 ((b - mu)^2 - v) / S w^2 + 1 / S w lies from this one.

        It is the derivative of the restricted log-likelihood by tau2, divided by half of S w^2, and close to linear in tau2.
        """
        squares = self.wwbb - 2 * self.mean * self.wwb + self.mean**2 * self.ww
        return float((squares - self.w) / self.ww + 1 / self.w)


def dersimonian_laird(first: Trial, sites: int) -> float:
    """Return tau2 from the sums at t = 0 over at least 2 sites, rounded as parameters are."""
    denominator = first.w - first.ww / first.w
    if denominator <= 0:  # all weight at one site
        return 0.0
    return _parameter(max(Fraction(0), (first.spread - (sites - 1)) / denominator))


def next_reml(trials: Sequence[Trial]) -> float | None:
    """Return the next trial value, or None where the last or the first of ``trials`` is the REML estimate.

    Args:
        trials: the first at t = 0; no two alike.
    """
    if reml(trials) is not None:
        return None
    steps = {trial.tau2: trial.step for trial in trials}
    low, high = _bracket(steps)
    proposal = _interpolated(steps)
    if high == inf:
        if not low < proposal <= GROWTH * low:
            proposal = low + steps[low] if len(trials) < 3 else max(low + GROWTH * steps[low], GROWTH * low)
    elif (
        not low < proposal < high
        or (len(trials) % 4 == 0 and high > 2 * low)
        or _creeps(trials, proposal, high - low)
    ):
        proposal = (low + high) / 2
    following = _parameter(proposal)
    return None if following in steps else following


def reml(trials: Sequence[Trial]) -> Trial | None:
    """Return the trial at the REML estimate, or None where none is close enough to it yet."""
    first, last = trials[0], trials[-1]
    if first.step <= 0:
        return first
    if len(trials) < 2:
        return None
    steps = {trial.tau2: trial.step for trial in trials}
    if abs(last.step) <= NOTHING * last.tau2:
        return last
    if abs(last.step) > FLAT * last.tau2:
        return None
    near = min(abs(trial.tau2 - last.tau2) for trial in trials[:-1])
    if near <= NEAR * last.tau2 and abs(_interpolated(steps) - last.tau2) <= CLOSE * last.tau2:
        return last
    return None


def _creeps(trials: Sequence[Trial], proposal: float, width: float) -> bool:
    """Return whether interpolation goes on from one end of the bracket without coming near the root."""
    last = trials[-1]
    return abs(last.step) > NEARLY * last.tau2 and abs(proposal - last.tau2) < CREEP * width


def _bracket(steps: dict[float, float]) -> tuple[float, float]:
    """Return the greatest trial value with a positive step, and the least one above it without, or infinity."""
    low = max(t for t, step in steps.items() if step > 0)
    return low, min((t for t, step in steps.items() if step <= 0 and t > low), default=inf)


def _interpolated(steps: dict[float, float]) -> float:
    """Return the trial value at which the step would be 0, by Lagrange's polynomial of t in the step.

    It goes through both ends of the bracket and the value on either side of them, as long as the step falls from each to the
    next; infinity where fewer than two are left.
    """
    ordered = sorted(steps)
    last = ordered.index(_bracket(steps)[0])
    chosen = ordered[last : last + 2]
    if last > 0 and steps[ordered[last - 1]] > steps[ordered[last]]:
        chosen = [ordered[last - 1], *chosen]
    if last + 2 < len(ordered) and steps[ordered[last + 2]] < steps[ordered[last + 1]]:
        chosen = [*chosen, ordered[last + 2]]
    if len(chosen) < 2:
        return inf
    exact = {Fraction(steps[t]): Fraction(t) for t in chosen}
    total = Fraction(0)
    for step, value in exact.items():
        weight = Fraction(1)
        for other in exact:
            if other != step:
                weight *= other / (other - step)
        total += weight * value
    return float(total)


def _parameter(value: Fraction | float) -> float:
    return float(rounded(np.array([float(value)]))[0])
