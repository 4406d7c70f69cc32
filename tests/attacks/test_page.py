"""The page about attacks names every attack once, every test of them, and only checks that exist."""

import ast
import re
from pathlib import Path

HERE = Path(__file__).resolve().parent
DOCS = HERE.parents[1] / "docs"
ROW = re.compile(r"^\| (A\d+) \|(.+)\|(.+)\|(.+)\|$", re.M)
NAME = re.compile(r"`(a\d\d_\w+)`")
CHECK = re.compile(r"`([A-Z]\d+(?:\.\d+)?)`")
PREFIX = "test_attack_"


def rows() -> list[tuple[str, str, str, str]]:
    """Return attack, what is tried, what stops it, and its tests, row by row."""
    found: list[tuple[str, str, str, str]] = ROW.findall((DOCS / "attacks.md").read_text(encoding="utf-8"))
    return found


def written() -> list[str]:
    """Return the names of all attack tests, without their prefix."""
    return [
        node.name.removeprefix(PREFIX)
        for path in sorted(HERE.glob("test_*.py"))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef) and node.name.startswith(PREFIX)
    ]


def test_every_attack_has_one_row_and_at_least_one_test_of_its_own() -> None:
    assert [attack for attack, *_ in rows()] == [f"A{number}" for number in range(1, 26)]
    for attack, _, _, tests in rows():
        names: list[str] = NAME.findall(tests)
        assert names, attack
        assert all(int(name[1:3]) == int(attack[1:]) for name in names), attack


def test_every_test_is_on_the_page_once_and_every_one_on_the_page_exists() -> None:
    named = [name for *_, tests in rows() for name in NAME.findall(tests)]
    assert len(named) == len(set(named))
    assert len(written()) == len(set(written()))
    assert set(named) == set(written())


def test_every_check_on_the_page_is_a_check_of_the_protocol() -> None:
    known = set(re.findall(r"^\| `([A-Z]\d+(?:\.\d+)?)` \|", (DOCS / "protocol.md").read_text("utf-8"), re.M))
    used = {check for _, _, defence, _ in rows() for check in CHECK.findall(defence)}
    assert len(used) > 20
    assert used <= known
