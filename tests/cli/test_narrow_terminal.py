"""A table wider than the terminal: a number that is cut shows it, and a number is never without its name."""

import io

from rich.console import Console

from cohortsum.cli.results import framed, show_table
from cohortsum.report.text import TextTable
from cohortsum.study.results import Table


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


def shown(width: int, rows: int) -> str:
    columns = (*(f"measure_{place}" for place in range(12)), "status")
    table = Table("c", "association", columns, tuple((*range(100, 112), "ok") for _ in range(rows)))
    out = io.StringIO()
    show_table(Console(file=out, width=width), table, None)
    return out.getvalue()


def test_few_rows_of_many_columns_are_turned_on_their_side_where_they_do_not_fit() -> None:
    narrow = shown(80, 2)
    assert "…" not in narrow
    assert [line.split() for line in narrow.splitlines() if "measure_11" in line] == [
        ["measure_11", "111", "111"]
    ]
    assert [line.split() for line in narrow.splitlines() if "status" in line] == [["status", "ok", "ok"]]
    (header,) = [line for line in shown(220, 2).splitlines() if "measure_11" in line]
    assert "measure_0" in header
    tall = shown(80, 40)  # as wide on its side
    assert "…" not in tall
    assert "In the CSV file also: measure_11, measure_10" in tall


def test_names_stay_and_numbers_that_can_be_spared_go_where_a_table_does_not_fit() -> None:
    names = (
        "outcome",
        "term",
        "b",
        "se",
        "statistic",
        "p",
        "low",
        "high",
        "n",
        "tau2",
        "sigma2",
        "icc",
        "status",
    )
    numbers = (2.698123, 0.023381, 115.4123, 0.5123, 2.652123, 2.744123, 1434, 0.00411, 0.01058, 0.28123)
    rows = tuple((f"lh_superior{place}_thickness", "dx[autism]", *numbers, "ok") for place in range(9))
    for width, fewest in ((80, 6), (110, 10), (200, 13)):
        out = io.StringIO()
        show_table(Console(file=out, width=width), Table("m", "mixed", names, rows), None)
        lines = out.getvalue().splitlines()
        header = lines[2].split()
        filled = [line.split() for line in lines if "dx[autism]" in line]
        assert [line[:3] for line in filled] == [[str(row[0]), "dx[autism]", "2.698"] for row in rows]
        assert len(header) >= fewest
        said = {
            word.strip(" .,") for line in lines if "CSV" in line for word in line.partition(":")[2].split()
        }
        assert said == set(names) - set(header)
