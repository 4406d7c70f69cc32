"""The page on committees names the checks, messages and locks that the code has."""

import re
from pathlib import Path

from cohortsum.protocol.committee.messages import Kind

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/committee.md").read_text(encoding="utf-8")


def test_every_check_is_in_the_table_and_every_row_is_in_the_code() -> None:
    rooms = ("protocol/cohortsum/protocol/committee", "node/cohortsum/node/committee", "coordinator")
    files = [path for room in rooms for path in (ROOT / room).rglob("*.py")]
    used = {name for path in files for name in re.findall(r'"(C\d+)"', path.read_text(encoding="utf-8"))}
    rows = re.findall(r"^\| `(C\d+)` \|", PAGE, re.M)
    assert len(rows) == len(set(rows))
    assert set(rows) == used


def test_every_message_is_described() -> None:
    assert [kind.name for kind in Kind if f"`{kind.name}`" not in PAGE] == []
