"""The closed grammar: what it reads, what it refuses, and that ranges and conditions mean what they say."""

import math
import operator
from collections.abc import Callable, Mapping

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cohortsum.crypto.errors import ExpressionError
from cohortsum.study.batch import Batch
from cohortsum.study.definition.evaluation import evaluate, holds, interval, names_in
from cohortsum.study.definition.expressions import (
    Arithmetic,
    ArithmeticSign,
    Call,
    Comparison,
    ComparisonSign,
    Condition,
    Constant,
    Expression,
    Function,
    IsLevel,
    Junction,
    Name,
    Negate,
    Not,
    Power,
    render,
)
from cohortsum.study.definition.grammar import MAX_DEPTH, parse_condition, parse_expression
from cohortsum.study.variables import Factor

NUMBERS = ("age", "iq", "Left-Hippocampus", "log", "not")
FACTORS: Mapping[str, tuple[str, ...]] = {"dx": ("control", "autism"), "scan site": ("1", "and", "St. Ann")}

_signs: st.SearchStrategy[ArithmeticSign] = st.sampled_from(("+", "-", "*", "/"))
_functions: st.SearchStrategy[Function] = st.sampled_from(("log", "exp", "sqrt", "abs"))
_comparisons: st.SearchStrategy[ComparisonSign] = st.sampled_from(("<", "<=", ">", ">=", "==", "!="))


def _expressions(leaves: int = 8) -> st.SearchStrategy[Expression]:
    constants = st.floats(0, 1e6).map(lambda value: Constant(value + 0.0))
    names = st.sampled_from(NUMBERS).map(Name)

    def larger(inner: st.SearchStrategy[Expression]) -> st.SearchStrategy[Expression]:
        return st.one_of(
            st.builds(Negate, inner),
            st.builds(Arithmetic, _signs, inner, inner),
            st.builds(Power, inner, st.integers(0, 8)),
            st.builds(Call, _functions, inner),
        )

    return st.recursive(st.one_of(constants, names), larger, max_leaves=leaves)


def _conditions() -> st.SearchStrategy[Condition]:
    simple = st.builds(Comparison, _comparisons, _expressions(3), _expressions(3))
    factor = st.sampled_from(
        [
            IsLevel(name, text, negated)
            for name, levels in FACTORS.items()
            for text in levels
            for negated in (True, False)
        ]
    )

    def larger(inner: st.SearchStrategy[Condition]) -> st.SearchStrategy[Condition]:
        words = st.sampled_from(("and", "or"))
        return st.one_of(st.builds(Not, inner), st.builds(Junction, words, inner, inner))

    return st.recursive(st.one_of(simple, factor), larger, max_leaves=6)


@settings(deadline=None)
@given(_expressions())
def test_the_normal_text_of_an_expression_reads_back_as_the_same_tree(tree: Expression) -> None:
    assert parse_expression(render(tree), NUMBERS) == tree


@settings(deadline=None)
@given(_conditions())
def test_the_normal_text_of_a_condition_reads_back_as_the_same_tree(tree: Condition) -> None:
    assert parse_condition(render(tree), NUMBERS, FACTORS) == tree


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1 + 2 * 3", 7.0),
        ("(1 + 2) * 3", 9.0),
        ("8 / 4 / 2", 1.0),
        ("8 - 4 - 2", 2.0),
        ("-2^2", -4.0),
        ("(-2)^2", 4.0),
        ("2 * -3", -6.0),
        ("2^0", 1.0),
        ("abs(-1.5e1)", 15.0),
        ("sqrt(exp(log(.25)))", 0.5),
        ("`Left-Hippocampus` - age", 4.0),
        ("`log` + log(1)", 2.0),
    ],
)
def test_operators_bind_as_in_algebra(text: str, value: float) -> None:
    numbers = {"age": np.array([6.0]), "Left-Hippocampus": np.array([10.0]), "log": np.array([2.0])}
    assert evaluate(parse_expression(text, numbers), numbers)[0] == pytest.approx(value, rel=1e-14)


@pytest.mark.parametrize(
    ("text", "column", "cure"),
    [
        ("agee >= 6", 1, "did you mean 'age'?"),
        ("age >= ", 8, "expected a number"),
        ("age = 6", 5, "write =="),
        ("5 < age < 9", 9, "do not chain"),
        ("dx < control", 4, "== or !="),
        ("dx == patient", 7, "control, autism"),
        ("`scan site` == 1", 16, "double quotes"),
        ("dx == 'control'", 7, "double quotes"),
        ("dx + 1 > 2", 1, "is a factor"),
        ("age", 1, "expected a condition"),
        ("age and iq > 1", 1, "expected a condition"),
        ("(age > 1) + 2 > 1", 1, "found a condition"),
        ("age > 1 age", 9, "expected an operator"),
        ("(age > 1", 9, "closing bracket"),
        ("sin(age) > 1", 1, "log, exp, sqrt, abs"),
        ("age ^ 0.5 > 1", 7, "use sqrt"),
        ("age ^ 9 > 1", 7, "from 0 to 8"),
        ("age^2^2 > 1", 6, "do not chain"),
        ("age ^ -1 > 1", 7, "from 0 to 8"),
        ("1e999 > age", 1, "too large"),
        ("__import__(os) > 1", 1, "no function"),
        ("age.real > 1", 4, "backticks"),
        ("and", 1, "cannot stand here"),
        ("`age", 1, "never closed"),
        ("", 1, "expected a number"),
        ("control == dx", 1, "no number 'control'"),
        ("(dx) == control", 2, "is a factor"),
    ],
)
def test_what_lies_outside_the_grammar_is_refused_with_its_place_and_cure(
    text: str, column: int, cure: str
) -> None:
    with pytest.raises(ExpressionError) as caught:
        parse_condition(text, NUMBERS, FACTORS)
    first, shown, caret = caught.value.message.split("\n")
    assert first.startswith(f"column {column}: ")
    assert cure in first
    assert caret.index("^") - 4 == column - 1
    assert shown == f"    {text}"


def test_nested_and_long_expressions_are_refused() -> None:
    for text in ("(" * 500 + "age" + ")" * 500, "-" * 500 + "age", "exp(" * 50 + "age" + ")" * 50):
        with pytest.raises(ExpressionError, match=r"nested deeper|more than"):
            parse_expression(text, NUMBERS)
    with pytest.raises(ExpressionError, match="more than 256 parts"):
        parse_expression("+".join(["age"] * 200), NUMBERS)
    with pytest.raises(ExpressionError, match="longer than 2000"):
        parse_expression(" " * 3000, NUMBERS)
    depth = MAX_DEPTH
    assert parse_expression("(" * depth + "age" + ")" * depth, NUMBERS) == Name("age")
    with pytest.raises(ExpressionError, match="nested deeper"):
        parse_condition("not " * 100 + "age > 1", NUMBERS, FACTORS)


@settings(deadline=None)
@given(st.text(max_size=60) | st.text(alphabet='ageiqdx ()<>=!+-*/^.0123456789"`andortlg', max_size=60))
def test_any_text_is_read_or_refused_by_our_error(text: str) -> None:
    try:
        tree = parse_condition(text, NUMBERS, FACTORS)
    except ExpressionError:
        return
    assert parse_condition(render(tree), NUMBERS, FACTORS) == tree


def test_names_are_all_the_variables_read() -> None:
    tree = parse_condition("not (age^2 > log(iq)) or dx == autism", NUMBERS, FACTORS)
    assert names_in(tree) == {"age", "iq", "dx"}


_ends = st.tuples(st.floats(-50, 50), st.floats(-50, 50)).map(lambda pair: (min(pair), max(pair)))


@settings(max_examples=400, deadline=None)
@given(_expressions(6), st.fixed_dictionaries(dict.fromkeys(NUMBERS, _ends)), st.data())
def test_the_interval_contains_every_computed_value(
    tree: Expression, ranges: dict[str, tuple[float, float]], data: st.DataObject
) -> None:
    try:
        lower, upper = interval(tree, ranges)
    except ExpressionError:
        return
    people = 8
    numbers = {
        name: np.array([*data.draw(st.lists(st.floats(*ends), min_size=people, max_size=people)), *ends])
        for name, ends in ranges.items()
    }
    values = evaluate(tree, numbers)
    assert math.isfinite(lower)
    assert math.isfinite(upper)
    assert np.all(values >= lower)
    assert np.all(values <= upper)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("age^2", (25.0, 4225.0)),
        ("x^2", (0.0, 9.0)),
        ("x^3", (-8.0, 27.0)),
        ("x^0 + x", (-1.0, 4.0)),
        ("-x", (-3.0, 2.0)),
        ("abs(x)", (0.0, 3.0)),
        ("x * x", (-6.0, 9.0)),
        ("age / (x + 5)", (0.625, 65 / 3)),
        ("1 - x", (-2.0, 3.0)),
        ("sqrt(age - 1)", (2.0, 8.0)),
    ],
)
def test_intervals_of_exact_operations_are_tight(text: str, expected: tuple[float, float]) -> None:
    ranges = {"age": (5.0, 65.0), "x": (-2.0, 3.0)}
    assert interval(parse_expression(text, ranges), ranges) == expected


def test_intervals_of_log_and_exp_are_wider_by_little_and_have_12_digits() -> None:
    ranges = {"age": (5.0, 65.0)}
    lower, upper = interval(parse_expression("log(age)", ranges), ranges)
    assert lower < math.log(5) < lower + 2e-11
    assert upper - 2e-11 < math.log(65) < upper
    assert float(f"{lower:.12g}") == lower
    assert interval(parse_expression("log(age)", ranges), {"age": (1.0, 65.0)})[0] == 0.0


@pytest.mark.parametrize(
    "text",
    ["1 / x", "log(x)", "sqrt(x)", "log(x + 2)", "exp(x * 1000)", "(x * 1e300) * 1e300", "x / (age - age)"],
)
def test_expressions_without_a_finite_range_are_refused(text: str) -> None:
    ranges = {"age": (5.0, 65.0), "x": (-2.0, 3.0)}
    with pytest.raises(ExpressionError, match="narrow"):
        interval(parse_expression(text, ranges), ranges)


def test_a_missing_part_makes_the_value_missing_even_where_it_has_no_weight() -> None:
    numbers = {"age": np.array([np.nan, 3.0]), "iq": np.array([1.0, 1.0])}
    for text in ("age^0 + iq", "0 * age", "-abs(age)", "exp(age) - iq"):
        values = evaluate(parse_expression(text, numbers), numbers)
        assert np.isnan(values[0])
        assert np.isfinite(values[1])


_COMPARE: Mapping[str, Callable[[float, float], bool]] = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge, "==": operator.eq, "!=": operator.ne,
}  # fmt: skip


def _worth(tree: Expression, person: Mapping[str, float | None]) -> float | None:
    """One person's value by plain Python; None is missing."""
    match tree:
        case Constant(value):
            return value
        case Name(name):
            return person[name]
        case Negate(operand):
            inner = _worth(operand, person)
            return None if inner is None else -inner
        case Arithmetic(sign, left, right):
            a, b = _worth(left, person), _worth(right, person)
            if a is None or b is None or (sign == "/" and b == 0.0):
                return None
            return a + b if sign == "+" else a - b if sign == "-" else a * b if sign == "*" else a / b
        case _:
            raise AssertionError("not drawn here")


def _truth(
    tree: Condition, person: Mapping[str, float | None], levels: Mapping[str, str | None]
) -> bool | None:
    """Kleene's three values by trying: an unknown is whatever it may be, so ask both answers of every part."""
    match tree:
        case Comparison(sign, left, right):
            a, b = _worth(left, person), _worth(right, person)
            return None if a is None or b is None else _COMPARE[sign](a, b)
        case IsLevel(factor, level, negated):
            found = levels[factor]
            return None if found is None else (found == level) is not negated
        case Not(operand):
            answers = {not answer for answer in _possible(_truth(operand, person, levels))}
        case Junction(word, left, right):
            answers = {
                (a and b) if word == "and" else (a or b)
                for a in _possible(_truth(left, person, levels))
                for b in _possible(_truth(right, person, levels))
            }
    return answers.pop() if len(answers) == 1 else None


def _possible(answer: bool | None) -> set[bool]:
    return {True, False} if answer is None else {answer}


def _simple_conditions() -> st.SearchStrategy[Condition]:
    leaf: st.SearchStrategy[Expression] = st.one_of(
        st.integers(0, 3).map(lambda value: Constant(float(value))), st.sampled_from(("age", "iq")).map(Name)
    )
    sums = st.one_of(leaf, st.builds(Negate, leaf), st.builds(Arithmetic, _signs, leaf, leaf))
    levels = st.builds(IsLevel, st.just("dx"), st.sampled_from(FACTORS["dx"]), st.booleans())

    def larger(inner: st.SearchStrategy[Condition]) -> st.SearchStrategy[Condition]:
        return st.one_of(
            st.builds(Not, inner), st.builds(Junction, st.sampled_from(("and", "or")), inner, inner)
        )

    return st.recursive(
        st.one_of(st.builds(Comparison, _comparisons, sums, sums), levels), larger, max_leaves=8
    )


_person = st.tuples(
    st.none() | st.sampled_from((0.0, 1.0, 2.0, 3.0)),
    st.none() | st.sampled_from((0.0, 1.0, 2.0, 3.0)),
    st.none() | st.sampled_from(FACTORS["dx"]),
)


@settings(max_examples=400, deadline=None)
@given(_simple_conditions(), st.lists(_person, max_size=12))
def test_conditions_follow_three_valued_logic(
    tree: Condition, people: list[tuple[float | None, float | None, str | None]]
) -> None:
    batch = Batch(
        len(people),
        {
            "age": np.array([math.nan if age is None else age for age, _, _ in people], dtype=np.float64),
            "iq": np.array([math.nan if iq is None else iq for _, iq, _ in people], dtype=np.float64),
        },
        {
            "dx": np.array(
                [-1 if dx is None else FACTORS["dx"].index(dx) for _, _, dx in people], dtype=np.int16
            )
        },
    )
    expected = [_truth(tree, {"age": age, "iq": iq}, {"dx": dx}) is True for age, iq, dx in people]
    assert holds(tree, batch, {"dx": Factor("dx", FACTORS["dx"])}).tolist() == expected


def test_who_has_no_age_is_left_out_by_a_condition_and_by_its_opposite() -> None:
    batch = Batch(3, {"age": np.array([np.nan, 10.0, 70.0])}, {})
    for text, expected in (
        ("age < 65", [False, True, False]),
        ("not age < 65", [False, False, True]),
        ("age < 65 or not age < 65", [False, True, True]),
        ("age < 65 or 1 < 2", [True, True, True]),
    ):
        assert holds(parse_condition(text, ["age"], {}), batch, {}).tolist() == expected
