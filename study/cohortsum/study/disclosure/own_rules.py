"""The gates' own rules: what the pages behind the catalogue leave to an automated check, with where each comes from.

ACRO (AI-SDC, `default.yaml`) and DataSHIELD (dsBase, `zzz.R`) name the limits; both apply them to rows that they hold. Here a site applies
them to its own people before anything is masked, and the coordinator to what was opened.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

ACRO = "ACRO 1.0, default.yaml"
DATASHIELD = "DataSHIELD dsBase 6.3, zzz.R"


@dataclass(frozen=True, slots=True)
class OwnRule:
    """One rule.

    Attributes:
        what: the rule in one line.
        source: where the limit comes from.
    """

    what: str
    source: str


LEAST_DF = 10
MOST_PARAMETERS = 0.33
"""Parameters per person."""

OWN_RULES: Mapping[str, OwnRule] = MappingProxyType(
    {
        "dominance_nk": OwnRule(
            "no two people are 90 % of a group's total or more, measured from the variable's public lower end",
            f"{ACRO}: safe_nk_n, safe_nk_k",
        ),
        "dominance_p": OwnRule(
            "all but the two greatest values of a group come to 10 % of the greatest or more, measured likewise",
            f"{ACRO}: safe_pratio_p",
        ),
        "residual_df": OwnRule(
            f"at least {LEAST_DF} residual degrees of freedom, of a model and of a standard deviation",
            f"{ACRO}: safe_dof_threshold",
        ),
        "saturation": OwnRule(
            f"at most {MOST_PARAMETERS:g} parameters, or variables of a matrix, per person",
            f"{DATASHIELD}: nfilter.glm",
        ),
        "high_leverage": OwnRule(
            "no person decides more than half of a model's fit to that person",
            "hat value above 0.5; the disclosure page, SACRO and Automated Output Checking",
        ),
        "pattern_difference": OwnRule(
            "two outcomes of a study are about the same people of a site, or about sets that differ by k or more",
            "differencing of cross-products: docs/ledger.md",
        ),
        "quantile_tails": OwnRule(
            "as many people as a group must have lie on either side of a quantile",
            "a quantile near an end is nearly one person's value",
        ),
        "small_events": OwnRule(
            "intervals of a survival curve are joined until each holds enough events and people at risk",
            f"{ACRO}: survival_safe_threshold",
        ),
        "gives_n_back": OwnRule(
            "what would give a rounded number of people back is computed from the rounded number, or hidden",
            "privacy page, rounding",
        ),
    }
)
