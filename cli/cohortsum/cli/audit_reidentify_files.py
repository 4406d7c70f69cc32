"""Two files of a site, one scan of everybody in each, for `cohortsum audit reidentify`.

A text table (.csv, .tsv, .txt) has a header line and one row per person; its columns are features by name, beside those for id, label
and score. A numpy array (.npy) has people as rows and features as columns, no names, and nothing in it is unpickled. Every fault names
file, line and column, never an id or a value. Nothing is written.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from tokenize import TokenError

import numpy as np

from cohortsum.crypto.errors import ConfigurationError, DataError, cannot_be_read
from cohortsum.node.tables.filter import lines, normalise
from cohortsum.node.tables.numbers import MISSING, parse_number, plain_numbers
from cohortsum.node.tables.rows import fields_of
from cohortsum.node.tables.sniff import BLANKS, sniff
from cohortsum.study.audit.connectome_model import Cohort, Floats, Labelled

LEAST_PEOPLE = 4
"""With both scans; fewer give no rates."""
LEAST_FEATURES = 3
"""Fewer give no correlation but 1 and -1."""
LARGEST = 1e100
"""No feature is greater; squares of greater numbers leave what a double can hold."""
_CHUNK = 2**20
_TEXT = frozenset({".csv", ".tsv", ".txt"})
_SHOWN = 3
"""How many column names an error lists."""


@dataclass(frozen=True, slots=True)
class Columns:
    """Columns of a text table that are no features; None where there is none.

    Attributes:
        id: of the person; without it both files hold the same people in the same order.
        label: of the first file: a task, a condition, a diagnosis.
        score: of the first file: a number.
    """

    id: str | None = None
    label: str | None = None
    score: str | None = None

    @property
    def named(self) -> tuple[str, ...]:
        """Those there are."""
        return tuple(name for name in (self.id, self.label, self.score) if name is not None)


@dataclass(frozen=True, slots=True)
class _Scans:
    """One file. Attributes: what messages call it, values (people, features), and what a text table has beside."""

    file: str
    values: Floats
    features: tuple[str, ...] | None = None
    ids: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    scores: tuple[float, ...] = ()


def read_cohort(first: Path, second: Path, columns: Columns) -> tuple[Cohort, int]:
    """Return the people who are in both files, and how many rows had no partner.

    Raises:
        ConfigurationError: a file is of another kind than its name says can be read, or options contradict it.
        DataError: the content of a file cannot be used.
    """
    known = _read(first, "first scans", columns, columns.named)
    unknown = _read(second, "second scans", columns, () if columns.id is None else (columns.id,))
    order = _same_features(known, unknown)
    places, partners = _pairs(known, unknown, columns)
    if len(places) < LEAST_PEOPLE:
        raise DataError(
            f"{known.file} and {unknown.file}: {len(places)} people in both, expected {LEAST_PEOPLE} or more; supply more people"
            + ("" if columns.id is None else ", or spell ids alike in both files")
        )
    chosen = known.values[places]
    cohort = Cohort(
        chosen,
        np.ascontiguousarray(unknown.values[partners][:, order]),
        _labelled(known, places, chosen, columns),
        _scores(known, places, columns),
    )
    return cohort, len(known.values) + len(unknown.values) - 2 * len(places)


def _read(path: Path, what: str, columns: Columns, needed: Sequence[str]) -> _Scans:
    file = f"{what} ({path.name})"
    kind = path.suffix.lower()
    if kind in _TEXT:
        return _read_text(path, file, columns, needed)
    if kind != ".npy":
        raise ConfigurationError(
            f"{file}: expected a name that ends in .csv, .tsv, .txt or .npy; save the table as one of them"
        )
    if columns.named:
        raise ConfigurationError(
            f"{file}: an .npy file has no column names; leave out --id, --label and --score, or supply a CSV file"
        )
    return _Scans(file, _read_array(path, file))


def _read_array(path: Path, file: str) -> Floats:
    try:
        array = np.lib.format.open_memmap(path, mode="r")
    except OSError as error:
        raise DataError(cannot_be_read(file, error)) from None
    except (ValueError, TypeError, EOFError, OverflowError, SyntaxError, TokenError):  # may quote the file
        array = None
    if array is None or array.dtype.kind not in "fiu" or array.ndim != 2:
        raise DataError(
            f"{file}: expected an array of numbers with two dimensions, people and features; write it with numpy.save"
        )
    values = np.array(array, dtype=np.float64)
    if values.shape[1] < LEAST_FEATURES:
        raise DataError(f"{file}: {values.shape[1]} features, expected {LEAST_FEATURES} or more; supply more")
    broken = np.argwhere(~(np.abs(values) <= LARGEST))
    if len(broken):
        row, column = (int(place) + 1 for place in broken[0])
        raise DataError(
            f"{file}, row {row}, column {column} (counted from 1): no number, or one beyond 1e100; take this person or this"
            " feature out of both files"
        )
    for row, vector in enumerate(values, start=1):
        _require_varied(vector, f"{file}, row {row}")
    return values


def _read_text(path: Path, file: str, columns: Columns, needed: Sequence[str]) -> _Scans:
    numbered = enumerate(lines(normalise(_chunks(path, file), file), file), start=1)
    layout = sniff((line for _, line in numbered), file)
    names = layout.names
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise DataError(f"{file}: two columns are called {_listed(twice)}; rename one of them")
    absent = [name for name in needed if name not in names]
    if absent:
        raise DataError(f"{file}: no column {_listed(absent)}; correct --id, --label or --score")
    places = [place for place, name in enumerate(names) if name not in columns.named]
    if len(places) < LEAST_FEATURES:
        raise DataError(f"{file}: {len(places)} features, expected {LEAST_FEATURES} or more; supply more")
    at = {name: names.index(name) for name in needed}
    vectors: list[Floats] = []
    ids: list[str] = []
    labels: list[str] = []
    scores: list[float] = []
    for line, fields in fields_of(numbered, layout):
        where = f"{file}, line {line}"
        if fields is None or len(fields) != len(names):
            raise DataError(
                f"{where}: expected {len(names)} fields and quotes closed in the line; repair the row"
            )
        if columns.id in at:
            ids.append(_text(fields[at[columns.id]], f"{where}, column {columns.id}"))
        if columns.label in at:
            labels.append(_text(fields[at[columns.label]].strip(BLANKS), f"{where}, column {columns.label}"))
        if columns.score in at:
            scores.append(_number(fields[at[columns.score]], f"{where}, column {columns.score}"))
        vectors.append(
            _vector([fields[place] for place in places], [names[place] for place in places], where)
        )
    if not vectors:
        raise DataError(f"{file}: 0 rows below the header; expected one row per person, so supply the rows")
    features = tuple(names[place] for place in places)
    return _Scans(file, np.array(vectors), features, tuple(ids), tuple(labels), tuple(scores))


def _chunks(path: Path, file: str) -> Iterator[bytes]:
    try:
        with path.open("rb") as handle:
            while chunk := handle.read(_CHUNK):
                yield chunk
    except OSError as error:
        raise DataError(cannot_be_read(file, error)) from None


def _vector(texts: list[str], names: list[str], where: str) -> Floats:
    texts = [text.strip(BLANKS) for text in texts]
    numbers = plain_numbers(texts)
    vector = np.array(numbers if numbers is not None else [np.nan])
    if not np.all(np.abs(vector) <= LARGEST):
        for text, name in zip(texts, names, strict=True):
            _number(text, f"{where}, column {name}")
    _require_varied(vector, where)
    return vector


def _number(text: str, where: str) -> float:
    text = text.strip(BLANKS)
    value = parse_number(text)
    if value is not None and abs(value) <= LARGEST:
        return value
    if text in MISSING:
        raise DataError(f"{where}: no value; take this person or this column out of both files")
    raise DataError(
        f"{where}: no number with a decimal point, or one beyond 1e100; correct it, or name the column by --id or --label"
    )


def _text(text: str, where: str) -> str:
    if text.strip(BLANKS) in MISSING:
        raise DataError(f"{where}: no value; fill it in, or take this person out of both files")
    return text


def _require_varied(vector: Floats, where: str) -> None:
    if np.all(vector == vector[0]):
        raise DataError(f"{where}: all features have one value; take this person out of both files")


def _same_features(known: _Scans, unknown: _Scans) -> list[int]:
    """Return where the features of the first file stand in the second."""
    width = known.values.shape[1]
    if known.features is None or unknown.features is None:
        if width != unknown.values.shape[1]:
            raise DataError(
                f"{unknown.file}: {unknown.values.shape[1]} features, expected {width} as in {known.file}; supply the same"
                " features in both"
            )
        return list(range(width))
    at = {name: place for place, name in enumerate(unknown.features)}
    for file, names, others in (
        (unknown.file, known.features, at.keys()),
        (known.file, unknown.features, set(known.features)),
    ):
        absent = [name for name in names if name not in others]
        if absent:
            raise DataError(
                f"{file}: lacks {len(absent)} features of the other file ({_listed(absent)}); supply the same features in both"
            )
    return [at[name] for name in known.features]


def _pairs(known: _Scans, unknown: _Scans, columns: Columns) -> tuple[list[int], list[int]]:
    """Return the rows of the people in both files, in the order of the first."""
    if columns.id is None:
        if len(known.values) != len(unknown.values):
            raise DataError(
                f"{unknown.file}: {len(unknown.values)} people, expected {len(known.values)} as in {known.file}; supply the same"
                " people in the same order, or name the column of their ids by --id"
            )
        everybody = list(range(len(known.values)))
        return everybody, everybody
    for scans in (known, unknown):
        twice = len(scans.ids) - len(set(scans.ids))
        if twice:
            raise DataError(
                f"{scans.file}, column {columns.id}: {twice} rows repeat an id; keep one row per person"
            )
    at = {one: place for place, one in enumerate(unknown.ids)}
    places = [place for place, one in enumerate(known.ids) if one in at]
    return places, [at[known.ids[place]] for place in places]


def _labelled(known: _Scans, places: list[int], vectors: Floats, columns: Columns) -> Labelled | None:
    if columns.label is None:
        return None
    held = [known.labels[place] for place in places]
    levels = {label: number for number, label in enumerate(sorted(set(held)))}
    if len(levels) < 2:
        raise DataError(f"{known.file}, column {columns.label}: one label only, expected two or more")
    return Labelled(vectors, np.array([levels[label] for label in held]), np.arange(len(places)))


def _scores(known: _Scans, places: list[int], columns: Columns) -> Floats | None:
    if columns.score is None:
        return None
    scores = np.array([known.scores[place] for place in places])
    if np.all(scores == scores[0]):
        raise DataError(f"{known.file}, column {columns.score}: all scores are equal; name another column")
    return scores


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more
