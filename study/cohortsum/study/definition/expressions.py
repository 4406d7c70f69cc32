"""The trees that expressions and conditions are read into, and their one normal text.

Trees are frozen values: equal expressions, however they were spaced or bracketed, are equal trees and have equal
texts, which is what the signed study holds.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

Function = Literal["log", "exp", "sqrt", "abs"]
FUNCTIONS: Mapping[str, Function] = {"log": "log", "exp": "exp", "sqrt": "sqrt", "abs": "abs"}
ArithmeticSign = Literal["+", "-", "*", "/"]
ComparisonSign = Literal["<", "<=", ">", ">=", "==", "!="]


@dataclass(frozen=True, slots=True)
class Constant:
    """A number written in the study; finite, not negative."""

    value: float


@dataclass(frozen=True, slots=True)
class Name:
    """A numeric variable."""

    name: str


@dataclass(frozen=True, slots=True)
class Negate:
    """Minus ``operand``."""

    operand: "Expression"


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """``left`` sign ``right``."""

    sign: ArithmeticSign
    left: "Expression"
    right: "Expression"


@dataclass(frozen=True, slots=True)
class Power:
    """``base`` to a whole exponent, 0 to 8."""

    base: "Expression"
    exponent: int


@dataclass(frozen=True, slots=True)
class Call:
    """A function of one argument; ``log`` is the natural logarithm."""

    function: Function
    argument: "Expression"


Expression = Constant | Name | Negate | Arithmetic | Power | Call


@dataclass(frozen=True, slots=True)
class Comparison:
    """``left`` sign ``right``, both numbers; unknown where either is missing."""

    sign: ComparisonSign
    left: Expression
    right: Expression


@dataclass(frozen=True, slots=True)
class IsLevel:
    """The factor has this level, or with ``negated`` another one; unknown where it is missing."""

    factor: str
    level: str
    negated: bool


@dataclass(frozen=True, slots=True)
class Not:
    """The opposite of ``operand``."""

    operand: "Condition"


@dataclass(frozen=True, slots=True)
class Junction:
    """``left`` and / or ``right``."""

    word: Literal["and", "or"]
    left: "Condition"
    right: "Condition"


Condition = Comparison | IsLevel | Not | Junction

RESERVED = frozenset({"and", "or", "not"})
"""Words of the grammar; a variable called like one stands in backticks."""


def render(node: Expression | Condition) -> str:
    """Return the one normal text of a tree: parsing it gives the tree back, and equal trees give equal texts."""
    match node:
        case Constant(value):
            return str(int(value)) if value.is_integer() and value < 1e15 else repr(value)
        case Name(name):
            return _render_name(name)
        case Negate(operand):
            return f"-{_inside(operand, node, tight=False)}"
        case Power(base, exponent):
            return f"{_inside(base, node, tight=True)}^{exponent}"
        case Call(function, argument):
            return f"{function}({render(argument)})"
        case Arithmetic(sign, left, right) | Comparison(sign, left, right) | Junction(sign, left, right):
            return f"{_inside(left, node, tight=False)} {sign} {_inside(right, node, tight=True)}"
        case IsLevel(factor, level, negated):
            return f'{_render_name(factor)} {"!=" if negated else "=="} "{level}"'
        case Not(operand):
            return f"not {_inside(operand, node, tight=False)}"


def _render_name(name: str) -> str:
    plain = re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name) and name not in RESERVED and name not in FUNCTIONS
    return name if plain else f"`{name}`"


def _inside(child: Expression | Condition, parent: Expression | Condition, *, tight: bool) -> str:
    """Render ``child`` in brackets where it binds looser than ``parent``; with ``tight``, where as loose too."""
    mine, other = _binding(child), _binding(parent)
    text = render(child)
    return f"({text})" if mine < other or (tight and mine == other) else text


def _binding(node: Expression | Condition) -> int:
    match node:
        case Junction(word):
            return 0 if word == "or" else 1
        case Not():
            return 2
        case Comparison() | IsLevel():
            return 3
        case Arithmetic(sign):
            return 4 if sign in "+-" else 5
        case Negate():
            return 6
        case Power():
            return 7
        case Constant() | Name() | Call():
            return 8
