"""What differs between two versions of a study, in one sentence per change, for an admin who approved the first.

The canonical bytes of both are walked side by side, so that no field can change in silence: a field without words of its
own gets the general sentence. Names are kept together twice. Names that change alike share a sentence; and a variable
that is new or gone is told where it is used, if that is one place, and not a second time where it is declared.

The version number is implied and never told. Derived variables' ranges follow from what is told.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import cast

from cohortsum.crypto.errors import StudyFileError
from cohortsum.study.definition.evaluation import names_in
from cohortsum.study.definition.expressions import render
from cohortsum.study.definition.frozen import FrozenStudy
from cohortsum.study.definition.models import StudyFile
from cohortsum.study.definition.tree import Tree
from cohortsum.study.variables import Variable


class Weight(Enum):
    """What a change touches, the gravest first."""

    OTHER = "a part of the study that has no weight yet"
    PROTECTION = "what must hold before anything opens"
    COHORT = "whose data is used"
    NUMBERS = "which numbers leave"
    RELEASE = "what happens before results are released"
    SCHEDULE = "when it runs, and under which roster"
    WORDING = "wording"


@dataclass(frozen=True, slots=True)
class Change:
    """One change.

    Attributes:
        section: the field, as a dotted path; ``variables`` and ``derive`` hold no names, which may have dots.
        sentence: one line in plain words, with the names, the new value and the old one.
        weight: what it touches.
    """

    section: str
    sentence: str
    weight: Weight


_WEIGHTS = {
    "title": Weight.WORDING, "roster": Weight.SCHEDULE, "expires": Weight.SCHEDULE, "enrol": Weight.SCHEDULE,
    "deadlines": Weight.SCHEDULE, "release": Weight.RELEASE, "variables": Weight.NUMBERS, "derive": Weight.NUMBERS,
    "analyses": Weight.NUMBERS, "person": Weight.COHORT, "cohort": Weight.COHORT,
    "protection": Weight.PROTECTION, "privacy": Weight.PROTECTION,
}  # fmt: skip
_STRICTER_WHEN_MORE = {
    "protection.min_sites": True, "protection.min_participants": True, "protection.min_participants_per_site": True,
    "protection.max_colluding_sites": True, "protection.min_honest_inputs": True, "protection.max_attempts": False,
    "protection.min_cell": True,
    "privacy.noise": True, "privacy.epsilon": False, "privacy.delta": False,
    "release.checkers.consortium": True, "release.checkers.sites": True, "release.round_to": True,
}  # fmt: skip
_MORE = {"none": 0, "any": 1, "all": 2, "distributed": 1, "local": 1}
_ONE_OF = {
    "outcomes": "outcome", "variables": "variable", "terms": "term", "by": "grouping factor", "factors": "factor",
    "levels": "level", "edges": "edge", "thresholds": "threshold", "probabilities": "probability", "tests": "test",
    "given": "variable held fixed", "committee": "committee site", "times": "time", "models": "model", "keep": "kept term",
    "knots": "knot", "centiles": "centile",
}  # fmt: skip
_FIRST = ("kind", "unit", "range", "levels")
_LONGEST_LIST = 12


def difference(old: FrozenStudy, new: FrozenStudy) -> tuple[Change, ...]:
    """Return what changes from ``old`` to ``new``, the gravest first, then in the order of the file.

    Empty exactly where the canonical bytes agree in everything but ``version``. Raises StudyFileError for two different
    studies.
    """
    if old.study != new.study:
        raise StudyFileError(
            f"'{old.study}' and '{new.study}' are different studies; expected two versions of one"
        )
    order, gravity = [*StudyFile.model_fields], [*Weight]
    changes = _Comparison(old, new).changes()
    by_file = sorted(changes, key=lambda change: _index(order, change.section.split(".")[0]))
    return tuple(sorted(by_file, key=lambda change: gravity.index(change.weight)))


def same_cohort(old: FrozenStudy, new: FrozenStudy) -> bool:
    """Return whether both take the same people at every site, whatever they compute."""
    return _cohort(old) == _cohort(new)


def could_carry_over(changes: Iterable[Change]) -> bool:
    """Return whether who approved before these changes has nothing new to decide.

    That is so for wording and times. It is not for the roster, which says with whom a site adds; nor for stricter
    thresholds, which a site may be unable to meet.
    """
    return all(
        change.weight in (Weight.WORDING, Weight.SCHEDULE) and change.section != "roster"
        for change in changes
    )


def _cohort(study: FrozenStudy) -> tuple[object, ...]:
    needed = {name: study.variables[name] for name in _included(study)}
    return study.person, study.include, study.epoch, study.near_duplicate, needed


def _included(study: FrozenStudy) -> frozenset[str]:
    return frozenset() if study.include is None else names_in(study.include)


_Path = tuple[str, ...]
_Part = tuple[_Path, str, str]
"""Where, what, and what became of it: ``(analyses, a, outcomes), "outcome x", "is new"``."""


class _Version:
    """One version; ``lone`` holds, by place, the variables that the other lacks and that only this place uses."""

    def __init__(self, study: FrozenStudy, other: FrozenStudy) -> None:
        self.study = study
        self.tree = cast("dict[str, Tree]", json.loads(study.canonical))
        self.told: set[str] = set()
        self.places: dict[str, list[str]] = {}
        for place, names in self._uses():
            for name in names & study.variables.keys():
                self.places.setdefault(name, []).append(place)
        self.lone: dict[str, set[str]] = {}
        for name, places in self.places.items():
            if len(places) == 1 and name not in other.variables:
                self.lone.setdefault(places[0], set()).add(name)

    def _uses(self) -> Iterator[tuple[str, frozenset[str]]]:
        yield "cohort.include", _included(self.study)
        for name, expression in self.study.derived.items():
            yield f"derive.{name}", names_in(expression)
        for name, entry in _mapping(self.tree["analyses"]).items():
            named = frozenset(part for text in _texts(entry) for part in text.split(":"))
            yield f"analyses.{name}", named | self._subgroup(name)

    def _subgroup(self, analysis: str) -> frozenset[str]:
        where = self.study.analyses[analysis].where
        return frozenset() if where is None else names_in(where)

    def brings(self, path: _Path, item: Tree) -> str:
        """Return the declarations of the variables that come or go with this item alone; they are told by that."""
        names = self.lone.get(".".join(path[:2]), set())
        if path[0] == "analyses" and len(path) > 2:
            here = self._subgroup(path[1]) if path[2] == "where" else frozenset(str(item).split(":"))
            names = names & here
        return "; ".join(
            self.declaration(name) if name == item else f"{_text(name)}: {self.declaration(name)}"
            for name in sorted(names)
        )

    def declaration(self, name: str) -> str:
        """Return what a variable is, with the variables that only it is derived from."""
        self.told.add(name)
        expression = self.study.derived.get(name)
        if expression is None:
            return _text(_mapping(self.tree["variables"])[name])
        parts = [
            f"{_text(part)}: {self.declaration(part)}" for part in sorted(self.lone.get(f"derive.{name}", ()))
        ]
        return "; ".join([f"derived as {_text(render(expression))}", *parts])


class _Comparison:
    """Two versions side by side."""

    def __init__(self, old: FrozenStudy, new: FrozenStudy) -> None:
        self.old = _Version(old, new)
        self.new = _Version(new, old)
        self.included = _included(old) | _included(new)

    def changes(self) -> Iterator[Change]:
        """Yield every change; the places that use variables come before these."""
        before, after = self.old.tree, self.new.tree
        for section in sorted(before.keys() | after.keys()):
            if section not in ("version", "variables", "derive"):
                for path, what, tail in self.parts((section,), before.get(section), after.get(section)):
                    place = ".".join(path[:-1])
                    sentence = f"{place}: {what} {tail}" if place else f"{what} {tail}"
                    yield Change(".".join(path), sentence, self.weight(path))
        yield from self.declarations("derive")
        yield from self.declarations("variables")

    def declarations(self, section: str) -> Iterator[Change]:
        """Yield what changes where names are declared; names that change alike share a sentence."""
        alike: dict[tuple[Weight, str, str], list[str]] = {}
        before, after = (_mapping(version.tree[section]) for version in (self.old, self.new))
        for name in sorted(before.keys() | after.keys()):
            mine, other = before.get(name), after.get(name)
            if (mine is None and name in self.new.told) or (other is None and name in self.old.told):
                continue
            for path, what, tail in self.parts((section, name), mine, other):
                inside = what if len(path) > 2 else ""
                alike.setdefault((self.weight(path), inside, tail), []).append(name)
        for (weight, inside, tail), names in alike.items():
            listed = ", ".join(map(_text, names))
            several = tail.replace("is ", "are ", 1) if len(names) > 1 else tail
            sentence = f"{inside} of {listed} {tail}" if inside else f"{listed} {several}"
            yield Change(section, f"{section}: {sentence}", weight)

    def weight(self, path: _Path) -> Weight:
        """Return what a change there touches."""
        if path[0] == "variables" and path[1] in self.included and self._variables_differ(path[1]):
            return Weight.COHORT
        return _WEIGHTS.get(path[0], Weight.OTHER)

    def _variables_differ(self, name: str) -> bool:
        versions: list[Mapping[str, Variable]] = [self.old.study.variables, self.new.study.variables]
        return versions[0].get(name) != versions[1].get(name)

    def parts(self, path: _Path, old: Tree, new: Tree) -> Iterator[_Part]:
        """Yield the changes at and below a path; None is a field that is not there."""
        if old == new:
            return
        if isinstance(old, dict) and isinstance(new, dict):
            for key in sorted(old.keys() | new.keys()):
                yield from self.parts((*path, key), old.get(key), new.get(key))
        elif isinstance(old, list) and isinstance(new, list) and _entry_by_entry(old, new):
            yield from self.lists(path, old, new)
        else:
            yield path, _text(path[-1]), self.replaced(path, old, new)

    def replaced(self, path: _Path, old: Tree, new: Tree) -> str:
        """Return what became of one value, with the declarations of the variables that come with it."""
        whole = len(path) == 2
        if whole and path[0] in ("variables", "derive") and old is None:
            unused = "" if path[1] in self.new.places else ", used nowhere"
            return f"is new ({self.new.declaration(path[1])}){unused}"
        brought = ""
        if whole or path[-1] == "where":
            self.old.brings(path, old)
            brought = self.new.brings(path, new)
        if path[-1] in ("include", "where"):
            old, new = old or "everybody", new or "everybody"
        ending = (f" ({brought})" if brought else "") + _direction(path, old, new)
        if old is None:
            return f"is new ({_text(new)}){ending}"
        if new is None:
            return f"is gone{ending}" if isinstance(old, dict) else f"is gone (was {_text(old)}){ending}"
        return f"is now {_text(new)}, was {_text(old)}{ending}"

    def lists(self, path: _Path, old: list[Tree], new: list[Tree]) -> Iterator[_Part]:
        """Yield the entries of a list that are new or gone, and whether the others change places."""
        one = _ONE_OF.get(path[-1], f"{path[-1]} item")
        before, after = {_text(item): item for item in old}, {_text(item): item for item in new}
        fates: dict[str, list[str]] = {}
        for text, item in after.items():
            if text not in before:
                brought = self.new.brings(path, item)
                fates.setdefault(f"new ({brought})" if brought else "new", []).append(text)
        for text, item in before.items():
            if text not in after:
                self.old.brings(path, item)
                fates.setdefault("gone", []).append(text)
        for fate, items in fates.items():
            many = len(items) > 1
            yield path, f"{one}{'s' * many} {', '.join(items)}", f"{'are' if many else 'is'} {fate}"
        was, now = (
            ", ".join(text for item in items if (text := _text(item)) in before and text in after)
            for items in (old, new)
        )
        if was != now:
            yield path, f"order of {one}s", f"is now {now}, was {was}"


def _entry_by_entry(old: list[Tree], new: list[Tree]) -> bool:
    """Return whether two lists are best told by their entries: texts, and numbers too many to write out."""
    return not _of_numbers(old + new) or _text(old) == _text(new)


def _direction(path: _Path, old: Tree, new: Tree) -> str:
    """Return whether a threshold became stricter; empty for what is none."""
    if path[0] not in ("protection", "privacy", "release"):
        return ""
    if path[-1] == "round_to":
        old, new = old or 0, new or 0
    if old is None or new is None:
        return ""
    stricter_when_more, before, after = _STRICTER_WHEN_MORE.get(".".join(path)), _amount(old), _amount(new)
    if stricter_when_more is None or before is None or after is None or before == after:
        return "; neither stricter nor weaker by itself"
    return "; stricter" if (after > before) == stricter_when_more else "; weaker"


def _amount(value: Tree) -> float | None:
    return _MORE.get(value) if isinstance(value, str) else value if isinstance(value, int | float) else None


def _text(value: Tree) -> str:
    """Return a value as a person writes it; of many numbers, their count and ends."""
    match value:
        case dict():
            keys = sorted(value, key=lambda key: (_index(_FIRST, key), key))
            held = [(key, value[key]) for key in keys if value[key] not in ({}, [])]
            return "; ".join(
                f"{key} ({_text(inner)})" if isinstance(inner, dict) else f"{key} {_text(inner)}"
                for key, inner in held
            )
        case [first, last] if _of_numbers(value):
            return f"{_text(first)} to {_text(last)}"
        case [first, *_, last] if _of_numbers(value) and len(value) > _LONGEST_LIST:
            return f"{len(value)} numbers from {_text(first)} to {_text(last)}"
        case list():
            return ", ".join(map(_text, value))
        case str():
            quote = "'" if '"' in value else '"'
            return f"{quote}{value}{quote}" if " " in value or "," in value else value
        case float():
            return str(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(value)
        case _:
            return str(value)


def _of_numbers(value: list[Tree]) -> bool:
    return all(isinstance(item, int | float) for item in value)


def _texts(value: Tree) -> Iterator[str]:
    match value:
        case str():
            yield value
        case list():
            for item in value:
                yield from _texts(item)
        case dict():
            for item in value.values():
                yield from _texts(item)
        case _:
            return


def _mapping(value: Tree) -> dict[str, Tree]:
    """Return a part of the canonical bytes that the study file's model makes a map."""
    return cast("dict[str, Tree]", value)


def _index(order: Iterable[str], key: str) -> int:
    known = [*order]
    return known.index(key) if key in known else len(known)
