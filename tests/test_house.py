"""The rules that keep the house in order and that no other tool checks."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
ROOMS = ["proto/generated", "crypto", "protocol", "study", "report", "node", "coordinator", "trustee", "cli"]


@pytest.mark.parametrize("room", ROOMS)
def test_cohortsum_stays_a_namespace(room: str) -> None:
    """An __init__.py here would hide every other room behind this one."""
    assert not (ROOT / room / "cohortsum" / "__init__.py").exists()


@pytest.mark.parametrize("room", ROOMS)
def test_every_room_is_typed(room: str) -> None:
    name = "wire" if room == "proto/generated" else room
    assert (ROOT / room / "cohortsum" / name / "py.typed").exists()
    assert (ROOT / room / "cohortsum" / name / "__init__.py").exists()


@pytest.mark.parametrize("room", ["crypto", "protocol", "study", "node", "coordinator"])
def test_no_weak_randomness_and_no_foreign_decoding(room: str) -> None:
    """Masks, shares and keys come from the system's generator; bytes of others are never unpickled or evaluated."""
    forbidden = re.compile(
        r"^\s*(import random|from random)|numpy\.random|np\.random|import pickle|pickle\.loads?|\beval\(|\bexec\(|yaml\.load\(",
        re.M,
    )
    for path in (ROOT / room).rglob("*.py"):
        found = forbidden.search(path.read_text(encoding="utf-8"))
        assert found is None, f"{path.relative_to(ROOT)}: {found.group(0)!r} is not allowed here"


def two_workers_share(variable: str) -> list[str]:
    """Return the folders of tests that `make test` deals out to two workers, one by one (PURE) or by files (APART)."""
    found = re.search(rf"^{variable} := (.+)$", (ROOT / "Makefile").read_text(encoding="utf-8"), re.M)
    assert found is not None
    return found[1].split()


def imported(path: Path) -> Iterator[str]:
    """Yield the names of all modules that a file imports, inside functions too."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            yield from (node.module, *(f"{node.module}.{alias.name}" for alias in node.names))


def test_every_test_runs_once_whether_two_workers_share_it_or_not() -> None:
    """Two commands name the shared folders, the last ignores the same and takes all else, new folders too."""
    recipe = re.search(r"^test:.*\n((?:\t.+\n)+)", (ROOT / "Makefile").read_text(encoding="utf-8"), re.M)
    assert recipe is not None
    runs = [line.partition(" -m pytest ")[2] for line in recipe[1].splitlines() if " -m pytest " in line]
    assert runs == [
        "-n 2 --dist worksteal $(PURE:%=tests/%)",
        "-n 2 --dist loadfile $(APART:%=tests/%)",
        "$(PURE:%=--ignore=tests/%) $(APART:%=--ignore=tests/%)",
    ]
    folders = {path.name for path in (ROOT / "tests").iterdir() if [*path.glob("**/test_*.py")]}
    shared = [*two_workers_share("PURE"), *two_workers_share("APART")]
    assert len(shared) == len(set(shared))
    assert set(shared) < folders


@pytest.mark.parametrize("folder", two_workers_share("PURE"))
def test_what_two_workers_share_one_by_one_has_no_ports_and_no_real_time(folder: str) -> None:
    """Such a test would hear its neighbour, or fail because the machine is busy."""
    of_python = ("multiprocessing", "signal", "socket", "threading", "time")
    alone = (*of_python, "grpc", "tests.edges.harness.Loopback", "tests.life")
    for path in (ROOT / "tests" / folder).rglob("*.py"):
        for name in imported(path):
            assert not name.startswith(tuple(f"{one}." for one in alone)), (path, name)
            assert name not in alone, (path, name)
