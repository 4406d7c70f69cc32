"""Text to values, once: a file of float64 rows, one per person, that batches are read from.

Which columns use decimal commas is settled over whole columns first; then the joined text is parsed slice by
slice and faults are counted over all slices, so that one message tells how many rows are wrong.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from cohortsum.node.tables.filter import CELL_SEPARATOR
from cohortsum.node.tables.mapping import Column, Constant, Source
from cohortsum.node.tables.numbers import NumberColumn
from cohortsum.node.tables.store import Store
from cohortsum.study.batch import Batch

_CELLS = 2**19
"""Most text cells in memory at once."""

_PEOPLE = 2**14
"""Most people whose cells are in memory at once."""


@dataclass(slots=True)
class Tally:
    """What parsing met in one column; counts of rows.

    A 0 where a size stands is often a structure that a program did not find, and a swapped code of sex shows in no
    other way than in how many people have it: the site's admin is told both.
    """

    bad_numbers: int = 0
    bad_levels: int = 0
    disguised: int = 0
    missing: int = 0
    outside: int = 0
    zeros: int = 0
    having: Counter[str] = field(default_factory=Counter[str])

    def parse(self, source: Column, cells: Sequence[str], *, decimal_comma: bool) -> NDArray[np.float64]:
        """Return the values of one slice (a level is its index) and count what was wrong with it."""
        if isinstance(source.reading, NumberColumn):
            numbers = source.reading.parse(cells, decimal_comma=decimal_comma)
            self.bad_numbers += numbers.faults
            self.disguised += numbers.disguised
            self.missing += int(np.isnan(numbers.values).sum())
            lower, upper = source.range
            self.outside += int(((numbers.values < lower) | (numbers.values > upper)).sum())
            if source.size:
                self.zeros += int(np.count_nonzero(numbers.values == 0))
            return numbers.values
        levels = source.reading.parse(cells)
        self.bad_levels += levels.faults
        self.missing += int((levels.values == -1).sum())
        counts = np.bincount(levels.values[levels.values >= 0], minlength=len(source.reading.levels))
        self.having.update(dict(zip(source.reading.levels, counts.tolist(), strict=True)))
        return levels.values.astype(np.float64)

    def problems(self, where: str, people: int) -> list[str]:
        """Return what keeps the site out, one sentence each."""
        sentences = {
            "text, an infinity or another decimal sign, expected a number or a missing code; repair them, or"
            " declare them under missing or codes in node.yaml": self.bad_numbers,
            "an unknown level; list the column's distinct texts at the site and map them under codes in"
            " node.yaml, or declare them under missing": self.bad_levels,
            "a declared missing code in another spelling (such as -9999.0 for -9999); declare that spelling"
            " under missing too": self.disguised,
        }
        return [f"{where}: {rows} of {people} rows hold {what}" for what, rows in sentences.items() if rows]

    def report(self, where: str, people: int) -> list[str]:
        """Return what the site's admin should know, one sentence each."""
        sentences = {
            "have no value": self.missing,
            "lie outside the study's range; if they are missing codes, declare them": self.outside,
            "have exactly 0; if nothing was measured there, declare 0 under missing": self.zeros,
        }
        report = [f"{where}: {count} of {people} people {what}" for what, count in sentences.items() if count]
        if self.having:
            counted = ", ".join(f"{level} {count}" for level, count in self.having.items())
            report.append(f"{where}: people by level, to be compared with what the site knows: {counted}")
        return report


@dataclass(frozen=True, slots=True)
class Cells:
    """The joined text of everybody.

    Attributes:
        store: where ``joined`` lies, which says for every table ``t0`` where a person's cells are: in ``t0_start``
            (-1: nowhere) and ``t0_length``.
        people: number of rows there.
        variables: the variables among the cells of each table, in their order.
        files: where the cells of each table lie.
    """

    store: Store
    people: int
    variables: Mapping[str, Sequence[str]]
    files: Mapping[str, Path] = field(repr=False)

    def slices(
        self, wanted: Collection[str] | None = None
    ) -> Iterator[tuple[int, dict[str, tuple[str, ...]]]]:
        """Yield (people, text by variable), some people at a time, in the order of their ids.

        With ``wanted``, only of tables that hold one of these variables.
        """
        tables = {
            table: names
            for table, names in self.variables.items()
            if wanted is None or not set(names).isdisjoint(wanted)
        }
        width = sum(map(len, tables.values()))
        columns = [f"{table}_{part}" for table in tables for part in ("start", "length")]
        step = min(_PEOPLE, max(1, _CELLS // max(1, width)))
        with ExitStack() as stack:
            handles = [stack.enter_context(self.files[table].open("rb")) for table in tables]
            for places, *parts in self.store.numbers("joined", ["place", *columns], self.people, step):
                texts: dict[str, tuple[str, ...]] = {}
                for handle, names, starts, lengths in zip(
                    handles, tables.values(), parts[::2], parts[1::2], strict=True
                ):
                    rows = map(_reader(handle, len(names)), starts, lengths)
                    texts |= zip(names, zip(*rows, strict=True), strict=False)
                yield len(places), texts


def _reader(handle: BinaryIO, width: int) -> Callable[[int, int], list[str]]:
    nothing = [""] * width  # no row for this person in that table

    def read(start: int, length: int) -> list[str]:
        if start < 0 or not width:
            return nothing
        handle.seek(start)
        return handle.read(length).decode("utf-8", "surrogatepass").split(CELL_SEPARATOR)

    return read


def count_decimal_commas(
    cells: Cells, found: Mapping[str, Source], tables: Collection[str]
) -> dict[str, int]:
    """Return the variables from ``tables`` that are written with decimal commas, and in how many rows.

    That is: some row has a comma and no row has a decimal point.
    """
    signs: dict[str, tuple[int, int]] = {}
    for name, source in found.items():
        if isinstance(source, Column) and isinstance(source.reading, NumberColumn) and source.table in tables:
            signs[name] = (0, 0)
    for _, texts in cells.slices(signs) if signs else ():
        for name, (commas, points) in signs.items():
            source = found[name]
            if isinstance(source, Column) and isinstance(source.reading, NumberColumn):
                more_commas, more_points = source.reading.decimal_signs(texts[name])
                signs[name] = commas + more_commas, points + more_points
    return {name: commas for name, (commas, points) in signs.items() if commas and not points}


@dataclass(frozen=True, slots=True)
class ValuesFile:
    """A private file of values: ``people`` rows of float64, one column per name.

    Attributes:
        path: where it lies.
        people: number of rows.
        columns: variable names in the order of the columns.
        factors: those whose values are level indices.
    """

    path: Path = field(repr=False)
    people: int
    columns: tuple[str, ...]
    factors: frozenset[str]

    def write(
        self, cells: "Cells", found: Mapping[str, Source], decimal_commas: Mapping[str, int]
    ) -> dict[str, Tally]:
        """Parse the text of everybody into the file and return what was met, by variable."""
        tallies = {name: Tally() for name in self.columns}
        with self.path.open("xb") as out:
            for people, texts in cells.slices():
                rows = np.empty((people, len(self.columns)))
                for index, name in enumerate(self.columns):
                    source = found[name]
                    rows[:, index] = (
                        source.value
                        if isinstance(source, Constant)
                        else tallies[name].parse(source, texts[name], decimal_comma=name in decimal_commas)
                    )
                rows.tofile(out)
        return tallies

    def batches(self, size: int) -> Iterator[Batch]:
        """Yield the people in batches of ``size``, always in the same order."""
        width = len(self.columns)
        with self.path.open("rb") as values:
            for start in range(0, self.people, size):
                people = min(size, self.people - start)
                rows = np.fromfile(values, np.float64, people * width).reshape(people, width)
                yield Batch(
                    people,
                    {
                        name: rows[:, place].copy()
                        for place, name in enumerate(self.columns)
                        if name not in self.factors
                    },
                    {
                        name: rows[:, place].astype(np.int16)
                        for place, name in enumerate(self.columns)
                        if name in self.factors
                    },
                )
