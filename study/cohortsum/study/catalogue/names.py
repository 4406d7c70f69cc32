"""Which family, and which row, a column of a site's table belongs to.

Tables call one measure by several names: FreeSurfer's own programs, the BRC pipeline
(``aparc-Desikan_lh_thickness_cuneus``) and ENIGMA's scripts (``L_cuneus_thickavg``). A column has a row where its name is
a known spelling of a row's, so that unit and clamp hold for it; and it has a family, whose rules hold for it, where a
pattern of the family covers its name. Names are opaque beyond that.
"""

import re

from cohortsum.study.catalogue.families import ALL_FAMILIES, FAMILIES
from cohortsum.study.catalogue.family import Family, Row

_ROWS = {row.name: (family, row) for family in FAMILIES.values() for row in family.rows}
_HEMISPHERES = (("L", "lh", "Left"), ("R", "rh", "Right"))
_STRUCTURES = (
    ("LatVent", "Lateral-Ventricle"),
    ("thal", "Thalamus-Proper"),
    ("caud", "Caudate"),
    ("put", "Putamen"),
    ("pal", "Pallidum"),
    ("hippo", "Hippocampus"),
    ("amyg", "Amygdala"),
    ("accumb", "Accumbens-area"),
)
_HEAD = "EstimatedTotalIntraCranialVol"

# Whole name, as a regular expression, and the row's name.
_SPELLINGS: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern), name)
    for pattern, name in (
        *((rf"{letter}_(.+)_thickavg", rf"{side}_\1_thickness") for letter, side, _ in _HEMISPHERES),
        *((rf"{letter}_(.+)_surfavg", rf"{side}_\1_area") for letter, side, _ in _HEMISPHERES),
        *(
            (rf"{letter}Thickness|aparc-Desikan_{side}_thickness_GlobalMeanThickness", mean)
            for letter, side, _ in _HEMISPHERES
            for mean in (f"{side}_MeanThickness_thickness",)
        ),
        (r"aparc-Desikan_(lh|rh)_(thickness|area)_(.+)", r"\1_\3_\2"),
        *(
            (rf"{letter}{short}|aseg_{side}_volume_{structure}", f"{word}-{structure}")
            for letter, side, word in _HEMISPHERES
            for short, structure in _STRUCTURES
        ),
        (r"(Left|Right)-Thalamus", r"\1-Thalamus-Proper"),
        (r"eTIV|ICV|aseg_global_volume_EstimatedTotalIntraCranial", _HEAD),
        (r"(IDP_)?T2_FLAIR_BIANCA_WMH_volume", "T2_FLAIR_WMH_volume"),
    )
)
_PATTERNS = tuple(
    (re.compile(pattern), family) for family in ALL_FAMILIES.values() for pattern in family.patterns
)


def row_of(column: str) -> Row | None:
    """Return the catalogue's row of a column, by its name or a known spelling of it; None where it has none."""
    found = _found(column)
    return found[1] if found is not None else None


def family_of(column: str) -> Family | None:
    """Return the family whose rules hold for a column; None for a name that the catalogue does not know."""
    found = _found(column)
    if found is not None:
        return found[0]
    return next((family for pattern, family in _PATTERNS if pattern.fullmatch(column)), None)


def _found(column: str) -> tuple[Family, Row] | None:
    if column in _ROWS:
        return _ROWS[column]
    for pattern, name in _SPELLINGS:
        match = pattern.fullmatch(column)
        if match is not None:
            return _ROWS.get(match.expand(name))
    return None
