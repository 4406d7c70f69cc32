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
