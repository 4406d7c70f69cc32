"""A release in the folder layout of ACRO 1.0, so that the SACRO viewer opens it.

ACRO checks outputs where the rows are and writes ``results.json``, one CSV file per table, ``config.json`` and a checksum per file;
the viewer shows such a folder to a checker. Here the same folder is made from a released document, in which what a rule hid is absent
already: nothing is checked again, and nothing is in the folder that is not in the document. Cells that a rule hid are named by row and
column, under the reason that stands in them. A reason says no more here than there: where all hidden cells bear one mark, so they do
in this folder.

ACRO's three statuses, as it uses them: ``pass``, every check passed; ``review``, a check changed the table (with what it did as the
exception), or none could look at it; ``fail``, a check failed and nothing was done. A table that failed is withheld and in no document,
so ``fail`` never occurs.

Layout facts are from ACRO 1.0.2 (`record.py`, `sdcchecks.py`, `default.yaml`); the viewer counts the columns after the first one, and
puts summary, comments and exception into its page as HTML, so these are escaped.
"""

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from typing import Final

from cohortsum.crypto.errors import RefusedError
from cohortsum.report.document import ResultDocument, SignatureBlock, provenance
from cohortsum.report.hidden import hiding_reasons, is_hidden
from cohortsum.report.page import waivers
from cohortsum.report.tables import to_csv
from cohortsum.study.disclosure.rules import DEFAULT
from cohortsum.study.disclosure.verdict import Outcome, RuleResult
from cohortsum.study.release.decision import Act
from cohortsum.study.results import Absent, Table

LAYOUT: Final = "1.0.2"
"""ACRO's version whose layout this is; its own reader takes no other, the viewer takes 0.4 and later."""

MODELS: Final = frozenset({"regression", "glm", "cox", "mixed", "dp_sgd"})
"""Kinds of tables that ACRO calls a regression; all others are tables."""

METHODS: Final = {
    "crosstab": "crosstab",
    "summary": "pivot_table",
    "regression": "ols",
    "kaplan_meier": "surv func",
}
"""ACRO's names of methods; another kind stands under its own name."""


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits that were in force, under ACRO's names; None where no such rule was.

    Attributes:
        safe_threshold: least count.
        safe_dof_threshold: least residual degrees of freedom.
        safe_nk_n: of the n, k rule: how many of the greatest values.
        safe_nk_k: and which share of the cell's sum is too much.
        safe_pratio_p: least share that the others must add up to, of the greatest value.
        check_missing_values: whether missing values ask for a look.
        survival_safe_threshold: least number of events in an interval.
        zeros_are_disclosive: whether empty cells are hidden.
        safe_round_base: what counts are rounded to.
    """

    safe_threshold: int | None = None
    safe_dof_threshold: int | None = None
    safe_nk_n: int | None = None
    safe_nk_k: float | None = None
    safe_pratio_p: float | None = None
    check_missing_values: bool | None = None
    survival_safe_threshold: int | None = None
    zeros_are_disclosive: bool | None = None
    safe_round_base: int | None = None


OPEN_DATA: Final = Limits()
"""Public data: nothing is in force."""

DPUK: Final = Limits(
    safe_threshold=DEFAULT.threshold,
    safe_dof_threshold=10,
    safe_nk_n=2,
    safe_nk_k=0.9,
    safe_pratio_p=0.1,
    check_missing_values=False,
    survival_safe_threshold=DEFAULT.threshold,
    zeros_are_disclosive=DEFAULT.zeros_are_disclosive,
    safe_round_base=5,
)
"""The profile's own limits. A waiver changes them for its rule; the comments of every output name it."""


def acro_files(document: ResultDocument, limits: Limits | None = None) -> Iterator[tuple[str, bytes]]:
    """Yield path and content of every file, paths with ``/`` and each once; equal arguments give equal files.

    The time of an output is that of the last signature that released it; an item that nobody signed has none.

    Args:
        document: the release.
        limits: in force; None for those of the document's profile.

    Raises:
        RefusedError: the document holds a table that a rule withheld.
    """
    if limits is None:
        limits = DPUK if document.profile == "dpuk" else OPEN_DATA
    outputs: dict[str, object] = {}
    files: list[tuple[str, bytes]] = []
    for block in document.tables:
        table = block.table()
        name = f"{table.analysis}_0.csv"
        files.append((name, to_csv(table).encode()))
        about = tuple(held.result() for held in document.rules if held.table == table.analysis)
        outputs[table.analysis] = _output(document, table, name, about)
    name, _, version = document.software.partition(" ")
    tool = {"@type": "SoftwareApplication", "name": name, "version": version}
    files.append(("results.json", _json({"version": LAYOUT, "tool": tool, "results": outputs})))
    files.append(("config.json", _json(_config(limits))))
    for name, content in files:
        yield name, content
        yield f"checksums/{name}.txt", hashlib.sha256(content).hexdigest().encode()


def _output(
    document: ResultDocument, table: Table, name: str, rules: Sequence[RuleResult]
) -> dict[str, object]:
    hidden = _hidden(table, rules)
    status, summary, exception = _judged(
        table, rules, {reason: len(cells) for reason, cells in hidden.items()}
    )
    properties: dict[str, object] = {"method": METHODS.get(table.kind, table.kind)}
    if table.kind in MODELS and (df := _least_df(table)) is not None:
        properties["dof"] = df
    sdc = {"summary": {reason: len(cells) for reason, cells in hidden.items()}, "cells": hidden}
    comments = [
        provenance(document),
        *table.notes,
        *(f"{rule.rule}: {rule.outcome.value}: {rule.what}" for rule in rules),
        *(f"waived: {waiver}" for waiver in waivers(document)),
    ]
    study = document.study
    signed = _signed(document, table.analysis)
    comments += [f"{one.act}: {one.by}, {one.role}, {one.at}" for one in signed]
    return {
        "uid": table.analysis,
        "status": status,
        "type": "regression" if table.kind in MODELS else "table",
        "properties": properties,
        "files": [{"name": name, "sdc": sdc}],
        "outcome": _outcome(table, hidden),
        "command": f"{table.kind} {table.analysis} of study {study.id}, version {study.version}",
        "summary": _html(summary),
        "timestamp": max((one.at for one in signed if one.act == Act.RELEASE), default=""),
        "comments": [_html(comment) for comment in comments],
        "exception": _html(exception),
        "fair": {"check_status": {rule.rule: _STATUS[rule.outcome] for rule in rules}},
    }


def _signed(document: ResultDocument, name: str) -> tuple[SignatureBlock, ...]:
    return next((item.signatures for item in document.release if item.item == name), ())


_STATUS: Final = {Outcome.PASSED: "pass", Outcome.CHANGED: "review", Outcome.WAIVED: "review"}


def _hidden(table: Table, rules: Sequence[RuleResult]) -> dict[str, list[list[int]]]:
    """Return (row, column) of the cells that a rule hid, by the reason in them; columns count from the second one.

    The first column names the row, is the index of ACRO's tables, and no rule hides it.
    """
    reasons = hiding_reasons(rules)
    cells: dict[str, list[list[int]]] = {}
    for row, line in enumerate(table.rows):
        for column, cell in enumerate(line[1:]):
            if isinstance(cell, Absent) and is_hidden(cell, reasons):
                cells.setdefault(str(cell.reason), []).append([row, column])
    return cells


def _judged(table: Table, rules: Sequence[RuleResult], hidden: dict[str, int]) -> tuple[str, str, str]:
    """Return status, summary and exception."""
    by = {outcome: [result.rule for result in rules if result.outcome is outcome] for outcome in Outcome}
    if withheld := by[Outcome.WITHHELD]:
        raise RefusedError(
            f"table {table.analysis}: withheld by {', '.join(withheld)}, and yet in the document; make the document again"
        )
    counts = [
        f"{reason}: {count} {'cell' if count == 1 else 'cells'} hidden" for reason, count in hidden.items()
    ]
    changed, waived = by[Outcome.CHANGED], by[Outcome.WAIVED]
    if changed or counts:
        words = [*counts, *(f"{rule}: changed the table" for rule in changed if rule not in hidden)]
        exception = "Automatically applied where needed: " + ", ".join(dict.fromkeys([*changed, *hidden]))
        return "review", "; ".join(("changed by rules", *words, *_waived(waived))), exception
    if waived:
        return "review", "; ".join(("rules waived", *_waived(waived))), f"Waived: {', '.join(waived)}"
    if not rules:
        return "review", "not checked; no rule of disclosure looked at this table", ""
    return "pass", f"pass; {len(rules)} {'rule' if len(rules) == 1 else 'rules'}", ""


def _waived(rules: Sequence[str]) -> list[str]:
    return [f"{rule}: waived" for rule in rules]


def _outcome(table: Table, hidden: dict[str, list[list[int]]]) -> dict[str, dict[str, str]]:
    """Return what became of every cell, by column and row; nothing where no cell is hidden."""
    if not hidden:
        return {}
    flags = {(row, column): reason for reason, cells in hidden.items() for row, column in cells}
    return {
        name: {str(row): flags.get((row, column), "ok") for row in range(len(table.rows))}
        for column, name in enumerate(table.columns[1:])
    }


def _least_df(table: Table) -> int | float | None:
    if "df" not in table.columns:
        return None
    place = table.columns.index("df")
    return min((df for row in table.rows if isinstance(df := row[place], int | float)), default=None)


def _config(limits: Limits) -> dict[str, object]:
    return {
        "safe_threshold": limits.safe_threshold,
        "safe_dof_threshold": limits.safe_dof_threshold,
        "safe_nk_n": limits.safe_nk_n,
        "safe_nk_k": limits.safe_nk_k,
        "safe_pratio_p": limits.safe_pratio_p,
        "check_missing_values": limits.check_missing_values,
        "survival_safe_threshold": limits.survival_safe_threshold,
        "zeros_are_disclosive": limits.zeros_are_disclosive,
        "safe_round_base": limits.safe_round_base,
        "federated": False,  # ACRO's word for evidence without checks; this folder holds results
        "blocked_extensions": [],
    }


def _json(value: object) -> bytes:
    """Return ASCII, which every reader takes for what it is."""
    return json.dumps(value, indent=4, allow_nan=False).encode() + b"\n"


def _html(text: str) -> str:
    return escape(text, quote=False)
