"""An item of a release on a terminal: what a checker reads before signing."""

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table as RichTable

from cohortsum.cli.results import show_table
from cohortsum.crypto.fingerprint import short_form
from cohortsum.report.queue_item import Change, Question, QueueItem
from cohortsum.report.text import cell_text
from cohortsum.study.results import Cell

CHANGES_SHOWN = 40


def print_item(item: QueueItem, missing: tuple[str, ...], rows: int | None, console: Console) -> None:
    """Print an item: table, rules, checklist, differences, signatures, and what it still needs.

    Args:
        item: the item.
        missing: what it still needs, in words.
        rows: of the table, at most; None for all.
        console: where to.
    """
    study = item.study
    console.print(
        f"[bold]{escape(item.name)}[/bold] of {escape(study.id)} version {study.version}, fingerprint {study.fingerprint}"
    )
    console.print(f"state {item.state}; digest {short_form(bytes.fromhex(item.digest))}", markup=False)
    console.print(item.digest, style="dim")
    console.print(f"profile {item.profile}. {item.noise}", markup=False)
    for waiver in item.waivers:
        said = f"waived at {waiver.site}: {waiver.rule} ({waiver.value}) until {waiver.until}, by {waiver.by}: {waiver.reason}"
        console.print(said, markup=False)
    show_table(console, item.table, rows)
    _print_rules(item, console)
    _print_checklist(item.checklist, console)
    _print_changes(item.changes, console)
    for one in item.signatures:
        console.print(f"{one.act} by {one.by} ({one.role}) {one.at} {one.reason}".rstrip(), markup=False)
    for words in missing:
        console.print(f"still needs {words}", markup=False)


def _print_rules(item: QueueItem, console: Console) -> None:
    if not item.rules:
        console.print("rules: none in force; the sites declared that every value may be public")
        return
    table = RichTable(box=box.SIMPLE_HEAD)
    for heading in ("rule", "outcome", "what it found"):
        table.add_column(heading, overflow="fold")
    for rule in item.rules:
        table.add_row(escape(rule.rule), rule.outcome.value, escape(rule.what))
    console.print(table)


def _print_checklist(checklist: tuple[Question, ...], console: Console) -> None:
    table = RichTable(box=box.SIMPLE_HEAD)
    for heading in ("question", "answer", ""):
        table.add_column(heading, overflow="fold")
    for one in checklist:
        table.add_row(escape(one.id), _answer(one), escape(one.text))
    console.print(table)


def _answer(question: Question) -> str:
    if not question.machine:
        return "yours"
    return {True: "yes", False: "no", None: "no rule looked"}[question.answered]


def _print_changes(changes: tuple[Change, ...], console: Console) -> None:
    if not changes:
        console.print("no difference to an earlier content, or there is none")
        return
    table = RichTable(box=box.SIMPLE_HEAD, title="since earlier contents", title_justify="left")
    for heading in ("since", "what", "row", "column", "before", "now"):
        table.add_column(heading, overflow="fold")
    for one in changes[:CHANGES_SHOWN]:
        cells = (_cell(one.column, one.before), _cell(one.column, one.after))
        table.add_row(*map(escape, (one.since, one.what, one.row, one.column, *cells)))
    if len(changes) > CHANGES_SHOWN:
        table.caption = f"{len(changes) - CHANGES_SHOWN} further cells; --html shows them all"
    console.print(table)


def _cell(column: str, cell: Cell | None) -> str:
    return "" if cell is None else cell_text(column, cell)
