"""Which column, or which constant, is which variable of the study.

A variable comes from the column that node.yaml names, or else from the one column that bears its name.
Nothing is guessed: a name found twice is an error. A column that is absent or whose unit does not convert
keeps the site out where every person needs the variable, and makes the site a non-supplier where it does not.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import inf

from cohortsum.crypto.errors import DataError
from cohortsum.node.config import TablesConfig, VariableConfig
from cohortsum.node.tables.levels import LevelColumn
from cohortsum.node.tables.numbers import NumberColumn, parse_number
from cohortsum.node.tables.units import conversion
from cohortsum.study.variables import Factor, Number, Variable

_AS_DECLARED = VariableConfig()


@dataclass(frozen=True, slots=True)
class Needs:
    """What a study wants from a site.

    Attributes:
        variables: the study's variables by name.
        required: those every site must have: covariates, groups, whatever the cohort is chosen by.
        suppliable: those a site may lack; disjoint from ``required``.
    """

    variables: Mapping[str, Variable]
    required: frozenset[str]
    suppliable: frozenset[str]


@dataclass(frozen=True, slots=True)
class Column:
    """A column that holds a variable.

    Attributes:
        table: the table it is in.
        place: its place there, from 0.
        name: its name after renaming.
        reading: how its text is read.
        range: the study's public range; values beyond it are counted for the site, not changed.
    """

    table: str
    place: int
    name: str
    reading: NumberColumn | LevelColumn
    range: tuple[float, float] = (-inf, inf)


@dataclass(frozen=True, slots=True)
class Constant:
    """One value for everybody: a number in the study's unit or the index of a level."""

    value: float


Source = Column | Constant


@dataclass(frozen=True, slots=True)
class Sources:
    """Where every variable comes from.

    Attributes:
        found: source by variable name.
        absent: why a suppliable variable is not supplied; stays at the site.
        problems: what keeps the site out, one sentence each.
    """

    found: dict[str, Source] = field(default_factory=dict[str, Source])
    absent: dict[str, str] = field(default_factory=dict[str, str])
    problems: list[str] = field(default_factory=list[str])

    @property
    def order(self) -> tuple[str, ...]:
        """The variables that were found, sorted by name."""
        return tuple(sorted(self.found))


@dataclass(frozen=True, slots=True)
class _Lacking:
    """Not found. ``fault``: somebody must decide, whether the variable is required or not."""

    reason: str
    fault: bool = False


def find_sources(
    config: TablesConfig, names: Mapping[str, Sequence[str]], labels: Mapping[str, str], needs: Needs
) -> Sources:
    """Return where the required and suppliable variables come from.

    Args:
        config: how columns map to variables.
        names: column names by table, after renaming.
        labels: how messages call each table.
        needs: what the study wants.
    """
    sources = Sources()
    for name in sorted(needs.required | needs.suppliable):
        entry = config.variables.get(name, _AS_DECLARED)
        declared = {table: config.tables[table].missing for table in config.tables}
        outcome = _source(needs.variables[name], entry, names, labels, declared)
        if not isinstance(outcome, _Lacking):
            sources.found[name] = outcome
        elif outcome.fault or name in needs.required:
            sources.problems.append(f"variable {name}: {outcome.reason}")
        else:
            sources.absent[name] = outcome.reason
    return sources


def place_of(column: str, names: Sequence[str], label: str) -> int:
    """Return the place (from 0) of ``column``; raises DataError."""
    places = [place for place, name in enumerate(names) if name == column]
    if not places:
        raise DataError(f"{label}: no column {column}; name the right one in node.yaml")
    if len(places) > 1:
        listed = " and ".join(str(place + 1) for place in places)
        raise DataError(f"{label}: column {column} stands at positions {listed}; rename or remove one")
    return places[0]


def _source(
    variable: Variable,
    entry: VariableConfig,
    names: Mapping[str, Sequence[str]],
    labels: Mapping[str, str],
    declared: Mapping[str, frozenset[str]],
) -> Source | _Lacking:
    factor = 1.0
    if isinstance(variable, Number):
        unit = entry.unit or variable.unit
        converted = conversion(unit, variable.unit, entry.voxel_mm3)
        if converted is None:
            return _Lacking(
                f"unit {unit} does not convert to the study's {variable.unit}; correct the unit in node.yaml"
            )
        factor = converted
    elif entry.unit is not None:
        return _Lacking("has levels, so it has no unit; remove unit in node.yaml", fault=True)
    if entry.constant is not None:
        return _constant(variable, entry.constant, factor)
    located = _locate(variable.name, entry, names, labels)
    if isinstance(located, _Lacking):
        return located
    table, place = located
    missing = declared[table] | entry.missing
    name = names[table][place]
    if isinstance(variable, Number):
        reading = NumberColumn(factor, missing, entry.codes)
        return Column(table, place, name, reading, (variable.lower, variable.upper))
    return Column(table, place, name, LevelColumn(variable.levels, missing, entry.codes))


def _constant(variable: Number | Factor, text: str, factor: float) -> Constant | _Lacking:
    if isinstance(variable, Factor):
        if text in variable.levels:
            return Constant(variable.levels.index(text))
        return _Lacking("its constant is not a level of the study; correct it in node.yaml", fault=True)
    number = parse_number(text)
    if number is None:
        return _Lacking("its constant is not a number; correct it in node.yaml", fault=True)
    return Constant(number * factor)


def _locate(
    variable: str, entry: VariableConfig, names: Mapping[str, Sequence[str]], labels: Mapping[str, str]
) -> tuple[str, int] | _Lacking:
    wanted = variable if entry.source is None else entry.source.column
    if entry.source is not None:
        if entry.source.table not in names:
            return _Lacking(
                f"node.yaml takes it from table {entry.source.table}, which is not there", fault=True
            )
        tables = [entry.source.table]
    else:
        tables = [table for table in names if wanted in names[table]]
    if not tables or wanted not in names[tables[0]]:
        searched = ", ".join(labels[table] for table in (tables or names))
        return _Lacking(f"no column {wanted} in {searched}; name its column under variables in node.yaml")
    if len(tables) > 1:
        listed = " and ".join(labels[table] for table in tables)
        return _Lacking(f"column {wanted} stands in {listed}; name one with from in node.yaml", fault=True)
    try:
        return tables[0], place_of(wanted, names[tables[0]], labels[tables[0]])
    except DataError as error:
        return _Lacking(error.message, fault=True)
