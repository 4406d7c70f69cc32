"""`cohortsum results show`: the tables of a release on a terminal."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Literal

import typer
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table as RichTable

from cohortsum.cli.consoles import output
from cohortsum.crypto.errors import ConfigurationError
from cohortsum.report.document import ResultDocument, from_json, provenance
from cohortsum.report.effects import effect_terms, read_effects
from cohortsum.report.text import TextTable, text_table, top_effects, turned, width_of
from cohortsum.study.results import Table

app = typer.Typer(no_args_is_help=True, help="Look at released results, or fetch them from the coordinator.")

NOTHING = ("no noise", "no single estimate", "large-sample test")
"""What tells nothing where a whole column holds it; the terminal leaves such a column out."""


@app.command("show")
def results(
    folder: Annotated[Path, typer.Argument(help="The folder that a run wrote.")],
    analysis: Annotated[str | None, typer.Argument(help="Show this analysis only.")] = None,
    rows: Annotated[int, typer.Option(help="Rows per table; 0 for all.", min=0)] = 20,
) -> None:
    """Show the results in a folder."""
    document = read_document(folder)
    names = [block.analysis for block in document.tables]
    if analysis is not None and analysis not in names:
        raise ConfigurationError(f"no analysis '{analysis}' in {folder}; there are {', '.join(names)}")
    console = output()
    for block in document.tables:
        if analysis in (None, block.analysis):
            show_table(console, block.table(), rows or None)
    console.print(provenance(document), style="dim")


def read_document(folder: Path) -> ResultDocument:
    """Return the typed document of a release folder; raises ConfigurationError if there is none."""
    path = folder / "result.json"
    try:
        return from_json(path.read_bytes())
    except OSError as error:
        raise ConfigurationError(
            f"{path}: cannot be read ({error.strerror}); name the folder that holds result.json"
        ) from None


META_SHOWN = ("outcome", "term", "model", "estimate", "low", "high", "p", "k", "i2", "tau2", "status")
"""Columns of a meta-analysis on the terminal; all of them are in its CSV file."""
SPARED = (
    *(("variance",), ("sigma2", "icc"), ("tau2",), ("mean_noise_se",), ("least_expected",), ("missing",)),
    *(("df", "df2"), ("column_percent",), ("statistic",), ("low", "high")),
)
"""Columns that a terminal too narrow for all of them does without, the first ones first, what belongs together at once."""
FRAME = 3
"""Characters that a frame adds to each column; one more is its edge."""


def show_table(console: Console, table: Table, limit: int | None) -> None:
    """Print a table: the strongest effects where one was asked for, otherwise its first rows."""
    terms = effect_terms(table) if table.kind == "regression" else ()
    if not terms:
        content = _without_nothing(text_table(_main_columns(table), limit))
        side = turned(content)
        if not _fits(content, console.width) and _fits(side, console.width):
            content = side
        content, spared = fitting(content, console.width)
        console.print(framed(content, f"{table.analysis}  ({table.kind})"))
        if spared:
            console.print(f"  In the CSV file also: {escape(', '.join(spared))}.", style="dim")
    for term in terms:
        shown = top_effects(read_effects(table, term), limit or len(table.rows))
        console.print(framed(shown, f"{table.analysis}: effect of {term}, smallest p first"))
    for note in table.notes:
        console.print(f"  {escape(note)}", style="dim")


def framed(content: TextTable, title: str) -> RichTable:
    """Return the cells of a text table in a frame."""
    frame = RichTable(title=escape(title), title_justify="left", box=box.SIMPLE_HEAD, caption_justify="left")
    for head, number in zip(content.header, content.right, strict=True):
        justify: Literal["left", "right"] = "right" if number else "left"
        # a number that does not fit must show that it is cut, or 224 reads as 22
        overflow: Literal["ellipsis", "fold"] = "ellipsis" if number else "fold"
        frame.add_column(escape(head), justify=justify, overflow=overflow, no_wrap=number)
    for row in content.rows:
        frame.add_row(*map(escape, row))
    if content.left_out:
        frame.caption = f"{content.left_out} further rows in the CSV file"
    return frame


def _main_columns(table: Table) -> Table:
    """Return a table as the terminal shows it: of a meta-analysis `META_SHOWN`, the level only where there are several."""
    if table.kind != "meta":
        return table
    one_level = (
        "term" not in table.columns or len({row[table.columns.index("term")] for row in table.rows}) == 1
    )
    shown = [name for name in META_SHOWN if name in table.columns and not (one_level and name == "term")]
    rows = tuple(tuple(row[table.columns.index(name)] for name in shown) for row in table.rows)
    return replace(table, columns=tuple(shown), rows=rows)


def fitting(content: TextTable, width: int) -> tuple[TextTable, tuple[str, ...]]:
    """Return a table without as many columns as it takes to fit into ``width``, and their names.

    Those of `SPARED` go first, then numbers from the right: a table may lack a number, but never the name it belongs to.
    """
    numbers = [head for head, number in zip(content.header, content.right, strict=True) if number]
    listed = {name for group in SPARED for name in group}
    others = [(name,) for name in reversed(numbers) if name not in listed]
    spared: list[str] = []
    for group in (*SPARED, *others[:-1]):
        leaving = [name for name in group if name in numbers]
        if _fits(content, width):
            break
        content = _columns(
            content, [place for place, head in enumerate(content.header) if head not in leaving]
        )
        spared += leaving
    return content, tuple(spared)


def _fits(content: TextTable, width: int) -> bool:
    """Return whether a table stands in ``width`` characters without folding or cutting."""
    return width_of(content, FRAME) < width


def _without_nothing(content: TextTable) -> TextTable:
    """Return a table without the columns that hold the same word of `NOTHING` in every row."""
    kept = [
        place
        for place in range(len(content.header))
        if not content.rows or not any(all(row[place] == word for row in content.rows) for word in NOTHING)
    ]
    return _columns(content, kept)


def _columns(content: TextTable, kept: list[int]) -> TextTable:
    """Return the columns at these places."""
    return TextTable(
        tuple(content.header[place] for place in kept),
        tuple(content.right[place] for place in kept),
        tuple(tuple(row[place] for place in kept) for row in content.rows),
        content.left_out,
    )
