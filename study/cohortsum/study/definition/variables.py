"""From declared entries to variables: globs and catalogue rows written out, derived ranges computed."""

from collections.abc import Mapping
from functools import cache

from cohortsum.crypto.errors import ExpressionError
from cohortsum.study.catalogue import FAMILIES, Row
from cohortsum.study.definition.evaluation import interval, names_in
from cohortsum.study.definition.expressions import Expression
from cohortsum.study.definition.grammar import parse_expression
from cohortsum.study.definition.models import CatalogueEntry, FactorEntry, NumberEntry, VariableEntry
from cohortsum.study.definition.names import is_glob, matching, nearest
from cohortsum.study.definition.problems import Path, Problems
from cohortsum.study.variables import Factor, Number, Variable

MAX_VARIABLES = 20_000


def expand(entries: Mapping[str, VariableEntry], problems: Problems) -> dict[str, VariableEntry]:
    """Return the entries with one name each, sorted, unit and range written out.

    A name written out wins over a glob that covers it; two globs that cover the same name are a problem.
    """
    expanded: dict[str, VariableEntry] = {}
    written_by: dict[str, str] = {}
    for name, entry in sorted(entries.items(), key=lambda item: is_glob(item[0])):
        path = ("variables", name)
        if isinstance(entry, CatalogueEntry):
            found = _catalogue_rows(name, entry, path, problems)
        elif is_glob(name):
            problems.add(
                path, "a name with * needs catalogue: family; write the names out or name the family"
            )
            continue
        else:
            found = {name: entry}
        for single, written in found.items():
            if single not in expanded:
                expanded[single], written_by[single] = written, name
            elif is_glob(written_by[single]):
                problems.add(
                    path, f"covers {single!r}, as {written_by[single]!r} does; narrow one of the two"
                )
                break
    if len(expanded) > MAX_VARIABLES:
        problems.add(("variables",), f"more than {MAX_VARIABLES} variables; split the study")
        problems.raise_if_any()
    return dict(sorted(expanded.items()))


def _catalogue_rows(
    name: str, entry: CatalogueEntry, path: Path, problems: Problems
) -> dict[str, VariableEntry]:
    family = FAMILIES.get(entry.catalogue)
    if family is None:
        cure = nearest(entry.catalogue, FAMILIES, f"there are {', '.join(FAMILIES)}")
        problems.add((*path, "catalogue"), f"the catalogue has no family {entry.catalogue!r}; {cure}")
        return {}
    rows = _rows_of(family.name)
    names = matching(name, rows) if is_glob(name) else [name] if name in rows else []
    if not names:
        cure = nearest(name, rows, f"its names read like {family.rows[0].name!r}")
        problems.add(path, f"matches no variable of {family.name}; {cure}")
    if entry.unit is not None and any(rows[single].unit != entry.unit for single in names):
        problems.add((*path, "unit"), f"the catalogue has {rows[names[0]].unit}; remove unit")
        return {}
    return {single: _written_out(entry, rows[single]) for single in names}


@cache  # a study names hundreds of variables of one family
def _rows_of(family: str) -> Mapping[str, Row]:
    return FAMILIES[family].by_name()


def _written_out(entry: CatalogueEntry, row: Row) -> CatalogueEntry:
    return CatalogueEntry(
        catalogue=entry.catalogue,
        unit=row.unit,
        range=entry.range or (row.lower, row.upper),
        out_of_range=entry.out_of_range,
    )


def declared(entries: Mapping[str, VariableEntry]) -> dict[str, Variable]:
    """Return the variables of expanded entries."""
    return {name: _variable(name, entry) for name, entry in entries.items()}


def _variable(name: str, entry: VariableEntry) -> Variable:
    match entry:
        case FactorEntry():
            return Factor(name, entry.levels)
        case NumberEntry():
            return Number(name, entry.unit, *entry.range, entry.out_of_range)
        case CatalogueEntry(unit=str(unit), range=(lower, upper)):
            return Number(name, unit, lower, upper, entry.out_of_range)
        case CatalogueEntry():
            raise AssertionError("an expanded catalogue entry has a unit and a range")


def derive(
    formulas: Mapping[str, str], known: Mapping[str, Variable], problems: Problems
) -> tuple[dict[str, Expression], dict[str, Variable]]:
    """Return the expressions of derived variables, sorted, and the variables themselves with computed ranges."""
    ranges = {name: (entry.lower, entry.upper) for name, entry in known.items() if isinstance(entry, Number)}
    if len(formulas) > MAX_VARIABLES:
        problems.add(("derive",), f"more than {MAX_VARIABLES} variables; split the study")
        problems.raise_if_any()
    numbers, factors = {*ranges, *formulas}, dict.fromkeys(known.keys() - ranges.keys(), ())
    expressions: dict[str, Expression] = {}
    for name, text in sorted(formulas.items()):
        if name in known:
            problems.add(("derive", name), "a declared variable has this name; choose another")
        elif is_glob(name):
            problems.add(("derive", name), "a derived name has no *; write one name")
        else:
            try:
                expressions[name] = parse_expression(text, numbers, factors)
            except ExpressionError as error:
                problems.add_expression(("derive", name), error)
    variables: dict[str, Variable] = {}
    waiting = {name: set(names_in(tree) - ranges.keys()) for name, tree in expressions.items()}
    readers: dict[str, list[str]] = {}
    for name, lacking in waiting.items():
        for other in lacking:
            readers.setdefault(other, []).append(name)
    ready = sorted(name for name, lacking in waiting.items() if not lacking)
    while ready:
        following: list[str] = []
        for name in ready:
            del waiting[name]
            lower, upper = _range_of(name, expressions[name], ranges, problems)
            ranges[name] = (lower, upper)
            variables[name] = Number(name, "derived", lower, upper)
            for reader in readers.get(name, ()):
                waiting[reader].discard(name)
                following += [] if waiting[reader] else [reader]
        ready = sorted(following)
    if waiting and expressions.keys() == formulas.keys():
        for name in sorted(waiting):
            problems.add(
                ("derive", name), "derived from itself, directly or through others; break the circle"
            )
    return expressions, variables


def _range_of(
    name: str, expression: Expression, ranges: Mapping[str, tuple[float, float]], problems: Problems
) -> tuple[float, float]:
    path = ("derive", name)
    try:
        lower, upper = interval(expression, ranges)
    except ExpressionError as error:
        problems.add_expression(path, error)
    else:
        if lower < upper:
            return lower, upper
        problems.add(path, "has the same value for everybody; use a variable in it")
    return 1.0, 2.0  # stands in, so that the variables derived from this one are checked too
