"""Units convert by a closed table; a pair outside it does not convert, so mixed units are never summed.

A unit that no row of the table knows (tesla, points) matches only itself. A voxel count becomes a volume only
by the voxel volume that the site declares: a count of voxels says nothing across scanners.
"""

from fractions import Fraction

_QUANTITIES: tuple[dict[str, Fraction], ...] = (
    {"mm": Fraction(1), "cm": Fraction(10), "m": Fraction(1000)},
    {"mm2": Fraction(1), "cm2": Fraction(100)},
    {"mm3": Fraction(1), "cm3": Fraction(1000), "ml": Fraction(1000), "l": Fraction(1_000_000)},
    {
        "years": Fraction(1),
        "months": Fraction(1, 12),
        "weeks": 7 / Fraction("365.25"),
        "days": 1 / Fraction("365.25"),
    },
    {"mm2/s": Fraction(1), "um2/ms": Fraction(1, 1000)},
    {"kg": Fraction(1), "g": Fraction(1, 1000)},
    {"fraction": Fraction(1), "percent": Fraction(1, 100)},
)


_SPELLINGS = {
    **{"year": "years", "yr": "years", "y": "years"},
    **{"month": "months", "mo": "months", "week": "weeks", "wk": "weeks", "day": "days", "d": "days"},
    **{"millimeter": "mm", "millimeters": "mm", "millimetre": "mm", "millimetres": "mm"},
    **{"mm^2": "mm2", "mm\u00b2": "mm2", "cm^2": "cm2", "cm\u00b2": "cm2"},
    **{"mm^3": "mm3", "mm\u00b3": "mm3", "cm^3": "cm3", "cm\u00b3": "cm3", "mL": "ml", "L": "l"},
    **{"mm^2/s": "mm2/s", "mm\u00b2/s": "mm2/s", "um^2/ms": "um2/ms", "\u00b5m\u00b2/ms": "um2/ms"},
    **{"kilogram": "kg", "kilograms": "kg", "gram": "g", "grams": "g", "%": "percent"},
}


def spelled(unit: str) -> str:
    """Return the unit of the closed table that ``unit`` is another spelling of, or else ``unit`` itself."""
    return _SPELLINGS.get(
        unit, _SPELLINGS.get(unit.lower(), unit.lower() if _is_known(unit.lower()) else unit)
    )


def _is_known(unit: str) -> bool:
    return any(unit in quantity for quantity in _QUANTITIES)


def is_size(unit: str) -> bool:
    """Return whether ``unit`` measures a length, an area or a volume."""
    return any(unit in quantity for quantity in _QUANTITIES[:3])


def conversion(column: str, study: str, voxel_mm3: float | None = None) -> float | None:
    """Return the factor from a column's unit to the study's, or None where the pair does not convert.

    Args:
        column: the unit in the site's table.
        study: the unit the study declares.
        voxel_mm3: volume of one voxel, for a column in ``voxels``.
    """
    if column == study:
        return 1.0
    for quantity in _QUANTITIES:
        if study not in quantity:
            continue
        if column == "voxels" and "mm3" in quantity and voxel_mm3 is not None:
            return float(Fraction(voxel_mm3) / quantity[study])
        if column in quantity:
            return float(quantity[column] / quantity[study])
    return None
