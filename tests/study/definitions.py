"""Study files that several test modules read, change and freeze."""

from pathlib import Path

from cohortsum.study.definition import (
    FrozenStudy,
    freeze,
    load_study,
)

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
THICKNESS = (EXAMPLES / "asd-thickness.yaml").read_bytes()
OPEN = (EXAMPLES / "asd-open.yaml").read_bytes()

SMALL = """\
study: small
title: A small study
version: 1
roster: 1
expires: 2027-06-30
person: id
variables:
  dx: {levels: [control, autism, other]}
  sex: {levels: [female, male]}
  age: {unit: years, range: [5, 65]}
  iq: {unit: points, range: [40, 160], out_of_range: exclude}
derive:
  age2: "age ^ 2"
cohort: {epoch: 2026-11}
analyses:
  a: {kind: summary, variables: [age]}
protection: {min_participants: 100, max_participants: 1000}
privacy: {noise: none}
"""


def frozen(text: bytes | str) -> FrozenStudy:
    return freeze(load_study(text.encode() if isinstance(text, str) else text, "study.yaml"))


def small(old: str = "", new: str = "") -> str:
    assert old in SMALL
    return SMALL.replace(old, new, 1)


def with_analysis(entry: str) -> str:
    return small("a: {kind: summary, variables: [age]}", f"a: {entry}")
