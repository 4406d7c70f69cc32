"""The closed grammar of `derive`, `include` and `where`: text to a tree, by a lexer and recursive descent.

A study never carries code. An expression is one of the few forms below, its names are those the study declares, and
the tree is walked by `evaluation`; nothing is ever handed to an interpreter::

    condition   = both ("or" both)*                 both = negated ("and" negated)*
    negated     = "not" negated | comparison
    comparison  = sum [("<" | "<=" | ">" | ">=" | "==" | "!=") sum]     or   factor ("==" | "!=") level
    sum         = product (("+" | "-") product)*    product = signed (("*" | "/") signed)*
    signed      = "-" signed | power                power = atom ["^" 0..8]
    atom        = number | name | function "(" sum ")" | "(" condition ")"
    function    = "log" | "exp" | "sqrt" | "abs"

A name is an identifier, or any text in backticks (`` `Left-Hippocampus` ``). A level is an identifier or text in
double quotes. One descent reads arithmetic and conditions alike and checks at each operator which of the two it holds,
so that a bracket never has to be read twice.
"""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import NoReturn

from cohortsum.crypto.errors import ExpressionError
from cohortsum.study.definition.expressions import (
    FUNCTIONS,
    RESERVED,
    Arithmetic,
    ArithmeticSign,
    Call,
    Comparison,
    ComparisonSign,
    Condition,
    Constant,
    Expression,
    IsLevel,
    Junction,
    Name,
    Negate,
    Not,
    Power,
)
from cohortsum.study.definition.names import nearest

MAX_CHARACTERS = 2000
MAX_TOKENS = 256
MAX_DEPTH = 24
MAX_EXPONENT = 8


def parse_expression(
    text: str, numbers: Collection[str], factors: Mapping[str, Collection[str]] = MappingProxyType({})
) -> Expression:
    """Return the arithmetic expression ``text`` over the variables ``numbers``; ``factors`` sharpen the messages.

    Raises ExpressionError, with the position, for anything outside the grammar.
    """
    parser = _Parser(text, numbers, factors)
    return parser.expression(parser.whole(), at=0)


def parse_condition(text: str, numbers: Collection[str], factors: Mapping[str, Collection[str]]) -> Condition:
    """Return the condition ``text`` over the variables ``numbers`` and the levels of ``factors``.

    Raises ExpressionError, with the position, for anything outside the grammar.
    """
    parser = _Parser(text, numbers, factors)
    return parser.condition(parser.whole(), at=0)


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str
    at: int


@dataclass(frozen=True, slots=True)
class _FactorName:
    """A factor, or a word that can only be a level: half of an `IsLevel` until its other half is read."""

    text: str
    is_factor: bool


_Node = Expression | Condition | _FactorName
_TOKEN = re.compile(
    r"(?P<number>(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)"
    r"|(?P<word>[A-Za-z_][A-Za-z0-9_]*)"
    r"|`(?P<quoted>[^`]+)`"
    r'|"(?P<level>[^"]+)"'
    r"|(?P<sign><=|>=|==|!=|[<>+\-*/^()])"
)
_COMPARISONS: Mapping[str, ComparisonSign] = {
    "<": "<", "<=": "<=", ">": ">", ">=": ">=", "==": "==", "!=": "!=",
}  # fmt: skip
_SUMS: Mapping[str, ArithmeticSign] = {"+": "+", "-": "-"}
_PRODUCTS: Mapping[str, ArithmeticSign] = {"*": "*", "/": "/"}


class _Parser:
    """One expression being read; ``here`` is the next token."""

    def __init__(self, text: str, numbers: Collection[str], factors: Mapping[str, Collection[str]]) -> None:
        self.text = text
        self.numbers = numbers
        self.factors = factors
        self.depth = 0
        self.position = 0
        if len(text) > MAX_CHARACTERS:
            self.fail(0, f"longer than {MAX_CHARACTERS} characters; derive a variable for a part of it")
        self.tokens = self.read_tokens()
        if len(self.tokens) > MAX_TOKENS:
            self.fail(0, f"more than {MAX_TOKENS} parts; derive a variable for a part of it")

    def fail(self, at: int, what: str) -> NoReturn:
        start = max(0, at - 40)
        shown = self.text[start : at + 40].replace("\n", " ")
        raise ExpressionError(f"column {at + 1}: {what}\n    {shown}\n    {' ' * (at - start)}^")

    def read_tokens(self) -> list[_Token]:
        tokens: list[_Token] = []
        at = 0
        while at < len(self.text):
            if self.text[at] in " \t\r\n":
                at += 1
                continue
            match = _TOKEN.match(self.text, at)
            if match is None:
                self.fail(at, self.unreadable(self.text[at]))
            kind = match.lastgroup or ""
            tokens.append(_Token(kind, match[kind], at))
            at = match.end()
        return [*tokens, _Token("end", "", len(self.text))]

    @staticmethod
    def unreadable(character: str) -> str:
        cures = {
            "=": "write == to compare",
            "!": "write != or not",
            "&": "write and",
            "|": "write or",
            "'": 'levels stand in double quotes: "level"',
            '"': "the quotation mark is never closed, or nothing stands inside it",
            "`": "the backtick is never closed, or nothing stands inside it",
            "[": "there are no indices; name another variable",
            ".": "a name with a dot stands in backticks: `a.b`",
            ",": "functions take one argument, and a decimal point is a dot",
        }
        return cures.get(
            character, "this character is not part of the grammar; unusual names stand in backticks"
        )

    @property
    def here(self) -> _Token:
        return self.tokens[self.position]

    def take(self, *texts: str) -> _Token | None:
        """Return the next token and step over it if it is one of these signs or words."""
        token = self.here
        if token.kind in ("sign", "word") and token.text in texts:
            self.position += 1
            return token
        return None

    def whole(self) -> _Node:
        node = self.disjunction()
        if self.here.kind != "end":
            self.fail(self.here.at, "expected an operator or the end")
        return node

    def expression(self, node: _Node, at: int) -> Expression:
        match node:
            case Constant() | Name() | Negate() | Arithmetic() | Power() | Call():
                return node
            case _FactorName(text, is_factor):
                if is_factor:
                    self.fail(at, f"{text!r} is a factor; compare it with a level: {text} == level")
                self.fail(at, self.unknown(text))
            case _:
                self.fail(at, "expected a number, found a condition")

    def condition(self, node: _Node, at: int) -> Condition:
        match node:
            case Comparison() | IsLevel() | Not() | Junction():
                return node
            case _:
                self.expression(node, at)  # an unknown name is the better message
                self.fail(at, "expected a condition such as age >= 18, found a number")

    def unknown(self, name: str) -> str:
        cure = nearest(name, [*self.numbers, *self.factors], "declare it under variables")
        return f"the study has no number {name!r} that can stand here; {cure}"

    def disjunction(self) -> _Node:
        at, node = self.here.at, self.conjunction()
        while self.take("or"):
            left, next_at = self.condition(node, at), self.here.at
            node = Junction("or", left, self.condition(self.conjunction(), next_at))
        return node

    def conjunction(self) -> _Node:
        at, node = self.here.at, self.negation()
        while self.take("and"):
            left, next_at = self.condition(node, at), self.here.at
            node = Junction("and", left, self.condition(self.negation(), next_at))
        return node

    def negation(self) -> _Node:
        if not self.take("not"):
            return self.comparison()
        self.enter()
        at = self.here.at
        node = Not(self.condition(self.negation(), at))
        self.depth -= 1
        return node

    def comparison(self) -> _Node:
        at, left = self.here.at, self.sum()
        sign = self.take(*_COMPARISONS)
        if sign is None:
            return left
        next_at, right = self.here.at, self.sum()
        if self.here.text in _COMPARISONS and self.here.kind == "sign":
            self.fail(self.here.at, "comparisons do not chain; write a < b and b < c")
        if isinstance(left, _FactorName) and left.is_factor:
            return self.level(left.text, sign, right, next_at)
        return Comparison(_COMPARISONS[sign.text], self.expression(left, at), self.expression(right, next_at))

    def level(self, factor: str, sign: _Token, right: _Node, at: int) -> IsLevel:
        if sign.text not in ("==", "!="):
            self.fail(sign.at, f"levels of the factor {factor!r} have no size; compare with == or !=")
        if isinstance(right, Constant):
            self.fail(at, "a level that starts with a digit stands in double quotes")
        text = (
            right.name if isinstance(right, Name) else right.text if isinstance(right, _FactorName) else None
        )
        if text is None or text not in self.factors[factor]:
            self.fail(at, f"expected a level of {factor!r}: {', '.join(self.factors[factor])}")
        return IsLevel(factor, text, negated=sign.text == "!=")

    def sum(self) -> _Node:
        at, node = self.here.at, self.product()
        while sign := self.take(*_SUMS):
            left, next_at = self.expression(node, at), self.here.at
            node = Arithmetic(_SUMS[sign.text], left, self.expression(self.product(), next_at))
        return node

    def product(self) -> _Node:
        at, node = self.here.at, self.signed()
        while sign := self.take(*_PRODUCTS):
            left, next_at = self.expression(node, at), self.here.at
            node = Arithmetic(_PRODUCTS[sign.text], left, self.expression(self.signed(), next_at))
        return node

    def signed(self) -> _Node:
        if not self.take("-"):
            return self.power()
        self.enter()
        at = self.here.at
        node = Negate(self.expression(self.signed(), at))
        self.depth -= 1
        return node

    def power(self) -> _Node:
        at, node = self.here.at, self.atom()
        if not self.take("^"):
            return node
        base, token = self.expression(node, at), self.here
        if (
            token.kind != "number"
            or not token.text.isdigit()
            or len(token.text) > 1
            or int(token.text) > MAX_EXPONENT
        ):
            self.fail(token.at, f"expected a whole exponent from 0 to {MAX_EXPONENT}; for roots use sqrt")
        self.position += 1
        if self.here.text == "^" and self.here.kind == "sign":
            self.fail(self.here.at, "powers do not chain; write (a^b)^c")
        return Power(base, int(token.text))

    def enter(self) -> None:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            self.fail(self.here.at, f"nested deeper than {MAX_DEPTH}; derive a variable for a part of it")

    def bracket(self) -> tuple[_Node, int]:
        """Return what stands between the bracket just opened and its close, and where it starts."""
        self.enter()
        at, node = self.here.at, self.disjunction()
        if not self.take(")"):
            self.fail(self.here.at, "expected an operator or a closing bracket")
        self.depth -= 1
        return node, at

    def atom(self) -> _Node:
        token = self.here
        self.position += token.kind != "end"
        match token.kind:
            case "number":
                value = float(token.text)
                if value == float("inf"):
                    self.fail(token.at, "this number is too large")
                return Constant(value)
            case "level":
                return _FactorName(token.text, is_factor=False)
            case "word" if token.text in FUNCTIONS and self.take("("):
                node, at = self.bracket()
                return Call(FUNCTIONS[token.text], self.expression(node, at))
            case "word" if token.text in RESERVED:
                self.fail(
                    token.at, f"{token.text!r} cannot stand here; a variable of that name stands in backticks"
                )
            case "word" | "quoted":
                if token.text in self.numbers:
                    return Name(token.text)
                if self.here.text == "(" and self.here.kind == "sign":
                    self.fail(
                        token.at, f"there is no function {token.text!r}; there are {', '.join(FUNCTIONS)}"
                    )
                return _FactorName(token.text, is_factor=token.text in self.factors)
            case "sign" if token.text == "(":
                node, at = self.bracket()
                if isinstance(
                    node, _FactorName
                ):  # brackets hold a number or a condition, never half a comparison
                    self.expression(node, at)
                return node
            case _:
                self.fail(token.at, "expected a number, a name or an opening bracket")
