"""What an expression is worth: on a range (before any data) and on the people of a batch.

`interval` gives the public range of a derived variable from the ranges of its parts, so that a derived variable has a
clamp without anyone having looked at data. The range contains every value that `evaluate` computes: +, -, *, /, sqrt
and powers are rounded once and in the same order in both, and correct rounding keeps order; log and exp are rounded
by the platform, so their ends are moved outward to 12 significant digits, which also makes them the same number at
every site.

Conditions are three-valued: a comparison with a missing value is unknown, `and`, `or` and `not` follow Kleene, and
only what is certainly true holds. So a person with a missing age is left out by ``age < 65`` and by
``not age >= 65`` alike.
"""

import math
from collections.abc import Callable, Mapping
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from itertools import product
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from cohortsum.crypto.errors import ExpressionError
from cohortsum.study.batch import Batch
from cohortsum.study.definition.expressions import (
    Arithmetic,
    Call,
    Comparison,
    Condition,
    Constant,
    Expression,
    IsLevel,
    Junction,
    Name,
    Negate,
    Not,
    Power,
    render,
)
from cohortsum.study.variables import Factor

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Range = tuple[float, float]
V = TypeVar("V", float, np.float64 | Floats)


def constants_in(node: Expression | Condition) -> frozenset[float]:
    """Return the numbers that are written in an expression or condition, with their negatives."""
    match node:
        case Constant(value):
            return frozenset({value, -value})
        case Name() | IsLevel():
            return frozenset()
        case Negate(operand) | Not(operand) | Power(operand) | Call(_, operand):
            return constants_in(operand)
        case Arithmetic(_, left, right) | Comparison(_, left, right) | Junction(_, left, right):
            return constants_in(left) | constants_in(right)


def names_in(node: Expression | Condition) -> frozenset[str]:
    """Return the variables and factors that an expression or condition reads."""
    match node:
        case Constant():
            return frozenset()
        case Name(name) | IsLevel(name):
            return frozenset({name})
        case Negate(operand) | Not(operand) | Power(operand) | Call(_, operand):
            return names_in(operand)
        case Arithmetic(_, left, right) | Comparison(_, left, right) | Junction(_, left, right):
            return names_in(left) | names_in(right)


def interval(expression: Expression, ranges: Mapping[str, Range]) -> Range:
    """Return the least and greatest value, where each variable lies in its range (finite, lower <= upper).

    Raises ExpressionError where the expression may divide by zero, leave the domain of log or sqrt, or overflow.
    """
    lower, upper = _interval(expression, ranges)
    if not (math.isfinite(lower) and math.isfinite(upper)):
        raise ExpressionError(
            f"{render(expression)}: the range is not finite; narrow the ranges of its variables"
        )
    return lower + 0.0, upper + 0.0  # no negative zero: it would show in a digest


def _interval(expression: Expression, ranges: Mapping[str, Range]) -> Range:
    match expression:
        case Constant(value):
            return value, value
        case Name(name):
            return ranges[name]
        case Negate(operand):
            lower, upper = interval(operand, ranges)
            return -upper, -lower
        case Arithmetic(sign, left, right):
            return _combine(expression, sign, interval(left, ranges), interval(right, ranges))
        case Power(base, exponent):
            lower, upper = interval(base, ranges)
            ends = (_power(lower, exponent), _power(upper, exponent))
            if exponent % 2 == 0 and exponent > 0 and lower < 0.0 < upper:
                return 0.0, max(ends)
            return min(ends), max(ends)
        case Call(function, argument):
            return _call(expression, function, interval(argument, ranges))


def _combine(whole: Expression, sign: str, left: Range, right: Range) -> Range:
    match sign:
        case "+":
            return left[0] + right[0], left[1] + right[1]
        case "-":
            return left[0] - right[1], left[1] - right[0]
        case "*":
            ends = [a * b for a, b in product(left, right)]
        case _:
            if right[0] <= 0.0 <= right[1]:
                raise ExpressionError(
                    f"{render(whole)}: the divisor may be 0; narrow the ranges of its variables"
                )
            ends = [a / b for a, b in product(left, right)]
    return min(ends), max(ends)


def _call(whole: Expression, function: str, argument: Range) -> Range:
    lower, upper = argument
    match function:
        case "abs":
            least = 0.0 if lower <= 0.0 <= upper else min(abs(lower), abs(upper))
            return least, max(abs(lower), abs(upper))
        case "sqrt":
            if lower < 0.0:
                raise ExpressionError(f"{render(whole)}: the argument may be negative; narrow the ranges")
            return math.sqrt(lower), math.sqrt(upper)
        case "log":
            if lower <= 0.0:
                raise ExpressionError(
                    f"{render(whole)}: the argument may be 0 or negative; narrow the ranges"
                )
            return _outward(math.log(lower), ROUND_FLOOR), _outward(math.log(upper), ROUND_CEILING)
        case _:
            if upper > 700.0:
                raise ExpressionError(f"{render(whole)}: the range is not finite; narrow the ranges")
            return _outward(math.exp(lower), ROUND_FLOOR), _outward(math.exp(upper), ROUND_CEILING)


def _outward(value: float, direction: str) -> float:
    """Return ``value`` moved outward by at least 4 units in the last place, at 12 significant digits; 0 stays."""
    if value == 0.0:
        return 0.0
    away = -4.0 if direction == ROUND_FLOOR else 4.0
    return float(Context(prec=12, rounding=direction).plus(Decimal(value + away * math.ulp(value))))


def _power(base: V, exponent: int) -> V:
    """Return the power by repeated multiplication, the same at every site; a missing base stays missing."""
    result = base * 0.0 + 1.0
    for _ in range(exponent):
        result = result * base
    return result


def evaluate(expression: Expression, numbers: Mapping[str, Floats]) -> Floats:
    """Return the values of ``expression``, (people,) float64; a missing part (NaN) makes it missing.

    ``numbers`` holds every variable the expression names, and at least one, inside the ranges that `interval` accepted.
    """
    people = next(iter(numbers.values())).shape
    return np.broadcast_to(_evaluate(expression, numbers), people).astype(np.float64)


def _evaluate(expression: Expression, numbers: Mapping[str, Floats]) -> np.float64 | Floats:
    match expression:
        case Constant(value):
            return np.float64(value)
        case Name(name):
            return numbers[name]
        case Negate(operand):
            return -_evaluate(operand, numbers)
        case Arithmetic(sign, left, right):
            return _ARITHMETIC[sign](_evaluate(left, numbers), _evaluate(right, numbers))
        case Power(base, exponent):
            return _power(_evaluate(base, numbers), exponent)
        case Call(function, argument):
            return _FUNCTIONS[function](_evaluate(argument, numbers))


_Value = np.float64 | Floats
_ARITHMETIC: Mapping[str, Callable[[_Value, _Value], _Value]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": lambda a, b: a / b,
}
_FUNCTIONS: Mapping[str, Callable[[_Value], _Value]] = {
    "log": np.log,
    "exp": np.exp,
    "sqrt": np.sqrt,
    "abs": np.abs,
}
_COMPARE: Mapping[str, Callable[[_Value, _Value], NDArray[np.bool_] | np.bool_]] = {
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
}


def holds(condition: Condition, batch: Batch, factors: Mapping[str, Factor]) -> Bools:
    """Return for whom ``condition`` is certainly true, (people,) bool; a missing value makes a comparison unknown.

    ``batch`` and ``factors`` hold every variable the condition names. Raw values may lie outside any range here, so a
    division by zero or a logarithm of a negative number counts as missing.
    """
    with np.errstate(divide="ignore", invalid="ignore", over="ignore", under="ignore"):
        return _certainty(condition, batch, factors)[0]


def _certainty(condition: Condition, batch: Batch, factors: Mapping[str, Factor]) -> tuple[Bools, Bools]:
    """Return who is certainly true and who is certainly false; who is neither is unknown."""
    match condition:
        case Comparison(sign, left, right):
            a, b = _evaluate(left, batch.numbers), _evaluate(right, batch.numbers)
            known = np.broadcast_to(np.isfinite(a) & np.isfinite(b), batch.people)
            true = known & _COMPARE[sign](a, b)
            return true, known & ~true
        case IsLevel(factor, level, negated):
            index = batch.levels[factor]
            known = index >= 0
            true = known & ((index == factors[factor].levels.index(level)) != negated)
            return true, known & ~true
        case Not(operand):
            true, false = _certainty(operand, batch, factors)
            return false, true
        case Junction(word, left, right):
            left_true, left_false = _certainty(left, batch, factors)
            right_true, right_false = _certainty(right, batch, factors)
            if word == "and":
                return left_true & right_true, left_false | right_false
            return left_true | right_true, left_false & right_false
