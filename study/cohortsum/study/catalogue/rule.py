"""What one rule of disclosure is, and the sets of families that rules apply to."""

from dataclasses import dataclass
from enum import StrEnum

from cohortsum.study.catalogue.controls import Control
from cohortsum.study.catalogue.families import ALL_FAMILIES
from cohortsum.study.catalogue.outputs import Output


class Page(StrEnum):
    """Where a rule is written."""

    DISCLOSURE = "BRAID pipeline documentation, Disclosure Thresholds & Output Controls"
    PRIVACY = "BRAID pipeline documentation, Differential Privacy"


@dataclass(frozen=True, slots=True)
class Source:
    """Where on which page.

    Attributes:
        heading: the section's heading.
        entry: row of a table, item of a list or the like inside it; empty for running text.
        page: the page.
    """

    heading: str
    entry: str = ""
    page: Page = Page.DISCLOSURE


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule.

    Attributes:
        id: its name in decisions, waivers and documents.
        what: the rule in one line.
        families: names of the families it applies to.
        outputs: outputs it applies to.
        control: what it asks for.
        source: where it is written.
        note: where it meets or contradicts other rules, and how it is read; may be empty.
    """

    id: str
    what: str
    families: frozenset[str]
    outputs: frozenset[Output]
    control: Control
    source: Source
    note: str = ""


EVERY_FAMILY = frozenset(ALL_FAMILIES)
FREESURFER = frozenset(name for name in ALL_FAMILIES if name.startswith("freesurfer."))
DIFFUSION = frozenset(("tbss", "noddi", "autoptx"))
ANY_IMAGING = frozenset(name for name, family in ALL_FAMILIES.items() if family.imaging) - {"tbss"}
"""What a rule for all imaging measures applies to. The one such rule of the page excepts TBSS."""

PER_FIGURE = (
    "Written per figure. A thousand figures at epsilon 1 are far more than 1: budgets here are totals."
)
"""Note on rules that ask for noise."""


def only(*names: str) -> frozenset[str]:
    """Return the families named; raises ValueError for a name without family."""
    if unknown := [name for name in names if name not in ALL_FAMILIES]:
        raise ValueError(f"no family {', '.join(unknown)}")
    return frozenset(names)
