"""Volumes by FSL's programs as the BRC pipeline lists them: SIENAX, BIANCA, FIRST and FAST.

**SIENAX** gives every tissue twice: in the person's own space, and scaled to a standard head by its factor
(VSCALING; the pipeline's ``headsize_scaling``). The published clamp of the brain's volume is that of an absolute
volume, so it stands at the unnormalised one; a normalised brain is larger, and often above its upper end.

**BIANCA**: the unit of white matter hyperintensities is a trap. The pipeline stores a *count of voxels* and calls it
mm3, papers speak of ml, others of a share of the brain. The row is in mm3: a column in ml converts, a count of voxels
only with the voxel volume that a site declares, a share never.
"""

from cohortsum.study.catalogue.family import BRAID, WIDE, Family, Row

# Tissue, clamp in mm3, source. A normalised volume is 1.0 to 1.7 times the unnormalised one.
_NORMALISED = (
    ("peripheral_GM_", 300_000.0, 1_000_000.0, WIDE),
    ("CSF_", 0.0, 400_000.0, WIDE),
    ("GM_", 400_000.0, 1_200_000.0, WIDE),
    ("WM_", 350_000.0, 1_100_000.0, WIDE),
    ("brain-", 1_000_000.0, 2_000_000.0, WIDE),
)
_UNNORMALISED = (
    ("peripheral_GM_", 200_000.0, 900_000.0, WIDE),
    ("CSF_", 0.0, 300_000.0, WIDE),
    ("GM_", 300_000.0, 1_100_000.0, WIDE),
    ("WM_", 250_000.0, 1_000_000.0, WIDE),
    ("brain-", 800_000.0, 1_600_000.0, BRAID),
)

# One structure per hemisphere, clamp in mm3, source; those of FreeSurfer's structures.
_FIRST = (
    ("thalamus", 2_000.0, 15_000.0, WIDE),
    ("caudate", 500.0, 10_000.0, WIDE),
    ("putamen", 500.0, 12_000.0, WIDE),
    ("pallidum", 200.0, 5_000.0, WIDE),
    ("hippocampus", 1_500.0, 5_000.0, BRAID),
    ("amygdala", 200.0, 5_000.0, WIDE),
    ("accumbens", 50.0, 2_500.0, WIDE),
)

# Regions of the grey-matter atlas with a left and a right side, in the pipeline's order and spelling.
_FAST_PAIRS = (
    "Front_Pole", "Insula", "Sup_Front_Gyr", "Mid_Front_Gyr", "Inf_Front_Gyr_pars_triangularis",
    "Inf_Front_Gyr_pars_opercularis", "Precentral_Gyr", "Temp_Pole", "Sup_Temp_Gyr_ant", "Sup_Temp_Gyr_post",
    "Mid_Temp_Gyr_ant", "Mid_Temp_Gyr_post", "Mid_Temp_Gyr_temporoOcc_part", "Inf_Temp_Gyr_ant", "Inf_Temp_Gyr_post",
    "Inf_Temp_Gyr_temporoOcc_part", "Postcentral_Gyr", "Sup_Parietal_Lobule", "Supramarginal_Gyr_ant",
    "Supramarginal_Gyr_post", "Angular_Gyr", "Lateral_Occ_Sup", "Lateral_Occ_Inf", "Intracalcarine", "Front_Medial",
    "Juxtapositional_Lobule", "Subcallosal", "Paracingulate_Gyr", "Cingulate_Gyr_ant", "Cingulate_Gyr_post",
    "Precuneous", "Cuneal", "Front_Orbital", "Parahippocampal_Gyr_ant", "Parahippocampal_Gyr_post", "Lingual_Gyr",
    "Temp_Fusiform_ant", "Temp_Fusiform_post", "Temp_Occ_Fusiform", "Occ_Fusiform_Gyr", "Front_Operculum",
    "Central_Opercular", "Parietal_Operculum", "Planum_Polare", "Heschl_Gyr", "Planum_Tempe", "Supracalcarine",
    "Occ_Pole", "Thalamus", "Caudate", "Putamen", "Pallidum", "Hippocampus", "Amygdala", "Vent_Striatum",
)  # fmt: skip
_FAST_LOBULES = ("VI", "Crus_I", "Crus_II", "VIIb", "VIIIa", "VIIIb", "IX", "X")  # left, vermis, right


def _sienax(space: str, tissues: tuple[tuple[str, float, float, str], ...]) -> tuple[Row, ...]:
    return tuple(
        Row(f"T1_SIENAX_{tissue}{space}_vol", "mm3", lower, upper, source)
        for tissue, lower, upper, source in tissues
    )


def _fast_names() -> tuple[str, ...]:
    return (
        *(f"{side}_{region}" for region in _FAST_PAIRS for side in ("L", "R")),
        "Brain-Stem",
        *(f"{side}_{lobule}_Cerebellum" for lobule in ("I-IV", "V") for side in ("L", "R")),
        *(f"{side}_{lobule}_Cerebellum" for lobule in _FAST_LOBULES for side in ("L", "Vermis", "R")),
    )


FSL = (
    Family(
        "sienax.unnormalised",
        "volume of brain and tissues in the person's own space, by SIENAX",
        _sienax("unnorm", _UNNORMALISED),
        (r".*SIENAX.*[_-]unnorm.*",),
    ),
    Family(
        "sienax.normalised",
        "volume of brain and tissues scaled to a standard head, by SIENAX",
        _sienax("norm", _NORMALISED),
        (r".*SIENAX.*[_-]norm.*",),
    ),
    Family(
        "sienax.scaling",
        "scaling factor of the head against a standard head (VSCALING), by SIENAX",
        (Row("T1_SIENAX_headsize_scaling", "ratio", 0.5, 2.5, WIDE),),
        (r"VSCALING|.*SIENAX_headsize_scaling",),
    ),
    Family(
        "bianca.wmh",
        "volume of white matter hyperintensities, by BIANCA",
        (Row("T2_FLAIR_WMH_volume", "mm3", 0.0, 200_000.0, BRAID),),
        (r".*BIANCA.*", r"(?i)(.*_)?wmh(_.*)?"),
    ),
    Family(
        "first.volume",
        "volume of seven subcortical structures per hemisphere, and of the brain stem, by FIRST",
        (
            *(
                Row(f"T1_FIRST_{side}_{structure}", "mm3", lower, upper, source)
                for structure, lower, upper, source in _FIRST
                for side in ("left", "right")
            ),
            Row("T1_FIRST_brain_stem+4th_ventricle", "mm3", 8_000.0, 50_000.0, WIDE),
        ),
        (r".*T1_FIRST_.+",),
    ),
    Family(
        "fast.volume",
        "grey matter inside 139 regions of an atlas, by FAST",
        tuple(Row(f"T1_FAST_ROIs_{name}_vol", "mm3", 0.0, 60_000.0, WIDE) for name in _fast_names()),
        (r".*T1_FAST_ROIs_.+",),
    ),
)
