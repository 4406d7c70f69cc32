"""From the bytes of a study file to a validated `Study`, or to every problem it has with line and cure."""

import difflib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import get_args

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from cohortsum.crypto.errors import NotInThisVersionError
from cohortsum.study.definition.fields import Section
from cohortsum.study.definition.kinds import KINDS, LATER_KINDS
from cohortsum.study.definition.models import TAGGED, StudyFile
from cohortsum.study.definition.problems import Path, Place, Problems
from cohortsum.study.definition.tree import Tree, read_yaml

LATER_KEYS = {
    "privacy": frozenset({"protect_diagnosis", "arm_cap", "reference"}),
}
"""Keys that later versions have; refused by name."""

EXTREMES = frozenset({"minimum", "maximum", "min", "max", "extremes"})
"""Keys of an analysis that ask for the value of one person; refused with that reason."""

# pydantic's kinds of error, as an instruction to the author; others keep pydantic's own sentence.
_CURES: Mapping[str, str] = {
    "missing": "is missing; add it",
    "string_type": "expected text; put it in quotes",
    "string_pattern_mismatch": "expected at most 64 letters, digits, - and _, beginning with a letter or digit",
    "string_too_short": "is empty; write something",
    "int_type": "expected a whole number without quotes",
    "int_from_float": "expected a whole number",
    "float_type": "expected a number without quotes",
    "finite_number": "expected a finite number",
    "tuple_type": "expected a list: [...]",
    "dict_type": "expected keys and values: {key: value}",
    "model_type": "expected keys and values: {key: value}",
    "model_attributes_type": "expected keys and values: {key: value}",
    "date_from_datetime_parsing": "expected a date such as 2027-06-30",
    "date_parsing": "expected a date such as 2027-06-30",
    "date_type": "expected a date such as 2027-06-30",
    "timezone_aware": "expected a time zone; add one, as in 2026-12-18T17:00+01:00",
    "datetime_from_date_parsing": "expected a moment such as 2026-12-18T17:00+01:00",
    "datetime_parsing": "expected a moment such as 2026-12-18T17:00+01:00",
    "datetime_type": "expected a moment such as 2026-12-18T17:00+01:00",
    "union_tag_not_found": f"kind is missing; add one of {', '.join(KINDS)}",
    "union_tag_invalid": f"unknown kind; expected one of {', '.join(KINDS)}",
}


@dataclass(frozen=True, slots=True)
class Study:
    """A study file that is valid field by field; `freeze` checks the rest and fixes its meaning."""

    file: StudyFile
    place: Place


def load_study(text: bytes, source: str) -> Study:
    """Return the study in the YAML bytes ``text``; ``source`` is the file's name in messages.

    Raises StudyFileError listing every problem as ``file:line: field: expectation; cure``, and NotInThisVersionError for
    an analysis or key that only later versions have.
    """
    tree, place = read_yaml(text, source)
    return validate(tree, place)


def validate(tree: Tree, place: Place) -> Study:
    """Return the study in plain values; raises as `load_study` does."""
    _refuse_later(tree, place)
    problems = Problems(place)
    try:
        return Study(StudyFile.model_validate_json(json.dumps(tree, allow_nan=False)), place)
    except ValidationError as error:
        for detail in error.errors(include_url=False, include_input=False):
            path, owner = _locate(detail["loc"], tree)
            problems.add(path, _explain(detail, path, owner))
    problems.raise_if_any()
    raise AssertionError("a failed validation names at least one problem")


def _refuse_later(tree: Tree, place: Place) -> None:
    top = tree if isinstance(tree, dict) else {}
    privacy, analyses = top.get("privacy"), top.get("analyses")
    for key in sorted(LATER_KEYS["privacy"] & set(privacy if isinstance(privacy, dict) else ())):
        raise NotInThisVersionError(place.of(("privacy", key)), "remove it")
    for name, analysis in (analyses if isinstance(analyses, dict) else {}).items():
        entry = analysis if isinstance(analysis, dict) else {}
        kind = entry.get("kind")
        if isinstance(kind, str) and kind in LATER_KINDS:
            where = place.of(("analyses", name, "kind"))
            raise NotInThisVersionError(f"{where}: {kind}", f"there are {', '.join(KINDS)}")
        for key in sorted(EXTREMES & set(entry)):
            raise NotInThisVersionError(
                place.of(("analyses", name, key)),
                "an extreme is the value of one person; ask for quantiles inside, such as 0.01 and 0.99, or for a histogram; a committee "
                "finds it as the quantile 0 or 1",
            )


def _locate(location: tuple[int | str, ...], tree: Tree) -> tuple[Path, type[Section]]:
    """Return the field in the file behind pydantic's location, and the section that owns it."""
    path: list[int | str] = []
    owner: type[Section] = StudyFile
    here: Tree = tree
    for part in location:
        if isinstance(here, dict) and isinstance(part, str) and part in here:
            inner = _section(owner, part)
            here, owner = here[part], inner or owner
        elif isinstance(here, list) and isinstance(part, int) and part < len(here):
            here = here[part]
        elif part in TAGGED:
            owner = TAGGED[str(part)]
            continue
        elif part == "[key]":
            continue
        else:  # a field, or an entry of a list, that is missing
            here = None
        path.append(part)
    return tuple(path), owner


def _section(owner: type[Section], key: str) -> type[Section] | None:
    """Return the section behind a field of ``owner``, if it is one."""
    for name, field in owner.model_fields.items():
        if key in (name, field.alias):
            for candidate in (field.annotation, *get_args(field.annotation)):
                if isinstance(candidate, type) and issubclass(candidate, Section):
                    return candidate
    return None


def _explain(detail: ErrorDetails, path: Path, owner: type[Section]) -> str:
    kind = detail["type"]
    if kind == "extra_forbidden":
        known = [field.alias or name for name, field in owner.model_fields.items()]
        near = difflib.get_close_matches(str(path[-1]), known, n=1)
        return "unknown key; " + (
            f"did you mean {near[0]!r}?" if near else f"expected one of {', '.join(known)}"
        )
    if kind == "value_error":
        return detail["msg"].removeprefix("Value error, ")
    sentence = detail["msg"].replace("Input should", "should").replace("Tuple", "the list")
    return _CURES.get(kind, f"{sentence}; correct it")
