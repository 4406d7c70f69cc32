"""The files of a release: which there are, each once, and the same for the same document."""

from dataclasses import replace

import pytest

from cohortsum.report.release import release_files
from cohortsum.study.results import Cell, Table
from tests.report.example import document, thickness_table
from tests.report.kinds import HIDDEN, KINDS


@pytest.fixture(scope="module")
def files() -> list[tuple[str, bytes]]:
    return list(release_files(document(*KINDS)))


def test_every_release_has_its_page_methods_citation_and_script() -> None:
    names = [name for name, _ in release_files(document())]
    assert names == ["result.json", "report.html", "METHODS.md", "CITATION.cff", "read.R"]


def test_every_table_has_its_csv_and_its_figures(files: list[tuple[str, bytes]]) -> None:
    names = {name for name, _ in files}
    assert {f"results/{table.analysis}.csv" for table in KINDS} <= names
    assert {name for name in names if name.startswith("figures/")} == {
        f"figures/{name}"
        for name in (
            "ages.svg", "components.svg", "conversion.png", "conversion.svg", "labs.svg", "meta_volumes.2.png",
            "meta_volumes.2.subcortical-map.svg", "meta_volumes.2.svg", "meta_volumes.png",
            "meta_volumes.subcortical-map.svg", "meta_volumes.svg", "norms.svg", "survival.svg", "survival_model.png",
            "survival_model.svg", "thick_mixed.png", "thick_mixed.svg", "thickness.png", "thickness.svg",
            "thickness.thickness-map.svg",
        )
    }  # fmt: skip


def altered(table: Table, number: Cell) -> Table:
    """Return the table with every number replaced."""
    rows = tuple(
        tuple(number if isinstance(cell, int | float) else cell for cell in row) for row in table.rows
    )
    return replace(table, rows=rows)


@pytest.mark.parametrize("number", [0, -1e-300, 1e300, 1, HIDDEN], ids=str)
def test_no_number_keeps_a_release_from_being_written(number: Cell) -> None:
    held = document(*(altered(table, number) for table in KINDS))
    assert dict(release_files(held)).keys() >= {"report.html", "METHODS.md", "read.R"}


def test_an_empty_table_is_no_fault() -> None:
    held = document(*(replace(table, rows=()) for table in KINDS))
    assert not any(name.startswith("figures/") for name, _ in release_files(held))


def test_paths_are_unique_and_stay_in_the_folder(files: list[tuple[str, bytes]]) -> None:
    names = [name for name, _ in files]
    assert len(names) == len(set(names))
    assert not any(name.startswith("/") or ".." in name.split("/") or "\\" in name for name in names)


def test_equal_documents_give_equal_files() -> None:
    assert list(release_files(document(thickness_table()))) == list(
        release_files(document(thickness_table()))
    )


def test_text_files_are_utf_8_with_unix_line_ends(files: list[tuple[str, bytes]]) -> None:
    for name, content in files:
        if not name.endswith(".png"):
            assert "\r" not in content.decode(), name
            assert content.endswith(b"\n"), name
