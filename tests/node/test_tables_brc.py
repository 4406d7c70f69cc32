"""IDPs.txt: names by the number of fields, units as they are, and nothing that shifts."""

import csv
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as examples
from hypothesis import strategies as st

from cohortsum.crypto.errors import DataError
from cohortsum.node.tables.brc import layout
from cohortsum.study.variables import Number
from tests.node.reading import AGE, DATA, NAN, number, real, refusal, report, settings, values, wants

WHOLE = 5607
CANARY = "7351946"
THALAMUS = "T1_FAST_ROIs_L_Thalamus_vol"


def names(fields: int) -> tuple[str, ...]:
    return layout([" ".join(["sub"] + ["1"] * (fields - 1))], "IDPs.txt").names


def line(person: str, fields: int, **cells: str) -> str:
    """Return a person's line: every value is its place, except ``cells`` by name."""
    values = [str(place) for place in range(1, fields)]
    known = names(fields)
    for name, text in cells.items():
        values[known.index(name) - 1] = text
    return " ".join([person, *values])


def site(folder: Path, *lines: str, **options: object) -> dict[str, dict[str, object]]:
    path = folder / "IDPs.txt"
    path.write_text("\n".join(lines) + "\n")
    return {"brc": {"path": path, "format": "brc", **options}}


@pytest.mark.parametrize("fields", [868, 1274, 2141, WHOLE])
def test_every_known_length_has_its_names(tmp_path: Path, fields: int) -> None:
    last = names(fields)[-1]
    assert len(names(fields)) == fields
    unit = {868: "any", 1274: "mm3", 2141: "mm3", WHOLE: "any"}[fields]
    config = settings(site(tmp_path, line("a", fields), line("b", fields, **{last: ".0412"})))
    assert values(config, wants(number(last, unit), number(names(fields)[1]))) == {
        last: [fields - 1, 0.0412],
        names(fields)[1]: [1, 1],
    }


def test_the_blocks_follow_each_other_in_every_length() -> None:
    whole = names(WHOLE)
    assert names(868) == whole[:868]
    assert names(2141) == whole[:2141]
    assert names(1274)[1:] == whole[868:2141]
    assert names(1274)[1] == "Use-T2-FLAIR-for-FreeSurfer"


@real
def test_the_shipped_list_is_the_published_one_but_for_the_unit_of_lesions() -> None:
    with (DATA / "brc_idp_columns.tsv").open(newline="") as handle:
        published = list(csv.DictReader(handle, delimiter="\t"))
    found = layout([" ".join(["sub"] + ["1"] * (WHOLE - 1))], "IDPs.txt")
    assert found.names == tuple(row["name"] for row in published)
    physical = {"mm", "mm2", "mm3", "mm2/s"}
    told = {place: facts.unit for place, facts in found.facts.items()}
    listed = {place: row["unit_real"] for place, row in enumerate(published) if row["unit_real"] in physical}
    (lesions,) = (place for place, row in enumerate(published) if row["name"] == "T2_FLAIR_WMH_volume")
    assert listed.pop(lesions) == "mm3"
    assert told.pop(lesions) == "voxels"
    assert told == listed


@pytest.mark.parametrize("fields", [2, 867, 869, 2140, WHOLE - 1, WHOLE + 1])
def test_another_length_is_refused(tmp_path: Path, fields: int) -> None:
    config = settings(site(tmp_path, " ".join([CANARY] + ["1"] * (fields - 1))))
    message = refusal(config, wants(number(THALAMUS)))
    assert (
        f"table brc (IDPs.txt): the first line has {fields} fields, expected 868, 1274, 2141, 5607" in message
    )
    assert "supply the table with its header" in message
    assert CANARY not in message


SHIFTED: dict[str, Callable[[str], str]] = {
    "a value is lost": lambda text: text.rsplit(" ", 1)[0],
    "a value is gained": lambda text: text + " 1",
    "a message of a program stands among the values": lambda text: text.replace(" 300 ", " Exception: "),
    "a message takes the place of several values": lambda text: text.replace(
        " 300 301 302 ", " No such file "
    ),
    "a value is infinite": lambda text: text.replace(" 300 ", " inf "),
    "a value is in Python's spelling": lambda text: text.replace(" 300 ", " 1_0 "),
}


@pytest.mark.parametrize("fault", SHIFTED)
def test_a_row_that_has_shifted_is_broken_whatever_is_asked_for(tmp_path: Path, fault: str) -> None:
    lines = [line("a", 868), SHIFTED[fault](line(CANARY, 868)), line("c", 868)]
    wanted = wants(number("T1_inverse_SNR"))
    message = refusal(settings(site(tmp_path, *lines)), wanted)
    assert "1 of 3 rows are broken: expected 868 fields" in message
    assert "a number or a missing code in every field but the first" in message
    assert "first at line 2" in message
    assert CANARY not in message
    tolerant = settings(site(tmp_path, *lines, broken_rows="reject"))
    assert values(tolerant, wanted) == {"T1_inverse_SNR": [4, 4]}
    assert "1 broken rows were rejected" in report(tolerant, wanted)


def test_a_missing_modality_is_missing_and_nothing_moves(tmp_path: Path) -> None:
    known = names(868)
    blank = {name: "NaN" for name in known[1:] if name.startswith("dMRI_TBSS")}
    config = settings(site(tmp_path, line("a", 868, **blank), line("b", 868)))
    read = values(config, wants(number("dMRI_TBSS_FA_5"), Number(THALAMUS, "mm3", 0, 1e6)))
    assert read == {"dMRI_TBSS_FA_5": [NAN, 39], THALAMUS: [581, 581]}


def test_declared_missing_codes_are_no_text_among_numbers(tmp_path: Path) -> None:
    tables = site(tmp_path, line("a", 868, T1_inverse_SNR="none"), missing=["none"])
    assert values(settings(tables), wants(number("T1_inverse_SNR"))) == {"T1_inverse_SNR": [NAN]}


def test_names_that_stand_twice_are_refused_when_asked_for(tmp_path: Path) -> None:
    config = settings(site(tmp_path, line("a", 868)))
    assert "column dMRI_TBSS_ODI_45 stands at positions 480 and 482" in refusal(
        config, wants(number("dMRI_TBSS_ODI_45"))
    )
    assert values(config, wants(number("dMRI_TBSS_ODI_47"))) == {"dMRI_TBSS_ODI_47": [483]}


def test_lesions_are_voxels_until_the_site_says_how_large_a_voxel_is(tmp_path: Path) -> None:
    lesions = Number("T2_FLAIR_WMH_volume", "mm3", 0, 200_000)
    tables = site(tmp_path, line("a", 868, T2_FLAIR_WMH_volume="1000"))
    told = report(settings(tables), wants(number("T1_inverse_SNR"), outcomes=(lesions,)))
    assert "variable T2_FLAIR_WMH_volume is not supplied: unit voxels (from the format)" in told
    assert "declare unit and voxel_mm3 in node.yaml" in told
    voxel = {"T2_FLAIR_WMH_volume": {"unit": "voxels", "voxel_mm3": "1.05"}}
    assert values(settings(tables, variables=voxel), wants(lesions)) == {"T2_FLAIR_WMH_volume": [1050]}


def test_diffusivities_have_the_unit_that_the_pipeline_does_not_say(tmp_path: Path) -> None:
    tables = site(tmp_path, line("a", 868, dMRI_TBSS_MD_1=".0008"))
    name = "dMRI_TBSS_MD_1"
    assert values(settings(tables), wants(Number(name, "um2/ms", 0, 5))) == {name: [pytest.approx(0.8)]}
    told = report(settings(tables), wants(number("T1_inverse_SNR"), outcomes=(Number(name, "AU", 0, 5),)))
    assert "unit mm2/s (from the format) does not convert to the study's AU" in told


def test_ids_are_text_and_join_with_covariates(tmp_path: Path) -> None:
    (tmp_path / "cov.csv").write_text("id,age\n007,30\n7,40\n")
    tables = site(tmp_path, line("7", 868), line("007", 868, T1_inverse_SNR="9"))
    tables["cov"] = {"path": tmp_path / "cov.csv", "id": "id"}
    assert values(settings(tables), wants(AGE, number("T1_inverse_SNR"))) == {
        "age": [30, 40],
        "T1_inverse_SNR": [9, 4],
    }


def test_idps_tsv_is_read_by_its_header(tmp_path: Path) -> None:
    path = tmp_path / "IDPs.tsv"
    path.write_text(f"SubjectID\t{THALAMUS}\tT2_FLAIR_WMH_volume\nsub-1\t5000.5\t\nsub-2\tNaN\t10\n")
    tables = {"brc": {"path": path, "format": "brc"}}
    voxel = {"T2_FLAIR_WMH_volume": {"unit": "voxels", "voxel_mm3": "2"}}
    wanted = wants(Number(THALAMUS, "ml", 0, 100), Number("T2_FLAIR_WMH_volume", "mm3", 0, 1e6))
    assert values(settings(tables, variables=voxel), wanted) == {
        THALAMUS: [pytest.approx(5.0005), NAN],
        "T2_FLAIR_WMH_volume": [NAN, 20],
    }
    path.write_text(f"SubjectID\t{THALAMUS}\nsub-1\tword\n")
    assert "1 of 1 rows are broken" in refusal(settings(tables), wants(number(THALAMUS, "mm3")))


def test_the_number_of_fields_may_not_change_between_looking_and_reading(tmp_path: Path) -> None:
    config = settings(site(tmp_path, line("a", 868), line("b", 1274)))
    assert "expected 868 fields" in refusal(config, wants(number("T1_inverse_SNR")))


@examples(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(
    cells=st.lists(
        st.sampled_from(["1", "-2.5", ".04", "1e-3", "NaN", "nan", "NA", "inf", "x", "-nan", "1e"]),
        min_size=1,
        max_size=5,
    ),
    place=st.integers(0, 860),
)
def test_a_row_is_taken_exactly_when_every_cell_is_a_number_or_missing(
    tmp_path_factory: pytest.TempPathFactory, cells: list[str], place: int
) -> None:
    values_ = ["1"] * 867
    values_[place : place + len(cells)] = cells
    sound = not set(cells) & {"inf", "x", "-nan", "1e"}
    folder = tmp_path_factory.mktemp("brc")
    tables = site(folder, line("a", 868), " ".join(["b", *values_]), broken_rows="reject")
    told = report(settings(tables), wants(number("T1_inverse_SNR")))
    assert ("1 broken rows were rejected" not in told) is sound


@examples(deadline=None)
@given(st.text(max_size=200))
def test_any_first_line_gives_a_layout_or_our_error(text: str) -> None:
    try:
        found = layout([text], "IDPs.txt")
    except DataError:
        return
    assert found.names[0]
