"""The files of a release, by their paths in its folder: everything that a consortium reads, from one result document.

``result.json`` is the release; the rest says the same in other forms. Nothing is written here: the caller owns the
folder, and puts all files there or none.
"""

from collections.abc import Iterator
from typing import Final

from cohortsum.report.citation import citation_cff
from cohortsum.report.document import ResultDocument, provenance, to_json
from cohortsum.report.effects import Effects
from cohortsum.report.enigma import COLUMNS, NUMBERS, STATUS, to_enigma_csv
from cohortsum.report.figures import figures_of, forests_of, numbered
from cohortsum.report.methods import methods_markdown
from cohortsum.report.page import report_html
from cohortsum.report.rscript import CsvFile, csv_named, csv_of, read_script
from cohortsum.report.svg import standalone
from cohortsum.report.tables import to_csv
from cohortsum.study.results import Table

MOST_IN_A_PLOT: Final = 150
"""Rows of a forest plot; beyond it nobody reads one, and the table has them all."""


def release_files(document: ResultDocument) -> Iterator[tuple[str, bytes]]:
    """Yield path and content of every file, paths with ``/`` and each once; equal documents give equal files."""
    yield "result.json", to_json(document)
    yield "report.html", _utf8(report_html(document))
    yield "METHODS.md", _utf8(methods_markdown(document))
    yield "CITATION.cff", _utf8(citation_cff(document))
    files: list[CsvFile] = []
    for block in document.tables:
        table = block.table()
        files.append(csv_of(table))
        yield f"results/{table.analysis}.csv", _utf8(to_csv(table))
        for name, text in _enigma(document, table):
            head = text.partition("\n")[0].partition(",")[0]
            files.append(csv_named(f"{name}.enigma.csv", (head, *COLUMNS, STATUS), NUMBERS))
            yield f"results/{name}.enigma.csv", _utf8(text)
        for drawn in figures_of(table):
            yield f"figures/{drawn.name}.svg", _utf8(standalone(drawn.figure, provenance(document)))
        for number, effects in enumerate(forests_of(table)):
            for ending, content in _forest(document, effects):
                yield f"figures/{numbered(table.analysis, number)}.{ending}", content
    yield "read.R", _utf8(read_script(files))


def _enigma(document: ResultDocument, table: Table) -> Iterator[tuple[str, str]]:
    """Yield name and text of an ENIGMA table per effect with Cohen's d."""
    for number, effects in enumerate(forests_of(table)):
        if effects.measure == "d":
            name = numbered(table.analysis, number)
            yield name, to_enigma_csv(table, effects.term, f"{document.study.id}_{name}")


def _forest(document: ResultDocument, effects: Effects) -> Iterator[tuple[str, bytes]]:
    from cohortsum.report.forest import Caption, draw_forest  # loads the plotting library

    shown = effects.strongest(MOST_IN_A_PLOT)
    left_out = len(effects.rows) - len(shown.rows)
    caption = Caption(
        title=document.study.title
        + (f" (the {len(shown.rows)} smallest p of {len(effects.rows)})" if left_out else ""),
        effect=effects.term,
        sites=len(document.sites.survivors),
        footnote=provenance(document),
    )
    forest = draw_forest(shown, caption)
    yield "svg", forest.svg
    yield "png", forest.png


def _utf8(text: str) -> bytes:
    return text.encode()
