"""One item of the release queue, as whoever decides about it sees it: on a terminal, or as a page.

The item is one table with the figures drawn from it. Everything a checker needs stands here: the numbers, what every rule
found, the questions to answer, who has signed, and what became different since an earlier release. Values are in it, so it goes
only to those who may read queued items.
"""

from dataclasses import dataclass
from typing import Literal

from cohortsum.report.document import StudyIdentity
from cohortsum.study.disclosure.verdict import Profile, RuleResult, Waiver
from cohortsum.study.results import Cell, Table


@dataclass(frozen=True, slots=True)
class Question:
    """One line of the checklist.

    Attributes:
        id: of the rule in the catalogue that asks it.
        text: what is asked.
        machine: whether a program answers it, from the results of the rules; a checker answers the others.
        answered: the program's answer; None where a person answers, or where no rule of the item's profile looked.
    """

    id: str
    text: str
    machine: bool
    answered: bool | None


@dataclass(frozen=True, slots=True)
class Change:
    """One cell that is another one than in an earlier release.

    Attributes:
        since: the earlier one, in words: ``version 2``, or ``before it was returned``.
        what: what became of the cell.
        row: the row's names (the cells of its text columns), with commas between them.
        column: the cell's column.
        before: the earlier cell; None where there was none.
        after: the cell now; None where there is none.
    """

    since: str
    what: Literal["changed", "appeared", "vanished"]
    row: str
    column: str
    before: Cell | None
    after: Cell | None


@dataclass(frozen=True, slots=True)
class SignedAct:
    """Who decided what: ``act`` is a word of `study.release.decision.Act`, ``at`` RFC 3339 in UTC."""

    by: str
    role: str
    act: str
    at: str
    reason: str


@dataclass(frozen=True, slots=True)
class QueueItem:
    """An item of a release.

    Attributes:
        study: which study.
        profile: the strictest of the sites in the sum.
        waivers: of these sites.
        name: the item's: the table's ``analysis``.
        state: a word of `study.release.states.State`.
        digest: of table and study, SHA-256 in hexadecimal: what a decision signs.
        table: as it would leave.
        rules: what every rule found in it.
        checklist: the questions, in the order of the disclosure page.
        signatures: under this very digest so far, in their order.
        changes: against earlier releases of the same table.
        noise: what the noise promises, in a sentence, or that there is none.
    """

    study: StudyIdentity
    profile: Profile
    waivers: tuple[Waiver, ...]
    name: str
    state: str
    digest: str
    table: Table
    rules: tuple[RuleResult, ...]
    checklist: tuple[Question, ...]
    signatures: tuple[SignedAct, ...]
    changes: tuple[Change, ...]
    noise: str
