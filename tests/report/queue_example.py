"""Items of a queue as a checker meets them: a plain one, one with hidden cells and a history, and a long one."""

import datetime
from dataclasses import replace

from cohortsum.report.document import StudyIdentity
from cohortsum.report.queue_item import Change, Question, QueueItem, SignedAct
from cohortsum.study.catalogue.rules import RULES_BY_ID
from cohortsum.study.disclosure.verdict import Outcome, RuleResult, Waiver
from cohortsum.study.results import Absent, Table
from tests.report.example import thickness_table
from tests.report.hidden import RULE, results, suppressed
from tests.report.kinds import SUMMARY

STUDY = StudyIdentity(
    id="asd-open", title="Cortical thickness in autism", version=3, digest="0a" * 32, fingerprint="CHA-547-R9C-G73-RB9"
)  # fmt: skip
DIGEST = "9f2c4e81b7d05a36" * 4
WAIVER = Waiver(
    "idp_site_50",
    "at least 20 people at every site that contributes",
    "A rare disease: no site has 50 patients.",
    "Data governance board, minute 14",
    datetime.date(2027, 6, 30),
    "oak",
)
MACHINE = {
    "checklist_size": True,
    "checklist_top_code": None,
    "checklist_noise": False,
    "checklist_automated_check": True,
}
CHECKLIST = tuple(
    Question(name, RULES_BY_ID[name].what, name in MACHINE, MACHINE.get(name))
    for name in (
        "logs_in_agreement", "automated_check", "checklist_size", "checklist_no_rows", "checklist_no_identifiers",
        "checklist_top_code", "checklist_noise", "checklist_logs", "checklist_spatial", "checklist_automated_check",
        "checklist_sign_off",
    )
)  # fmt: skip
SIGNED = SignedAct("m.weber", "checker", "release", "2026-11-29T16:04:11Z", "")


def queued(table: Table, rules: tuple[RuleResult, ...] = ()) -> QueueItem:
    """Return an item of a table under public rules."""
    return QueueItem(
        study=STUDY,
        profile="dpuk",
        waivers=(),
        name=table.analysis,
        state="queue",
        digest=DIGEST,
        table=table,
        rules=rules,
        checklist=CHECKLIST,
        signatures=(),
        changes=(),
        noise="No noise was added: the numbers are exact sums over the sites.",
    )


def passed(table: str, *rules: str) -> tuple[RuleResult, ...]:
    """Return results of rules that found nothing."""
    return tuple(RuleResult(rule, table, Outcome.PASSED, "holds for every figure") for rule in rules)


def plain() -> QueueItem:
    """Return a table that nothing was done to."""
    table = replace(SUMMARY, rows=SUMMARY.rows[:2], notes=SUMMARY.notes[:1])
    return queued(
        table, passed(table.analysis, "group_10", "round_100", "round_site_20", "complement_suppression")
    )


def with_history() -> QueueItem:
    """Return a cross table with hidden cells, a waiver, a signature, and two earlier releases."""
    lost = Absent(RULE)
    changes = (
        Change("version 2", "changed", "A, low", "count", 24, 22),
        Change("version 2", "changed", "A, high", "count", 12, lost),
        Change("version 2", "changed", "A, mid", "count", lost, lost),
        Change("version 2", "changed", "B, low", "row_percent", 37.63440860215053, 37.634408602150536),
        Change("version 2", "appeared", "C, low", "count", None, 19),
        Change("version 2", "vanished", "D, low", "count", 31, None),
        Change("before it was returned", "changed", "B, mid", "count", lost, 30),
    )
    waived = RuleResult("idp_site_50", "severity", Outcome.WAIVED, "waived at oak; two sites have fewer")
    return replace(
        queued(suppressed(), (*results(), waived, *passed("severity", "group_10", "round_100"))),
        waivers=(WAIVER,),
        signatures=(SIGNED, SignedAct("j.osei", "site admin", "return", "2026-11-29T17:30:00Z", "Merge mid and high.")),
        changes=changes,
    )  # fmt: skip


def long() -> QueueItem:
    """Return a regression of 68 outcomes."""
    held = thickness_table()
    table = replace(held, rows=held.rows[::2])
    return queued(table, passed(table.analysis, "group_10", "idp_site_50", "means_of_site_sums"))
