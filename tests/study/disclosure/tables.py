"""Tables that several test modules protect: named ones of the literature, and random ones."""

from collections.abc import Collection, Sequence

import numpy as np

from cohortsum.study.disclosure.tables import Cell, Standing, Tables
from cohortsum.study.variables import Factor
from tests.study.disclosure.attackers import Place, Sheet, name_of, places
from tests.study.disclosure.linking import Counted, linked


def crossed(rows: Sequence[str], columns: Sequence[str], counts: Sequence[Sequence[int]]) -> Tables:
    """Return a table of two factors with all margins."""
    factors = (Factor("r", tuple(rows)), Factor("c", tuple(columns)))
    return linked([Counted("t", factors, np.array(counts, np.int64))])


def called(*cells: str) -> tuple[str, ...]:
    """Return the names of cells of `crossed`, given as row/column."""
    return tuple("t/r[{}]/c[{}]".format(*cell.split("/")) for cell in cells)


T2 = crossed("ABC", ("low", "mid", "high"), [[40, 25, 7], [38, 30, 22], [45, 20, 18]])
T3_COUNTS = [[14, 11, 8, 30], [12, 16, 25, 41], [33, 28, 15, 12], [27, 36, 13, 17]]
T3 = crossed(("r1", "r2", "r3", "r4"), ("c1", "c2", "c3", "c4"), T3_COUNTS)
T3_NAIVE = called("r1/c1", "r1/c2", "r1/c3", "r2/c1", "r2/c2", "r3/c3", "r3/c4", "r4/c3", "r4/c4")
T4 = crossed("ABC", ("low", "mid", "high"), [[40, 4, 3], [38, 30, 22], [45, 20, 18]])

T5_COUNTS = {"A": 2, "B": 2, "I": 8, "J": 8, "K": 3, "L": 3, "M": 3, "N": 7}
COUNTIES = {"county 1": "ABIJ", "county 2": "KLMN"}
GROUPS = {"big": "LM", "small": "ABIJKN"}
EVERYBODY = {"all": "ABIJKLMN"}


def regions(sums: dict[str, str], standing: Standing = Standing.ASKED) -> Tables:
    """Return the regions of T5 with some sums of them."""
    single = [Cell(name, frozenset(name), count, standing) for name, count in T5_COUNTS.items()]
    return Tables(
        (
            *single,
            *(
                Cell(name, frozenset(parts), sum(T5_COUNTS[part] for part in parts), standing)
                for name, parts in sums.items()
            ),
        )
    )


def of_sheets(sheets: Sequence[Sheet], people: int | None = None) -> Tables:
    """Return sheets as the package sees them; the tables are t0, t1, ... and the levels l0, l1, ..."""
    return linked(
        [
            Counted(
                f"t{number}",
                tuple(
                    Factor(axis, tuple(f"l{level}" for level in range(size)))
                    for axis, size in zip(sheet.axes, sheet.counts.shape, strict=True)
                ),
                sheet.counts,
            )
            for number, sheet in enumerate(sheets)
        ],
        people,
    )


def hidden_places(sheets: Sequence[Sheet], names: Collection[str]) -> set[Place]:
    """Return the places of the cells with these names."""
    return {(number, at) for number, at in places(sheets) if name_of(number, sheets[number], at) in names}


SHAPES = ((3,), (4,), (5,), (6,), (2, 2), (2, 2), (2, 3), (2, 3), (2, 4), (3, 3), (2, 2, 2))


def random_sheets(generator: np.random.Generator, shapes: Sequence[tuple[int, ...]] = SHAPES) -> list[Sheet]:
    """Return one table, or every fifth time two tables that share their first factor."""
    spread = float(generator.choice([6.0, 12.0, 25.0]))

    def counts(shape: tuple[int, ...]) -> Sheet:
        drawn = generator.poisson(generator.gamma(1.0, spread, shape)).astype(np.int64)
        return Sheet(tuple(f"f{axis}" for axis in range(len(shape))), drawn)

    if generator.random() >= 0.2:
        return [counts(shapes[int(generator.integers(len(shapes)))])]
    # one table of three factors, of which two margins are printed
    whole = counts((2, 2, int(generator.integers(2, 4)))).counts
    return [Sheet(("f0", "f1"), whole.sum(axis=2)), Sheet(("f0", "f2"), whole.sum(axis=1))]
