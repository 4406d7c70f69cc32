"""The catalogue of variable families: units, public clamps and the names they cover."""

from cohortsum.study.catalogue.families import DESIKAN_KILLIANY, FAMILIES, Family, Row

__all__ = ["DESIKAN_KILLIANY", "FAMILIES", "Family", "Row"]
