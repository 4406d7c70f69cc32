"""Tables that describe single numbers at the cohort gate, variable by variable.

Per variable, everything that a release counts of it is judged together, and with the groups and crosstabs that were judged before
(`crosstabs`): what is public there is known here, and what is hidden there stays hidden. Since every group's people are public or
hidden for all variables alike, what one variable shows tells nothing new about another.

Two things may have to be hidden. A *group* that is small, and further groups with it: then nothing of their rows is shown, since a mean of
all and the means of the others give that of the rest. A *number* of people that tells a small one by subtraction, as n does where
nearly everybody has a value: then numbers of people are hidden, and means stay.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from cohortsum.crypto.errors import RefusedError
from cohortsum.study.disclosure.counted_lines import FIRST_FIGURE, Line, Place, VariableLines, group_key
from cohortsum.study.disclosure.crosstabs import PEOPLE, Crossings
from cohortsum.study.disclosure.rounding import Figure
from cohortsum.study.disclosure.settings import Settings
from cohortsum.study.disclosure.suppression import Held, suppress
from cohortsum.study.disclosure.tables import Standing
from cohortsum.study.disclosure.universe import Coordinate, Counted, Universe
from cohortsum.study.results import HIDDEN, Status, Table

ELSEWHERE = "elsewhere"
"""The people of sites that do not supply the variable."""


@dataclass(frozen=True, slots=True)
class Judged:
    """What may be shown of the tables about one variable.

    Attributes:
        figures: the counts, by their place.
        groups: rows of which nothing may be shown, as (table, row).
        small: whether some count was hidden for its own sake.
        further: whether some other was hidden with it.
    """

    figures: Mapping[Place, Figure]
    groups: frozenset[tuple[str, int]]
    small: bool
    further: bool


def judge_variable(settings: Settings, held: VariableLines, people: int, crossings: Crossings) -> Judged:
    """Return what may be shown of one variable.

    Args:
        settings: of the release.
        held: its counts.
        people: of the cohort.
        crossings: groups and crosstabs, as they were judged.
    """
    rounding = settings.rounding
    if rounding.rule.threshold <= 1 or not held.lines:
        figures = {line.place: rounding.count(line.people) for line in held.lines}
        return Judged(figures, frozenset(), False, False)
    gone = {line.name for line in held.lines if group_key(line.group) in crossings.hidden_groups}
    if held.variable in settings.study.factors:
        hidden = gone | {
            line.name for line in held.lines if crossings.figures.get(line.name, HIDDEN) is HIDDEN
        }
        groups = gone
    else:
        judge = _Judge(settings, held, people, crossings)
        sizes = [line for line in held.lines if line.place.column == "n"]  # a histogram alone has none
        groups = judge.hidden(sizes, gone, alone=True) if sizes else gone
        hidden = judge.hidden(held.lines, groups | gone)
    figures = {
        line.place: HIDDEN if line.name in hidden else rounding.count(line.people) for line in held.lines
    }
    rows = frozenset((line.place.table, line.place.row) for line in held.lines if line.name in groups)
    small = any(rounding.rule.least <= line.people < rounding.rule.threshold for line in held.lines)
    others = any(line.people >= rounding.rule.threshold for line in held.lines if line.name in hidden)
    return Judged(figures, rows, small, others)


class _Judge:
    """Decides about the counts of one number."""

    def __init__(self, settings: Settings, held: VariableLines, people: int, crossings: Crossings) -> None:
        self._rule, self._held, self._people, self._crossings = (
            settings.rounding.rule,
            held,
            people,
            crossings,
        )

    def hidden(self, lines: Sequence[Line], withheld: set[str], alone: bool = False) -> set[str]:
        """Return the names of the counts that are hidden, ``withheld`` among them; ``alone``: whatever totals and crosstabs tell.

        Where the counts of groups are of more people than the variable's, sites do not supply it, and their people are told apart.
        """
        everything = {line.name for line in lines} | withheld
        for elsewhere in (False, True):
            universe = self._universe(lines, withheld, alone, elsewhere)
            try:
                known = universe.tables()
                found = suppress(known, self._rule)
            except RefusedError:  # too many to be checked against each other: none of them is shown
                return everything
            except ValueError:  # the counts contradict each other
                continue
            if isinstance(found, Held):
                return everything
            gone = (cell for cell in known.cells if cell.standing is Standing.WITHHELD)
            names = {name for cell in gone for name in (cell.name, *cell.also)}
            return withheld | {*found.hidden} | (names & everything)
        return everything

    def _universe(self, lines: Sequence[Line], withheld: set[str], alone: bool, elsewhere: bool) -> Universe:
        coordinates: dict[Coordinate, tuple[str, ...]] = {
            **self._crossings.coordinates,
            **self._held.coordinates,
        }
        if elsewhere:
            coordinates[self._held.coordinate] = (*coordinates[self._held.coordinate], ELSEWHERE)
        universe = Universe(coordinates)
        if not alone:
            universe.add(Counted(PEOPLE, {}, self._people, Standing.PUBLIC), *self._near(lines))
        for line in lines:
            standing = Standing.WITHHELD if line.name in withheld else Standing.ASKED
            choice = {**line.group, self._held.coordinate: line.part}
            universe.add(Counted(line.name, choice, line.people, standing))
        return universe

    def _near(self, lines: Sequence[Line]) -> Iterator[Counted]:
        """Yield the groups and the cells of crosstabs that share a factor or a subgroup with these tables."""
        shared = {name for line in lines for name in line.group}
        return (one for one in self._crossings.counted if shared & one.choice.keys())


def without_groups(table: Table, rows: frozenset[int]) -> Table:
    """Return a table in which nothing is shown of some rows but what names them."""
    end = table.columns.index("status")
    head = table.columns.index(FIRST_FIGURE[table.kind])
    return replace(
        table,
        rows=tuple(
            (*row[:head], *(HIDDEN,) * (end - head), Status.HIDDEN.value, *(HIDDEN,) * (len(row) - end - 1))
            if place in rows
            else row
            for place, row in enumerate(table.rows)
        ),
    )
