"""A data dictionary without a single value: what a site could map, for a statistician who writes a study.

Everything here comes from header lines and from node.yaml: names of tables and columns, the study variables they are mapped
to, units, and the codes that the admin declared. No row is counted and no cell is looked at; of rows only "at least 1" is
said. The admin reads the dictionary before passing it on: a column's name may itself say too much.
"""

import csv
import io
from collections.abc import Iterator
from dataclasses import astuple, dataclass, fields

from cohortsum.node.config import NodeConfig, VariableConfig
from cohortsum.node.table_config import TableConfig
from cohortsum.node.tables.sniff import Facts
from cohortsum.node.tables.source import source_of

UNMAPPED = VariableConfig()
NO_FACTS = Facts("")


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of the dictionary.

    Attributes:
        table: name in node.yaml; empty for a constant.
        column: its name after renaming; empty for a constant.
        role: ``person id``, ``visit order``, ``variable``, or ``constant``; empty for a column nobody mapped.
        variable: the study's name for it.
        unit: as node.yaml says, or else the table's format or sidecar; empty where the study's own holds.
        codes: the codes declared in node.yaml with their levels, or else those of the sidecar.
        missing: the missing codes declared in node.yaml.
        rows: ``at least 1`` or ``none`` for the whole table.
    """

    table: str
    column: str
    role: str
    variable: str
    unit: str
    codes: str
    missing: str
    rows: str


def describe(config: NodeConfig) -> tuple[Entry, ...]:
    """Return the dictionary of a site's tables; raises DataError for a table whose header cannot be read."""
    return (*_columns(config), *_constants(config))


def to_csv(entries: tuple[Entry, ...]) -> str:
    """Return the dictionary as CSV."""
    out = io.StringIO()
    write = csv.writer(out, lineterminator="\n").writerow
    write([field.name for field in fields(Entry)])
    for entry in entries:
        write(astuple(entry))
    return out.getvalue()


def to_markdown(entries: tuple[Entry, ...]) -> str:
    """Return the dictionary as a Markdown table."""
    header = [field.name for field in fields(Entry)]
    rows = [header, ["---"] * len(header), *([_cell(text) for text in astuple(entry)] for entry in entries)]
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def _columns(config: NodeConfig) -> Iterator[Entry]:
    for name, table in config.tables.items():
        source = source_of(name, table)
        rows = "at least 1" if source.has_rows() else "none"
        layout = source.layout()
        for place, column in enumerate(table.renamed(column) for column in layout.names):
            mapped = [
                variable
                for variable, entry in config.variables.items()
                if _takes(variable, entry, name, column)
            ]
            for variable in mapped or [""]:
                entry = config.variables.get(variable, UNMAPPED)
                yield _entry(table, name, column, variable, entry, layout.facts.get(place, NO_FACTS), rows)


def _takes(variable: str, entry: VariableConfig, table: str, column: str) -> bool:
    if entry.source is not None:
        return (entry.source.table, entry.source.column) == (table, column)
    return entry.constant is None and variable == column


def _entry(
    table: TableConfig, name: str, column: str, variable: str, entry: VariableConfig, facts: Facts, rows: str
) -> Entry:
    role = "variable" if variable else ""
    if column == table.id:
        role = "person id"
    elif table.rows is not None and column == table.rows.order:
        role = "visit order"
    return Entry(
        table=name,
        column=column,
        role=role,
        variable=variable,
        unit=entry.unit or facts.unit or "",
        codes="; ".join(f"{code} = {level}" for code, level in (entry.codes or facts.levels or {}).items()),
        missing="; ".join(sorted(table.missing | entry.missing)),
        rows=rows,
    )


def _constants(config: NodeConfig) -> Iterator[Entry]:
    for variable, entry in config.variables.items():
        if entry.constant is not None:
            yield Entry("", "", "constant", variable, entry.unit or "", "", "", "")


def _cell(text: object) -> str:
    return str(text).replace("\\", "\\\\").replace("|", "\\|")
