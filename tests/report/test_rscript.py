"""read.R names every file and every column of a release, with the right type."""

import csv
import re

import pytest

from cohortsum.report.release import release_files
from cohortsum.report.rscript import CsvFile, csv_of, read_script
from cohortsum.study.results import NO_DATA, Table
from tests.report.example import document
from tests.report.kinds import KINDS

CALL = re.compile(r'^tables\[\["([^"]+)"\]\] <- read_one\("([^"]+)", c\(\n(.*?)\n\)\)$', re.M | re.S)
PAIR = re.compile(r'^  "((?:[^"\\]|\\.)*)" = "(numeric|character)",?$', re.M)


def plain(text: str) -> str:
    """Return what R reads from the inside of a string."""
    text = re.sub(r"\\U\{([0-9a-f]+)\}", lambda found: chr(int(found[1], 16)), text)
    return text.replace('\\"', '"').replace("\\n", "\n").replace("\\\\", "\\")


@pytest.fixture(scope="module")
def files() -> dict[str, bytes]:
    return dict(release_files(document(*KINDS)))


def test_every_csv_file_is_read_with_its_columns_in_order(files: dict[str, bytes]) -> None:
    script = files["read.R"].decode()
    calls = {file: PAIR.findall(body) for _, file, body in CALL.findall(script)}
    tables = {name.removeprefix("results/") for name in files if name.startswith("results/")}
    assert set(calls) == tables
    assert len(tables) == len(KINDS) + 1  # and the ENIGMA table
    for file, pairs in calls.items():
        header = next(csv.reader(files[f"results/{file}"].decode().splitlines()))
        assert [plain(name) for name, _ in pairs] == header, file


def test_a_column_is_numeric_exactly_where_every_cell_reads_as_a_number(files: dict[str, bytes]) -> None:
    for _, file, body in CALL.findall(files["read.R"].decode()):
        rows = list(csv.DictReader(files[f"results/{file}"].decode().splitlines()))
        for name, kind in PAIR.findall(body):
            cells = [row[plain(name)] for row in rows if row[plain(name)]]
            if kind == "numeric":
                assert all(re.fullmatch(r"-?[0-9.]+(e[+-]?[0-9]+)?", cell) for cell in cells), (file, name)
            elif cells:
                assert not all(re.fullmatch(r"-?[0-9.]+(e[+-]?[0-9]+)?", cell) for cell in cells), (
                    file,
                    name,
                )


def test_levels_that_look_like_numbers_stay_text_and_withheld_columns_keep_their_kind() -> None:
    table = Table(
        "x", "summary", ("variable", "dx", "n", "mean", "status"), (("age", "1", 5, NO_DATA, "ok"),)
    )
    assert csv_of(table).columns == (
        ("variable", False),
        ("dx", False),
        ("n", True),
        ("mean", True),
        ("status", False),
    )


def test_names_of_any_kind_are_strings_of_r_in_ascii() -> None:
    script = read_script(
        [CsvFile("a.csv", (('say "x" \\ {y}', True), ("Größe 🧠", False), ("two\nlines", True)))]
    )
    assert script.isascii()
    assert [plain(name) for name, _ in PAIR.findall(script)] == ['say "x" \\ {y}', "Größe 🧠", "two\nlines"]


def test_the_script_needs_nothing_but_base_r_and_keeps_names_and_empty_cells(files: dict[str, bytes]) -> None:
    script = files["read.R"].decode()
    assert "library(" not in script
    assert "require(" not in script
    for setting in (
        'na.strings = ""',
        "check.names = FALSE",
        "stringsAsFactors = FALSE",
        'encoding = "UTF-8"',
    ):
        assert setting in script
    outside = re.sub(r'"(?:[^"\\]|\\.)*"', "", re.sub(r"^#.*$", "", script, flags=re.M))
    for opening, closing in ("()", "[]", "{}"):
        assert outside.count(opening) == outside.count(closing)


def test_a_release_without_tables_still_has_a_script_that_runs() -> None:
    assert read_script([]).endswith("tables <- list()\n")
