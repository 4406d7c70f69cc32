"""The study file: what loads, what is refused with line and cure, and what freezing fixes."""

import datetime
import hashlib
import json
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cohortsum.crypto.errors import ConfigurationError, NotInThisVersionError, StudyFileError
from cohortsum.study.catalogue import FAMILIES
from cohortsum.study.definition import (
    HistogramSpec,
    RegressionSpec,
    ReportSpec,
    SummarySpec,
    coefficient_names,
    freeze,
    load_study,
    parse_canonical,
    refuse_unbuilt,
    study_schema,
    unbuilt,
)
from cohortsum.study.variables import Factor, Number
from tests.study.definitions import (
    OPEN,
    SMALL,
    THICKNESS,
    frozen,
    small,
    with_analysis,
)


def test_the_full_example_loads_and_has_a_digest() -> None:
    study = frozen(THICKNESS)
    assert study.digest == hashlib.sha256(b"cohortsum/v1/study\0" + study.canonical).digest()
    assert study.expires == datetime.date(2027, 6, 30)
    assert study.enrol.until == datetime.datetime(2026, 12, 18, 16, tzinfo=datetime.UTC)
    assert study.deadlines_s.gather == 72 * 3600
    assert study.deadlines_s.tick == 0.1
    assert study.variables["age2"] == Number("age2", "derived", 25.0, 4225.0)
    assert study.variables["dx"] == Factor("dx", ("control", "autism"))
    assert study.privacy.epsilon == 1.0
    thickness = study.analyses["thickness"]
    assert isinstance(thickness, RegressionSpec)
    assert thickness.outcomes == tuple(
        sorted(row.name for row in FAMILIES["freesurfer.thickness"].rows if row.name.startswith("lh_"))
    )
    assert thickness.terms == (("dx",), ("age",), ("age2",), ("sex",))
    assert thickness.report == ReportSpec("dx", "cohens_d", "fdr_bh")


def test_the_full_example_is_refused_by_name_before_it_runs() -> None:
    with pytest.raises(NotInThisVersionError) as caught:
        refuse_unbuilt(frozen(THICKNESS))
    assert "near_duplicate reuse" in caught.value.message
    for field in ("protection.mode", "checkers", "round_to"):
        assert field not in caught.value.message


def test_the_open_example_runs_on_68_regions() -> None:
    study = frozen(OPEN)
    refuse_unbuilt(study)
    thickness, ages = study.analyses["thickness"], study.analyses["ages"]
    assert isinstance(thickness, RegressionSpec)
    assert isinstance(ages, HistogramSpec)
    assert len(thickness.outcomes) == 68
    assert ages.edges == tuple(float(edge) for edge in range(6, 65, 2))
    assert study.families["rh_insula_thickness"] == "freesurfer.thickness"
    assert study.protection.min_participants == 300


def test_two_key_is_refused_by_name_only_where_its_library_is_missing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    study = frozen(small("protection: {", "protection: {mode: two_key, "))
    refuse_unbuilt(study)
    nowhere: dict[str, object] = {}
    monkeypatch.setattr(unbuilt, "find_spec", nowhere.get)
    with pytest.raises(NotInThisVersionError, match=re.escape("protection.mode two_key")):
        refuse_unbuilt(study)


@pytest.mark.parametrize(
    ("old", "new", "field"),
    [
        ("epoch: 2026-11", "epoch: 2026-11, near_duplicate: reuse", "near_duplicate reuse"),
    ],
)
def test_what_is_not_built_loads_and_is_then_refused_by_name(old: str, new: str, field: str) -> None:
    study = frozen(small(old, new))
    with pytest.raises(NotInThisVersionError, match=re.escape(field)):
        refuse_unbuilt(study)


def test_defaults_are_written_into_the_signed_bytes() -> None:
    written = json.loads(frozen(SMALL).canonical)
    assert written["protection"] == {
        "max_attempts": 2,
        "max_colluding_sites": 1,
        "max_participants": 1000,
        "min_honest_inputs": 3,
        "min_participants": 100,
        "min_participants_per_site": 20,
        "min_sites": 5,
        "mode": "masking",
    }
    assert written["deadlines"] == {
        "gather": "3d",
        "rejoin": "8d",
        "step": "10m",
        "step_max": "1d",
        "tick": "100ms",
    }
    assert written["release"] == {"checkers": {"consortium": 1, "sites": "none"}}
    assert written["cohort"] == {"epoch": "2026-11", "near_duplicate": "stay_out"}


@pytest.mark.parametrize("text", [THICKNESS, OPEN, SMALL.encode()])
def test_canonical_bytes_read_back_as_the_same_study(text: bytes) -> None:
    study = frozen(text)
    again = parse_canonical(study.canonical)
    assert again == study
    assert list(again.analyses) == list(study.analyses)
    assert list(again.variables) == list(study.variables)


def test_equal_studies_have_equal_bytes_however_they_are_written() -> None:
    rewritten = (
        small("range: [5, 65]", "out_of_range: clamp, range: [5.0, 6.5e1]")
        .replace("noise: none", '"noise": "none"')
        .replace('"age ^ 2"', "(age)^2")
    )
    head, analyses = rewritten.split("cohort:")
    assert frozen("cohort:" + analyses + head).digest == frozen(SMALL).digest


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("version: 1", "version: 2"),
        ("range: [5, 65]", "range: [5, 65.00000000000001]"),
        ("[control, autism, other]", "[autism, control, other]"),
        ("age ^ 2", "age ^ 3"),
        ("max_participants: 1000", "max_participants: 1001"),
        ("variables: [age]", "variables: [iq]"),
    ],
)
def test_every_change_of_meaning_changes_the_digest(old: str, new: str) -> None:
    assert frozen(small(old, new)).digest != frozen(SMALL).digest


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b"{", b" {"),
        (b"5.0", b"5"),
        (b"65.0", b"6.5e1"),
        (b'"version":1', b'"version": 1'),
        (b'"version":1', b'"version":1,"version":1'),
        (b"A small", b"\\u0041 small"),
        (b"age^2", b"age ^ 2"),
        (b"age^2", b"(age)^2"),
        (b'"out_of_range":"clamp",', b""),
        (b'"max_attempts":2,', b""),
        (b'"epoch":"2026-11"', b'"epoch":"2026-11","include":null'),
        (b'"tick":"100ms"', b'"tick":"0100ms"'),
        (b'"gather":"3d"', b'"gather":"72h"'),
        (b"A small", b"A \xff"),
        (b"A small", b"\\ud800"),
        (b"65.0", b"NaN"),
        (b"65.0", b"1" * 5000),
        (b"}}", b"}"),
    ],
)
def test_other_bytes_for_the_same_study_are_refused(old: bytes, new: bytes) -> None:
    canonical = frozen(SMALL).canonical
    assert old in canonical
    with pytest.raises(StudyFileError, match="canonical study"):
        parse_canonical(canonical.replace(old, new, 1))


@pytest.mark.parametrize("text", [b"", b"null", b"[" * 100_000, b'{"a":' * 100_000, b" " * (2**23 + 1)])
def test_bytes_that_are_no_study_are_refused(text: bytes) -> None:
    with pytest.raises(StudyFileError, match="canonical study"):
        parse_canonical(text)


def test_two_moments_go_without_saying() -> None:
    asked = small("variables: [age]}", "variables: [age], moments: 2}")
    assert frozen(asked).digest == frozen(SMALL).digest
    four = frozen(asked.replace("moments: 2", "moments: 4"))
    assert four.digest != frozen(SMALL).digest
    assert parse_canonical(four.canonical) == four


def test_the_fingerprint_is_the_start_of_the_digest_in_crockford_base_32() -> None:
    study = frozen(SMALL)
    assert re.fullmatch(r"([0-9A-HJKMNP-TV-Z]{3}-){4}[0-9A-HJKMNP-TV-Z]{3}", study.fingerprint)
    value = 0
    for letter in study.fingerprint.replace("-", ""):
        value = value * 32 + "0123456789ABCDEFGHJKMNPQRSTVWXYZ".index(letter)
    assert f"{value:075b}" == "".join(f"{byte:08b}" for byte in study.digest)[:75]


# --- Globs and the catalogue ---------------------------------------------------------------------------------------


def test_a_range_replaces_the_clamp_of_the_catalogue_and_a_written_name_wins_over_a_glob() -> None:
    study = frozen(
        small(
            "  sex:",
            '  "lh_*_thickness": {catalogue: freesurfer.thickness, range: [0, 5]}\n'
            "  lh_insula_thickness: {catalogue: freesurfer.thickness, range: [2, 4], out_of_range: exclude}\n"
            "  Left-Hippocampus: {catalogue: freesurfer.volume}\n  sex:",
        )
    )
    assert study.variables["lh_cuneus_thickness"] == Number("lh_cuneus_thickness", "mm", 0.0, 5.0)
    assert study.variables["lh_insula_thickness"] == Number("lh_insula_thickness", "mm", 2.0, 4.0, "exclude")
    assert study.variables["Left-Hippocampus"] == Number("Left-Hippocampus", "mm3", 1500.0, 5000.0)
    assert len(study.families) == 35


def test_globs_in_analyses_expand_to_declared_numbers_once_each_and_in_order() -> None:
    study = frozen(with_analysis('{kind: summary, variables: [iq, "a*", "*"], by: [dx]}'))
    assert study.analyses["a"] == SummarySpec("a", ("iq", "age", "age2"), ("dx",), None)


# --- Regression details --------------------------------------------------------------------------------------------


def test_terms_contrasts_and_tests_are_written_out() -> None:
    entry = (
        "{kind: regression, outcomes: [iq], site_effect: none, terms: [dx, age, sex, 'sex : dx'],"
        " contrasts: {c: {'dx[other]': 1, 'dx[autism]': -1, sex: 0.5, age: 0}, base: {intercept: 1}},"
        " tests: {dx: [dx, 'dx:sex']}, where: 'age2>100 and not (sex==male)'}"
    )
    study = frozen(with_analysis(entry))
    spec = study.analyses["a"]
    assert isinstance(spec, RegressionSpec)
    assert spec.terms == (("dx",), ("age",), ("sex",), ("sex", "dx"))
    assert spec.contrasts == {
        "base": (("intercept", 1.0),),
        "c": (("dx[autism]", -1.0), ("dx[other]", 1.0), ("sex[male]", 0.5)),
    }
    assert spec.tests == {"dx": (("dx",), ("sex", "dx"))}
    assert json.loads(study.canonical)["analyses"]["a"]["where"] == 'age2 > 100 and not sex == "male"'
    assert parse_canonical(study.canonical) == study


def test_coefficients_are_named_by_level_and_interaction() -> None:
    variables = frozen(SMALL).variables
    assert coefficient_names(("dx", "age"), variables) == ("dx[autism]:age", "dx[other]:age")
    assert coefficient_names(("sex", "dx"), variables) == ("sex[male]:dx[autism]", "sex[male]:dx[other]")
    assert coefficient_names(("age",), variables) == ("age",)


# --- Properties ----------------------------------------------------------------------------------------------------

_range = st.tuples(st.floats(-1e12, 1e12), st.floats(-1e12, 1e12)).filter(lambda ends: ends[0] < ends[1])
_names = st.text(st.characters(codec="utf-8", exclude_characters=':/[]`"*'), min_size=1, max_size=12).filter(
    lambda text: text.isprintable() and text.strip() == text
)


@settings(max_examples=60, deadline=None)
@given(
    st.dictionaries(_names, _range, min_size=1, max_size=4), st.text(max_size=30), st.integers(1, 2**31 - 1)
)
def test_any_study_reads_back_exactly_from_its_canonical_bytes(
    ranges: dict[str, tuple[float, float]], title: str, version: int
) -> None:
    tree = {
        "study": "s",
        "title": title if title.isprintable() and title.strip() == title != "" and '"' not in title else "t",
        "version": version,
        "roster": 1,
        "expires": "2027-01-01",
        "person": "the person",
        "variables": {name: {"unit": "u", "range": list(ends)} for name, ends in ranges.items()},
        "cohort": {"epoch": "e"},
        "analyses": {"a": {"kind": "summary", "variables": list(ranges)}},
        "protection": {"min_participants": 1, "max_participants": 2},
        "privacy": {"noise": "none"},
    }
    if "the person" in ranges:
        return
    study = frozen(json.dumps(tree, ensure_ascii=False))  # JSON is YAML
    assert {name: (entry.lower, entry.upper) for name, entry in study.numbers.items()} == ranges
    assert parse_canonical(study.canonical) == study


_LINES = THICKNESS.splitlines(keepends=True)


@st.composite
def _mutations(draw: st.DrawFn) -> bytes:
    lines = list(_LINES)
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, len(lines) - 1))
        line = lines[at]
        cut = draw(st.integers(0, len(line)))
        noise = draw(
            st.sampled_from([b"", b"*", b"&a ", b"!!python/object:os ", b"[", b"}", b": ", b"\t", b"'", b"\n", b"\xff",
                             b"- ", b"0", b"-1", b"null", b"\x00", b"#", b"| ", b"? ", b"<<: ", b"%", b"x: 1\n"])
        )  # fmt: skip
        lines[at] = draw(
            st.sampled_from(
                [line[:cut] + noise + line[cut:], line[:cut] + noise, noise + line[cut:], line + line]
            )
        )
    return b"".join(lines)


@settings(max_examples=150, deadline=None)
@given(_mutations())
def test_a_mutated_file_is_read_or_refused_by_our_error_with_a_line(text: bytes) -> None:
    message = "mutated.yaml:1: fine"
    try:
        freeze(load_study(text, "mutated.yaml"))
    except ConfigurationError as error:
        message = error.message
    assert re.match(r"mutated\.yaml:\d+: \S", message)


# --- Schema --------------------------------------------------------------------------------------------------------


def test_the_schema_refuses_unknown_keys_everywhere_and_names_every_section() -> None:
    schema = study_schema()
    assert schema["additionalProperties"] is False
    assert set(schema["properties"]) >= {
        "study",
        "variables",
        "analyses",
        "protection",
        "privacy",
        "deadlines",
    }
    assert all(part["additionalProperties"] is False for part in schema["$defs"].values())
    assert schema["$defs"]["Bins"]["required"] == ["from", "to", "count"]
    assert schema["$defs"]["Deadlines"]["properties"]["step"]["type"] == "string"
    assert json.loads(json.dumps(schema)) == schema
