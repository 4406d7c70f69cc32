"""What a site's own check says when it does not pass.

A finding names a rule and an item, and never a value, a count or a person: it is written to logs and shown to an admin. That it is
there tells as much about the data as the verdict does, so findings stay at the site like the reason for staying out.
"""

from dataclasses import dataclass
from enum import StrEnum


class SiteRule(StrEnum):
    """The rules of this package, by the id under which a policy waives them and a log names them."""

    DOMINANCE_NK = "dominance_nk"
    DOMINANCE_P = "dominance_p"
    RESIDUAL_DF = "residual_df"
    SATURATION = "saturation"
    HIGH_LEVERAGE = "high_leverage"
    PATTERN_DIFFERENCE = "pattern_difference"


@dataclass(frozen=True, slots=True)
class Finding:
    """One rule that does not hold.

    Attributes:
        rule: which.
        item: what it is about: an outcome, a cell of an analysis, a model.
        what: a sentence, without any value or count of the data.
    """

    rule: SiteRule
    item: str
    what: str
