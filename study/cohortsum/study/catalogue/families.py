"""The families of the catalogue: which names they cover, in which unit, inside which public clamp.

A study that says ``{catalogue: freesurfer.thickness}`` takes unit and clamp from here. Both are copied into the frozen
study, so a later catalogue changes no signed study. A clamp is public knowledge: it comes from the source named
beside it, never from the data of a study, and a study's own `range` replaces it.

The clamps without a published source are wide on purpose: they keep every plausible head inside, and a study that will
add noise should narrow them with `range` from a public reference.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

_BRAID = "BRAID pipeline documentation, Differential Privacy, table of biological ranges"
_WIDE = "wide physical bound of this catalogue; no published clamp"


@dataclass(frozen=True, slots=True)
class Row:
    """One variable of the catalogue.

    Attributes:
        name: column name as FreeSurfer's table programs write it.
        unit: unit of the values and of the clamp.
        lower: least plausible value.
        upper: greatest plausible value.
        source: where the clamp comes from.
    """

    name: str
    unit: str
    lower: float
    upper: float
    source: str


@dataclass(frozen=True, slots=True)
class Family:
    """Variables that are measured, bounded and released alike.

    Attributes:
        name: what a study writes after ``catalogue:``.
        title: one line for people.
        rows: the variables, in the order of FreeSurfer's tables.
    """

    name: str
    title: str
    rows: tuple[Row, ...]

    def by_name(self) -> Mapping[str, Row]:
        """Return the rows by variable name."""
        return {row.name: row for row in self.rows}


DESIKAN_KILLIANY = (
    "bankssts", "caudalanteriorcingulate", "caudalmiddlefrontal", "cuneus", "entorhinal", "fusiform",
    "inferiorparietal", "inferiortemporal", "isthmuscingulate", "lateraloccipital", "lateralorbitofrontal", "lingual",
    "medialorbitofrontal", "middletemporal", "parahippocampal", "paracentral", "parsopercularis", "parsorbitalis",
    "parstriangularis", "pericalcarine", "postcentral", "posteriorcingulate", "precentral", "precuneus",
    "rostralanteriorcingulate", "rostralmiddlefrontal", "superiorfrontal", "superiorparietal", "superiortemporal",
    "supramarginal", "frontalpole", "temporalpole", "transversetemporal", "insula",
)  # fmt: skip
"""The 34 cortical regions of one hemisphere (Desikan et al. 2006), in the order of ``aparcstats2table``."""

# One structure per hemisphere: name after `Left-` and `Right-`, clamp in mm3, source.
_SUBCORTICAL = (
    ("Lateral-Ventricle", 0.0, 100_000.0, _WIDE),
    ("Thalamus-Proper", 2_000.0, 15_000.0, _WIDE),  # FreeSurfer 7 writes `Left-Thalamus`; node.yaml renames
    ("Caudate", 500.0, 10_000.0, _WIDE),
    ("Putamen", 500.0, 12_000.0, _WIDE),
    ("Pallidum", 200.0, 5_000.0, _WIDE),
    ("Hippocampus", 1_500.0, 5_000.0, _BRAID),
    ("Amygdala", 200.0, 5_000.0, _WIDE),
    ("Accumbens-area", 50.0, 2_500.0, _WIDE),
)


def _cortical(measure: str, unit: str, lower: float, upper: float, source: str) -> tuple[Row, ...]:
    return tuple(
        Row(f"{hemisphere}_{region}_{measure}", unit, lower, upper, source)
        for hemisphere in ("lh", "rh")
        for region in DESIKAN_KILLIANY
    )


FAMILIES: Mapping[str, Family] = MappingProxyType(
    {
        family.name: family
        for family in (
            Family(
                "freesurfer.thickness",
                "mean cortical thickness of 34 Desikan-Killiany regions per hemisphere",
                _cortical("thickness", "mm", 1.0, 5.0, _BRAID),
            ),
            Family(
                "freesurfer.mean_thickness",
                "mean cortical thickness of a hemisphere",
                tuple(
                    Row(f"{side}_MeanThickness_thickness", "mm", 1.0, 5.0, _BRAID) for side in ("lh", "rh")
                ),
            ),
            Family(
                "freesurfer.area",
                "white surface area of 34 Desikan-Killiany regions per hemisphere",
                _cortical("area", "mm2", 0.0, 20_000.0, _WIDE),
            ),
            Family(
                "freesurfer.volume",
                "volume of eight subcortical structures per hemisphere, and of the head",
                (
                    *(
                        Row(f"{side}-{structure}", "mm3", lower, upper, source)
                        for structure, lower, upper, source in _SUBCORTICAL
                        for side in ("Left", "Right")
                    ),
                    Row("EstimatedTotalIntraCranialVol", "mm3", 500_000.0, 2_500_000.0, _WIDE),
                ),
            ),
        )
    }
)
"""All families by name."""
