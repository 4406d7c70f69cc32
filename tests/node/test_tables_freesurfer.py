"""FreeSurfer's tables: names, units, versions, atlases, and whole-head measures that stand in every table."""

import csv
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st

from cohortsum.crypto.errors import DataError
from cohortsum.node.tables.freesurfer import layout
from cohortsum.node.tables.synonyms import also_called
from cohortsum.study.catalogue import FAMILIES
from cohortsum.study.variables import Number
from tests.node.reading import AGE, DATA, NAN, number, real, refusal, report, settings, values, wants

CANARY = "7351946"

LEFT = (
    "lh.aparc.thickness\tlh_bankssts_thickness\tlh_cuneus_thickness\tlh_MeanThickness_thickness"
    "\tBrainSegVolNotVent\teTIV\nsub-01\t2.5\t1.75\t2.4\t1100000.5\t1500000.25\nsub-02\t2.25\t1.5\t2.3\t1000000\t1400000\n"
)
RIGHT = LEFT.replace("lh", "rh").replace("2.5", "3.5")
ASEG = (
    "Measure:volume\tLeft-Hippocampus\tLeft-Thalamus-Proper\tlhCorticalWhiteMatterVol\tBrainSegVolNotVent"
    "\tSurfaceHoles\tBrainSegVol-to-eTIV\tEstimatedTotalIntraCranialVol\n"
    "sub-01\t4000.5\t7000\t250000\t1100000.5\t30\t0.73\t1500000.25\nsub-02\t4100\t7100\t260000\t1000000\t31\t.71\t1400000\n"
)
IDS = {"lh": "lh.aparc.thickness", "rh": "rh.aparc.thickness", "aseg": "Measure:volume"}


def mm(name: str) -> Number:
    return Number(name, "mm", 0, 10)


def mm3(name: str) -> Number:
    return Number(name, "mm3", 0, 1e7)


def site(folder: Path, **tables: str) -> dict[str, dict[str, object]]:
    settings_: dict[str, dict[str, object]] = {}
    for name, text in tables.items():
        path = folder / f"{name}.txt"
        path.write_text(text)
        first = text.replace(",", "\t").replace(";", "\t").split("\t")[0].split(" ")[0]
        settings_[name] = {"path": path, "format": "freesurfer", "id": IDS.get(name, first)}
    return settings_


def test_both_hemispheres_and_aseg_are_joined(tmp_path: Path) -> None:
    config = settings(site(tmp_path, lh=LEFT, rh=RIGHT, aseg=ASEG))
    wanted = wants(mm("lh_bankssts_thickness"), mm("rh_bankssts_thickness"), mm3("Left-Hippocampus"))
    assert values(config, wanted) == {
        "lh_bankssts_thickness": [2.5, 2.25],
        "rh_bankssts_thickness": [3.5, 2.25],
        "Left-Hippocampus": [4000.5, 4100],
    }


@pytest.mark.parametrize("delimiter", ["\t", ",", ";", " ", "   "])
def test_every_delimiter_that_the_programs_write(tmp_path: Path, delimiter: str) -> None:
    config = settings(site(tmp_path, lh=LEFT.replace("\t", delimiter), aseg=ASEG.replace("\t", delimiter)))
    read = values(config, wants(mm("lh_cuneus_thickness"), mm3("Left-Hippocampus")))
    assert read == {"lh_cuneus_thickness": [1.75, 1.5], "Left-Hippocampus": [4000.5, 4100]}


def test_units_follow_from_what_was_measured(tmp_path: Path) -> None:
    config = settings(site(tmp_path, lh=LEFT, aseg=ASEG))
    wanted = wants(
        Number("lh_cuneus_thickness", "cm", 0, 1),
        Number("eTIV", "ml", 0, 3000),
        Number("SurfaceHoles", "holes", 0, 1000),
        Number("BrainSegVol-to-eTIV", "share", 0, 1),
    )
    assert values(config, wanted) == {
        "lh_cuneus_thickness": pytest.approx([0.175, 0.15]),
        "eTIV": pytest.approx([1500.00025, 1400]),
        "SurfaceHoles": [30, 31],
        "BrainSegVol-to-eTIV": [0.73, 0.71],
    }
    area = LEFT.replace("thickness", "area").replace("MeanThickness", "WhiteSurfArea")
    told = report(settings(site(tmp_path, area=area)), wants(mm3("eTIV"), outcomes=(mm("lh_cuneus_area"),)))
    assert (
        "lh_cuneus_area is not supplied: unit mm2 (from the format) does not convert to the study's mm"
        in told
    )


def test_node_yaml_has_the_last_word_on_units(tmp_path: Path) -> None:
    config = settings(site(tmp_path, lh=LEFT), variables={"lh_cuneus_thickness": {"unit": "cm"}})
    assert values(config, wants(mm("lh_cuneus_thickness"))) == {"lh_cuneus_thickness": [17.5, 15]}


def test_one_copy_of_a_whole_head_measure_counts_where_all_agree(tmp_path: Path) -> None:
    config = settings(site(tmp_path, lh=LEFT, rh=RIGHT.replace("1500000.25", "1.50000e6"), aseg=ASEG))
    wanted = wants(mm3("eTIV"), mm3("BrainSegVolNotVent"), mm("rh_cuneus_thickness"))
    assert values(config, wanted) == {
        "eTIV": [1500000.25, 1400000],
        "BrainSegVolNotVent": [1100000.5, 1000000],
        "rh_cuneus_thickness": [1.75, 1.5],
    }


def test_copies_that_disagree_are_refused(tmp_path: Path) -> None:
    config = settings(site(tmp_path, lh=LEFT, rh=RIGHT.replace("1500000.25", f"1{CANARY}")))
    wanted = wants(mm3("eTIV"), mm("rh_cuneus_thickness"))
    message = refusal(config, wanted)
    assert "table lh (lh.txt), column eTIV: 1 people have another value in table rh (rh.txt)" in message
    assert "name one with from in node.yaml" in message
    assert CANARY not in message
    named = config.model_copy(
        update={
            "variables": settings(
                site(tmp_path, lh=LEFT, rh=RIGHT), variables={"eTIV": {"from": "lh.eTIV"}}
            ).variables
        }
    )
    assert values(named, wants(mm3("eTIV")))["eTIV"] == [1500000.25, 1400000]


def test_copies_under_another_name_must_agree_too(tmp_path: Path) -> None:
    wanted = wants(mm3("eTIV"), mm3("Left-Hippocampus"))
    good = settings(site(tmp_path, lh=LEFT, aseg=ASEG))
    assert values(good, wanted)["eTIV"] == [1500000.25, 1400000]
    bad = settings(site(tmp_path, lh=LEFT, aseg=ASEG.replace("1500000.25", "1500100")))
    assert "column eTIV: 1 people have another value in table aseg (aseg.txt)" in refusal(bad, wanted)


def test_a_copy_that_is_missing_contradicts_nothing(tmp_path: Path) -> None:
    config = settings(
        site(tmp_path, lh=LEFT, rh=RIGHT.replace("1500000.25", "NaN").replace("sub-02", "sub-03"))
    )
    read = values(config, wants(mm("lh_cuneus_thickness"), outcomes=(mm3("eTIV"), mm("rh_cuneus_thickness"))))
    assert read["eTIV"] == [1500000.25, 1400000]
    assert read["rh_cuneus_thickness"] == [1.75, NAN]


VERSIONS = [
    ("Left-Thalamus", [7000, 7100]),
    ("lhCerebralWhiteMatterVol", [250000, 260000]),
    ("eTIV", [1500000.25, 1400000]),
    ("ICV", [1500000.25, 1400000]),
    ("Lhippo", [4000.5, 4100]),
    ("Lthal", [7000, 7100]),
]


@pytest.mark.parametrize(("name", "expected"), VERSIONS)
def test_a_measure_is_found_under_its_name_in_another_version(
    tmp_path: Path, name: str, expected: list[float]
) -> None:
    config = settings(site(tmp_path, aseg=ASEG))
    assert values(config, wants(mm3(name))) == {name: expected}
    assert f"(variable {name}): the same measure by another name" in report(config, wants(mm3(name)))


@pytest.mark.parametrize(
    ("asked", "held"),
    [
        ("lh_G&S_frontomargin_thickness", "lh_G_and_S_frontomargin_thickness"),
        ("lh_S_oc_sup_and_transversal_thickness", "lh_S_oc_sup&transversal_thickness"),
        ("L_cuneus_thickavg", "lh_cuneus_thickness"),
        ("lh_G_and_S_frontomargin_thickness", "lh_G&S_frontomargin_thickness"),
    ],
)
def test_spellings_of_regions(tmp_path: Path, asked: str, held: str) -> None:
    config = settings(site(tmp_path, lh=LEFT.replace("lh_cuneus_thickness", held)))
    assert values(config, wants(mm(asked))) == {asked: [1.75, 1.5]}


def test_names_are_opaque_in_tables_of_no_known_format(tmp_path: Path) -> None:
    tables = site(tmp_path, aseg=ASEG)
    tables["aseg"]["format"] = "text"
    assert "no column Left-Thalamus in table aseg" in refusal(settings(tables), wants(mm3("Left-Thalamus")))


def test_two_names_of_one_measure_in_a_table_must_be_told_apart(tmp_path: Path) -> None:
    both = ASEG.replace("Left-Hippocampus", "Left-Thalamus")
    for asked in ("Left-Thalamus", "Left-Thalamus-Proper", "Lthal"):
        assert "are two names of one measure; name one with from" in refusal(
            settings(site(tmp_path, aseg=both)), wants(mm3(asked))
        )
    named = settings(site(tmp_path, aseg=both), variables={"Left-Thalamus": {"from": "aseg.Left-Thalamus"}})
    assert values(named, wants(mm3("Left-Thalamus"))) == {"Left-Thalamus": [4000.5, 4100]}


@pytest.mark.parametrize("table_format", ["freesurfer", "text"])
@pytest.mark.parametrize("parcellation", ["aparc.DKTatlas", "aparc.DKTatlas40"])
def test_dkt_is_never_summed_with_desikan_killiany(
    tmp_path: Path, parcellation: str, table_format: str
) -> None:
    tables = site(tmp_path, dkt=LEFT.replace("lh.aparc", f"lh.{parcellation}"))
    tables["dkt"]["format"] = table_format
    outcome = mm("lh_cuneus_thickness")
    assert "no column lh_cuneus_thickness" in report(
        settings(tables), wants(number_or_mm3(table_format), outcomes=(outcome,))
    )
    forced = settings(tables, variables={"lh_cuneus_thickness": {"from": "dkt.lh_cuneus_thickness_dkt"}})
    assert "is of the DKT atlas, whose regions have other borders" in refusal(forced, wants(outcome))
    asked = wants(mm("lh_cuneus_thickness_dkt"))
    assert values(settings(tables), asked) == {"lh_cuneus_thickness_dkt": [1.75, 1.5]}


def number_or_mm3(table_format: str) -> Number:
    """The whole-head volume, which is no region and keeps its name."""
    return mm3("eTIV") if table_format == "freesurfer" else number("eTIV")


def test_another_table_is_no_freesurfer_table(tmp_path: Path) -> None:
    message = refusal(settings(site(tmp_path, x=f"id\tage\n{CANARY}\t3\n")), wants(AGE))
    assert (
        "table x (x.txt): the first column is not named as aparcstats2table or asegstats2table name it"
        in message
    )
    assert CANARY not in message


def test_a_transposed_table_is_told(tmp_path: Path) -> None:
    turned = "Measure:volume\tsub-01\tsub-02\nLeft-Hippocampus\t4000\t4100\n"
    message = refusal(settings(site(tmp_path, aseg=turned)), wants(mm3("Left-Hippocampus")))
    assert "the table is transposed; write it without --transpose" in message


def test_every_name_is_a_name_of_its_other_names() -> None:
    names = [row.name for family in FAMILIES.values() for row in family.rows]
    assert len(names) > 100
    for name in names:
        for other in also_called(name):
            assert name in also_called(other)
    assert also_called("lh_cuneus_thickness") == ("L_cuneus_thickavg",)
    assert also_called("age") == ()


@real
def test_real_names_of_two_versions_and_two_spellings_are_kept_apart() -> None:
    """The real table is read as plain text, so nothing is merged that stands side by side in it."""
    path = DATA / "openneuro6_messy.csv"
    with path.open(newline="") as handle:
        rows = sorted(csv.DictReader(handle), key=lambda row: row["sub_id"])
    tables = {"t": {"path": path, "id": "sub_id", "rows": {"order": "age", "choose": "last"}}}
    names = (
        "Left-Thalamus",
        "Left-Thalamus-Proper",
        "lh_S_intrapariet_and_P_trans_thickness",
        "lh_S_intrapariet&P_trans_thickness",
    )
    read = values(settings(tables), wants(*map(number, names)))
    latest = {row["sub_id"]: row for row in sorted(rows, key=lambda row: float(row["age"]))}
    for name in names:
        cells = [latest[person][name] for person in sorted(latest)]
        assert read[name] == [NAN if cell == "" else float(cell) for cell in cells]


@examples(deadline=None)
@given(st.text(alphabet=st.characters(codec="utf-8", exclude_characters="\0\x1f"), max_size=80))
def test_any_header_gives_a_layout_or_our_error(text: str) -> None:
    try:
        found = layout([text], "aseg.txt")
    except DataError:
        return
    assert all(0 < place < len(found.names) for place in found.facts)
