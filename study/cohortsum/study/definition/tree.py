"""A YAML file as plain values with a line for every field.

YAML is read by PyYAML's safe parser and then by the rules of YAML 1.2, not 1.1: only ``true`` and ``false`` are
booleans, so a level called ``no`` stays text; ``1e-6`` is a number; ``2026-11``, dates and ``10:30`` stay text. What
could make a small file large or two readers disagree is refused: anchors and aliases, tags, merge keys, duplicate
keys, several documents, deep nesting, control characters and invisible ones.
"""

import json
import math
import re
from collections.abc import Iterator
from typing import cast

import yaml
from yaml.error import Mark

from cohortsum.crypto.errors import StudyFileError
from cohortsum.study.definition.problems import Path, Place, Problems

MAX_BYTES = 2**20
MAX_CANONICAL_BYTES = 2**23
MAX_DEPTH = 16

Tree = dict[str, "Tree"] | list["Tree"] | str | int | float | bool | None
"""What JSON can hold."""

_INTEGER = re.compile(r"[-+]?[0-9]{1,30}")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_WORDS: dict[str, bool | None] = {"true": True, "false": False, "null": None, "~": None, "": None}


def read_yaml(text: bytes, source: str) -> tuple[Tree, Place]:
    """Return the values of a YAML file and the lines of its fields; ``source`` is its name in messages.

    Raises StudyFileError with the line of what cannot be read.
    """
    if len(text) > MAX_BYTES:
        raise StudyFileError(
            f"{source}: larger than {MAX_BYTES} bytes; a study file is text of a few kilobytes"
        )
    try:
        decoded = text.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = text.count(b"\n", 0, error.start) + 1
        raise StudyFileError(f"{source}:{line}: not UTF-8; save the file as UTF-8") from None
    try:
        _refuse_tricks(decoded, source)
        node = compose(decoded, yaml.SafeLoader)
    except yaml.YAMLError as error:
        raise StudyFileError(f"{source}:{_line_of(error, decoded)}: {_sentence(error)}") from None
    lines: dict[Path, int] = {(): 1}
    problems = Problems(Place(source, lines))
    tree = _values(node, (), lines, problems)
    problems.raise_if_any()
    return tree, Place(source, lines)


def compose(text: str, loader: type[yaml.SafeLoader | yaml.BaseLoader]) -> yaml.Node | None:
    """Return the node tree of a YAML file, None for an empty one.

    Raises YAMLError for everything else, with a line for what PyYAML itself stumbles over: nesting that would exhaust the
    stack, escapes beyond Unicode, version numbers beyond Python's limits.
    """
    depth = 0
    for event in _events(text, loader):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > MAX_DEPTH:
            raise _at(event, f"nested deeper than {MAX_DEPTH}")
    return yaml.compose(text, Loader=loader)


def _events(text: str, loader: type[yaml.SafeLoader | yaml.BaseLoader]) -> Iterator[yaml.Event]:
    last: yaml.Event | None = None
    try:
        for last in yaml.parse(text, Loader=loader):
            yield last
    except (ValueError, OverflowError):  # its scanner hands any number on to chr and int
        raise _at(last, "an escape or a version that is out of range behind this line") from None


def _at(event: yaml.Event | None, problem: str) -> yaml.MarkedYAMLError:
    mark = None if event is None else cast("Mark | None", event.end_mark)
    return yaml.MarkedYAMLError(problem=problem, problem_mark=mark)


def _refuse_tricks(text: str, source: str) -> None:
    """Refuse anchors, aliases, tags and deep nesting, before anything is composed."""
    depth = 0
    for event in _events(text, yaml.SafeLoader):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        sentence = None
        if isinstance(event, yaml.NodeEvent) and event.anchor is not None:
            sentence = "anchors and aliases are refused; write the value out"
        elif isinstance(event, yaml.ScalarEvent | yaml.CollectionStartEvent) and event.tag is not None:
            sentence = "tags are refused; remove the ! and what follows it"
        elif depth > MAX_DEPTH:
            sentence = f"nested deeper than {MAX_DEPTH}; no study needs that"
        if sentence is not None:
            line = 1 if event.start_mark is None else event.start_mark.line + 1
            raise StudyFileError(f"{source}:{line}: {sentence}")


def _line_of(error: yaml.YAMLError, text: str) -> int:
    if isinstance(error, yaml.MarkedYAMLError):
        mark = error.problem_mark or error.context_mark
        return 1 if mark is None else mark.line + 1
    position = getattr(error, "position", 0)  # a ReaderError knows the character only
    return text.count("\n", 0, position) + 1


def _sentence(error: yaml.YAMLError) -> str:
    if isinstance(error, yaml.MarkedYAMLError):
        return ", ".join(part for part in (error.context, error.problem) if part)
    return "a control character; remove it"


def _values(node: yaml.Node | None, path: Path, lines: dict[Path, int], problems: Problems) -> Tree:
    match node:
        case yaml.MappingNode():
            return _mapping(node, path, lines, problems)
        case yaml.SequenceNode():
            items: list[Tree] = []
            for index, item in enumerate(node.value):
                here: Path = (*path, index)
                lines[here] = item.start_mark.line + 1
                items.append(_values(item, here, lines, problems))
            return items
        case yaml.ScalarNode():
            return _scalar(node, path, problems)
        case _:
            return None  # an empty file


def _mapping(node: yaml.MappingNode, path: Path, lines: dict[Path, int], problems: Problems) -> Tree:
    values: dict[str, Tree] = {}
    for key_node, value_node in node.value:
        line = key_node.start_mark.line + 1
        if not isinstance(key_node, yaml.ScalarNode) or not key_node.value.isprintable():
            lines[(*path, "key")] = line
            problems.add((*path, "key"), "a key is one printable line of text; correct it")
            continue
        here: Path = (*path, key_node.value)
        if key_node.value in values:
            problems.add(here, f"written again in line {line}; remove one of the two")
            continue
        lines[here] = line
        values[key_node.value] = _values(value_node, here, lines, problems)
    return values


def _scalar(node: yaml.ScalarNode, path: Path, problems: Problems) -> Tree:
    text: str = node.value
    if not text.isprintable():
        problems.add(
            path, "holds a line break or a character that cannot be seen; write it as one plain line"
        )
        return None
    if node.style is not None:  # quoted
        return text
    if text in _WORDS:
        return _WORDS[text]
    if _INTEGER.fullmatch(text):
        return int(text)
    if _FLOAT.fullmatch(text):
        value = float(text)
        if math.isinf(value):
            problems.add(path, "this number is too large for a double; write a smaller one")
            return None
        return value
    return text


def read_json(text: bytes) -> Tree:
    """Return the values of canonical bytes, which have no lines.

    Raises StudyFileError for bytes that are not JSON, too many, or nested too deep. What JSON allows and the canonical
    form does not (blanks, key order, repeated keys, other spellings of a number) is found by encoding again.
    """
    if len(text) > MAX_CANONICAL_BYTES:
        raise StudyFileError(f"canonical study: larger than {MAX_CANONICAL_BYTES} bytes")
    try:
        tree: Tree = json.loads(text.decode())
        json.dumps(tree, allow_nan=False).encode()
    except (ValueError, RecursionError):  # also bad UTF-8, NaN, and numbers beyond Python's limits
        raise StudyFileError("canonical study: not JSON; freeze the study file again") from None
    return tree
