"""One page per release that opens without a network: who, under which rules, every table, note and figure.

A single HTML file with its style sheet and its drawings inside; no script, no font, no image and no address is loaded.
It is readable on a narrow and on a wide screen, light and dark, and on paper. What a study calls its variables, levels
and analyses is data and is escaped wherever it appears. Equal documents give equal bytes.
"""

from collections.abc import Iterable
from typing import Final

from cohortsum.report.document import ResultDocument, release_words
from cohortsum.report.figures import figures_of, forests_of
from cohortsum.report.page_style import STYLE
from cohortsum.report.page_tables import forest_html, table_html
from cohortsum.report.svg import DEFINITIONS, Figure, clean, inline
from cohortsum.study.release.states import State
from cohortsum.study.results import Table

KINDS: Final = {
    "summary": "summary",
    "histogram": "histogram",
    "quantiles": "quantiles",
    "crosstab": "cross table",
    "association": "measures of association",
    "proportion": "proportions",
    "regression": "linear regression",
    "glm": "generalised linear model",
    "fit": "how each model fits",
    "cox": "Cox proportional hazards model",
    "dp_sgd": "logistic regression by private training",
    "mixed": "mixed model with a random site intercept",
    "meta": "two-stage meta-analysis",
    "test": "tests",
    "contrast": "contrasts",
    "correlation": "correlations",
    "covariance": "covariances",
    "pca": "principal components",
    "kaplan_meier": "Kaplan-Meier estimate",
    "median": "median survival",
    "logrank": "log-rank tests",
    "observed": "observed and expected events",
    "proportionality": "tests of proportional hazards",
    "normative": "normative model",
    "combat": "ComBat harmonisation",
}
"""What readers call the kinds of tables; another kind stands under its own name."""

NO_NOISE: Final = "No noise was added: the numbers are exact sums over the sites, and protect people only as far as the thresholds do."
OPEN_DATA: Final = "Profile open_data: every site that took part declared its data public."
UNCHECKED: Final = "No checker looked at this release before it was made."


def report_html(document: ResultDocument) -> str:
    """Return the page."""
    tables = [block.table() for block in document.tables]
    title = clean(document.study.title or document.study.id)
    sections = [_section(number, table) for number, table in enumerate(tables, start=1)]
    contents = "".join(
        f'<li><a href="#t{number}">{clean(table.analysis)}</a> '
        f"<span>{clean(KINDS.get(table.kind, table.kind))}</span></li>"
        for number, table in enumerate(tables, start=1)
    )
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f"<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n"
        f"<title>{title}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n"
        f'<svg class="definitions" width="0" height="0" aria-hidden="true">{DEFINITIONS}</svg>\n'
        f"<header>\n<h1>{title}</h1>\n{_warnings(document)}{_facts(document)}</header>\n"
        f'<nav aria-label="Contents">\n<h2>Contents</h2>\n<ol>{contents}</ol>\n</nav>\n'
        f"<main>\n{''.join(sections)}</main>\n"
        f"<footer>{clean(document.software)}. The same numbers: <code>result.json</code> (typed) and "
        "<code>results/*.csv</code>.</footer>\n</body>\n</html>\n"
    )


def warnings(document: ResultDocument) -> list[str]:
    """Return what a reader must know before quoting a number."""
    said: list[str] = []
    if document.privacy is None:
        said.append(NO_NOISE)
    else:
        said += document.privacy.sentences
    if document.profile == "open_data":
        said.append(OPEN_DATA)
    if any(item.state is State.RELEASED and not item.signatures for item in document.release):
        said.append(UNCHECKED)
    said += [f"Waived: {waiver}." for waiver in waivers(document)]
    return said + [
        f"Retracted: {item.item}. {item.signatures[-1].reason}"
        for item in document.release
        if item.state is State.RETRACTED
    ]


def waivers(document: ResultDocument) -> list[str]:
    """Return the rules that were waived, as the document names them."""
    return [
        f"{waiver.rule} at {waiver.site} until {waiver.until.isoformat()} ({waiver.value}): {waiver.reason}"
        for waiver in document.waivers
    ]


def left_out(document: ResultDocument) -> list[str]:
    """Return which sites were in earlier iterations and not in later ones."""
    return [
        f"from iteration {left.iteration} on: {', '.join(left.sites)}" for left in document.round.left_out
    ]


def _warnings(document: ResultDocument) -> str:
    lines = "".join(f"<li>{clean(line)}</li>" for line in warnings(document))
    return f'<ul class="warnings">{lines}</ul>\n' if lines else ""


def facts(document: ResultDocument) -> list[tuple[str, str]]:
    """Return the head of the page: what, when, who, and under which rules."""
    study, rules, sites = document.study, document.thresholds, document.sites
    built_on = document.round.builds_on_version
    dropouts = ", ".join(sites.dropouts) or "none"
    rows = [
        ("study", f"{study.id}, version {study.version}"),
        ("fingerprint", study.fingerprint),
        ("consortium", document.roster.consortium or ""),
        ("data epoch", document.epoch),
        ("sites in the sums", f"{len(sites.survivors)}: {', '.join(sites.survivors)}"),
        ("dropped out", dropouts),
        ("people", people(document)),
        ("profile", document.profile),
        ("waivers", ", ".join(waivers(document)) or "none"),
        ("noise", document.noise),
        ("release", release_words(document)),
        (
            "thresholds",
            f"at least {rules.min_sites} sites, {rules.min_participants} people, "
            f"{rules.min_participants_per_site} people per site; {rules.max_colluding_sites} colluding "
            f"{'site' if rules.max_colluding_sites == 1 else 'sites'} reckoned with; every sum hides at least "
            f"{rules.min_honest_inputs} honest {'site' if rules.min_honest_inputs == 1 else 'sites'}",
        ),
        (
            "round",
            f"{document.round.id}, attempt {document.round.attempt}"
            + (f"; unchanged sums from version {built_on}" if built_on else "")
            + (f"; {document.round.iterations} iterations" if document.round.iterations > 1 else ""),
        ),
        ("left out later", "; ".join(left_out(document))),
        ("roster", f"version {document.roster.version}, {document.roster.digest[:16]}…"),
        ("study digest", study.digest),
    ]
    return [row for row in rows if row[1]]


def people(document: ResultDocument) -> str:
    """Return the range of n over all tables that have one, or nothing."""
    counts = [
        int(cell)
        for block in document.tables
        if "n" in block.columns
        for row in block.rows
        if isinstance(cell := row[block.columns.index("n")], int | float)
    ]
    if not counts:
        return ""
    return (
        f"n = {max(counts):,}"
        if min(counts) == max(counts)
        else f"n up to {max(counts):,}; each row says its own"
    )


def _facts(document: ResultDocument) -> str:
    rows = "".join(f"<div><dt>{name}</dt><dd>{clean(text)}</dd></div>" for name, text in facts(document))
    return f"<dl>{rows}</dl>\n"


def _section(number: int, table: Table) -> str:
    kind = clean(KINDS.get(table.kind, table.kind))
    forests = forests_of(table)
    parts = [f'<section id="t{number}">\n<h2>{clean(table.analysis)} <small>{kind}</small></h2>\n']
    if table.notes:
        parts.append(f'<ul class="notes">{"".join(f"<li>{clean(note)}</li>" for note in table.notes)}</ul>\n')
    parts += [figure_html(drawn.figure) for drawn in figures_of(table)]
    parts += [forest_html(effects) for effects in forests]
    parts.append(table_html(table, folded=bool(forests)))
    return "".join(parts) + "</section>\n"


def figure_html(figure: Figure) -> str:
    """Return a figure with its caption."""
    panels = "".join(map(inline, figure.panels))
    caption = _sentences([f"<strong>{clean(figure.title)}.</strong>", clean(figure.caption)])
    return f'<figure>\n<div class="panels">{panels}</div>\n<figcaption>{caption}</figcaption>\n</figure>\n'


def _sentences(parts: Iterable[str]) -> str:
    return " ".join(part for part in parts if part)
