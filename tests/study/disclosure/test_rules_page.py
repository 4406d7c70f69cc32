"""docs/disclosure-rules.md has one row per rule of the catalogue, says what it asks, and names tests that exist."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from cohortsum.study.catalogue import RULES, RULES_BY_ID
from cohortsum.study.catalogue.controls import say
from tests.study.disclosure import test_rules_one_by_one

ROOT = Path(__file__).resolve().parents[3]
TEXT = (ROOT / "docs" / "disclosure-rules.md").read_text(encoding="utf-8")
ROW = re.compile(r"^\| `(\w+)` \| (.+) \| (.+) \| (.+) \|$", re.M)
ROWS = {found[1]: (found[2], found[3], found[4]) for found in ROW.finditer(TEXT)}
PLACES = frozenset(
    ("site gate", "protocol", "cohort gate", "by type", "release checklist", "by people", "by the gate")
)
UNSHOWN: frozenset[str] = frozenset()
"""Rules without a test of their own; each has `-` in its row."""
BESIDE = ("wmh_count_complement",)
"""Rules that a test shows beside the one it is made for: a count is hidden, and another with it."""
ONE_BY_ONE = "tests/study/disclosure/test_rules_one_by_one.py"


@cache
def defined_in(path: str) -> frozenset[str]:
    """Return the tests of a file, those in classes too, without running any of it."""
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    return frozenset(
        node.name
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_")
    )


def named(rule: str) -> list[tuple[str, str]]:
    """Return path and name of every test in a rule's row."""
    return re.findall(r"`(tests/[\w/]+\.py)::(test_\w+)`", ROWS[rule][2])


def test_every_rule_has_one_row_in_the_order_of_the_catalogue_and_no_other_row_is_there() -> None:
    assert [found[1] for found in ROW.finditer(TEXT)] == [rule.id for rule in RULES]


@pytest.mark.parametrize("rule", RULES_BY_ID)
def test_a_row_says_what_the_rule_asks_and_where_it_is_enforced(rule: str) -> None:
    asks, enforced, _ = ROWS[rule]
    assert asks == say(RULES_BY_ID[rule].control)
    assert set(enforced.split(", ")) <= PLACES


@pytest.mark.parametrize("rule", RULES_BY_ID)
def test_a_row_names_tests_that_exist(rule: str) -> None:
    found = named(rule)
    assert ", ".join(f"`{path}::{name}`" for path, name in found) == ROWS[rule][2].strip("-")
    assert bool(found) == (rule not in UNSHOWN)
    for path, name in found:
        assert name in defined_in(path), f"{path} has no {name}"


@pytest.mark.parametrize("rule", RULES_BY_ID)
def test_a_test_of_single_rules_is_made_for_the_rules_that_name_it(rule: str) -> None:
    """Parameters are computed from the catalogue: a rule must really be among them."""
    for path, name in named(rule):
        if path == ONE_BY_ONE:
            marks: list[pytest.Mark] = getattr(getattr(test_rules_one_by_one, name), "pytestmark", [])
            assert all(rule in (*mark.args[1], *BESIDE) for mark in marks), f"{name} is not run for {rule}"
