"""In which column of which table a variable stands.

A name found twice is an error, except that FreeSurfer's and ENIGMA's tables repeat whole-head measures: there the first
table counts, and its copies must agree. In tables of these two formats a measure is also found under the names it has
in other versions (``synonyms``); two of them in one table are told apart by the admin, never by us.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Self

from cohortsum.crypto.errors import DataError
from cohortsum.node.config import TablesConfig, VariableConfig
from cohortsum.node.tables.freesurfer import DKT_MARK
from cohortsum.node.tables.sniff import Facts
from cohortsum.node.tables.synonyms import also_called

_NAMED_ALIKE = frozenset(("freesurfer", "enigma"))
"""Formats whose tables repeat columns and rename them between versions."""

Places = list[tuple[str, int]]
"""Table and place of a column, and then of its copies."""


@dataclass(frozen=True, slots=True)
class Head:
    """What is known of a table before its rows are read.

    Attributes:
        label: how messages call it.
        names: its columns after renaming.
        facts: what it says of them, by place.
        places: the places of every name.
    """

    label: str
    names: Sequence[str]
    facts: Mapping[int, Facts]
    places: Mapping[str, Sequence[int]]

    @classmethod
    def of(cls, label: str, names: Sequence[str], facts: Mapping[int, Facts]) -> Self:
        """Return the head of a table with these columns."""
        places: dict[str, list[int]] = {}
        for place, name in enumerate(names):
            places.setdefault(name, []).append(place)
        return cls(label, names, facts, places)

    def place_of(self, column: str) -> int:
        """Return the place of ``column``; raises DataError where it stands nowhere or twice."""
        return _only(column, self.places.get(column, ()), self.label)


@dataclass(frozen=True, slots=True)
class Lacking:
    """Not found. ``fault``: somebody must decide, whether the variable is required or not."""

    reason: str
    fault: bool = False


def locate(
    variable: str, entry: VariableConfig, config: TablesConfig, heads: Mapping[str, Head]
) -> Places | Lacking:
    """Return table and place of the column of ``variable``, and then of its copies."""
    if entry.source is not None:
        return _named(variable, entry.source.table, entry.source.column, heads)
    alike = [table for table in heads if config.tables[table].format in _NAMED_ALIKE]
    tables = [table for table in heads if variable in heads[table].places]
    names = [name for name in also_called(variable) if any(name in heads[table].places for table in alike)]
    if not tables and not names:
        return _nowhere(variable, list(heads.values()))
    wanted, others = (variable, names) if tables else (names[0], names[1:])
    tables = tables or [table for table in alike if wanted in heads[table].places]
    renamed = [(table, other) for table in alike for other in others if other in heads[table].places]
    if any(table in tables for table, _ in renamed):
        return Lacking(
            f"columns {wanted} and {others[0]} are two names of one measure; name one with from in node.yaml",
            fault=True,
        )
    if len(tables) > 1 and not set(tables) <= set(alike):
        listed = " and ".join(heads[table].label for table in tables)
        return Lacking(f"column {wanted} stands in {listed}; name one with from in node.yaml", fault=True)
    return _places(variable, [*((table, wanted) for table in tables), *renamed], heads)


def _named(variable: str, table: str, column: str, heads: Mapping[str, Head]) -> Places | Lacking:
    """Return the place of the one column that node.yaml names."""
    if table not in heads:
        return Lacking(f"node.yaml takes it from table {table}, which is not there", fault=True)
    if column not in heads[table].places:
        return _nowhere(column, [heads[table]])
    return _places(variable, [(table, column)], heads)


def _places(variable: str, columns: Sequence[tuple[str, str]], heads: Mapping[str, Head]) -> Places | Lacking:
    first = columns[0][1]
    if first.endswith(DKT_MARK) and "dkt" not in variable.lower():
        return Lacking(
            f"column {first} is of the DKT atlas, whose regions have other borders than those of the same name in"
            " Desikan-Killiany; supply tables of the study's atlas"
        )
    try:
        return [(table, heads[table].place_of(column)) for table, column in columns]
    except DataError as error:
        return Lacking(error.message, fault=True)


def _nowhere(column: str, searched: Sequence[Head]) -> Lacking:
    listed = ", ".join(head.label for head in searched)
    return Lacking(f"no column {column} in {listed}; name its column under variables in node.yaml")


def place_of(column: str, names: Sequence[str], label: str) -> int:
    """Return the place (from 0) of ``column``; raises DataError."""
    return _only(column, [place for place, name in enumerate(names) if name == column], label)


def _only(column: str, places: Sequence[int], label: str) -> int:
    if not places:
        raise DataError(f"{label}: no column {column}; name the right one in node.yaml")
    if len(places) > 1:
        listed = " and ".join(str(place + 1) for place in places)
        raise DataError(f"{label}: column {column} stands at positions {listed}; rename or remove one")
    return places[0]
