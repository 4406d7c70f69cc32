"""A table wider than the terminal: a number that is cut shows it."""

import io

from rich.console import Console

from cohortsum.cli.results import framed
from cohortsum.report.text import TextTable


def test_a_number_that_does_not_fit_is_never_shown_as_another_one() -> None:
    columns = tuple(f"c{place}" for place in range(12))
    content = TextTable(columns, (True,) * 12, (("123456",) * 12,), 0)
    out = io.StringIO()
    Console(file=out, width=60).print(framed(content, "wide"))
    (line,) = [line for line in out.getvalue().splitlines() if "1" in line and "c" not in line]
    assert all(word.endswith("…") for word in line.split())
    wide = io.StringIO()
    Console(file=wide, width=200).print(framed(content, "wide"))
    assert wide.getvalue().count("123456") == 12
