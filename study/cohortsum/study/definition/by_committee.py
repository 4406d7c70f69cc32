"""What a study in mode committee may ask: checked across its sections when it is frozen.

A committee opens a table's counts where they are large, on shares, and sees no others. Tables must therefore not be subtracted from each
other to find one that stayed closed, and nobody can look at the small counts to prevent it. So all analyses are about one set of people,
and a variable stands in one analysis alone: what two tables have in common is then the number of people, which the pattern of every table
takes for known (`cohortsum.study.committee`).
"""

from collections.abc import Mapping, Sequence
from math import prod

from cohortsum.protocol.committee.programs import LONGEST, WIDTH
from cohortsum.study.definition.expressions import Condition, render
from cohortsum.study.definition.grids import MOST_LEVELS, Grid
from cohortsum.study.definition.kinds import AnalysisSpec, CrosstabSpec, HistogramSpec, QuantilesSpec
from cohortsum.study.definition.kinds.interface import path_of
from cohortsum.study.definition.models import StudyFile
from cohortsum.study.definition.problems import Problems
from cohortsum.study.statistics.bins import Bins
from cohortsum.study.variables import Factor, Number, Variable

MIN_CELL = 10
"""The least count that a committee opens, unless the study says otherwise."""
LEAST_WIDTH = 2
"""Intervals into which a stage of a search cuts a bracket, at least."""

Variables = Mapping[str, Variable]


def check_by_committee(
    file: StudyFile, specs: Mapping[str, AnalysisSpec], variables: Variables, problems: Problems
) -> None:
    """Note what a committee cannot answer, and what nobody but a committee can."""
    if file.protection.mode != "committee":
        for name, spec in specs.items():
            if isinstance(spec, QuantilesSpec) and spec.step is not None:
                cure = "write mode: committee under 'protection', or edges in the place of step"
                problems.add(path_of(name, "step"), f"quantiles on a grid are found by a committee; {cure}")
        return
    if file.privacy.noise != "none":
        problems.add(
            ("privacy", "noise"), "a committee's answers carry no noise; write noise: none, or mode: masking"
        )
    for name, spec in specs.items():
        _check_one(name, spec, variables, problems)
    _check_apart(specs, problems)
    counts = sum(counts_of(spec, variables) for spec in specs.values())
    if counts > LONGEST:
        problems.add(
            ("analyses",),
            f"a committee is asked for {counts} counts; ask for fewer cells, at most {LONGEST} in all",
        )
    searches = sum(searches_of(spec, variables) for spec in specs.values())
    if searches and width_of(searches) < LEAST_WIDTH:
        most = LONGEST // (2 * (LEAST_WIDTH + 2))
        problems.add(
            ("analyses",),
            f"a committee is asked for {searches} quantiles; ask for fewer probabilities, groups or variables, at most {most} in all",
        )


def counts_of(spec: AnalysisSpec, variables: Variables) -> int:
    """Return of how many counts an analysis asks: cells, bins, or the people of groups."""
    match spec:
        case CrosstabSpec():
            return _cells(spec.factors, variables)
        case HistogramSpec():
            known = (variables.get(name) for name in spec.variables)
            return sum(len(Bins(one, spec.edges).intervals) for one in known if isinstance(one, Number))
        case QuantilesSpec():
            return len(spec.variables) * _groups(spec, variables)
        case _:
            return 0


def searches_of(spec: AnalysisSpec, variables: Variables) -> int:
    """Return for how many quantiles an analysis searches."""
    if not isinstance(spec, QuantilesSpec):
        return 0
    return len(spec.variables) * _groups(spec, variables) * len(spec.probabilities)


def width_of(searches: int) -> int:
    """Return into how many intervals a stage cuts a bracket, so that those of all quantiles, of two ranks each, are not too many."""
    return min(WIDTH, LONGEST // (2 * searches) - 2)


def _check_one(name: str, spec: AnalysisSpec, variables: Variables, problems: Problems) -> None:
    if not isinstance(spec, CrosstabSpec | HistogramSpec | QuantilesSpec):
        problems.add(
            path_of(name, "kind"),
            f"a committee answers crosstab, histogram and quantiles, and no {spec.kind}; put it into a study with mode: masking",
        )
    if not isinstance(spec, QuantilesSpec):
        return
    if spec.step is None:
        problems.add(
            path_of(name),
            "a committee finds quantiles on a grid; write step in the place of edges and bins: the finest difference of two values",
        )
        return
    for variable in spec.variables:
        known = variables.get(variable)
        if not isinstance(known, Number):
            continue
        levels = Grid(known, spec.step).levels
        if levels > MOST_LEVELS:
            problems.add(
                path_of(name, "step"), f"this step is lost in the digits of {variable!r}; write a greater one"
            )
        elif spec.step > known.upper - known.lower:
            problems.add(
                path_of(name, "step"), f"the range of {variable!r} is no wider than this; write a smaller one"
            )


def _check_apart(specs: Mapping[str, AnalysisSpec], problems: Problems) -> None:
    """Note analyses that could be subtracted from each other."""
    conditions: dict[str, str] = {}
    for name, spec in specs.items():
        conditions.setdefault(_written(spec.where), name)
    for other in [*conditions.values()][1:]:
        first = next(iter(conditions.values()))
        problems.add(
            path_of(other, "where"),
            f"the people are others than those of {first!r}, and the counts of both could be subtracted; write one condition, under "
            "cohort.include",
        )
    held: dict[str, str] = {}
    for name, spec in specs.items():
        for variable in sorted(spec.required | spec.suppliable):
            other = held.setdefault(variable, name)
            if other != name:
                problems.add(
                    path_of(name),
                    f"{variable!r} stands in {other!r} too, and the counts of both could be subtracted; a committee answers one "
                    "analysis of each variable",
                )


def _written(where: Condition | None) -> str:
    return "" if where is None else render(where)


def _cells(factors: Sequence[str], variables: Variables) -> int:
    return prod(len(known.levels) for name in factors if isinstance(known := variables.get(name), Factor))


def _groups(spec: QuantilesSpec, variables: Variables) -> int:
    return _cells(spec.by, variables) * prod(len(cuts) + 1 for cuts in spec.bands.values())
