"""Columns find their family and row: by hand, and on the headers of real tables."""

import csv
from collections import Counter
from pathlib import Path

import pytest

from cohortsum.node.tables.synonyms import also_called
from cohortsum.study.catalogue import ALL_FAMILIES, FAMILIES, family_of, row_of

DATA = Path(__file__).resolve().parents[2] / "../shared/data"
real = pytest.mark.skipif(not DATA.is_dir(), reason="the real tables are not part of the repository")


def header(name: str) -> list[str]:
    """Return the columns of a real table; its lines may end in bare CR."""
    with (DATA / name).open(encoding="utf-8", newline="") as file:
        first = file.read(100_000).replace("\r", "\n").split("\n", 1)[0]
    return next(csv.reader([first]))


def counted(columns: list[str]) -> dict[str | None, int]:
    return dict(Counter(family.name if (family := family_of(column)) else None for column in columns))


@pytest.mark.parametrize(
    ("column", "family", "row"),
    [
        ("lh_cuneus_thickness", "freesurfer.thickness", "lh_cuneus_thickness"),
        ("L_cuneus_thickavg", "freesurfer.thickness", "lh_cuneus_thickness"),
        ("aparc-Desikan_lh_thickness_cuneus", "freesurfer.thickness", "lh_cuneus_thickness"),
        ("aparc-DKTatlas_lh_thickness_cuneus", "freesurfer.thickness", None),
        ("lh_cuneus_thickness_dkt", "freesurfer.thickness", None),
        ("lh_G&S_frontomargin_thickness", "freesurfer.thickness", None),
        ("lh_G_and_S_frontomargin_thickness", "freesurfer.thickness", None),
        ("LThickness", "freesurfer.mean_thickness", "lh_MeanThickness_thickness"),
        (
            "aparc-Desikan_rh_thickness_GlobalMeanThickness",
            "freesurfer.mean_thickness",
            "rh_MeanThickness_thickness",
        ),
        ("R_insula_surfavg", "freesurfer.area", "rh_insula_area"),
        ("aparc-pial_lh_area_cuneus", "freesurfer.area", None),
        ("RSurfArea", "freesurfer.area", None),
        ("Left-Thalamus", "freesurfer.volume", "Left-Thalamus-Proper"),
        ("Rthal", "freesurfer.volume", "Right-Thalamus-Proper"),
        ("aseg_rh_volume_Hippocampus", "freesurfer.volume", "Right-Hippocampus"),
        ("eTIV", "freesurfer.volume", "EstimatedTotalIntraCranialVol"),
        ("ICV", "freesurfer.volume", "EstimatedTotalIntraCranialVol"),
        ("lh_cuneus_volume", "freesurfer.volume", None),
        ("WM-hypointensities", "freesurfer.volume", None),
        ("HippSubfield_lh_volume_HATA", "freesurfer.subfields", "HippSubfield_lh_volume_HATA"),
        ("wg_lh_intensity-contrast_insula", "freesurfer.other", None),
        ("T1_SIENAX_brain-norm_vol", "sienax.normalised", "T1_SIENAX_brain-norm_vol"),
        ("IDP_T1_SIENAX_brain-unnormalised_volume", "sienax.unnormalised", None),
        ("VSCALING", "sienax.scaling", None),
        ("T2_FLAIR_BIANCA_WMH_volume", "bianca.wmh", "T2_FLAIR_WMH_volume"),
        ("wmh_percent", "bianca.wmh", None),
        ("WMH", "bianca.wmh", None),
        ("dMRI_TBSS_L3_50", "tbss", "dMRI_TBSS_L3_50"),
        ("dMRI_TBSS_ODI_45", "noddi", None),
        ("dMRI_autoptx_ISOVF_27", "noddi", "dMRI_autoptx_ISOVF_27"),
        ("dMRI_autoptx_FA_27", "autoptx", "dMRI_autoptx_FA_27"),
        ("ALIC_L", "tbss", None),
        ("dMRI_eddy_outlier", "eddy.outliers", "dMRI_eddy_outlier"),
        ("func_mean_fd", "fmri.motion", "func_mean_fd"),
        ("framewise_displacement", "fmri.motion", None),
        ("trans_x", "fmri.motion", None),
        ("T1_inverse_CNR", "qc.snr_cnr", "T1_inverse_CNR"),
        ("anat_snr", "qc.snr_cnr", "anat_snr"),
        ("T1_nl_align_to_std_warp", "qc.alignment", None),
        ("rfMRI_d25_NodeAmplitudes_1", "rfmri.connectivity", None),
        ("T1_to_MNI_linear.mat", "registration", None),
        ("T1_to_MNI_nonlin_coeff.nii.gz", "registration", None),
        ("T1_jacobian", "registration", None),
        ("SubjectID", "identifiers", None),
        ("participant_id", "identifiers", None),
        ("lh.aparc.thickness", "identifiers", None),
        ("Measure:volume", "identifiers", None),
        ("log/log.txt", "logs", None),
        ("AGE_AT_SCAN", "clinical", "AGE_AT_SCAN"),
        ("MMSE", "clinical", "MMSE"),
    ],
)
def test_a_column_finds_its_family_and_row(column: str, family: str, row: str | None) -> None:
    found = row_of(column)
    assert family_of(column) is ALL_FAMILIES[family]
    assert (found.name if found else None) == row


@pytest.mark.parametrize(
    "column", ["", "site", "Sex", "Dx", "asd", "anat_efc", "DURILL", "dose", "images", "logit"]
)
def test_what_the_catalogue_does_not_know_has_no_family(column: str) -> None:
    assert family_of(column) is None
    assert row_of(column) is None


def test_a_row_is_found_under_its_own_name_and_in_its_own_family() -> None:
    for family in FAMILIES.values():
        for row in family.rows:
            assert (family_of(row.name), row_of(row.name)) == (family, row)


def test_the_names_a_site_matches_are_names_of_the_same_row() -> None:
    """What a node takes for another name of a measure is one for the catalogue too."""
    compared = 0
    for family in FAMILIES.values():
        for row in family.rows:
            for other in also_called(row.name):
                assert row_of(other) == row
                compared += 1
    assert compared > 150


@real
def test_every_column_of_brc_has_a_family() -> None:
    with (DATA / "brc_idp_columns.tsv").open(encoding="utf-8", newline="") as file:
        columns = [line["name"] for line in csv.DictReader(file, delimiter="\t")]
    assert counted(columns) == {
        "identifiers": 1,
        "qc.alignment": 5,
        "qc.snr_cnr": 2,
        "eddy.outliers": 1,
        "sienax.scaling": 1,
        "sienax.normalised": 5,
        "sienax.unnormalised": 5,
        "first.volume": 15,
        "tbss": 300,
        "noddi": 231,  # ODI_45 and ODI_46 stand twice
        "fast.volume": 139,
        "bianca.wmh": 1,
        "autoptx": 162,
        "freesurfer.thickness": 304,
        "freesurfer.mean_thickness": 2,
        "freesurfer.area": 372,
        "freesurfer.volume": 360,
        "freesurfer.subfields": 121,
        "freesurfer.other": 114,
        "rfmri.connectivity": 3466,
    }
    tools = (
        "sienax.",
        "bianca.",
        "first.",
        "fast.",
        "tbss",
        "noddi",
        "autoptx",
        "eddy.",
        "freesurfer.subfields",
    )
    named = {row.name for name, family in FAMILIES.items() if name.startswith(tools) for row in family.rows}
    assert named <= set(columns)


@real
def test_a_real_freesurfer_table_has_every_row_of_its_four_families() -> None:
    columns = header("impac_asd.csv")
    four = ("freesurfer.thickness", "freesurfer.mean_thickness", "freesurfer.area", "freesurfer.volume")
    names = {row.name for name in four for row in FAMILIES[name].rows}
    assert names <= set(columns)
    regional = {name for name in columns if name.endswith(("_thickness", "_area")) and name[2] == "_"}
    assert regional - names == {"lh_WhiteSurfArea_area", "rh_WhiteSurfArea_area"}
    assert counted(columns) == {
        "identifiers": 1,
        "clinical": 1,
        "freesurfer.thickness": 68,
        "freesurfer.mean_thickness": 2,
        "freesurfer.area": 70,
        "freesurfer.volume": 64,
        "freesurfer.other": 3,
        None: 4,  # site, sex, asd, anat_qc
    }


@real
@pytest.mark.parametrize(
    ("name", "families"),
    [
        (
            "toolbox_metr1_SubVol.csv",
            {"identifiers": 1, "freesurfer.volume": 17},
        ),
        (
            "toolbox_metr2_CortThick.csv",
            {
                "identifiers": 1,
                "freesurfer.thickness": 68,
                "freesurfer.mean_thickness": 2,
                "freesurfer.area": 2,
                "freesurfer.volume": 1,
            },
        ),
        (
            "toolbox_metr3_CortSurf.csv",
            {
                "identifiers": 1,
                "freesurfer.area": 70,
                "freesurfer.mean_thickness": 2,
                "freesurfer.volume": 1,
            },
        ),
        ("toolbox_cov.csv", {"identifiers": 1, "clinical": 1, "freesurfer.volume": 1, None: 6}),
        ("tutorial_metr_FA.csv", {"identifiers": 1, "tbss": 63}),
        ("tutorial_covariates.csv", {"identifiers": 1, "clinical": 4, None: 11}),
    ],
)
def test_tables_of_enigma_find_their_families(name: str, families: dict[str | None, int]) -> None:
    assert counted(header(f"enigma_format/{name}")) == families


@real
def test_rows_of_enigma_have_the_units_that_its_protocol_fixes() -> None:
    regions = {column: row_of(column) for column in header("enigma_format/toolbox_metr2_CortThick.csv")}
    assert sum(row is not None and row.unit == "mm" for row in regions.values()) == 70
    areas = {column: row_of(column) for column in header("enigma_format/toolbox_metr3_CortSurf.csv")}
    assert sum(row is not None and row.unit == "mm2" for row in areas.values()) == 68


@real
def test_a_real_table_of_image_quality_finds_motion_and_noise() -> None:
    columns = header("abide1_qc.csv")
    assert counted(columns) == {"identifiers": 1, "clinical": 3, "qc.snr_cnr": 2, "fmri.motion": 3, None: 17}


@real
def test_two_spellings_and_two_versions_of_freesurfer_are_one_family() -> None:
    columns = [name for name in header("openneuro6_messy.csv") if not name.endswith(".1")]
    assert counted(columns) == {
        "identifiers": 1,
        "clinical": 1,
        "freesurfer.thickness": 14,
        "freesurfer.mean_thickness": 2,
        "freesurfer.volume": 12,
        "freesurfer.other": 1,
        None: 3,  # sex, site, sitenum
    }
