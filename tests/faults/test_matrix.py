"""The fault matrix is whole, the tests that it names are there, and the page for reviewers says the same."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.faults.matrix import FROZEN, PAGE, ROWS, STEPS, Outcome, cells, page

ROOT = Path(__file__).resolve().parents[2]


COLLECT = """
import sys, pytest
class Listing:
    def pytest_collection_finish(self, session):
        for item in session.items:
            print("faults" if item.get_closest_marker("faults") else "pure", item.nodeid)
sys.exit(pytest.main(["--collect-only", "-q", "-p", "no:cacheprovider", *sys.argv[1:]], plugins=[Listing()]))
"""


@pytest.fixture(scope="module")
def collected() -> frozenset[tuple[str, str]]:
    """The tests in the files that the matrix names, each with whether it is marked."""
    named = [*FROZEN, *(test for cell in cells() for test in cell.tests)]
    files = sorted({test.partition("::")[0] for test in named})
    done = subprocess.run(  # noqa: S603
        [sys.executable, "-c", COLLECT, *files], cwd=ROOT, capture_output=True, text=True, check=True
    )
    lines = [line.partition(" ") for line in done.stdout.splitlines()]
    return frozenset((kind, name) for kind, _, name in lines if kind in ("faults", "pure"))


@pytest.fixture(scope="module")
def with_processes(collected: frozenset[tuple[str, str]]) -> frozenset[str]:
    return frozenset(name for kind, name in collected if kind == "faults")


@pytest.fixture(scope="module")
def pure(collected: frozenset[tuple[str, str]]) -> frozenset[str]:
    return frozenset(name for kind, name in collected if kind == "pure")


def names(test: str, ids: frozenset[str]) -> bool:
    """Return whether a name, with or without parameters, is a collected test."""
    return test in ids or any(one.startswith(f"{test}[") for one in ids)


def test_there_are_sixteen_faults_at_seven_steps_and_every_cell_has_an_outcome_and_a_test() -> None:
    held = list(cells())
    assert len(held) == 112
    assert len({(cell.fault, cell.step) for cell in held}) == len(ROWS) * len(STEPS) == 112
    assert all(cell.outcomes and cell.tests for cell in held)
    assert {outcome for cell in held for outcome in cell.outcomes} == set(Outcome)
    assert all(len(set(cell.tests)) == len(cell.tests) for cell in held)


def test_every_test_is_there_and_the_ones_with_processes_are_marked(
    with_processes: frozenset[str], pure: frozenset[str]
) -> None:
    named = {*FROZEN, *(test for cell in cells() for test in cell.tests)}
    assert {test for test in named if not names(test, with_processes | pure)} == set()
    processes = {test for test in named if test.startswith("tests/faults/")}
    assert {test for test in processes if not names(test, with_processes)} == set()
    assert {test for test in named - processes if not names(test, pure)} == set()


def test_every_test_with_processes_shows_a_cell(with_processes: frozenset[str]) -> None:
    named = {test for cell in cells() for test in cell.tests}
    shown = {one for one in with_processes if one in named or one.partition("[")[0] in named}
    rest = {one.partition("[")[0].partition("::")[2] for one in with_processes - shown}
    assert rest == {
        "test_a_line_that_swallows_everything_is_given_up_and_made_anew",
        "test_slow_lines_only_cost_time",
    }


def test_the_page_is_written_from_the_data() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "run `python -m tests.faults.matrix`"
