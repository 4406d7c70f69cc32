"""The rules that keep the house in order and that no other tool checks."""

import re
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
