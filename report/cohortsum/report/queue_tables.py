"""The tables on the page of a queued item: the item itself, what every rule found, and what changed since earlier releases.

A checker signs all of the item, so all of its rows are shown, and a number that looks the same as an earlier one at four digits
is shown in full. What two releases leave between them is what anybody learns who has both: a cell that was printed and is hidden
now hides nothing, and two counts that differ by a few people are a count of those few.
"""

from collections.abc import Sequence
from typing import Final

from cohortsum.report.hidden import hiding_reasons, is_hidden
from cohortsum.report.queue_item import Change, QueueItem
from cohortsum.report.svg import clean
from cohortsum.report.text import cell_text, digits
from cohortsum.study.catalogue.rule import Page, Source
from cohortsum.study.catalogue.rules import RULES_BY_ID
from cohortsum.study.disclosure.rules import DEFAULT
from cohortsum.study.disclosure.verdict import Outcome
from cohortsum.study.results import Absent, Cell

MARKS: Final = {
    Outcome.WAIVED: "! waived",
    Outcome.WITHHELD: "✖ withheld",
    Outcome.CHANGED: "△ changed",
    Outcome.PASSED: "✔ passed",
}
"""Word and sign of every outcome, in the order in which a checker reads them."""

PAGES: Final = {Page.DISCLOSURE: "D", Page.PRIVACY: "P"}
"""Letters for the pages that rules are written on."""

WHAT: Final = {"changed": "changed", "appeared": "new", "vanished": "gone"}


def item_html(item: QueueItem) -> str:
    """Return the item's table with all of its rows; a cell that a rule hid says so, with the rule's name."""
    reasons = hiding_reasons(item.rules)
    table = item.table
    numbers = [
        any(isinstance(row[place], int | float) for row in table.rows) for place in range(len(table.columns))
    ]
    head = "".join(
        f'<th scope="col"{" class=n" if right else ""}>{clean(name)}</th>'
        for name, right in zip(table.columns, numbers, strict=True)
    )
    body = "\n".join(
        "<tr>"
        + "".join(
            _cell(name, cell, "n" if right else "t", reasons)
            for name, cell, right in zip(table.columns, row, numbers, strict=True)
        )
        + "</tr>"
        for row in table.rows
    )
    return _scrolled(f"the item {item.name}", head, body, "")


def rules_html(item: QueueItem) -> str:
    """Return what every rule found, those that ask for a look first, each with what it is and where it is written."""
    results = [result for outcome in MARKS for result in item.rules if result.outcome is outcome]
    if not results:
        return "<p><strong>No rule has looked at this item.</strong></p>\n"
    body = "\n".join(
        f"<tr{' class=plain' if result.outcome is Outcome.PASSED else ''}>"
        f'<td class="mark">{MARKS[result.outcome]}</td><td>{_named(result.rule)}</td>'
        f"<td>{clean(result.what)}</td><td>{clean(source_of(result.rule))}</td></tr>"
        for result in results
    )
    head = "".join(f'<th scope="col">{name}</th>' for name in ("result", "rule", "what it found", "source"))
    return _scrolled("results of the rules", head, body, "full") + legend([result.rule for result in results])


def source_of(rule: str) -> str:
    """Return where a rule is written; the gate has rules of its own beside the catalogue's."""
    known = RULES_BY_ID.get(rule)
    return "a rule of the gate itself" if known is None else _written(known.source)


def legend(rules: Sequence[str]) -> str:
    """Return what the letters behind the sources of some rules stand for."""
    pages = {known.source.page for rule in rules if (known := RULES_BY_ID.get(rule)) is not None}
    said = "; ".join(f"({letter}) {page}" for page, letter in PAGES.items() if page in pages)
    return f'<p class="notes">Sources are sections of: {clean(said)}.</p>\n' if said else ""


def changes_html(item: QueueItem) -> str:
    """Return the cells that are others than in earlier releases, one table per release, side by side."""
    if not item.changes:
        return "<p>No cell differs from an earlier release of this table, or there is none.</p>\n"
    reasons = hiding_reasons(item.rules)
    parts: list[str] = []
    for since in dict.fromkeys(change.since for change in item.changes):
        of = [change for change in item.changes if change.since == since]
        counts = ", ".join(
            f"{sum(change.what == what for change in of)} {word}" for what, word in WHAT.items()
        )
        body = "\n".join(_change(change, reasons) for change in of)
        columns = ("row", "column", "what", "before", "now", "difference", "look")
        head = "".join(f'<th scope="col">{name}</th>' for name in columns)
        parts.append(f"<h3>Since {clean(since)}: {counts}</h3>\n")
        parts.append(_scrolled(f"changes since {since}", head, body, ""))
    return "".join(parts)


def _change(change: Change, reasons: frozenset[str]) -> str:
    before, after = (_side(change.column, cell) for cell in (change.before, change.after))
    if before == after:
        before, after = _full(change.before), _full(change.after)
    return (
        f"<tr><td>{clean(change.row)}</td><td>{clean(change.column)}</td>"
        f'<td class="mark">{WHAT[change.what]}</td>{_held(change.before, before, reasons)}'
        f'{_held(change.after, after, reasons)}<td class="n">{clean(_difference(change))}</td>'
        f'<td class="mark">{clean(_look(change, reasons))}</td></tr>'
    )


def _held(cell: Cell | None, text: str, reasons: frozenset[str]) -> str:
    if is_hidden(cell, reasons):
        return _hidden(text)
    if cell is None or isinstance(cell, Absent):
        return f'<td class="n absent">{clean(text)}</td>'
    return f'<td class="n">{clean(text)}</td>'


def _side(column: str, cell: Cell | None) -> str:
    match cell:
        case None:
            return "not there"
        case Absent(reason):
            return str(reason)
        case _:
            return cell_text(column, cell)


def _full(cell: Cell | None) -> str:
    return float.__repr__(cell) if isinstance(cell, float) else _side("", cell)


def _difference(change: Change) -> str:
    before, after = change.before, change.after
    if isinstance(before, int) and isinstance(after, int):
        return f"{after - before:+d}"
    if isinstance(before, int | float) and isinstance(after, int | float):
        far = after - before
        return ("+" if far > 0 else "") + digits(far)
    return ""


def _look(change: Change, reasons: frozenset[str]) -> str:
    """Return what a checker must see in a change, or nothing."""
    before, after = change.before, change.after
    if isinstance(before, int | float) and is_hidden(after, reasons):
        return "! printed before"
    if is_hidden(before, reasons) and isinstance(after, int | float):
        return "! hidden before"
    if isinstance(before, int) and isinstance(after, int) and 0 < abs(after - before) < DEFAULT.threshold:
        return f"! fewer than {DEFAULT.threshold} apart"
    return ""


def _cell(name: str, cell: Cell, kind: str, reasons: frozenset[str]) -> str:
    text = clean(cell_text(name, cell))
    if isinstance(cell, Absent):
        return _hidden(cell.reason) if is_hidden(cell, reasons) else f'<td class="{kind} absent">{text}</td>'
    return f'<td class="{kind}">{text}</td>'


def _hidden(reason: str) -> str:
    return f'<td class="hidden"><b>hidden</b>{clean(reason)}</td>'


def _named(rule: str) -> str:
    known = RULES_BY_ID.get(rule)
    what = "" if known is None else f"<small>{clean(known.what)}</small>"
    return f"<code>{clean(rule)}</code>{what}"


def _written(source: Source) -> str:
    place = f"{source.heading}, {source.entry}" if source.entry else source.heading
    return f"{place} ({PAGES[source.page]})"


def _scrolled(label: str, head: str, body: str, kind: str) -> str:
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{clean(label)}"><table class="{kind}">'
        f"<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody></table></div>\n"
    )
