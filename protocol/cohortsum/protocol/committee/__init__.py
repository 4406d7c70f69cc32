"""The committee: sites that compute on shares of small sums and open answers only. Pure; the node carries and computes.

Whoever builds on it needs this much: make a `CommitteePlan` of programs, hand every site's vector to its node, and read the
answers, one tuple of whole numbers per program, in the order of the programs.
"""

from cohortsum.protocol.committee.checks import agreed_answers, outcome_digest
from cohortsum.protocol.committee.costs import Cost, cost
from cohortsum.protocol.committee.plan import Answer, CommitteePlan
from cohortsum.protocol.committee.programs import (
    SUPPRESSED,
    Complement,
    OpenCounts,
    OrderStatistics,
    Program,
    Threshold,
)
from cohortsum.protocol.committee.ranks import Place, bottom_code, percentile, top_code

__all__ = [
    "SUPPRESSED",
    "Answer",
    "CommitteePlan",
    "Complement",
    "Cost",
    "OpenCounts",
    "OrderStatistics",
    "Place",
    "Program",
    "Threshold",
    "agreed_answers",
    "bottom_code",
    "cost",
    "outcome_digest",
    "percentile",
    "top_code",
]
