"""A release as files for other programs: a folder for the SACRO viewer, CSV, JSON, or a page.

Every format holds the tables of the document and nothing else. Nothing is written here: the caller owns the folder, and
puts all files there or none. The names of tables become names of files; a document can come from anywhere, so a name that
would leave the folder is refused.
"""

from collections.abc import Iterable, Iterator
from enum import StrEnum
from typing import Final

from cohortsum.crypto.errors import ConfigurationError
from cohortsum.report.acro import acro_files
from cohortsum.report.document import ResultDocument, json_schema, provenance, to_json
from cohortsum.report.page import KINDS, report_html, warnings
from cohortsum.report.tables import to_csv

LONGEST: Final = 200
"""Bytes of a table's name; file systems take 255, and endings come on top."""


class Format(StrEnum):
    """What a release can be exported as."""

    ACRO = "acro"
    CSV = "csv"
    JSON = "json"
    HTML = "html"


def export_files(document: ResultDocument, format: Format | str) -> Iterator[tuple[str, bytes]]:
    """Return path and content of every file, paths with ``/`` and each once; equal arguments give equal files.

    Args:
        document: the release.
        format: one of `Format`.

    Raises:
        ConfigurationError: no such format, or a table whose name cannot be a file's.
        RefusedError: ``acro``, and the document holds a table that a rule withheld.
    """
    try:
        asked = Format(format)
    except ValueError:
        raise ConfigurationError(f"format {format}: unknown; take one of {', '.join(Format)}") from None
    _check_names(table.analysis for table in document.tables)
    match asked:
        case Format.ACRO:
            return acro_files(document)
        case Format.CSV:
            return _csv(document)
        case Format.JSON:
            return _json(document)
        case Format.HTML:
            return _html(document)


def _csv(document: ResultDocument) -> Iterator[tuple[str, bytes]]:
    lines: list[tuple[str, str]] = []
    for block in document.tables:
        table = block.table()
        name = f"{table.analysis}.csv"
        lines.append((name, f"{KINDS.get(table.kind, table.kind)}, {_rows(len(table.rows))}"))
        yield name, to_csv(table).encode()
    yield (
        "README.txt",
        _readme(
            document,
            lines,
            "CSV: UTF-8, a comma between cells, a decimal point, one header line. An empty cell is a number that is not there; "
            "the column status says why for its row. Nothing here is 0 or NaN in place of a hidden number.",
        ),
    )


def _json(document: ResultDocument) -> Iterator[tuple[str, bytes]]:
    yield "result.json", to_json(document)
    yield "result.schema.json", json_schema()
    yield (
        "README.txt",
        _readme(
            document,
            [
                ("result.json", "the whole release: study, sites, rules, and every table with its types"),
                ("result.schema.json", "its JSON Schema, for editors and other programs"),
            ],
            'A cell is a number, text, or {"absent": reason} for a number that is not there; it is never null.',
        ),
    )


def _html(document: ResultDocument) -> Iterator[tuple[str, bytes]]:
    yield "report.html", report_html(document).encode()
    yield (
        "README.txt",
        _readme(
            document,
            [("report.html", "a page with every table, note and figure")],
            "The page opens in any browser, without a network.",
        ),
    )


def _readme(document: ResultDocument, files: Iterable[tuple[str, str]], form: str) -> bytes:
    named = "".join(f"{name}\n    {what}\n" for name, what in files)
    said = "".join(f"- {line}\n" for line in warnings(document))
    title = document.study.title or document.study.id
    return f"{title}\n\n{provenance(document)}\n\nFiles\n\n{named}\n{form}\n\nTo know before quoting a number\n\n{said}".encode()


def _rows(count: int) -> str:
    return "1 row" if count == 1 else f"{count} rows"


def _check_names(names: Iterable[str]) -> None:
    for name in names:
        if not name.isprintable() or name.startswith(".") or set(name) & set("/\\:"):
            raise ConfigurationError(
                "result document: tables: a name cannot be a file's; expected one without / \\ : that starts with no full stop"
            )
        if len(name.encode()) > LONGEST:
            raise ConfigurationError(
                f"result document: tables: a name is longer than a file's can be; expected at most {LONGEST} bytes"
            )
