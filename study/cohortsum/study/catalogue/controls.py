"""What a rule of disclosure asks for, as data, and when one control is stricter than another.

Two controls compare only where they ask about the same thing: two sizes of the same set, two noises, two top codes. Then
the one with the greater ``strictness`` includes the other. Controls about different things all hold side by side.
"""

from dataclasses import dataclass
from enum import StrEnum
from math import inf
from typing import Literal


class Of(StrEnum):
    """Whose number a minimum is about."""

    GROUP = "people behind each figure"
    SITE = "people at every site that contributes"
    COHORT = "people over all sites"


@dataclass(frozen=True, slots=True)
class MinimumN:
    """At least ``n`` people; fewer: the output is not released, or the site stays out of it."""

    n: int
    of: Of


@dataclass(frozen=True, slots=True)
class NoiseBelow:
    """Noise of differential privacy where a site contributes fewer than ``n`` people."""

    n: int
    epsilon: float


@dataclass(frozen=True, slots=True)
class AlwaysNoise:
    """Noise of differential privacy, however many people."""

    epsilon: float


@dataclass(frozen=True, slots=True)
class PublicTopCode:
    """Values above a public constant count as the constant.

    Attributes:
        at: percentile of a public reference population that the constant stands for, or None where the source
            names none. The constant itself is the upper end of a study's ``range``: a percentile of the study's own
            data would be nearly one person's value.
    """

    at: float | None


@dataclass(frozen=True, slots=True)
class RoundTo:
    """Figures are rounded: to significant digits, or to multiples of a base; one of the two is given."""

    digits: int | None = None
    base: int | None = None

    def __post_init__(self) -> None:
        """Refuse both or neither; raises ValueError."""
        if (self.digits is None) == (self.base is None):
            raise ValueError("round to digits or to a base: give one of the two")


@dataclass(frozen=True, slots=True)
class SuppressCells:
    """Counts below ``below`` are not shown; a count of 0 is one of them."""

    below: int


@dataclass(frozen=True, slots=True)
class SuppressComplement:
    """So many further cells are hidden that no hidden count follows from the totals."""


@dataclass(frozen=True, slots=True)
class OnlyPercentiles:
    """No other percentiles than these."""

    percentiles: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class OnlyAs:
    """Released in this form and in no other."""

    form: str


@dataclass(frozen=True, slots=True)
class Prohibited:
    """Never released."""

    reason: str


@dataclass(frozen=True, slots=True)
class Confirm:
    """Somebody confirms this before anything is released."""

    what: str


Control = (
    MinimumN
    | NoiseBelow
    | AlwaysNoise
    | PublicTopCode
    | RoundTo
    | SuppressCells
    | SuppressComplement
    | OnlyPercentiles
    | OnlyAs
    | Prohibited
    | Confirm
)
Question = tuple[Literal["size", "noise", "top code", "rounding", "cells", "percentiles", "other"], str]


def question(control: Control) -> Question:
    """Return what a control is about; only controls with the same question compare."""
    match control:
        case MinimumN(of=of):
            return "size", of.name
        case NoiseBelow() | AlwaysNoise():
            return "noise", ""
        case PublicTopCode():
            return "top code", ""
        case RoundTo(digits=digits):
            return "rounding", "base" if digits is None else "digits"
        case SuppressCells():
            return "cells", ""
        case OnlyPercentiles():
            return "percentiles", ""
        case SuppressComplement() | OnlyAs() | Prohibited() | Confirm():
            return "other", say(control)


def strictness(control: Control) -> tuple[float, float]:
    """Return a number pair that is greater for the stricter one of two controls with the same question."""
    match control:
        case MinimumN(n=n):
            return n, 0.0
        case NoiseBelow(n=n, epsilon=epsilon):
            return n, -epsilon
        case AlwaysNoise(epsilon=epsilon):
            return inf, -epsilon
        case PublicTopCode(at=at):
            return (-inf if at is None else -at), 0.0
        case RoundTo(digits=digits, base=base):
            return float(base or 0), -float(digits or 0)
        case SuppressCells(below=below):
            return below, 0.0
        case OnlyPercentiles(percentiles=percentiles):
            return -len(percentiles), 0.0
        case SuppressComplement() | OnlyAs() | Prohibited() | Confirm():
            return 0.0, 0.0


def say(control: Control) -> str:
    """Return a control in a few words, as release notes and documents print it."""
    match control:
        case MinimumN(n=n, of=of):
            return f"at least {n} {of}"
        case NoiseBelow(n=n, epsilon=epsilon):
            return f"noise, epsilon {epsilon:g}, where a site has fewer than {n} people"
        case AlwaysNoise(epsilon=epsilon):
            return f"noise, epsilon {epsilon:g}"
        case PublicTopCode(at=at):
            return "top code at a public constant" + ("" if at is None else f" for the {at:g}th percentile")
        case RoundTo(digits=int(digits)):
            return f"round to {digits} significant digits"
        case RoundTo(base=base):
            return f"round to multiples of {base}"
        case SuppressCells(below=below):
            return f"hide counts below {below}"
        case SuppressComplement():
            return "hide further cells, so that no hidden count can be computed"
        case OnlyPercentiles(percentiles=percentiles):
            return f"no other percentiles than {', '.join(map(str, percentiles))}"
        case OnlyAs(form=form):
            return f"only as {form}"
        case Prohibited(reason=reason):
            return f"never: {reason}"
        case Confirm(what=what):
            return f"confirm: {what}"
