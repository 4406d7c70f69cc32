"""ENIGMA's tables: the id, the units that the protocols fix, ICV in every table, and the files as they are found."""

import csv
from pathlib import Path

import pytest

from cohortsum.study.variables import Factor, Number
from tests.node.reading import DATA, NAN, number, real, refusal, report, settings, values, wants

THICK = "SubjID,L_bankssts_thickavg,R_insula_thickavg,LThickness,RThickness,LSurfArea,RSurfArea,ICV\n"
VOLUMES = "SubjID,LLatVent,RLatVent,Lthal,Rthal,Lhippo,Rhippo,ICV\n"
COVARIATES = "SubjID,Dx,Age,Sex,Site1\n"


def site(folder: Path, **tables: str) -> dict[str, dict[str, object]]:
    for name, text in tables.items():
        (folder / f"{name}.csv").write_bytes(text.encode())
    return {name: {"path": folder / f"{name}.csv", "format": "enigma"} for name in tables}


def small(folder: Path) -> dict[str, dict[str, object]]:
    """Three tables with three kinds of line ends, an NA and an empty cell."""
    return site(
        folder,
        cov=(COVARIATES + "001,1,30,2,0\n002,0,40,1,1\n").replace("\n", "\r").rstrip("\r"),
        thick=(THICK + "001,2.5,NA,2.4,2.4,90000,91000,1500000\n002,,2.75,2.4,2.4,1,1,1400000\n").replace(
            "\n", "\r\n"
        ),
        vol=VOLUMES + "002,1,2,7000,7100,4000,NA,1400000\n001,3,4,7200,7300,4100,4200,1500000\n",
    )


def test_the_tables_of_a_protocol_are_joined(tmp_path: Path) -> None:
    wanted = wants(
        number("Age"),
        Factor("Dx", ("0", "1")),
        Number("L_bankssts_thickavg", "mm", 0, 10),
        Number("R_insula_thickavg", "mm", 0, 10),
        Number("Rhippo", "ml", 0, 10),
        Number("ICV", "mm3", 0, 1e7),
    )
    assert values(settings(small(tmp_path)), wanted) == {
        "Age": [30, 40],
        "Dx": [1, 0],
        "L_bankssts_thickavg": [2.5, NAN],
        "R_insula_thickavg": [NAN, 2.75],
        "Rhippo": [4.2, NAN],
        "ICV": [1500000, 1400000],
    }


def test_a_study_in_freesurfers_names_finds_them(tmp_path: Path) -> None:
    wanted = wants(
        Number("lh_bankssts_thickness", "mm", 0, 10),
        Number("Left-Thalamus-Proper", "mm3", 0, 1e5),
        Number("EstimatedTotalIntraCranialVol", "mm3", 0, 1e7),
    )
    assert values(settings(small(tmp_path)), wanted) == {
        "lh_bankssts_thickness": [2.5, NAN],
        "Left-Thalamus-Proper": [7200, 7000],
        "EstimatedTotalIntraCranialVol": [1500000, 1400000],
    }


def test_icv_must_agree_between_tables(tmp_path: Path) -> None:
    tables = small(tmp_path)
    path = tmp_path / "vol.csv"
    path.write_text(path.read_text().replace("1400000", "1300000"))
    wanted = wants(Number("ICV", "mm3", 0, 1e7), Number("Lhippo", "mm3", 0, 1e5))
    message = refusal(settings(tables), wanted)
    assert (
        "table thick (thick.csv), column ICV: 1 people have another value in table vol (vol.csv)" in message
    )


def test_units_are_those_of_the_protocols(tmp_path: Path) -> None:
    told = report(
        settings(small(tmp_path)),
        wants(number("Age"), outcomes=(number("LSurfArea", "mm"), number("RLatVent", "mm2"))),
    )
    assert "LSurfArea is not supplied: unit mm2 (from the format) does not convert to the study's mm" in told
    assert "RLatVent is not supplied: unit mm3 (from the format) does not convert to the study's mm2" in told


def raw(name: str, column: str) -> list[object]:
    with (DATA / "enigma_format" / name).open(newline="") as handle:
        rows = sorted(csv.DictReader(handle), key=lambda row: row["SubjID"])
    return [NAN if row[column] in ("", "NA") else float(row[column]) for row in rows]


def found(**tables: str) -> dict[str, dict[str, object]]:
    return {
        name: {"path": DATA / "enigma_format" / file, "format": "enigma"} for name, file in tables.items()
    }


@real
def test_tutorial_files_with_bare_cr_and_no_final_line_end() -> None:
    tables = found(cov="tutorial_covariates.csv", fa="tutorial_metr_FA.csv")
    assert b"\n" not in (DATA / "enigma_format/tutorial_covariates.csv").read_bytes()
    wanted = wants(number("Age"), number("CPZ"), number("AverageFA"), number("FX"))
    read = values(settings(tables), wanted)
    assert len(read["Age"]) == 154
    for name, file in (
        ("Age", "covariates"),
        ("CPZ", "covariates"),
        ("AverageFA", "metr_FA"),
        ("FX", "metr_FA"),
    ):
        assert read[name] == raw(f"tutorial_{file}.csv", name)


@real
def test_toolbox_files_with_crlf_beside_lf_need_no_mapping_of_icv() -> None:
    tables = found(
        cov="toolbox_cov.csv",
        vol="toolbox_metr1_SubVol.csv",
        ct="toolbox_metr2_CortThick.csv",
        cs="toolbox_metr3_CortSurf.csv",
    )
    wanted = wants(
        number("Age"),
        Number("Lhippo", "mm3", 0, 1e5),
        Number("lh_bankssts_thickness", "mm", 0, 10),
        Number("rh_insula_area", "mm2", 0, 1e5),
        Number("ICV", "mm3", 0, 1e7),
    )
    read = values(settings(tables), wanted)
    assert len(read["Age"]) == 20
    assert read["ICV"] == raw("toolbox_cov.csv", "ICV")
    assert read["Lhippo"] == raw("toolbox_metr1_SubVol.csv", "Lhippo")
    assert read["lh_bankssts_thickness"] == raw("toolbox_metr2_CortThick.csv", "L_bankssts_thickavg")
    assert read["rh_insula_area"] == raw("toolbox_metr3_CortSurf.csv", "R_insula_surfavg")


@pytest.mark.parametrize("name", ["Subjid", "SubjID "])
def test_the_id_column_is_subjid(tmp_path: Path, name: str) -> None:
    tables = site(tmp_path, cov=f"{name},Age\n1,30\n")
    if name.strip() == "SubjID":
        assert values(settings(tables), wants(number("Age"))) == {"Age": [30]}
    else:
        assert "table cov (cov.csv): no column SubjID; name the right one in node.yaml" in refusal(
            settings(tables), wants(number("Age"))
        )
