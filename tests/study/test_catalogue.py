"""The catalogue covers what its families promise."""

import csv
from pathlib import Path

import pytest

from cohortsum.study.catalogue import FAMILIES

IMPAC = Path(__file__).resolve().parents[2] / "../shared/data/impac_asd.csv"


def test_families_have_the_promised_sizes_and_units() -> None:
    sizes = {name: (len(family.rows), {row.unit for row in family.rows}) for name, family in FAMILIES.items()}
    assert sizes == {
        "freesurfer.thickness": (68, {"mm"}),
        "freesurfer.mean_thickness": (2, {"mm"}),
        "freesurfer.area": (68, {"mm2"}),
        "freesurfer.volume": (17, {"mm3"}),
    }


def test_every_name_belongs_to_one_family_and_every_clamp_has_a_source() -> None:
    rows = [row for family in FAMILIES.values() for row in family.rows]
    assert len({row.name for row in rows}) == len(rows)
    assert all(row.lower < row.upper and row.source for row in rows)


@pytest.mark.parametrize(
    ("family", "name", "clamp"),
    [
        ("freesurfer.thickness", "lh_bankssts_thickness", (1.0, 5.0)),
        ("freesurfer.thickness", "rh_insula_thickness", (1.0, 5.0)),
        ("freesurfer.volume", "Left-Hippocampus", (1500.0, 5000.0)),
        ("freesurfer.volume", "Right-Hippocampus", (1500.0, 5000.0)),
    ],
)
def test_published_clamps_are_those_of_the_source(family: str, name: str, clamp: tuple[float, float]) -> None:
    row = FAMILIES[family].by_name()[name]
    assert (row.lower, row.upper) == clamp
    assert "Differential Privacy" in row.source


@pytest.mark.skipif(not IMPAC.exists(), reason="the IMPAC table is not part of the repository")
def test_a_real_freesurfer_table_has_every_column_of_the_catalogue() -> None:
    with IMPAC.open(encoding="utf-8", newline="") as file:
        header = next(csv.reader(file))
    names = {row.name for family in FAMILIES.values() for row in family.rows}
    assert names <= set(header)
    regional = {column for column in header if column.endswith(("_thickness", "_area")) and column[2] == "_"}
    assert regional - names == {"lh_WhiteSurfArea_area", "rh_WhiteSurfArea_area"}
