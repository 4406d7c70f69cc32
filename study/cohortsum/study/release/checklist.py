"""The checklist before a release, derived from the catalogue: whatever the disclosure page lists or asks somebody to confirm.

A question that the rules of the gate can answer is the machine's: it is answered from their results, and a checker reads the
answer. Every other one is for people: whoever signs a release confirms each of them. Where the page asks the same thing twice,
the checklist's own line stands.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from cohortsum.study.catalogue.controls import (
    AlwaysNoise,
    Confirm,
    Control,
    MinimumN,
    NoiseBelow,
    PublicTopCode,
)
from cohortsum.study.catalogue.rule import Rule
from cohortsum.study.catalogue.rules import RULES, RULES_BY_ID
from cohortsum.study.disclosure.verdict import Outcome, RuleResult

HEADING = "Output Submission Checklist"
"""The section of the page whose every line is a question, whatever it asks for."""

ANSWERED_BY: dict[str, tuple[type[Control], ...]] = {
    "checklist_size": (MinimumN,),
    "checklist_top_code": (PublicTopCode,),
    "checklist_noise": (NoiseBelow, AlwaysNoise),
    "checklist_automated_check": (),
}
"""Questions for the machine, with the controls whose rules answer them; none means every rule."""


@dataclass(frozen=True, slots=True)
class ChecklistItem:
    """One question: id of its rule, the statement to confirm, and whether the machine answers it."""

    id: str
    text: str
    machine: bool


def _checklist() -> tuple[ChecklistItem, ...]:
    listed = [rule for rule in RULES if rule.source.heading == HEADING]
    said = {_statement(rule) for rule in listed}
    others = [rule for rule in RULES if isinstance(rule.control, Confirm) and _statement(rule) not in said]
    return tuple(
        ChecklistItem(rule.id, _statement(rule), rule.id in ANSWERED_BY) for rule in (*others, *listed)
    )


def _statement(rule: Rule) -> str:
    return rule.control.what if isinstance(rule.control, Confirm) else rule.what


CHECKLIST: tuple[ChecklistItem, ...] = _checklist()
"""Every question, those outside the page's own list first."""

HUMAN: tuple[str, ...] = tuple(sorted(item.id for item in CHECKLIST if not item.machine))
"""Ids that a signature must confirm, sorted."""


def answered(item: ChecklistItem, results: Iterable[RuleResult]) -> bool | None:
    """Return the machine's answer to a question about one table; None for people's, and where no rule looked.

    A waived rule is no yes: the checker reads who waived it, and why.

    Args:
        item: the question.
        results: of the rules, about that table.
    """
    if not item.machine:
        return None
    controls = ANSWERED_BY[item.id]
    outcomes = [result.outcome for result in results if not controls or _asks(result.rule, controls)]
    if not outcomes:
        return None
    return all(outcome in (Outcome.PASSED, Outcome.CHANGED) for outcome in outcomes)


def _asks(name: str, controls: tuple[type[Control], ...]) -> bool:
    rule = RULES_BY_ID.get(name)  # the gate has rules of its own beside the catalogue's
    return rule is not None and isinstance(rule.control, controls)
