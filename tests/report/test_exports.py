"""Every format is complete, says what its files are, and stays in its folder."""

import csv
import io
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cohortsum.crypto.errors import ConfigurationError
from cohortsum.report.acro import acro_files
from cohortsum.report.document import from_json, provenance
from cohortsum.report.exports import Format, export_files
from cohortsum.report.page import UNCHECKED, report_html
from cohortsum.report.tables import from_csv
from cohortsum.study.results import Absent, Table
from tests.report.example import document
from tests.report.hidden import RULE, suppressed
from tests.report.kinds import KINDS

FORMATS = tuple(Format)


@pytest.mark.parametrize("format", FORMATS)
def test_equal_documents_give_equal_files_and_paths_are_unique(format: Format) -> None:
    held = document(suppressed(), *KINDS)
    files = list(export_files(held, format))
    assert files == list(
        export_files(from_json(held.model_dump_json(by_alias=True, exclude_none=True).encode()), format.value)
    )
    names = [name for name, _ in files]
    assert len(names) == len(set(names))
    assert not any(name.startswith("/") or ".." in name.split("/") or "\\" in name for name in names)


@pytest.mark.parametrize("format", [Format.CSV, Format.JSON, Format.HTML])
def test_a_text_beside_the_files_names_each_and_says_what_a_reader_must_know(format: Format) -> None:
    held = document(suppressed(), *KINDS)
    files = dict(export_files(held, format))
    text = files["README.txt"].decode()
    assert provenance(held) in text
    assert UNCHECKED in text
    assert all(f"\n{name}\n" in text for name in files if name != "README.txt")


def test_the_folder_for_the_viewer_holds_what_acro_writes_and_no_more() -> None:
    held = document(suppressed())
    assert dict(export_files(held, "acro")) == dict(acro_files(held))


def test_csv_files_read_back_as_the_tables() -> None:
    tables = [table for table in KINDS if table.kind != "poem"]
    files = dict(export_files(document(*tables), Format.CSV))
    assert set(files) == {"README.txt", *(f"{table.analysis}.csv" for table in tables)}
    for table in tables:
        read = from_csv(files[f"{table.analysis}.csv"].decode(), table.analysis, table.kind)
        assert read.columns == table.columns
        for ours, theirs in zip(table.rows, read.rows, strict=True):
            for one, other in zip(ours, theirs, strict=True):
                assert isinstance(other, Absent) if isinstance(one, Absent) else one == other


def test_json_reads_back_as_the_document_and_has_its_schema() -> None:
    held = document(suppressed(), *KINDS)
    files = dict(export_files(held, Format.JSON))
    assert from_json(files["result.json"]) == held
    assert json.loads(files["result.schema.json"])["$schema"].startswith("https://json-schema.org")


def test_html_is_the_page_of_the_release() -> None:
    held = document(suppressed())
    assert dict(export_files(held, Format.HTML))["report.html"].decode() == report_html(held)


@pytest.mark.parametrize("format", FORMATS)
def test_a_hidden_cell_is_empty_or_its_reason_in_every_format(format: Format) -> None:
    files = dict(export_files(document(suppressed()), format))
    tables = [content.decode() for name, content in files.items() if name.endswith(".csv")]
    for text in tables:
        lines = list(csv.DictReader(io.StringIO(text)))
        assert [line["count"] for line in lines] == ["22", "", "", "35", "30", "28", "19", "", ""]
    said = b"".join(content for name, content in files.items() if not name.endswith(".csv"))
    assert (RULE.encode() in said) is (format is not Format.CSV)
    assert len(tables) == (1 if format in (Format.ACRO, Format.CSV) else 0)


@pytest.mark.parametrize(
    "name", ["../x", "a/b", "a\\b", ".hidden", "C:x", "a\nb", "\x00", "x" * 201, "é" * 101]
)
@pytest.mark.parametrize("format", FORMATS)
def test_a_name_that_is_no_file_name_is_refused_before_any_file(name: str, format: Format) -> None:
    bad = Table(name, "crosstab", ("a", "count", "status"), (("x", 12, "ok"),))
    with pytest.raises(ConfigurationError, match="a name"):
        export_files(document(suppressed(), bad), format)


@settings(deadline=None)
@given(st.text(min_size=1, max_size=12))
def test_whatever_a_table_is_called_its_files_stay_in_the_folder(name: str) -> None:
    held = document(Table(name, "crosstab", ("a", "count", "status"), (("x", 12, "ok"),)))
    for format in (Format.ACRO, Format.CSV):
        try:
            names = [path for path, _ in export_files(held, format)]
        except ConfigurationError:
            continue
        for path in names:
            assert path.removeprefix("checksums/").count("/") == 0
            assert not path.startswith((".", "/"))


def test_an_unknown_format_is_refused_by_name() -> None:
    with pytest.raises(ConfigurationError, match="format sas: unknown; take one of acro, csv, json, html"):
        export_files(document(), "sas")
