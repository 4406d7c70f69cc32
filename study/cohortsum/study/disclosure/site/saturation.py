"""Whether a model has people enough for its parameters: residual degrees of freedom, and parameters per person.

A model with as many parameters as people is its people's rows in other words: the residuals are 0, and the outcomes follow from the
coefficients. Two limits keep away from there, and neither implies the other (10 people and 1 parameter; 100 and 40):

- ``residual_df``: ``n - p >= 10``, the minimum of ACRO;
- ``saturation``: ``p <= 0.33 n``, DataSHIELD's `nfilter.glm`, which it also sets for the variables of a covariance matrix.

==========  ==============================================  =================  ===============  ==============
fitted      n                                               p                  ``residual_df``  ``saturation``
==========  ==============================================  =================  ===============  ==============
``MODEL``   people who count in a linear, logistic or       coefficients       yes              yes
            other GLM, mixed or normative model, ANCOVA;
            in Cox regression people with an event, since
            the partial likelihood has a factor for each
``SPREAD``  people of the cell (mean with SD, variance),    1 per mean         yes              no
            or of both groups (t test)
``MATRIX``  people with every variable (covariance,         variables          yes, with p = 2  yes
            correlation, PCA)
==========  ==============================================  =================  ===============  ==============

A spread has no limit on p: it has one parameter, and ``n - 1 >= 10`` is the stricter of both. Every entry of a matrix is about two
variables, so its degrees of freedom are those of a pair, while its size is bounded like a model's. Plain counts, sums and means have
neither rule; thresholds and dominance are about them.

At a site p counts the site's own level too (``within``: one intercept here), and may be the rank of the site's design, since a column
that is constant or an alias here fits nobody. In the cohort ``within`` has one intercept per site in the sum. Both levels are asked
with this one function: a derivable site's totals count as known, so passing in the cohort is not enough. The limits are compared in
whole numbers, without rounding.
"""

from dataclasses import dataclass
from enum import Enum
from fractions import Fraction

from cohortsum.study.disclosure.site.finding import Finding, SiteRule

PAIR = 2


class Fitted(Enum):
    """What is computed, by which of the limits apply to it."""

    MODEL = "model"
    SPREAD = "spread"
    MATRIX = "matrix"


@dataclass(frozen=True, slots=True)
class FitLimits:
    """The least residual degrees of freedom, and the greatest number of parameters per person."""

    residual_df: int = 10
    parameters_per_person: Fraction = Fraction(33, 100)

    def __post_init__(self) -> None:
        """Refuse limits that mean nothing."""
        if self.residual_df < 0 or not 0 < self.parameters_per_person <= 1:
            raise ValueError("residual_df is at least 0, parameters_per_person above 0 and at most 1")


def fit_findings(
    item: str, fitted: Fitted, people: int, parameters: int, limits: FitLimits | None = None
) -> tuple[Finding, ...]:
    """Return the rules that a fit breaks, none where it may be made.

    Args:
        item: the analysis, or the outcome in it.
        fitted: what is computed.
        people: n of the table above, of the site or of the cohort.
        parameters: p of the table above, at least 1.
        limits: of the profile; None for the defaults.

    Raises:
        ValueError: a number of people below 0 or of parameters below 1.
    """
    if people < 0 or parameters < 1:
        raise ValueError("a fit has at least one parameter, and no fewer than no people")
    held = FitLimits() if limits is None else limits
    found: list[Finding] = []
    if people - (PAIR if fitted is Fitted.MATRIX else parameters) < held.residual_df:
        found.append(
            Finding(SiteRule.RESIDUAL_DF, item, f"fewer than {held.residual_df} residual degrees of freedom")
        )
    if fitted is not Fitted.SPREAD and parameters > held.parameters_per_person * people:
        share = float(held.parameters_per_person)
        noun = "variables" if fitted is Fitted.MATRIX else "parameters"
        found.append(Finding(SiteRule.SATURATION, item, f"more than {share:g} {noun} per person"))
    return tuple(found)
