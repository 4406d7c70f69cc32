"""The catalogue covers what its families promise, keeps its clamps, and serves study files."""

import hashlib
import math

import pytest

from cohortsum.node.tables import brc
from cohortsum.node.tables.units import conversion
from cohortsum.study.catalogue import ALL_FAMILIES, FAMILIES, Row, row_of
from cohortsum.study.variables import Number
from tests.study.definitions import frozen, small

# Families of studies that may be signed already: SHA-256 over name, unit, clamp and source of every row.
SIGNED = {
    "freesurfer.thickness": "5bd6e283dd6bd4d518990ce7d3bf461954a156ff8887cbc4b25488fcaff450d8",
    "freesurfer.mean_thickness": "5d04f07f46282c4cdf8f63c2e43f891b4e3bfccd7e04dfb88142fe6be915d37c",
    "freesurfer.area": "66a0781ca18193a825d3532fde882ec60dc92f4e8ebf61618d8a84726d67cd0e",
    "freesurfer.volume": "5e4e31a13d41a04d2a591d1084eff84c4ad544a90f2c5762771fb7fafa43cdb1",
}
OWN_UNITS = {"ratio", "count", "points", "radians", "kg/m2"}
"""Units outside the closed table: a site's column has them, or none."""

ROWS = [row for family in FAMILIES.values() for row in family.rows]


def test_families_have_the_promised_sizes_and_units() -> None:
    sizes = {name: (len(family.rows), {row.unit for row in family.rows}) for name, family in FAMILIES.items()}
    assert sizes == {
        "sienax.unnormalised": (5, {"mm3"}),
        "sienax.normalised": (5, {"mm3"}),
        "sienax.scaling": (1, {"ratio"}),
        "bianca.wmh": (1, {"mm3"}),
        "first.volume": (15, {"mm3"}),
        "fast.volume": (139, {"mm3"}),
        "freesurfer.thickness": (68, {"mm"}),
        "freesurfer.mean_thickness": (2, {"mm"}),
        "freesurfer.area": (68, {"mm2"}),
        "freesurfer.volume": (17, {"mm3"}),
        "freesurfer.subfields": (121, {"mm3"}),
        "tbss": (300, {"ratio", "mm2/s"}),
        "noddi": (227, {"fraction", "ratio"}),
        "autoptx": (162, {"ratio", "mm2/s"}),
        "eddy.outliers": (1, {"count"}),
        "fmri.motion": (10, {"mm", "count", "percent", "radians"}),
        "qc.snr_cnr": (7, {"ratio"}),
        "clinical": (15, {"years", "points", "kg/m2"}),
    }


def test_a_family_without_rows_is_known_and_no_study_can_name_it() -> None:
    assert set(ALL_FAMILIES) - set(FAMILIES) == {
        "identifiers",
        "registration",
        "logs",
        "freesurfer.other",
        "qc.alignment",
        "rfmri.connectivity",
    }


@pytest.mark.parametrize("family", SIGNED)
def test_families_of_signed_studies_stay_as_they_were(family: str) -> None:
    text = "\n".join(
        f"{row.name}\t{row.unit}\t{row.lower!r}\t{row.upper!r}\t{row.source}" for row in FAMILIES[family].rows
    )
    assert hashlib.sha256(text.encode()).hexdigest() == SIGNED[family]


def test_every_name_belongs_to_one_family_and_every_clamp_is_sane_and_has_a_source() -> None:
    assert len({row.name for row in ROWS}) == len(ROWS)
    for row in ROWS:
        assert -math.inf < row.lower < row.upper < math.inf, row.name
        assert row.source, row.name


@pytest.mark.parametrize("unit", sorted({row.unit for row in ROWS}))
def test_every_unit_converts_at_a_site_or_is_one_that_only_matches_itself(unit: str) -> None:
    smaller = {
        "mm": "m", "mm2": "cm2", "mm3": "ml", "years": "months", "mm2/s": "um2/ms", "fraction": "percent",
        "percent": "fraction",
    }  # fmt: skip
    assert (unit in smaller) != (unit in OWN_UNITS)
    if unit in smaller:
        assert conversion(smaller[unit], unit) is not None


@pytest.mark.parametrize(
    ("name", "unit", "clamp"),
    [
        ("T1_SIENAX_brain-unnorm_vol", "mm3", (800_000.0, 1_600_000.0)),
        ("T2_FLAIR_WMH_volume", "mm3", (0.0, 200_000.0)),
        ("Left-Hippocampus", "mm3", (1_500.0, 5_000.0)),
        ("Right-Hippocampus", "mm3", (1_500.0, 5_000.0)),
        ("T1_FIRST_left_hippocampus", "mm3", (1_500.0, 5_000.0)),
        ("HippSubfield_rh_volume_Whole-hippocampus", "mm3", (1_500.0, 5_000.0)),
        ("lh_bankssts_thickness", "mm", (1.0, 5.0)),
        ("rh_insula_thickness", "mm", (1.0, 5.0)),
        ("dMRI_TBSS_FA_1", "ratio", (0.0, 1.0)),
        ("dMRI_TBSS_MD_50", "mm2/s", (0.0, 0.003)),
        ("dMRI_TBSS_ICVF_7", "fraction", (0.0, 1.0)),
        ("T1_inverse_SNR", "ratio", (0.0, 1.0)),
        ("dMRI_eddy_outlier", "count", (0.0, 500.0)),
    ],
)
def test_published_clamps_are_those_of_the_source(name: str, unit: str, clamp: tuple[float, float]) -> None:
    row = row_of(name)
    assert row is not None
    assert (row.unit, (row.lower, row.upper)) == (unit, clamp)
    assert "Differential Privacy" in row.source


def test_the_published_brain_volume_is_not_the_clamp_of_a_normalised_brain() -> None:
    """A normalised brain is scaled to a standard head, and often larger than the published upper end."""
    row = FAMILIES["sienax.normalised"].by_name()["T1_SIENAX_brain-norm_vol"]
    assert row.upper > 1_600_000
    assert "no published clamp" in row.source


# --- Units at a site -----------------------------------------------------------------------------------------------


def test_what_brc_stores_converts_to_the_unit_of_its_row() -> None:
    stored = brc.units()
    compared = [row for row in ROWS if row.name in stored]
    assert len(compared) == 594
    refused = [row.name for row in compared if conversion(stored[row.name], row.unit) is None]
    assert refused == ["T2_FLAIR_WMH_volume"]
    scaled = {row.name for row in compared if conversion(stored[row.name], row.unit) not in (None, 1.0)}
    assert scaled == set()


def test_white_matter_hyperintensities_in_voxels_or_as_a_share_are_no_volume() -> None:
    """The trap: voxels that are called mm3, ml, and percentages of the brain."""
    unit = FAMILIES["bianca.wmh"].rows[0].unit
    assert brc.units()["T2_FLAIR_WMH_volume"] == "voxels"
    assert conversion("voxels", unit) is None
    assert conversion("voxels", unit, voxel_mm3=1.05) == pytest.approx(1.05)
    assert conversion("ml", unit) == 1000.0
    assert conversion("percent", unit) is None
    assert conversion("fraction", unit) is None


def test_diffusivities_are_in_the_unit_of_their_values() -> None:
    diffusivity = rows_of_measures("MD", "L1", "L2", "L3")
    assert {row.unit for row in diffusivity} == {"mm2/s"}
    assert all(row.upper <= 4e-3 for row in diffusivity)
    assert conversion("um2/ms", "mm2/s") == 1e-3


def rows_of_measures(*measures: str) -> list[Row]:
    families = (*FAMILIES["tbss"].rows, *FAMILIES["autoptx"].rows)
    found = [row for row in families if row.name.split("_")[2] in measures]
    assert len(found) == 77 * len(measures)
    return found


def test_the_doubled_names_of_the_pipeline_have_no_row() -> None:
    names = FAMILIES["noddi"].by_name()
    assert not {"dMRI_TBSS_ODI_45", "dMRI_TBSS_ODI_46", "dMRI_TBSS_ODI_49"} & set(names)
    assert {"dMRI_TBSS_ODI_44", "dMRI_TBSS_ODI_47", "dMRI_TBSS_ODI_48", "dMRI_TBSS_ICVF_50"} <= set(names)


# --- In a study file -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_serves_a_study(family: str) -> None:
    study = frozen(small("  sex:", f'  "*": {{catalogue: {family}}}\n  sex:'))
    rows = FAMILIES[family].by_name()
    taken = {name for name, told in study.families.items() if told == family}
    assert taken == set(rows) - {"age"}  # the small study declares age by itself, and a written name wins
    for name in taken:
        row = rows[name]
        assert study.variables[name] == Number(name, row.unit, row.lower, row.upper)


def test_a_glob_takes_one_measure_of_a_family() -> None:
    study = frozen(small("  sex:", '  "dMRI_TBSS_MD_*": {catalogue: tbss, range: [0.0005, 0.0015]}\n  sex:'))
    assert len(study.families) == 50
    assert study.variables["dMRI_TBSS_MD_3"] == Number("dMRI_TBSS_MD_3", "mm2/s", 0.0005, 0.0015)
