# ruff: noqa: S608  identifiers in SQL are made here (t0, place); nothing read from a file becomes SQL
"""From a site's files to batches of people: the steps of reading in their order.

1. The header of every table; which column is which variable (``mapping``).
2. Every table that is needed: filter, check rows, hash, and into DuckDB as text (``files``, ``store``).
3. Withdrawn people leave, then one row per person (``ids``), then the join: somebody counts who is in every
   table that holds a required variable; a row absent elsewhere is missing values.
4. Text to numbers and levels, once (``values``).

Everything that keeps the site out is gathered, step by step, and raised as one DataError. It names tables,
columns and counts of rows, never an id or a value, and stays at the site. People come in the order of their
ids, so that the order of rows in the files changes nothing.
"""

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import compress
from pathlib import Path
from typing import Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from cohortsum.crypto.errors import DataError
from cohortsum.node.config import TablesConfig
from cohortsum.node.tables.copies import disagreements
from cohortsum.node.tables.files import SiteFile, combined_digest
from cohortsum.node.tables.ids import IdsFile, choose_rows, compare, leave_out, require_ids
from cohortsum.node.tables.locate import Head, place_of
from cohortsum.node.tables.mapping import Column, Needs, Sources, find_sources
from cohortsum.node.tables.rows import Wanted, cells_beside, require_sound
from cohortsum.node.tables.sniff import Layout
from cohortsum.node.tables.source import Source, source_of
from cohortsum.node.tables.store import Store
from cohortsum.node.tables.synonyms import also_called
from cohortsum.node.tables.values import Cells, ValuesFile, count_decimal_commas
from cohortsum.study.batch import Batch
from cohortsum.study.variables import Factor

BATCH_PEOPLE = 4096
BATCH_CELLS = 2**21
"""Most values in one batch: 16 MiB of them, however wide the tables are."""

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Tables:
    """A site's people for one study, read and checked. A context manager: closing removes the private copy.

    Attributes:
        people: number of people in the join; at least 1.
        supplied: suppliable variables that are mapped and convertible here.
        missing_variables: why the other suppliable ones are not; stays at the site.
        digest: see ``content_digest``.
        report: sentences for the site's admin; counts only; stays at the site.
    """

    people: int = field(repr=False)
    supplied: frozenset[str]
    missing_variables: Mapping[str, str] = field(repr=False)
    digest: bytes = field(repr=False)
    report: tuple[str, ...] = field(repr=False)
    _values: ValuesFile = field(repr=False)
    _ids: IdsFile = field(repr=False)
    _folder: "tempfile.TemporaryDirectory[str]" = field(repr=False)
    _kept: NDArray[np.bool_] | None = field(default=None, repr=False)
    _blank: Mapping[str, NDArray[np.bool_]] = field(default_factory=dict[str, NDArray[np.bool_]], repr=False)

    def without(self, kept: NDArray[np.bool_], blank: Mapping[str, NDArray[np.bool_]]) -> "Tables":
        """Return the same tables without some people, and without some values of others.

        Args:
            kept: (people,) of everybody in their order, who is still there.
            blank: (people,) by variable, whose number counts as missing.
        """
        return replace(self, people=int(np.count_nonzero(kept)), _kept=kept, _blank=blank)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Remove the private copy of values and ids; no batches after it."""
        self._folder.cleanup()

    def batches(self, size: int | None = None) -> Iterator[Batch]:
        """Yield everybody, ``size`` people at a time: raw values of the required and supplied variables.

        Without ``size`` a batch has ``BATCH_PEOPLE`` people, or fewer where they would be over ``BATCH_CELLS`` values.
        """
        start = 0
        for batch in self._values.batches(size or self._batch):
            rows = slice(start, start + batch.people)
            start += batch.people
            yield batch if self._kept is None else self._left(batch, rows, self._kept)

    def ids(self, size: int | None = None) -> Iterator[list[str]]:
        """Yield the person ids of everybody, batch by batch the people of ``batches(size)``. They stay at the site."""
        start = 0
        for ids in self._ids.batches(size or self._batch):
            rows = slice(start, start + len(ids))
            start += len(ids)
            yield ids if self._kept is None else list(compress(ids, self._kept[rows]))

    def _left(self, batch: Batch, rows: slice, kept: NDArray[np.bool_]) -> Batch:
        """Return who is left of a batch, and what of their values."""
        here = kept[rows]
        numbers = {
            name: np.where(self._blank[name][rows], np.nan, values)[here]
            if name in self._blank
            else values[here]
            for name, values in batch.numbers.items()
        }
        levels = {name: values[here] for name, values in batch.levels.items()}
        return Batch(int(np.count_nonzero(here)), numbers, levels)

    @property
    def _batch(self) -> int:
        return min(BATCH_PEOPLE, max(1, BATCH_CELLS // max(1, len(self._values.columns))))


def open_tables(config: TablesConfig, needs: Needs, scratch: Path | None = None) -> Tables:
    """Read a site's tables for a study.

    Args:
        config: the site's tables, every one with a path (see ``TablesConfig.for_file``).
        needs: what the study wants.
        scratch: folder for the private copy (mode 0700, removed on close); None takes the system's.

    Raises:
        DataError: with everything that keeps the site out, one sentence per line.
    """
    folder = tempfile.TemporaryDirectory(prefix="cohortsum-", dir=scratch)
    try:
        with Store(Path(folder.name)) as store:
            return _Opening(config, needs, store, folder).tables()
    except BaseException:
        folder.cleanup()
        raise


def content_digest(config: TablesConfig) -> bytes:
    """Return one SHA-256 over every table and the exclusion list: what a snapshot is known by.

    Over the bytes of files, and over the text of the rows of a database's tables. Equal to ``Tables.digest``.
    Raises DataError for a table that cannot be read.
    """
    return combined_digest(
        {name: table.digest() for name, table in _tables_of(config).items()}
        | {name: file.digest() for name, file in _exclusions_of(config).items()}
    )


class _Opening:
    """The state of one opening; ``tables`` runs the steps."""

    def __init__(
        self,
        config: TablesConfig,
        needs: Needs,
        store: Store,
        folder: "tempfile.TemporaryDirectory[str]",
    ) -> None:
        self._config, self._needs, self._store, self._folder = config, needs, store, folder
        self._files = _tables_of(config)
        self._labels = {name: file.label for name, file in self._files.items()}
        self._short = {name: f"t{index}" for index, name in enumerate(self._files)}
        self._cells: dict[str, Path] = {}
        self._report: list[str] = []

    def tables(self) -> Tables:
        layouts = self._gather({name: file.layout for name, file in self._files.items()})
        names = {
            name: [self._config.tables[name].renamed(column) for column in layout.names]
            for name, layout in layouts.items()
        }
        heads = {
            name: Head.of(self._labels[name], names[name], layout.facts) for name, layout in layouts.items()
        }
        sources = find_sources(self._config, heads, self._needs)
        self._raise(sources.problems)

        core, used = self._choose_tables(sources)
        kept = {name: _kept(sources, name, used) for name in used}
        digests = self._gather(
            {
                name: partial(self._load, name, layouts[name], names[name], kept[name])
                if name in used
                else file.digest
                for name, file in self._files.items()
            }
        )
        for name, file in _exclusions_of(self._config).items():
            digests[name] = self._leave_out(file, used)
        self._gather({name: partial(self._one_row_each, name) for name in used})

        cells = self._join(core, used, kept)
        self._compare_copies(cells, sources, used)
        values = self._parse(cells, sources, layouts)
        ids = IdsFile(Path(self._folder.name) / "ids", cells.people)
        ids.write(self._store)
        self._report += [f"variable {name} is not supplied: {why}" for name, why in sources.absent.items()]
        return Tables(
            cells.people,
            self._needs.suppliable & sources.found.keys(),
            dict(sources.absent),
            combined_digest(digests),
            tuple(self._report),
            values,
            ids,
            self._folder,
        )

    def _gather(self, steps: Mapping[str, Callable[[], _T]]) -> dict[str, _T]:
        """Run every step, so that one error does not hide the next; raise them together."""
        results: dict[str, _T] = {}
        problems: list[str] = []
        for name, step in steps.items():
            try:
                results[name] = step()
            except DataError as error:
                problems.append(error.message)
        self._raise(problems)
        return results

    def _raise(self, problems: Sequence[str]) -> None:
        if problems:
            raise DataError("\n".join(problems))

    def _choose_tables(self, sources: Sources) -> tuple[list[str], list[str]]:
        """Return the tables everybody must be in, and all that are read, both in the order of node.yaml."""
        columns = sources.columns()
        core = {column.table for name, column in columns.items() if name in self._needs.required}
        core = core or set(list(self._files)[:1])
        used = core | {column.table for column in columns.values()}
        return [name for name in self._files if name in core], [name for name in self._files if name in used]

    def _load(self, name: str, layout: Layout, names: Sequence[str], kept: Mapping[str, Column]) -> bytes:
        """Bring the columns that are kept of one table into the store and return the table's hash."""
        table, label, short = self._config.tables[name], self._labels[name], self._short[name]
        wanted = Wanted(
            place_of(table.id, names, label),
            None if table.rows is None else place_of(table.rows.order, names, label),
            [column.place for column in kept.values()],
        )
        plain = Path(self._folder.name) / f"{short}.rows"
        count, digest = self._files[name].copy(layout, wanted, plain)
        require_sound(count, layout, label, reject_broken=table.broken_rows == "reject")
        if count.broken:
            self._report.append(f"{label}: {count.broken} broken rows were rejected")
        self._store.load(short, plain, count.longest)
        plain.unlink()
        self._cells[name] = cells_beside(plain)
        require_ids(self._store, short, label, table.id)
        return digest

    def _leave_out(self, file: SiteFile, used: Sequence[str]) -> bytes:
        ids, digest = file.texts()
        found, unknown = leave_out(self._store, [self._short[name] for name in used], ids, file.label)
        self._report.append(f"{file.label}: {found} ids were left out, {unknown} are in no table")
        return digest

    def _one_row_each(self, name: str) -> None:
        table = self._config.tables[name]
        dropped = choose_rows(self._store, self._short[name], self._labels[name], table.id, table.rows)
        if dropped:
            self._report.append(f"{self._labels[name]}: {dropped} rows of other visits were not used")

    def _join(
        self, core: Sequence[str], used: Sequence[str], kept: Mapping[str, Mapping[str, Column]]
    ) -> Cells:
        """Join the tables into ``joined``, its rows with their ids and numbered by ``place``; at least 1 person."""
        short, store = self._short, self._store
        first, *others = core
        extra = [name for name in used if name not in core]
        wanted = ", ".join(
            f"coalesce({table}.start, -1) AS {table}_start, coalesce({table}.length, 0) AS {table}_length"
            for table in (short[name] for name in used)
        )
        joins = "".join(f" JOIN {short[name]} USING (id)" for name in others)
        joins += "".join(f" LEFT JOIN {short[name]} USING (id)" for name in extra)
        store.run(
            f"CREATE TABLE joined AS SELECT row_number() OVER (ORDER BY {short[first]}.id) - 1 AS place,"
            f" {short[first]}.id AS id, {wanted} FROM {short[first]}{joins} ORDER BY place"
        )
        matches: list[str] = []
        for name in (*others, *extra):
            matches += compare(store, (short[first], self._labels[first]), (short[name], self._labels[name]))
        people = store.count("SELECT count(*) FROM joined")
        if not people:
            listed = ", ".join(self._labels[name] for name in core)
            self._raise(
                [
                    f"0 people are left in {listed}; the ids of all tables must be equal, letter by letter",
                    *matches,
                ]
            )
        self._report += [f"{people} people are in every table that is needed", *matches]
        variables = {short[name]: tuple(kept[name]) for name in used}
        return Cells(store, people, variables, {short[name]: self._cells[name] for name in used})

    def _compare_copies(self, cells: Cells, sources: Sources, used: Sequence[str]) -> None:
        """Raise DataError where a copy of a column says something else than the column."""
        copies, columns = sources.copies(used), sources.columns()
        problems: list[str] = []
        for key, people in disagreements(cells, copies, columns).items():
            variable, copy = copies[key]
            where = self._where(variable, columns[variable])
            problems.append(
                f"{where}: {people} people have another value in {self._labels[copy.table]}, expected copies that"
                " agree; make both tables anew from one run, or name one with from in node.yaml"
            )
        self._raise(problems)

    def _parse(self, cells: Cells, sources: Sources, layouts: Mapping[str, Layout]) -> ValuesFile:
        variables = self._needs.variables
        factors = frozenset(name for name in sources.order if isinstance(variables[name], Factor))
        values = ValuesFile(Path(self._folder.name) / "values.f64", cells.people, sources.order, factors)
        may_have_commas = {name for name, layout in layouts.items() if layout.delimiter in (";", "\t")}
        commas = count_decimal_commas(cells, sources.found, may_have_commas)
        problems: list[str] = []
        for name, tally in values.write(cells, sources.found, commas).items():
            source = sources.found[name]
            if isinstance(source, Column):
                where = self._where(name, source)
                if source.name in also_called(name):
                    self._report.append(f"{where}: the same measure by another name")
                problems += tally.problems(where, cells.people)
                self._report += tally.report(where, cells.people)
                if name in commas:
                    self._report.append(f"{where}: {commas[name]} rows are read with decimal commas")
        self._raise(problems)
        for path in self._cells.values():
            path.unlink()
        return values

    def _where(self, variable: str, source: Column) -> str:
        also = "" if source.name == variable else f" (variable {variable})"
        return f"{self._labels[source.table]}, column {source.name}{also}"


def _kept(sources: Sources, table: str, used: Sequence[str]) -> dict[str, Column]:
    """Return the columns of ``table`` that hold a variable or a copy of one, in the order in which its cells are kept."""
    columns = sources.columns() | {key: column for key, (_, column) in sources.copies(used).items()}
    return {name: column for name, column in columns.items() if column.table == table}


def _tables_of(config: TablesConfig) -> dict[str, Source]:
    return {name: source_of(name, table) for name, table in config.tables.items()}


def _exclusions_of(config: TablesConfig) -> dict[str, SiteFile]:
    # no table is called so: table names hold no colon
    return {} if config.exclude is None else {"exclude:": SiteFile("exclude", config.exclude)}
