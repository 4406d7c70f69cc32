"""FreeSurfer's measures, under the names of its table programs, and the BRC pipeline's names for its nuclei.

``aparcstats2table`` and ``asegstats2table`` write the first four families. The parts of hippocampus, amygdala, thalamus
and brain stem have no table program of that kind; their rows bear the names of the BRC pipeline (``FS_headers.txt``).

Rows are the Desikan-Killiany atlas and FreeSurfer's subcortical structures. Columns of other parcellations (Destrieux,
DKT, Brodmann areas, the pial surface) fall under the same rules, and have no row: their regions have other borders. The
rows of the first four families stay as they are: a glob in a study file is written out over them.
"""

from cohortsum.study.catalogue.family import BRAID, WIDE, Family, Row

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
    ("Lateral-Ventricle", 0.0, 100_000.0, WIDE),
    ("Thalamus-Proper", 2_000.0, 15_000.0, WIDE),  # FreeSurfer 7 writes `Left-Thalamus`
    ("Caudate", 500.0, 10_000.0, WIDE),
    ("Putamen", 500.0, 12_000.0, WIDE),
    ("Pallidum", 200.0, 5_000.0, WIDE),
    ("Hippocampus", 1_500.0, 5_000.0, BRAID),
    ("Amygdala", 200.0, 5_000.0, WIDE),
    ("Accumbens-area", 50.0, 2_500.0, WIDE),
)

# Parts of structures: prefix of the column, parts, greatest volume in mm3. A part may be missed, so the least is 0.
_PARTS = (
    ("HippSubfield_{}_volume_", (
        "Hippocampal-tail", "subiculum-body", "CA1-body", "subiculum-head", "hippocampal-fissure",
        "presubiculum-head", "CA1-head", "presubiculum-body", "parasubiculum", "molecular-layer-HP-head",
        "molecular-layer-HP-body", "GC-ML-DG-head", "CA3-body", "GC-ML-DG-body", "CA4-head", "CA4-body", "fimbria",
        "CA3-head", "HATA",
    ), 1_500.0),
    ("HippSubfield_{}_volume_", ("Whole-hippocampal-body", "Whole-hippocampal-head"), 3_500.0),
    ("AmygNuclei_{}_volume_", (
        "Lateral-nucleus", "Basal-nucleus", "Accessory-Basal-nucleus", "Anterior-amygdaloid-area-AAA",
        "Central-nucleus", "Medial-nucleus", "Cortical-nucleus", "Corticoamygdaloid-transitio", "Paralaminar-nucleus",
    ), 1_500.0),
    ("ThalamNuclei_{}_volume_", (
        "MGN", "LGN", "PuI", "PuM", "L-Sg", "VPL", "CM", "VLa", "PuA", "MDm", "Pf", "VAmc", "MDl", "CeM", "VA",
        "MV(Re)", "VM", "CL", "PuL", "Pt", "AV", "Pc", "VLp", "LP", "LD",
    ), 3_000.0),
)  # fmt: skip

# Whole structures beside their parts: prefix, name, clamp in mm3, source.
_WHOLES = (
    ("HippSubfield_{}_volume_", "Whole-hippocampus", 1_500.0, 5_000.0, BRAID),
    ("AmygNuclei_{}_volume_", "Whole-amygdala", 200.0, 5_000.0, WIDE),
    ("ThalamNuclei_{}_volume_", "Whole-thalamus", 2_000.0, 15_000.0, WIDE),
)

# The brain stem has one of each: name, clamp in mm3.
_BRAIN_STEM = (
    ("Medulla", 0.0, 12_000.0),
    ("Pons", 0.0, 35_000.0),
    ("SCP", 0.0, 1_500.0),
    ("Midbrain", 0.0, 15_000.0),
    ("Whole-brainstem", 8_000.0, 50_000.0),
)

_SIDES = ("lh", "rh")


def _cortical(measure: str, unit: str, lower: float, upper: float, source: str) -> tuple[Row, ...]:
    return tuple(
        Row(f"{hemisphere}_{region}_{measure}", unit, lower, upper, source)
        for hemisphere in _SIDES
        for region in DESIKAN_KILLIANY
    )


def _nuclei() -> tuple[Row, ...]:
    parts = (
        Row(prefix.format(side) + part, "mm3", 0.0, upper, WIDE)
        for prefix, names, upper in _PARTS
        for side in _SIDES
        for part in names
    )
    wholes = (
        Row(prefix.format(side) + name, "mm3", lower, upper, source)
        for prefix, name, lower, upper, source in _WHOLES
        for side in _SIDES
    )
    stem = (
        Row(f"Brainstem_global_volume_{name}", "mm3", lower, upper, WIDE)
        for name, lower, upper in _BRAIN_STEM
    )
    return (*parts, *wholes, *stem)


_BRC_SURFACE = r"(aparc-[^_]+|BA-exvivo)_(lh|rh)"

FREESURFER = (
    Family(
        "freesurfer.mean_thickness",
        "mean cortical thickness of a hemisphere",
        tuple(Row(f"{side}_MeanThickness_thickness", "mm", 1.0, 5.0, BRAID) for side in _SIDES),
        (r"(lh|rh)_MeanThickness_thickness_dkt",),
    ),
    Family(
        "freesurfer.thickness",
        "mean cortical thickness of 34 Desikan-Killiany regions per hemisphere",
        _cortical("thickness", "mm", 1.0, 5.0, BRAID),
        (r"(lh|rh)_.+_thickness(std)?(_dkt)?", r"[LR]_.+_thickavg", rf"{_BRC_SURFACE}_thickness_.+"),
    ),
    Family(
        "freesurfer.area",
        "white surface area of 34 Desikan-Killiany regions per hemisphere",
        _cortical("area", "mm2", 0.0, 20_000.0, WIDE),
        (r"(lh|rh)_.+_area(_dkt)?", r"[LR]_.+_surfavg", r"[LR]SurfArea", rf"{_BRC_SURFACE}_area_.+"),
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
            Row("EstimatedTotalIntraCranialVol", "mm3", 500_000.0, 2_500_000.0, WIDE),
        ),
        (
            r"(Left|Right)-.+",
            r"(3rd|4th|5th)-Ventricle|Brain-Stem|CSF|Optic-Chiasm|(non-)?WM-hypointensities|CC_.+",
            r"(lh|rh)?(Cortex|Cortical|Cerebral|SubCort|Total|SupraTentorial|BrainSeg|Mask|Ventricle).*Vol.*",
            r"IntraCranialVol",
            r"(lh|rh)_.+_volume(_dkt)?",
            rf"{_BRC_SURFACE}_volume_.+|aseg_(global|lh|rh)_volume(-ratio)?_.+",
        ),
    ),
    Family(
        "freesurfer.subfields",
        "volume of the parts of hippocampus, amygdala, thalamus and brain stem",
        _nuclei(),
        (r"(HippSubfield|AmygNuclei|ThalamNuclei|Brainstem)_(global|lh|rh)_volume_.+",),
    ),
    Family(
        "freesurfer.other",
        "further values of FreeSurfer: intensities, contrast, curvature, defects of the surface",
        patterns=(
            r"aseg_(global|lh|rh)_(intensity|number)_.+|wg_(lh|rh)_intensity-contrast_.+",
            r"(lh|rh)_.+_(meancurv|gauscurv|foldind|curvind)(_dkt)?",
            r"(lh|rh)?SurfaceHoles|Use-T2-FLAIR-for-FreeSurfer",
        ),
    ),
)
