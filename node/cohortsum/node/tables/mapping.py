"""Which column, or which constant, is which variable of the study.

A variable comes from the column that node.yaml names, or else from the one column that bears its name.
Nothing is guessed: a name found twice is an error (``locate``). A column that is absent or whose unit does not convert
keeps the site out where every person needs the variable, and makes the site a non-supplier where it does not.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from math import inf

from cohortsum.node.config import TablesConfig, VariableConfig
from cohortsum.node.tables.filter import CELL_SEPARATOR
from cohortsum.node.tables.levels import LevelColumn
from cohortsum.node.tables.locate import Head, Lacking, locate
from cohortsum.node.tables.numbers import NumberColumn, parse_number
from cohortsum.node.tables.sniff import Facts
from cohortsum.node.tables.units import conversion, is_size
from cohortsum.study.variables import Factor, Number, Variable

_AS_DECLARED = VariableConfig()
_NO_FACTS = Facts("")


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
        size: whether its values are lengths, areas or volumes, which are seldom 0.
        copies: tables with a copy of it, and its place there.
    """

    table: str
    place: int
    name: str
    reading: NumberColumn | LevelColumn
    range: tuple[float, float] = (-inf, inf)
    size: bool = False
    copies: tuple[tuple[str, int], ...] = ()


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

    def columns(self) -> dict[str, Column]:
        """Return the variables that come from a column, sorted by name."""
        return {name: source for name in self.order if isinstance(source := self.found[name], Column)}

    def copies(self, used: Collection[str]) -> dict[str, tuple[str, Column]]:
        """Return variable and column of every copy in the tables ``used``, by a name that no variable has."""
        return {
            f"{name}{CELL_SEPARATOR}{table}": (name, replace(column, table=table, place=place, copies=()))
            for name, column in self.columns().items()
            for table, place in column.copies
            if table in used
        }


def find_sources(config: TablesConfig, heads: Mapping[str, Head], needs: Needs) -> Sources:
    """Return where the required and suppliable variables come from.

    Args:
        config: how columns map to variables.
        heads: the tables, by name.
        needs: what the study wants.
    """
    sources = Sources()
    for name in sorted(needs.required | needs.suppliable):
        entry = config.variables.get(name, _AS_DECLARED)
        outcome = _source(needs.variables[name], entry, config, heads)
        if not isinstance(outcome, Lacking):
            sources.found[name] = outcome
        elif outcome.fault or name in needs.required:
            sources.problems.append(f"variable {name}: {outcome.reason}")
        else:
            sources.absent[name] = outcome.reason
    return sources


def _source(
    variable: Variable, entry: VariableConfig, config: TablesConfig, heads: Mapping[str, Head]
) -> Source | Lacking:
    if entry.unit is not None and isinstance(variable, Factor):
        return Lacking("has levels, so it has no unit; remove unit in node.yaml", fault=True)
    if entry.constant is not None:
        return _constant(variable, entry)
    located = locate(variable.name, entry, config, heads)
    if isinstance(located, Lacking):
        return located
    (table, place), *copies = located
    facts = heads[table].facts.get(place, _NO_FACTS)
    reading = _reading(variable, entry, facts, config.tables[table].missing | entry.missing)
    if isinstance(reading, Lacking):
        return reading
    bounds, size = (-inf, inf), False
    if isinstance(variable, Number):
        bounds, size = (variable.lower, variable.upper), is_size(variable.unit)
    return Column(table, place, heads[table].names[place], reading, bounds, size, tuple(copies))


def _reading(
    variable: Variable, entry: VariableConfig, facts: Facts, missing: frozenset[str]
) -> NumberColumn | LevelColumn | Lacking:
    if isinstance(variable, Number):
        factor = _factor(variable, entry, facts)
        return factor if isinstance(factor, Lacking) else NumberColumn(factor, missing, entry.codes)
    codes = entry.codes
    if codes is None and facts.levels is not None:
        codes = _codes(variable, facts.levels)
        if codes is None:
            return Lacking(
                f"{facts.origin} says of a code that it is another level than the study's of that name; say what"
                " counts under codes in node.yaml",
                fault=True,
            )
    return LevelColumn(variable.levels, missing, codes)


def _factor(variable: Number, entry: VariableConfig, facts: Facts = _NO_FACTS) -> float | Lacking:
    """Return the study's unit per unit of the column: node.yaml's, or else the table's own, or else the study's."""
    told = facts.unit is not None and entry.unit is None
    unit = entry.unit or facts.unit or variable.unit
    factor = conversion(unit, variable.unit, entry.voxel_mm3)
    if factor is not None:
        return factor
    says = f"unit {unit}" + (f" (from {facts.origin})" if told else "")
    cure = "declare unit and voxel_mm3" if told and unit == "voxels" else "correct the unit"
    return Lacking(f"{says} does not convert to the study's {variable.unit}; {cure} in node.yaml")


def _codes(variable: Factor, meanings: Mapping[str, str]) -> dict[str, str] | None:
    """Return the level of every code: its own name, or its meaning; None where these are two levels.

    What is neither stays unknown, and is refused where a row holds it.
    """
    codes = {level: level for level in variable.levels}
    for code, meaning in meanings.items():
        if meaning in variable.levels:
            if codes.get(code, meaning) != meaning:
                return None
            codes[code] = meaning
    return codes


def _constant(variable: Number | Factor, entry: VariableConfig) -> Constant | Lacking:
    text = entry.constant or ""
    if isinstance(variable, Factor):
        if text in variable.levels:
            return Constant(variable.levels.index(text))
        return Lacking("its constant is not a level of the study; correct it in node.yaml", fault=True)
    factor = _factor(variable, entry)
    if isinstance(factor, Lacking):
        return factor
    number = parse_number(text)
    if number is None:
        return Lacking("its constant is not a number; correct it in node.yaml", fault=True)
    return Constant(number * factor)
