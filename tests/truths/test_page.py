"""docs/accuracy.md has a line for every kind of analysis and every comparison; its digits are nobody's promise."""

import re
from pathlib import Path

from cohortsum.study.definition.kinds import KINDS
from tests.truths.every import UNDER_NOISE, every

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "accuracy.md").read_text(encoding="utf-8")


def test_the_page_lists_every_kind_of_analysis() -> None:
    kinds = set(re.findall(r"^\| `(\w+)` \|", PAGE, re.M))
    assert kinds == set(KINDS) - UNDER_NOISE, "run `make truths`"


def test_the_page_has_a_line_for_every_comparison() -> None:
    listed = re.findall(r"^\| (`\w+` \| .*? \| .*? \| .*?) \|", PAGE, re.M)
    made = [f"`{one.kind}` | {one.statistic} | {one.data.name} | {one.reference}" for one in every()]
    assert listed == made, "run `make truths`"
