"""What a checker may ask for in place of a table: coarser groups, coarser bins, fewer rows, one table less.

A `Remedy` is a list of actions, carried out one after the other. Nothing in it is a number of the data: names of the study, its
edges and its probabilities alone, so that it may stand in a queue, a signed decision and an audit log. As JSON:

    {"actions": [
      {"do": "merge", "factor": "dx", "levels": ["autism", "other"], "name": "not control"},
      {"do": "merge_bins", "variable": "age", "keep_edges": [20, 40, 60]},
      {"do": "drop", "variables": ["age"], "levels": {"sex": ["male"]}},
      {"do": "drop_table", "table": "sexes.association"}
    ]}

The canonical form, which is what is signed, has sorted keys and no blanks, floats as their shortest decimal, and leaves out what is
empty.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import isfinite
from types import MappingProxyType
from typing import Annotated, ClassVar, Literal, NoReturn

from pydantic import ConfigDict, Field, StringConstraints, TypeAdapter, ValidationError

from cohortsum.crypto.errors import ConfigurationError
from cohortsum.study.definition.fields import Finite, Name, Text
from cohortsum.study.statistics.texts import plain

MAX_BYTES = 64 * 1024
MOST_ACTIONS = 100
_TABLE = r"^([A-Za-z0-9][A-Za-z0-9_-]{0,63}(\.[a-z_]{1,64})?)?$"
"""Nothing, or an analysis with the suffix of a further table."""
_STRICT = ConfigDict(extra="forbid", strict=True, hide_input_in_errors=True)


@dataclass(frozen=True, slots=True)
class Merge:
    """Levels of a factor become one.

    Attributes:
        factor: of the study, in the analysis.
        levels: at least two of its levels, or names that an earlier action gave.
        name: of the merged level, none of ``levels``; it stands where the first of them stood.

    Raises:
        ValueError: the levels are fewer than two or repeat, or one of them has the name.
    """

    __pydantic_config__: ClassVar[ConfigDict] = _STRICT

    factor: Name
    levels: tuple[Text, ...]
    name: Text
    do: Literal["merge"] = "merge"

    def __post_init__(self) -> None:
        """Refuse what merges nothing."""
        if len(set(self.levels)) < max(2, len(self.levels)):
            raise ValueError("levels: expected at least two, each once")
        if self.name in self.levels:
            raise ValueError("name: is the name of one part; give the merged level a name of its own")


@dataclass(frozen=True, slots=True)
class MergeBins:
    """Neighbouring bins of a number become one, by keeping fewer of the edges between them.

    Attributes:
        variable: the number that is counted in bins, parted into bands, or followed up in time.
        keep_edges: those edges of the study (of bands: cuts; of survival: times) that stay, ascending.

    Raises:
        ValueError: the edges are none, not finite or not ascending.
    """

    __pydantic_config__: ClassVar[ConfigDict] = _STRICT

    variable: Name
    keep_edges: tuple[Finite, ...]
    do: Literal["merge_bins"] = "merge_bins"

    def __post_init__(self) -> None:
        """Write edges as floats, and refuse what are none."""
        object.__setattr__(self, "keep_edges", tuple(float(edge) + 0.0 for edge in self.keep_edges))
        ascending = all(low < high for low, high in pairwise(self.keep_edges))
        if not self.keep_edges or not ascending or not all(map(isfinite, self.keep_edges)):
            raise ValueError(
                "keep_edges: expected at least one finite edge, each greater than the one before"
            )


@dataclass(frozen=True, slots=True)
class Drop:
    """Rows are left out: those that fit every attribute that is given, and of each one of the values listed.

    A level of a crosstab, of a counted factor, of a test or of a log-rank test is in the totals of the other rows: it is given alone,
    and the totals are formed anew without it.

    Attributes:
        variables: variables or outcomes, as the rows name them.
        levels: by factor.
        thresholds: of a proportion.
        probabilities: of quantiles.
        terms: of a model, as the rows name them.

    Raises:
        ValueError: nothing is named.
    """

    __pydantic_config__: ClassVar[ConfigDict] = _STRICT

    variables: tuple[Text, ...] = ()
    levels: Mapping[Name, tuple[Text, ...]] = field(default_factory=dict[str, tuple[str, ...]], hash=False)
    thresholds: tuple[Finite, ...] = ()
    probabilities: tuple[Finite, ...] = ()
    terms: tuple[Text, ...] = ()
    do: Literal["drop"] = "drop"

    def __post_init__(self) -> None:
        """Write numbers as floats and factors in order, and refuse what names nothing."""
        for name in ("thresholds", "probabilities"):
            object.__setattr__(self, name, tuple(float(value) + 0.0 for value in getattr(self, name)))
        levels = {factor: tuple(named) for factor, named in sorted(self.levels.items())}
        object.__setattr__(self, "levels", MappingProxyType(levels))
        if not any((self.variables, self.levels, self.thresholds, self.probabilities, self.terms)):
            raise ValueError("expected variables, levels, thresholds, probabilities or terms to leave out")
        if not all(levels.values()):
            raise ValueError("levels: expected at least one level of every factor")


@dataclass(frozen=True, slots=True)
class DropTable:
    """One table of the analysis is left out: ``table``, or where that is empty the item itself."""

    __pydantic_config__: ClassVar[ConfigDict] = _STRICT

    table: Annotated[str, StringConstraints(pattern=_TABLE)] = ""
    do: Literal["drop_table"] = "drop_table"


Action = Annotated[Merge | MergeBins | Drop | DropTable, Field(discriminator="do")]


@dataclass(frozen=True, slots=True)
class Remedy:
    """Actions in the order in which they are carried out.

    Raises:
        ValueError: there is none, or there are more than `MOST_ACTIONS`.
    """

    __pydantic_config__: ClassVar[ConfigDict] = _STRICT

    actions: tuple[Action, ...]

    def __post_init__(self) -> None:
        """Refuse what asks for nothing."""
        if not 1 <= len(self.actions) <= MOST_ACTIONS:
            raise ValueError(f"actions: expected at least one action and at most {MOST_ACTIONS}")


_REMEDY = TypeAdapter(Remedy)


def remedy_to_json(remedy: Remedy) -> str:
    """Return the canonical JSON of a remedy: equal remedies give equal text."""
    return json.dumps(
        {"actions": [_entry(action) for action in remedy.actions]},
        sort_keys=True,
        separators=(",", ":"),
        ensure_ascii=False,
        allow_nan=False,
    )


def remedy_from_json(text: str, source: str = "remedy") -> Remedy:
    """Return the remedy that ``text`` writes, canonical or with blanks as people write it.

    Raises:
        ConfigurationError: it is no such JSON; names ``source``, the field, what is expected and the cure.
    """
    if len(text.encode()) > MAX_BYTES:
        raise ConfigurationError(f"{source}: larger than {MAX_BYTES} bytes; a remedy is a few lines")
    try:
        tree = json.loads(text, object_pairs_hook=_once, parse_constant=_no_number)
        return _REMEDY.validate_json(json.dumps(tree))
    except ValidationError as error:
        found = [
            _problem(one["loc"], one["msg"]) for one in error.errors(include_url=False, include_input=False)
        ]
        raise ConfigurationError("\n".join(f"{source}: {one}" for one in found)) from None
    except (ValueError, RecursionError) as error:
        why = str(error) if isinstance(error, _RepeatedKeyError) else "not JSON"
        raise ConfigurationError(
            f'{source}: {why}; expected {{"actions": [{{"do": "merge", ...}}]}}'
        ) from None


def describe(remedy: Remedy) -> str:
    """Return the remedy as a sentence for people, without a full stop."""
    return "; ".join(map(describe_action, remedy.actions))


def describe_action(action: Action) -> str:
    """Return one action as words."""
    match action:
        case Merge():
            parts = [f"{action.factor}[{level}]" for level in action.levels]
            return f"merge {_and(parts)} into {action.factor}[{action.name}]"
        case MergeBins():
            return f"keep of {action.variable} only the edges {_and([plain(edge) for edge in action.keep_edges])}"
        case Drop():
            return f"leave out {describe_rows(action)}"
        case DropTable():
            return f"leave out the table {action.table}" if action.table else "leave out this table"


def describe_rows(drop: Drop) -> str:
    """Return which rows a `Drop` names, in words."""
    named = (
        ("", drop.variables),
        *(("", [f"{factor}[{level}]" for level in levels]) for factor, levels in drop.levels.items()),
        ("above ", [plain(value) for value in drop.thresholds]),
        ("probability ", [plain(value) for value in drop.probabilities]),
        ("term ", drop.terms),
    )
    return ", ".join(f"{word}{_and(values)}" for word, values in named if values)


def _entry(action: Action) -> Mapping[str, object]:
    match action:
        case Merge():
            written: dict[str, object] = {
                "factor": action.factor,
                "levels": action.levels,
                "name": action.name,
            }
        case MergeBins():
            written = {"variable": action.variable, "keep_edges": action.keep_edges}
        case Drop():
            written = {
                "variables": action.variables,
                "levels": dict(action.levels),
                "thresholds": action.thresholds,
                "probabilities": action.probabilities,
                "terms": action.terms,
            }
        case DropTable():
            written = {"table": action.table}
    return {"do": action.do} | {key: value for key, value in written.items() if value}


def _and(words: Sequence[str]) -> str:
    *others, last = words
    return f"{', '.join(others)} and {last}" if others else last


class _RepeatedKeyError(ValueError):
    """Two readers of this JSON might disagree."""


def _once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise _RepeatedKeyError("a key is there twice in one object; write each once")
    return found


def _no_number(word: str) -> NoReturn:
    raise ValueError(f"{word} is no number of JSON")


def _problem(location: tuple[int | str, ...], message: str) -> str:
    """Return field and problem; the tags by which pydantic tells actions apart are no fields."""
    tags = {"merge", "merge_bins", "drop", "drop_table"}
    path = "".join(
        f"[{part}]" if isinstance(part, int) else f".{part}" for part in location if part not in tags
    )
    sentence = message.removeprefix("Value error, ").replace("Input should", "should").replace("Input ", "")
    return f"{path.lstrip('.')}: {sentence}" if path else sentence
