"""The catalogue of variable families: units, public clamps and the names they cover; the rules of disclosure as data."""

from cohortsum.study.catalogue.families import ALL_FAMILIES, FAMILIES
from cohortsum.study.catalogue.family import Family, Row
from cohortsum.study.catalogue.freesurfer import DESIKAN_KILLIANY
from cohortsum.study.catalogue.names import family_of, row_of
from cohortsum.study.catalogue.outputs import OUTPUTS_OF_KIND, Output
from cohortsum.study.catalogue.rule import Rule
from cohortsum.study.catalogue.rules import RULES, RULES_BY_ID
from cohortsum.study.catalogue.strictest import Decision, rules_for, strictest

__all__ = [
    "ALL_FAMILIES",
    "DESIKAN_KILLIANY",
    "FAMILIES",
    "OUTPUTS_OF_KIND",
    "RULES",
    "RULES_BY_ID",
    "Decision",
    "Family",
    "Output",
    "Row",
    "Rule",
    "family_of",
    "row_of",
    "rules_for",
    "strictest",
]
