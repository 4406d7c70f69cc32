"""BIDS: participants and phenotype tables with sidecars, sessions of everybody, and what a sidecar may not do."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st

from cohortsum.crypto.errors import DataError
from cohortsum.node.tables.bids import Sidecar
from cohortsum.node.tables.reader import content_digest
from cohortsum.node.tables.sniff import Layout
from cohortsum.study.variables import Factor, Number
from tests.node.reading import AGE, NAN, SEX, ids, number, refusal, settings, values, wants

CANARY = "7351946"

PEOPLE = "participant_id\tage\tsex\thandedness\nsub-01\t30\tF\tR\nsub-1\tn/a\tM\tn/a\nsub-02\t89+\tn/a\tL\n"
SIDECAR: dict[str, object] = {
    "age": {"Description": "age of the participant", "Units": "year"},
    "sex": {"LongName": "sex", "Levels": {"F": "female", "M": "male", "O": "other"}},
    "handedness": {"Levels": {"R": {"Description": "right"}, "L": {"Description": "left", "TermURL": "x"}}},
}


def site(
    folder: Path,
    table: str = PEOPLE,
    sidecar: object = SIDECAR,
    name: str = "participants",
    **options: object,
) -> dict[str, dict[str, object]]:
    (folder / f"{name}.tsv").write_text(table, "utf-8")
    if sidecar is not None:
        text = sidecar if isinstance(sidecar, str) else json.dumps(sidecar)
        (folder / f"{name}.json").write_text(text, "utf-8")
    return {name: {"path": folder / f"{name}.tsv", "format": "bids", **options}}


HAND = Factor("handedness", ("left", "right"))
OLD = {"age": {"codes": {"89+": "89"}}}


def test_levels_and_units_of_the_sidecar_count(tmp_path: Path) -> None:
    config = settings(site(tmp_path), variables=OLD)
    assert ids(config, wants(AGE)) == ["sub-01", "sub-02", "sub-1"]
    assert values(config, wants(AGE, SEX, HAND)) == {
        "age": [30, 89, NAN],
        "sex": [0, -1, 1],
        "handedness": [1, 0, -1],
    }
    months = Number("age", "months", 0, 2000)
    assert values(config, wants(months))["age"] == [360, 1068, NAN]


@pytest.mark.parametrize("unit", ["year", "years", "Years", "yr", "YEAR", " year "])
def test_a_unit_may_be_spelled_as_people_do(tmp_path: Path, unit: str) -> None:
    config = settings(site(tmp_path, sidecar={"age": {"Units": unit}}), variables=OLD)
    assert values(config, wants(AGE))["age"] == [30, 89, NAN]


@pytest.mark.parametrize("unit", ["n/a", "", "AU"])
def test_no_unit_is_the_studys(tmp_path: Path, unit: str) -> None:
    config = settings(site(tmp_path, sidecar={"age": {"Units": unit}}), variables=OLD)
    assert values(config, wants(AGE))["age"] == [30, 89, NAN]


def test_a_unit_that_does_not_convert_is_refused_with_its_origin(tmp_path: Path) -> None:
    config = settings(site(tmp_path, sidecar={"age": {"Units": "decades"}}), variables=OLD)
    assert (
        "variable age: unit decades (from the sidecar participants.json) does not convert to the study's years;"
        " correct the unit in node.yaml"
    ) in refusal(config, wants(AGE))
    own = settings(site(tmp_path), variables={"age": {"codes": {"89+": "89"}, "unit": "months"}})
    assert values(own, wants(AGE))["age"] == [2.5, pytest.approx(89 / 12), NAN]


def test_the_study_may_use_the_codes_themselves(tmp_path: Path) -> None:
    config = settings(site(tmp_path))
    assert values(config, wants(Factor("sex", ("M", "F")))) == {"sex": [1, -1, 0]}


def test_a_code_whose_meaning_is_another_level_is_refused(tmp_path: Path) -> None:
    swapped = {"sex": {"Levels": {"F": "M", "M": "F"}}}
    config = settings(site(tmp_path, sidecar=swapped))
    message = refusal(config, wants(Factor("sex", ("M", "F"))))
    assert "variable sex: the sidecar participants.json says of a code that it is another level" in message
    told = settings(site(tmp_path, sidecar=swapped), variables={"sex": {"codes": {"F": "F", "M": "M"}}})
    assert values(told, wants(Factor("sex", ("M", "F")))) == {"sex": [1, -1, 0]}


def test_a_code_without_a_level_of_the_study_is_unknown(tmp_path: Path) -> None:
    config = settings(site(tmp_path, table=PEOPLE.replace("\tM\t", "\tO\t")))
    assert "column sex: 1 of 3 rows hold an unknown level" in refusal(config, wants(SEX))


def test_meanings_are_compared_letter_by_letter(tmp_path: Path) -> None:
    config = settings(site(tmp_path, sidecar={"sex": {"Levels": {"F": "Female", "M": "Male"}}}))
    assert "column sex: 2 of 3 rows hold an unknown level" in refusal(config, wants(SEX))


def test_without_a_sidecar_nothing_is_known(tmp_path: Path) -> None:
    config = settings(site(tmp_path, sidecar=None))
    assert "column sex: 2 of 3 rows hold an unknown level" in refusal(config, wants(SEX))


def test_a_sidecar_may_lie_elsewhere(tmp_path: Path) -> None:
    (tmp_path / "meanings.json").write_text(json.dumps(SIDECAR))
    config = settings(site(tmp_path, sidecar=None) | _named(tmp_path))
    assert values(config, wants(SEX)) == {"sex": [0, -1, 1]}


def _named(folder: Path) -> dict[str, dict[str, object]]:
    return {
        "participants": {
            "path": folder / "participants.tsv",
            "format": "bids",
            "sidecar": folder / "meanings.json",
        }
    }


def test_the_sidecar_belongs_to_the_snapshot(tmp_path: Path) -> None:
    config = settings(site(tmp_path))
    before = content_digest(config)
    site(tmp_path, sidecar=SIDECAR | {"sex": {"Levels": {"F": "male", "M": "female"}}})
    assert content_digest(config) != before


@pytest.mark.parametrize(
    ("sidecar", "sentence"),
    [
        (f"{{{CANARY}", "expected a JSON object with one entry per column; repair it"),
        ("[1]", "expected a JSON object"),
        ({"age": {"Units": 3}}, "column age: Units is no text"),
        ({"sex": {"Levels": ["F", "M"]}}, "column sex: Levels is no object of codes"),
        ({"sex": {"Levels": {"F": 1}}}, "column sex: a level without a text for its meaning"),
    ],
)
def test_a_sidecar_that_cannot_be_meant(tmp_path: Path, sidecar: object, sentence: str) -> None:
    message = refusal(settings(site(tmp_path, sidecar=sidecar)), wants(AGE))
    assert "table participants (participants.json)" in message
    assert sentence in message
    assert CANARY not in message


def test_phenotype_tables_join_and_say_which_visit_counts(tmp_path: Path) -> None:
    phenotype = "participant_id\tsession_id\tscore\nsub-01\tses-1\t3\nsub-01\tses-2\t5\nsub-02\tses-1\tn/a\n"
    tables = site(tmp_path) | site(tmp_path, phenotype, {"score": {"Units": "points"}}, "panss")
    wanted = wants(AGE, outcomes=(Number("score", "points", 0, 10),))
    assert "table panss (panss.tsv), column participant_id: 1 ids repeat, 1 rows too many" in refusal(
        settings(tables, variables=OLD), wanted
    )
    for choose, score in (({"named": "ses-1"}, 3), ({"named": "ses-2"}, 5)):
        tables["panss"]["rows"] = {"order": "session_id", "choose": choose}
        assert values(settings(tables, variables=OLD), wanted)["score"] == [score, NAN, NAN]


def sessions(folder: Path, **people: str) -> dict[str, dict[str, object]]:
    for person, text in people.items():
        home = folder / "bids" / f"sub-{person}"
        home.mkdir(parents=True, exist_ok=True)
        (home / f"sub-{person}_sessions.tsv").write_text(text)
    rows = {"order": "acq_time", "choose": "first"}
    return {"sessions": {"path": folder / "bids", "format": "bids_sessions", "rows": rows}}


TWO = "session_id\tacq_time\tage\nses-2\t2026-02-01T10:00:00\t31\nses-1\t2025-02-01T10:00:00\t30\n"
ONE = "session_id\tacq_time\tweight\tage\nses-1\t2025-02-01\t70\t40\n"


def test_sessions_of_everybody_are_one_table(tmp_path: Path) -> None:
    config = settings(sessions(tmp_path, **{"01": TWO, "1": ONE}))
    wanted = wants(AGE, number("weight"))
    assert ids(config, wanted) == ["sub-01", "sub-1"]
    assert values(config, wanted) == {"age": [30, 40], "weight": [NAN, 70]}


def test_sessions_join_with_participants_and_take_a_sidecar(tmp_path: Path) -> None:
    tables = sessions(tmp_path, **{"01": TWO, "1": ONE}) | site(tmp_path, PEOPLE.replace("\tage", "\tyears"))
    (tmp_path / "sessions.json").write_text(json.dumps({"age": {"Units": "months"}}))
    tables["sessions"]["sidecar"] = tmp_path / "sessions.json"
    assert values(settings(tables), wants(AGE, SEX)) == {"age": [2.5, pytest.approx(40 / 12)], "sex": [0, 1]}


def test_a_changed_or_added_session_changes_the_hash(tmp_path: Path) -> None:
    config = settings(sessions(tmp_path, **{"01": TWO}))
    digests = {content_digest(config)}
    sessions(tmp_path, **{"1": ONE})
    digests.add(content_digest(config))
    sessions(tmp_path, **{"1": ONE.replace("70", "71")})
    digests.add(content_digest(config))
    assert len(digests) == 3


def test_a_broken_session_names_file_and_line(tmp_path: Path) -> None:
    config = settings(sessions(tmp_path, **{"01": TWO + "ses-3\t2026\n", "1": ONE}))
    message = refusal(config, wants(AGE))
    assert "table sessions (sessions of bids): 1 of 4 rows are broken" in message
    assert "first at line 4 of sub-01_sessions.tsv" in message


@pytest.mark.parametrize(
    ("people", "sentence"),
    [
        ({}, "no file sub-LABEL/sub-LABEL_sessions.tsv; name the folder of the BIDS data set"),
        ({"01": "participant_id\tage\nx\t3\n"}, "expected the id in the folder's name alone"),
        ({"01": "session_id\tage\tage\ns\t3\t4\n"}, "a column name stands twice in the header"),
    ],
)
def test_sessions_that_cannot_be_meant(tmp_path: Path, people: dict[str, str], sentence: str) -> None:
    assert sentence in refusal(settings(sessions(tmp_path, **people)), wants(AGE))


@examples(deadline=None)
@given(st.binary(max_size=300))
def test_any_sidecar_is_taken_or_refused_by_our_error(content: bytes) -> None:
    layout = Layout("\t", ("participant_id", "age"))
    try:
        found = Sidecar("table p", Path("p.json")).describe(layout, content)
    except DataError as error:
        message = error.message
    else:
        message = ""
        assert found.names == layout.names
    assert "p.json" in message or not message


@examples(deadline=None)
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=5),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(st.sampled_from(["age", "Units", "Levels", "x"]), inner)
        ),
        max_leaves=12,
    )
)
def test_any_json_is_taken_or_refused_by_our_error(described: object) -> None:
    layout = Layout("\t", ("participant_id", "age"))
    try:
        found = Sidecar("table p", Path("p.json")).describe(layout, json.dumps(described).encode())
    except DataError:
        return
    assert set(found.facts) <= {1}
