"""Which cells a rule hid: those whose reason is the name of a rule, or says that a count is below the threshold.

A cell can be empty for many reasons (no second df, not reached, aliased), and those are not secrets. A reader who must see what
was hidden needs the two told apart.
"""

from collections.abc import Iterable

from cohortsum.study.catalogue.rules import RULES_BY_ID
from cohortsum.study.disclosure.own_rules import OWN_RULES
from cohortsum.study.disclosure.verdict import RuleResult
from cohortsum.study.results import HIDDEN, Absent, Cell, Status


def hiding_reasons(rules: Iterable[RuleResult]) -> frozenset[str]:
    """Return the reasons that mean a rule hid the cell: the catalogue's rules, and those with a result here."""
    return frozenset(
        (
            Status.BELOW_THRESHOLD.value,
            HIDDEN.reason,
            *RULES_BY_ID,
            *OWN_RULES,
            *(result.rule for result in rules),
        )
    )


def is_hidden(cell: Cell | None, reasons: frozenset[str]) -> bool:
    """Whether a rule hid the cell."""
    return isinstance(cell, Absent) and cell.reason in reasons
