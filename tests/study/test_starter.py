"""The study file to begin with: valid as it stands, for every id, and each of its marked lines can be edited."""

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from cohortsum.crypto.errors import StudyFileError
from cohortsum.study.definition import RegressionSpec, SummarySpec, parse_canonical, refuse_unbuilt
from cohortsum.study.definition.starter import EDIT, starter
from tests.study.definitions import frozen


@pytest.mark.parametrize("name", ["thickness-2026", "1", "true", "null", "1e5", "2026-11-30", "x" * 64])
def test_it_freezes_and_asks_for_nothing_that_is_not_built(name: str) -> None:
    study = frozen(starter(name))
    refuse_unbuilt(study)
    assert study.study == name
    assert parse_canonical(study.canonical) == study


@given(st.from_regex(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}", fullmatch=True))
def test_every_id_makes_a_study_of_that_id(name: str) -> None:
    assert yaml.load(starter(name), yaml.BaseLoader)["study"] == name  # noqa: S506  (every scalar is text)


@pytest.mark.parametrize("name", ["", "a b", "a.b", "-a", "é", "a\n", "{name}", "x" * 65, '"'])
def test_what_is_no_id_is_refused(name: str) -> None:
    with pytest.raises(StudyFileError, match="is no id of a study"):
        starter(name)


def test_it_teaches_one_summary_and_one_regression_on_catalogue_variables() -> None:
    study = frozen(starter("a"))
    people, thickness = study.analyses["people"], study.analyses["thickness"]
    assert isinstance(people, SummarySpec)
    assert isinstance(thickness, RegressionSpec)
    assert len(study.analyses) == 2
    assert set(study.families) == set(thickness.outcomes)
    assert len(thickness.outcomes) == 8
    assert (study.enrol.start, study.privacy.noise, study.release.checkers.consortium) == (
        "at_deadline",
        "none",
        0,
    )


def test_the_marks_stand_at_what_has_to_be_decided() -> None:
    lines = starter("a").splitlines()
    assert max(map(len, lines)) <= 120
    marked = [line for line in lines if f"# {EDIT}" in line]
    keys = {line.split(":")[0].strip() for line in marked}
    assert keys == {
        "title", "roster", "expires", "person", "dx", "age", "include", "epoch", "min_participants", "enrol"
    }  # fmt: skip


def test_the_marked_lines_can_be_edited() -> None:
    edits = [
        ("[control, case]", "[none, one, two]"), ("[18, 90]", "[6, 17]"), ("age >= 18 and age <= 90", "age < 18"),
        ("2099-12-31", "2030-01-31"), ("2099-11-30T17:00+00:00", "2030-01-01T09:00+01:00"), ("roster: 1", "roster: 4"),
    ]  # fmt: skip
    text = starter("a")
    for old, new in edits:
        assert text.count(old) == 1
        text = text.replace(old, new)
    assert frozen(text).roster == 4
