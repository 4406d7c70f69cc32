"""The difference between two versions: nothing is silent, nothing is told twice, and the words are those of a person."""

import json
import re
from collections.abc import Iterator
from dataclasses import fields, replace
from itertools import combinations
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cohortsum.crypto.errors import StudyFileError
from cohortsum.study.definition import FrozenStudy
from cohortsum.study.definition.difference import (
    Change,
    Weight,
    could_carry_over,
    difference,
    same_cohort,
)
from cohortsum.study.definition.models import StudyFile
from tests.study.committee_studies import study_of
from tests.study.definitions import OPEN, frozen

FULL = """\
study: full
title: A full study
version: 1
roster: 1
expires: 2027-06-30
person: id
variables:
  dx: {levels: [control, autism, other]}
  sex: {levels: [female, male]}
  age: {unit: years, range: [5, 65]}
  iq: {unit: points, range: [40, 160]}
  vol: {unit: mm3, range: [1, 9]}
  lh_cuneus_thickness: {catalogue: freesurfer.thickness}
derive:
  age2: "age^2"
  logvol: "log(vol)"
cohort: {include: "age >= 6", epoch: 2026-11}
analyses:
  people: {kind: summary, variables: [age, iq], by: [dx, sex]}
  ages: {kind: histogram, variables: [age], edges: [5, 20, 30, 65]}
  model:
    kind: regression
    outcomes: [lh_cuneus_thickness, logvol]
    terms: [dx, age, age2, sex]
    report: {effect: dx}
    contrasts: {old: {age: 1, "dx[autism]": 2}}
    tests: {diagnosis: [dx], growth: [age, age2]}
    where: age < 60
protection: {mode: two_key, min_participants: 100, max_participants: 1000}
privacy: {noise: distributed, epsilon: 1, delta: 1.0e-6}
release: {round_to: 5, checkers: {sites: any}}
enrol: {until: "2027-01-01T12:00Z"}
"""

P, C, N, R, S = Weight.PROTECTION, Weight.COHORT, Weight.NUMBERS, Weight.RELEASE, Weight.SCHEDULE
ROWS = [
    ("A full study", "Another study", "title", "", Weight.WORDING),
    ("roster: 1", "roster: 2", "roster", "roster is now 2, was 1", S),
    ("2027-06-30", "2027-06-29", "expires", "", S),
    ("person: id", "person: other", "person", "person is now other, was id", C),
    ("other]}", "else]}", "variables", "variables: level else of dx is new", N),
    ("[female, male]", "[male, female]", "variables", "", N),
    ("age: {unit: years", "age: {unit: months", "variables", "unit of age is now months, was years", C),
    ("[5, 65]}\n", "[5, 65], out_of_range: exclude}\n", "variables", "", C),
    ("[40, 160]", "[40, 150]", "variables", "range of iq is now 40 to 150, was 40 to 160", N),
    ("catalogue: freesurfer.thickness", "unit: mm, range: [1, 5]", "variables", "", N),
    ("age^2", "age^2 + 1", "derive", 'derive: age2 is now "age^2 + 1", was age^2', N),
    ("age >= 6", "age > 6", "cohort.include", "", C),
    ('include: "age >= 6", ', "", "cohort.include", 'include is now everybody, was "age >= 6"', C),
    ("2026-11", "2026-12", "cohort.epoch", "", C),
    ("2026-11}", "2026-11, near_duplicate: reuse}", "cohort.near_duplicate", "now reuse, was stay_out", C),
    ("[age, iq]", "[iq, age]", "analyses.people.variables", "order of variables is now iq, age", N),
    ("by: [dx, sex]", "by: [dx]", "analyses.people.by", "analyses.people: grouping factor sex is gone", N),
    ("by: [dx, sex]}", "by: [dx, sex], where: iq > 9}", "analyses.people.where", "", N),
    ("people:", "persons:", "analyses.persons", "analyses: persons is new (kind summary; by dx, sex", N),
    ("[5, 20, 30, 65]", "[5, 20, 31, 65]", "analyses.ages.edges", "edges is now 5, 20, 31, 65, was", N),
    ("edges: [5, 20, 30, 65]", "bins: {from: 0, to: 9, count: 9}", "analyses.ages.edges", "", N),
    ("[lh_cuneus_thickness, logvol]", "[logvol]", "analyses.model.outcomes", "", N),
    ("age2, sex]\n", "age2, sex, dx:age]\n", "analyses.model.terms", "term dx:age is new", N),
    ("report:", "site_effect: none\n    report:", "analyses.model.site_effect", "none, was within", N),
    ("report:", "missing: complete\n    report:", "analyses.model.missing", "", N),
    ("effect: dx", "effect: sex", "analyses.model.report.effect", "report: effect is now sex", N),
    ("effect: dx", "effect: dx, correction: fdr_bh", "analyses.model.report.correction", "", N),
    ("report: {effect: dx}\n", "\n", "analyses.model.report", "report is gone", N),
    ('"dx[autism]": 2', '"dx[autism]": 3', "analyses.model.contrasts.old.dx[autism]", "now 3, was 2", N),
    ("{old:", "{older:", "analyses.model.contrasts.older", "", N),
    ("growth: [age, age2]", "growth: [age2]", "analyses.model.tests.growth", "", N),
    ("age < 60", "age < 61", "analyses.model.where", 'where is now "age < 61", was "age < 60"', N),
    ("mode: two_key", "mode: masking", "protection.mode", "neither stricter", P),
    ("protection: {", "protection: {min_sites: 6, ", "protection.min_sites", "is now 6, was 5; stricter", P),
    ("min_participants: 100", "min_participants: 90", "protection.min_participants", "; weaker", P),
    ("_participants: 1000", "_participants: 900", "protection.max_participants", "; neither stricter", P),
    ("protection: {", "protection: {min_participants_per_site: 9, ", "protection.min_participants_per_site", "; weaker", P),
    ("protection: {", "protection: {max_colluding_sites: 2, ", "protection.max_colluding_sites", "; stricter", P),
    ("protection: {", "protection: {min_honest_inputs: 4, ", "protection.min_honest_inputs", "; stricter", P),
    ("protection: {", "protection: {max_attempts: 3, ", "protection.max_attempts", "; weaker", P),
    ("distributed", "local", "privacy.noise", "; neither stricter", P),
    ("distributed, epsilon: 1, delta: 1.0e-6", "none", "privacy.noise", "now none, was distributed; weaker", P),
    ("epsilon: 1", "epsilon: 0.5", "privacy.epsilon", "epsilon is now 0.5, was 1; stricter", P),
    ("1.0e-6", "1.0e-5", "privacy.delta", "delta is now 1e-05, was 1e-06; weaker", P),
    ("sites: any", "sites: all", "release.checkers.sites", "; stricter", R),
    ("sites: any", "sites: any, consortium: 0", "release.checkers.consortium", "; weaker", R),
    ("round_to: 5, ", "", "release.round_to", "is gone (was 5); weaker", R),
    ("2027-01-01", "2027-01-02", "enrol.until", "", S),
    ("12:00Z", '12:00Z", start: "manual', "enrol.start", "start is now manual, was all_invited", S),
    *[
        ("privacy:", f"deadlines: {{{key}: 1h}}\nprivacy:", f"deadlines.{key}", f"deadlines: {key} is now 1h, was", S)
        for key in ("gather", "step", "step_max", "rejoin")
    ],
    ("privacy:", "deadlines: {tick: 1s}\nprivacy:", "deadlines.tick", "", S),
]  # fmt: skip


def changed(*rows: int, text: str = FULL) -> FrozenStudy:
    for row in rows:
        old, new = ROWS[row][:2]
        assert old in text
        text = text.replace(old, new, 1)
    return frozen(text)


def meaning(study: FrozenStudy) -> dict[str, object]:
    held: dict[str, object] = json.loads(study.canonical)
    del held["version"]
    return held


def leaves(old: object, new: object, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Yield the fields of two trees that differ; a map that one of them lacks is one field."""
    if isinstance(old, dict) and isinstance(new, dict):
        before, after = cast("dict[str, object]", old), cast("dict[str, object]", new)
        for key in before.keys() | after.keys():
            yield from leaves(before.get(key), after.get(key), (*path, key))
    elif old != new:
        yield path


def sentences(old: str | FrozenStudy, new: str | FrozenStudy) -> list[str]:
    sides = [frozen(side) if isinstance(side, str) else side for side in (old, new)]
    return [change.sentence for change in difference(*sides)]


def edited(*edits: tuple[str, str], text: str = FULL) -> str:
    for old, new in edits:
        assert old in text
        text = text.replace(old, new, 1)
    return text


@pytest.mark.parametrize("row", range(len(ROWS)), ids=[f"{row[2]}-{at}" for at, row in enumerate(ROWS)])
def test_every_field_is_told_under_its_section_with_its_weight(row: int) -> None:
    _, _, section, words, weight = ROWS[row]
    found = {change.section: change for change in difference(frozen(FULL), changed(row))}
    assert found[section].weight is weight
    texts = [change.sentence for change in difference(frozen(FULL), changed(row))]
    assert any(words in text for text in texts)
    assert all("\n" not in text for text in texts)


def test_the_rows_reach_every_field_of_a_study() -> None:
    base, sides = frozen(FULL), [changed(row) for row in range(len(ROWS))]
    for field in {field.name for field in fields(FrozenStudy)} - {"study", "version"}:
        assert any(getattr(side, field) != getattr(base, field) for side in sides), field
    sections = {row[2].split(".")[0] for row in ROWS}
    assert sections == StudyFile.model_fields.keys() - {"study", "version"}


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ("[site0, site1, site2]", "[site0, site1, site3]", "committee site site3 is new"),
        ("min_sites: 3", "min_sites: 3, min_cell: 12", "min_cell is now 12, was 10; stricter"),
        ("step: 0.1", "step: 0.2", "step is now 0.2, was 0.1"),
    ],
)
def test_what_a_committee_is_and_opens_is_told(old: str, new: str, sentence: str) -> None:
    text = study_of(["kind: quantiles, variables: [age], step: 0.1, probabilities: [0.5]"])
    assert any(sentence in found for found in sentences(text, edited((old, new), text=text)))


def test_the_version_number_alone_is_no_difference() -> None:
    newer = frozen(edited(("version: 1", "version: 2")))
    assert newer.digest != frozen(FULL).digest
    assert difference(frozen(FULL), newer) == ()


SOME = st.sets(st.integers(0, len(ROWS) - 1), max_size=4)


def applied(rows: set[int]) -> FrozenStudy | None:
    """Return the study with the changes that can be made together, or None where they cannot."""
    text = FULL
    for row in sorted(rows):
        text = text.replace(*ROWS[row][:2], 1)
    try:
        return frozen(text)
    except StudyFileError:
        return None


@given(SOME, SOME)
def test_silence_means_the_same_meaning_and_cohort_weight_means_another_cohort(
    left: set[int], right: set[int]
) -> None:
    old, new = applied(left), applied(right)
    if old is None or new is None:
        return
    changes = difference(old, new)
    assert (changes == ()) == (meaning(old) == meaning(new))
    assert same_cohort(old, new) == all(change.weight is not Weight.COHORT for change in changes)
    assert bool(changes) == bool(difference(new, old))


@given(SOME, SOME)
def test_no_change_hides_another(left: set[int], right: set[int]) -> None:
    old, new = applied(left), applied(right)
    if old is None or new is None:
        return
    changes = difference(old, new)
    words = {word for change in changes for word in re.findall(r"\w+", change.sentence)}
    told = {change.section for change in changes}
    for path in leaves(meaning(old), meaning(new)):
        if path[0] in ("variables", "derive"):
            assert path[1] in words
        else:
            assert ".".join(path) in told


def test_a_new_outcome_is_one_line_with_its_declaration() -> None:
    new = edited(
        ("version: 1", "version: 2"),
        ("thickness}\n", "thickness}\n  rh_cuneus_thickness: {catalogue: freesurfer.thickness}\n"),
        ("logvol]", "logvol, rh_cuneus_thickness]"),
    )
    told = "(unit mm; range 1 to 5; catalogue freesurfer.thickness; out_of_range clamp)"
    assert sentences(FULL, new) == [f"analyses.model: outcome rh_cuneus_thickness is new {told}"]
    assert sentences(new, FULL) == ["analyses.model: outcome rh_cuneus_thickness is gone"]


def test_outcomes_of_one_glob_are_one_line() -> None:
    new = OPEN.decode().replace(
        '"lh_*_thickness"', '"*_area": {catalogue: freesurfer.area}\n  "lh_*_thickness"', 1
    )
    new = new.replace('outcomes: ["lh_*', 'outcomes: ["*_area", "lh_*')
    (line,) = sentences(OPEN.decode(), new)
    assert line.startswith("analyses.thickness: outcomes lh_bankssts_area, ")
    assert line.count("_area") == 68
    assert line.endswith(
        "are new (unit mm2; range 0 to 20000; catalogue freesurfer.area; out_of_range clamp)"
    )


def test_a_derived_outcome_brings_what_it_is_made_of() -> None:
    new = edited(
        ("  vol:", "  raw: {unit: mm, range: [1, 2]}\n  vol:"),
        ("derive:", 'derive:\n  half: "raw / 2"\n  cube: "half ^ 3"'),
        ("logvol]", "logvol, cube]"),
    )
    told = 'derived as half^3; half: derived as "raw / 2"; raw: unit mm; range 1 to 2; out_of_range clamp'
    assert sentences(FULL, new) == [f"analyses.model: outcome cube is new ({told})"]
    assert sentences(new, FULL) == ["analyses.model: outcome cube is gone"]


def test_a_new_analysis_is_one_line_that_says_all_of_it() -> None:
    new = edited(
        ("  vol:", "  raw: {unit: mm, range: [1, 2]}\n  vol:"),
        ("  people:", "  b: {kind: summary, variables: [raw], by: [sex], where: raw > 1.5}\n  people:"),
    )
    assert sentences(FULL, new) == [
        'analyses: b is new (kind summary; by sex; variables raw; where "raw > 1.5") '
        "(raw: unit mm; range 1 to 2; out_of_range clamp)"
    ]
    assert sentences(new, FULL) == ["analyses: b is gone"]


@pytest.mark.parametrize(
    ("edit", "where"),
    [
        (('include: "age >= 6"', 'include: "age >= 6 and raw > 1.5"'), "cohort: include"),
        (("where: age < 60", "where: raw > 1.5"), "analyses.model: where"),
        (("log(vol)", "log(vol) + raw"), "derive: logvol"),
    ],
)
def test_a_condition_or_formula_tells_of_the_variable_it_brings(edit: tuple[str, str], where: str) -> None:
    new = edited(("  vol:", "  raw: {unit: mm, range: [1, 2]}\n  vol:"), edit)
    (line,) = sentences(FULL, new)
    assert line.startswith(f"{where} is now")
    assert line.endswith("(raw: unit mm; range 1 to 2; out_of_range clamp)")
    assert len(sentences(new, FULL)) == 1


USES = {
    "cohort": ("age >= 6", "age >= 6 and raw > 1.5"),
    "where": ("age < 60", "raw > 1.5"),
    "outcomes": ("logvol]", "logvol, raw]"),
    "people": ("[age, iq]", "[age, iq, raw]"),
    "derive": ("log(vol)", "log(vol) + raw"),
}
"""Where the variable `raw` can be used; two of the places are in one analysis."""


@pytest.mark.parametrize(
    "uses",
    [set(some) for n in range(6) for some in combinations(sorted(USES), n)],
    ids=lambda uses: " and ".join(sorted(uses)) or "nowhere",
)
def test_a_variable_is_told_once_where_one_place_uses_it_and_otherwise_where_it_is_declared(
    uses: set[str],
) -> None:
    new = edited(("  vol:", "  raw: {unit: mm, range: [1, 2]}\n  vol:"), *(USES[use] for use in sorted(uses)))
    places = {"model" if use in ("where", "outcomes") else use for use in uses}
    for lines in (sentences(FULL, new), sentences(new, FULL)):
        declared = [line for line in lines if line.startswith("variables: raw is ")]
        assert len(declared) == (len(places) != 1)
        assert len(lines) == len(uses) + len(declared)
    told = [line for line in sentences(FULL, new) if "unit mm; range 1 to 2" in line]
    assert len(told) == (len(uses) if len(places) == 1 else 1)


def test_a_new_variable_with_two_uses_or_none_has_a_line_of_its_own() -> None:
    declared = ("  vol:", "  raw: {unit: mm, range: [1, 2]}\n  vol:")
    new = edited(declared, ("logvol]", "logvol, raw]"), ("[age, iq]", "[age, iq, raw]"))
    told = "raw is new (unit mm; range 1 to 2; out_of_range clamp)"
    assert sentences(FULL, new) == [
        f"variables: {told}", "analyses.model: outcome raw is new", "analyses.people: variable raw is new"
    ]  # fmt: skip
    assert sentences(FULL, edited(declared)) == [f"variables: {told}, used nowhere"]


def test_a_name_that_moves_from_declared_to_derived_is_told() -> None:
    new = edited(("  iq: {unit: points, range: [40, 160]}\n", ""), ("derive:", 'derive:\n  iq: "age + 1"'))
    assert sentences(FULL, new) == [
        "variables: iq is gone",
        'derive: iq is new (derived as "age + 1")',
    ]


def test_variables_that_change_alike_share_a_sentence() -> None:
    new = edited(("[40, 160]", "[1, 200]"), ("range: [1, 9]", "range: [1, 200]"), ("[1, 200]}", "[1, 200], out_of_range: exclude}"),
                 ("[1, 200]}", "[1, 200], out_of_range: exclude}"))  # fmt: skip
    assert "variables: out_of_range of iq, vol is now exclude, was clamp" in sentences(FULL, new)


def test_many_edges_are_summed_up_and_told_one_by_one_where_the_summary_is_the_same() -> None:
    many = [*range(5, 65, 4)]
    first = edited(("[5, 20, 30, 65]", str(many)))
    second = edited(("[5, 20, 30, 65]", str([*many[:3], 14, *many[4:]])))
    assert "analyses.ages: edges is now 15 numbers from 5 to 61, was 5, 20, 30, 65" in sentences(FULL, first)
    assert sentences(first, second) == ["analyses.ages: edge 14 is new", "analyses.ages: edge 17 is gone"]


def test_changes_come_gravest_first_and_then_in_the_order_of_the_file() -> None:
    new = edited(
        ("A full study", "Another, was a full study"), ("2027-06-30", "2027-07-30"), ("roster: 1", "roster: 2"),
        ("min_participants: 100", "min_participants: 90"), ("2026-11", "2026-12"), ("age < 60", "age < 61"), ("round_to: 5", "round_to: 7"),
    )  # fmt: skip
    changes = difference(frozen(FULL), frozen(new))
    assert [change.section for change in changes] == [
        "protection.min_participants", "cohort.epoch", "analyses.model.where", "release.round_to", "roster", "expires", "title",
    ]  # fmt: skip
    assert changes[-1].sentence == 'title is now "Another, was a full study", was "A full study"'


def test_a_section_without_words_of_its_own_is_told_first() -> None:
    study = frozen(FULL)
    newer = replace(study, canonical=study.canonical[:-1] + b',"zeal":{"level":3}}')
    assert difference(study, newer) == (Change("zeal", "zeal is new (level 3)", Weight.OTHER),)
    assert not could_carry_over(difference(study, newer))


def test_two_studies_are_no_versions_of_one() -> None:
    with pytest.raises(StudyFileError, match="'full' and 'asd-open' are different studies"):
        difference(frozen(FULL), frozen(OPEN))


@pytest.mark.parametrize(
    ("edit", "carries"),
    [
        (("A full study", "Another study"), True),
        (("2027-06-30", "2027-07-30"), True),
        (("roster: 1", "roster: 2"), False),
        (("min_participants: 100", "min_participants: 200"), False),
        (("2026-11", "2026-12"), False),
        (("[age, iq]", "[age]"), False),
    ],
)
def test_an_approval_could_carry_over_wording_and_times_only(edit: tuple[str, str], carries: bool) -> None:
    assert could_carry_over(difference(frozen(FULL), frozen(edited(edit)))) is carries


def test_the_cohort_does_not_depend_on_what_is_computed_or_on_other_variables() -> None:
    assert same_cohort(frozen(FULL), frozen(edited(("[40, 160]", "[40, 150]"), ("[age, iq]", "[age]"))))
    assert not same_cohort(frozen(FULL), frozen(edited(("unit: years", "unit: months"))))


def test_an_included_variable_that_only_leaves_the_catalogue_is_the_same_cohort() -> None:
    included = edited(("age >= 6", "age >= 6 and lh_cuneus_thickness > 2"))
    typed = edited(("catalogue: freesurfer.thickness", "unit: mm, range: [1, 5]"), text=included)
    (change,) = difference(frozen(included), frozen(typed))
    assert change.weight is Weight.NUMBERS
    assert same_cohort(frozen(included), frozen(typed))
