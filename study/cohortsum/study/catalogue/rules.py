"""All rules of disclosure, in the order of the page.

**Data only.** This version enforces none of them at its gate; they are here for checkers, and for the code that will.
"""

from collections.abc import Mapping
from types import MappingProxyType

from cohortsum.study.catalogue.rule import Rule
from cohortsum.study.catalogue.rules_diffusion import DIFFUSION_RULES, QUALITY_RULES
from cohortsum.study.catalogue.rules_general import CELLS, CHECKS, LOGS, SIZES, SPATIAL
from cohortsum.study.catalogue.rules_structural import BIANCA, FREESURFER_RULES, SIENAX

RULES: tuple[Rule, ...] = (
    *SIZES,
    *CELLS,
    *SIENAX,
    *BIANCA,
    *FREESURFER_RULES,
    *DIFFUSION_RULES,
    *QUALITY_RULES,
    *LOGS,
    *SPATIAL,
    *CHECKS,
)
"""Every rule."""

RULES_BY_ID: Mapping[str, Rule] = MappingProxyType({rule.id: rule for rule in RULES})
"""The rules by their id."""
