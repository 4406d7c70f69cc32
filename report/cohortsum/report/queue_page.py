"""One page per queued item, for whoever decides about it: everything that is signed, and everything to know before signing.

A single HTML file that opens without a network, loads nothing, runs nothing, prints well, and says nothing by colour alone.
Names, levels, notes and reasons are data and are escaped wherever they appear. Values are on it, so it goes only to those who
may read queued items. Equal items give equal bytes.
"""

import shlex
from collections.abc import Iterable, Mapping
from typing import Final

from cohortsum.report.figures import figures_of, forests_of
from cohortsum.report.page import KINDS, OPEN_DATA, figure_html
from cohortsum.report.page_style import STYLE
from cohortsum.report.page_tables import forest_html
from cohortsum.report.queue_item import Question, QueueItem
from cohortsum.report.queue_style import STYLE as QUEUE_STYLE
from cohortsum.report.queue_tables import changes_html, item_html, legend, rules_html, source_of
from cohortsum.report.svg import DEFINITIONS, clean
from cohortsum.study.disclosure.verdict import Outcome, Waiver

MOST_UPRIGHT: Final = 9
"""Columns of a table that is printed on upright paper; one with more is printed across."""

STATES: Final = {"queue": "in the queue", "checks": "in its checks"}
"""States that readers call otherwise; the others stand under their own name."""

COMMANDS: Final[Mapping[str, tuple[tuple[str, str, tuple[str, ...]], ...]]] = {
    "queue": (
        ("To release it", "sign", ()),
        ("To send it back", "return", ("--reason", "REASON")),
        ("To withhold it for good", "withhold", ("--reason", "REASON")),
    ),
    "released": (("To take it back", "retract", ("--reason", "REASON")),),
}
"""What may be decided in a state, the command's word for it, and what it needs."""

DPUK: Final = "Profile dpuk: at least one site of the sum holds to it, so its rules hold for all."


def queue_page(item: QueueItem) -> str:
    """Return the page."""
    title = f"{item.name}: {item.study.title or item.study.id}"
    wide = ' class="wide-table"' if len(item.table.columns) > MOST_UPRIGHT else ""
    figures = _figures(item)
    sections = [
        _section(
            "The item", _notes(item) + f'<div class="item">{item_html(item)}</div>' + _extent(item), wide
        ),
        _section("Rules", rules_html(item)),
        _section("Since earlier releases", changes_html(item)),
        _section("Figures drawn from it", figures) if figures else "",
        _section("Checklist", _checklist(item.checklist)),
        _section("Decisions so far", _signatures(item)),
        _section("To decide", _commands(item)),
    ]
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f"<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n"
        f"<title>{clean(title)}</title>\n<style>{STYLE}{QUEUE_STYLE}</style>\n</head>\n<body>\n"
        f'<svg class="definitions" width="0" height="0" aria-hidden="true">{DEFINITIONS}</svg>\n'
        f"<header>\n<h1>{clean(item.name)} <span class=state>{clean(_state(item))}</span></h1>\n{_digest(item)}"
        f"{_waivers(item.waivers)}{_warnings(item)}{_facts(item)}</header>\n"
        f"<main>\n{''.join(sections)}</main>\n"
        f"<footer>Item {clean(item.name)}, digest {clean(item.digest)}. {_KEEP.get(item.state, NOT_OUT)}</footer>\n"
        "</body>\n</html>\n"
    )


_STRICTEST: Final = "A rule holds for the whole sum until every site that holds to the profile has waived it; the results below say which was."
NOT_OUT: Final = "This page holds values that are not released: keep it as you keep the queue."
_KEEP: Final = {"released": "The item is released."}


def _state(item: QueueItem) -> str:
    return STATES.get(item.state, item.state)


def _digest(item: QueueItem) -> str:
    groups = "".join(
        f"<span>{clean(item.digest[start : start + 8])}</span>" for start in range(0, len(item.digest), 8)
    )
    return (
        '<div class="digest"><p>Digest of this item. A signature names it, and is about these numbers and no others:</p>'
        f"<code>{groups}</code></div>\n"
    )


def _waivers(waivers: tuple[Waiver, ...]) -> str:
    if not waivers:
        return ""
    parts = "".join(f"<li>{_pairs(_waiver(waiver))}</li>" for waiver in waivers)
    head = f"{_number(len(waivers), 'waiver', 'waivers')}: a site sets a rule aside"
    rules = legend([waiver.rule for waiver in waivers])
    return f'<div class="waived" role="note"><h2>{head}</h2>\n<p>{_STRICTEST}</p>\n<ul>{parts}</ul>\n{rules}</div>\n'


def _waiver(waiver: Waiver) -> list[tuple[str, str]]:
    return [
        ("rule", f"{waiver.rule}: {source_of(waiver.rule)}"),
        ("waived at", waiver.site),
        ("in its place", waiver.value),
        ("last day", waiver.until.isoformat()),
        ("decided by", waiver.by),
        ("reason", waiver.reason),
    ]


def _warnings(item: QueueItem) -> str:
    said = [item.noise, OPEN_DATA if item.profile == "open_data" else DPUK]
    return f'<ul class="warnings">{_listed(said)}</ul>\n'


def _facts(item: QueueItem) -> str:
    study = item.study
    outcomes = [result.outcome for result in item.rules]
    counts = ", ".join(f"{outcomes.count(one)} {one.value}" for one in Outcome if one in outcomes)
    rows = [
        ("study", f"{study.id}, version {study.version}"),
        ("title", study.title),
        ("fingerprint", study.fingerprint),
        ("state", _state(item)),
        ("table", f"{item.name}: {KINDS.get(item.table.kind, item.table.kind)}"),
        ("rows", str(len(item.table.rows))),
        ("profile", item.profile),
        ("waivers", str(len(item.waivers)) if item.waivers else "none"),
        ("rules", counts or "none looked"),
        ("decisions", str(len(item.signatures)) if item.signatures else "none"),
        ("changes", _number(len(item.changes), "cell", "cells")),
        ("study digest", study.digest),
    ]
    return _pairs(rows)


def _pairs(rows: Iterable[tuple[str, str]]) -> str:
    body = "".join(f"<div><dt>{name}</dt><dd>{clean(text)}</dd></div>" for name, text in rows if text)
    return f"<dl>{body}</dl>\n"


def _notes(item: QueueItem) -> str:
    return f'<ul class="notes">{_listed(item.table.notes)}</ul>\n' if item.table.notes else ""


def _extent(item: QueueItem) -> str:
    rows, columns = len(item.table.rows), len(item.table.columns)
    sideways = " On a narrow screen the table scrolls sideways." if columns > MOST_UPRIGHT else ""
    return (
        f'<p class="notes">All of it: {_number(rows, "row", "rows")}, {_number(columns, "column", "columns")}.{sideways}'
        " Counts are shown in full, other numbers with at most four digits; the item holds all digits.</p>\n"
    )


def _figures(item: QueueItem) -> str:
    return "".join(
        (
            *(figure_html(drawn.figure) for drawn in figures_of(item.table)),
            *(forest_html(effects) for effects in forests_of(item.table)),
        )
    )


def _checklist(questions: tuple[Question, ...]) -> str:
    machine = [question for question in questions if question.machine]
    people = [question for question in questions if not question.machine]
    parts = [f"<h3>Answered by the program: {len(machine)}</h3>\n"]
    if machine:
        lines = "".join(f"<li><b>{_answer(question)}</b>{_asked(question)}</li>" for question in machine)
        parts.append(f'<ul class="check">{lines}</ul>\n')
    parts.append(f"<h3>For you to confirm: {len(people)}</h3>\n")
    if people:
        lines = "".join(f'<li><b aria-label="to confirm">☐</b>{_asked(question)}</li>' for question in people)
        parts.append(f'<ul class="check people">{lines}</ul>\n')
    return "".join(parts) + legend([question.id for question in questions])


def _answer(question: Question) -> str:
    match question.answered:
        case True:
            return "✔ yes"
        case False:
            return "✖ no"
        case None:
            return "? no rule looked"


def _asked(question: Question) -> str:
    return (
        f"<span>{clean(question.text)} <small><code>{clean(question.id)}</code>; {clean(source_of(question.id))}"
        "</small></span>"
    )


def _signatures(item: QueueItem) -> str:
    if not item.signatures:
        return "<p>Nobody has decided about this item under this digest.</p>\n"
    head = "".join(f'<th scope="col">{name}</th>' for name in ("decision", "by", "role", "at", "reason"))
    body = "\n".join(
        f'<tr><td class="mark">{clean(one.act)}</td><td>{clean(one.by)}</td><td>{clean(one.role)}</td>'
        f"<td>{clean(one.at)}</td><td>{clean(one.reason)}</td></tr>"
        for one in item.signatures
    )
    return f'<div class="scroll"><table class="full"><thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody></table></div>\n'


def _commands(item: QueueItem) -> str:
    lines = COMMANDS.get(item.state, ())
    if not lines:
        return f"<p>This item is {clean(_state(item))}: nothing is to be decided about it here.</p>\n"
    parts = [
        f"<p>{said}:</p>\n<pre><code>{clean(command(item, act, *more))}</code></pre>\n"
        for said, act, more in lines
    ]
    return (
        "".join(parts)
        + '<p class="notes">Signing a release confirms every question above that is yours. A decision that names another digest is'
        " refused.</p>\n"
        '<div class="sign"><span>name</span><span>date</span><span>signature (on paper; it releases nothing)</span></div>\n'
    )


def command(item: QueueItem, act: str, *more: str) -> str:
    """Return the command that decides about an item, ready for a shell, an option to a line."""
    what = shlex.join(("cohortsum", "release", act, item.study.id, item.name))
    options = (("--digest", item.digest), *((more,) if more else ()))
    return " \\\n  ".join((what, *map(shlex.join, options)))


def _section(title: str, body: str, kind: str = "") -> str:
    return f"<section{kind}>\n<h2>{title}</h2>\n{body}</section>\n"


def _listed(lines: Iterable[str]) -> str:
    return "".join(f"<li>{clean(line)}</li>" for line in lines)


def _number(count: int, one: str, more: str) -> str:
    return f"{count} {one if count == 1 else more}"
