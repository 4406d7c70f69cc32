"""A cross table with margins from which a rule hid cells, and what the rules said: written by hand."""

from cohortsum.study.disclosure.verdict import Outcome, RuleResult
from cohortsum.study.results import CROSSTAB_COLUMNS, Absent, Cell, Status, Table

RULE = "primary_suppression"
LEVELS = ("low", "mid", "high")
COUNTS = {"A": (22, 41, 7), "B": (35, 30, 28), "C": (19, 26, 18)}
HIDDEN = {("A", "high"), ("A", "mid"), ("C", "mid"), ("C", "high")}


def suppressed(name: str = "severity") -> Table:
    """Return 3 sites of people by severity: one count below 10, and three that keep it from being computed."""
    lost = Absent(RULE)
    rows: list[tuple[Cell, ...]] = []
    for arm, counts in COUNTS.items():
        for level, count in zip(LEVELS, counts, strict=True):
            if (arm, level) in HIDDEN:
                rows.append((arm, level, lost, lost, lost, Status.BELOW_THRESHOLD.value))
            else:
                rows.append((arm, level, count, 100 * count / sum(counts), 100 * count / 60, Status.OK.value))
    return Table(name, "crosstab", ("arm", "severity", *CROSSTAB_COLUMNS), tuple(rows), ("3 sites.",))


def results(name: str = "severity") -> tuple[RuleResult, ...]:
    """Return what the rules found in it."""
    return (
        RuleResult(
            RULE, name, Outcome.CHANGED, "counts below 10 are hidden, with as many more as keep them so"
        ),
        RuleResult("count_rounding", name, Outcome.PASSED, "no count needed rounding"),
    )
