"""One study over one data set, played to its end in one process, and what it took."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from unittest.mock import patch

from rich.console import Console

from cohortsum.cli.results import read_document
from cohortsum.cli.simulate.command import run_simulation
from cohortsum.coordinator.course import Course
from cohortsum.coordinator.record import OpenedIteration
from cohortsum.report.document import ResultDocument
from cohortsum.study.definition import freeze, load_study
from cohortsum.study.results import Cell, Table

DATA = Path(__file__).resolve().parents[2] / "../shared/data"

Row = Mapping[str, Cell]


@dataclass(frozen=True, slots=True)
class DataSet:
    """A table of real people, one study with every analysis that fits it, and a site's facts about the table.

    Attributes:
        name: as the accuracy table calls it.
        file: the file that must be there.
        study: text of the study file.
        node: text of every site's node.yaml.
        split_by: the column that names the site, or None where ``prepare`` writes one table per site.
        prepare: writes the sites' tables into an empty folder; None: the file is taken as it is.
    """

    name: str
    file: str
    study: str
    node: str = ""
    split_by: str | None = None
    prepare: Callable[[Path], None] | None = None

    @property
    def present(self) -> bool:
        """Whether its file lies beside the repository."""
        return (DATA / self.file).exists()


@dataclass(slots=True)
class Cost:
    """What one analysis took: rounds, and numbers from each site over all of them."""

    rounds: int = 0
    numbers: int = 0


@dataclass(frozen=True)
class Finished:
    """A run that has ended.

    Attributes:
        folder: of the release; the sites' own folders lie below it.
        costs: by analysis.
    """

    folder: Path
    costs: Mapping[str, Cost]

    @cached_property
    def document(self) -> ResultDocument:
        """The typed release."""
        return read_document(self.folder)

    @cached_property
    def tables(self) -> Mapping[str, Table]:
        """The tables of the release by name."""
        return {block.analysis: block.table() for block in self.document.tables}

    def rows(self, table: str, **keys: Cell) -> list[Row]:
        """Return the rows whose cells equal ``keys``, by column; at least one."""
        held = self.tables[table]
        rows: list[Row] = [dict(zip(held.columns, cells, strict=True)) for cells in held.rows]
        found = [row for row in rows if all(row[name] == value for name, value in keys.items())]
        if not found:
            raise LookupError(f"table {table}: no row with {keys}")
        return found

    def row(self, table: str, **keys: Cell) -> Row:
        """Return the only such row."""
        (found,) = self.rows(table, **keys)
        return found

    def notes(self, table: str) -> str:
        """Return the notes of a table as one text."""
        return " ".join(self.tables[table].notes)

    def kept(self, site: str, file: str) -> Path:
        """Return the path of a file that a site wrote for itself."""
        (path,) = (self.folder / "consortium" / "sites" / site).glob(f"local/*/*/{file}")
        return path


def play(data: DataSet, folder: Path) -> Finished:
    """Run the study of ``data`` below the empty ``folder``."""
    costs: dict[str, Cost] = {}
    take = Course.take

    def noted(course: Course, opened: OpenedIteration) -> None:
        for statistic in course.plan.statistics:
            cost = costs.setdefault(statistic.name, Cost())
            cost.rounds += 1
            cost.numbers += sum(block.size for block in statistic.layout())
        take(course, opened)

    tables = DATA / data.file
    if data.prepare is not None:
        tables = folder / "tables"
        tables.mkdir()
        data.prepare(tables)
    node = folder / "node.yaml"
    node.write_text(data.node)
    with patch.object(Course, "take", noted):
        run = run_simulation(
            freeze(load_study(data.study.encode(), f"{data.name}.yaml")),
            tables,
            folder / "out",
            data.split_by,
            node if data.node else None,
            "open_data",
            True,
            Console(quiet=True),
        )
    return Finished(run.folder, costs)
