"""Tables as sets of people: names, margins, shared cells, people without a value, and earlier releases."""

import numpy as np
import pytest

from cohortsum.crypto.errors import StudyFileError
from cohortsum.study.disclosure.audit import audit_pattern
from cohortsum.study.disclosure.suppression import Suppression, suppress
from cohortsum.study.disclosure.tables import Cell, Standing, Tables, with_differences
from cohortsum.study.statistics.crosstab import Crosstab
from cohortsum.study.variables import Factor
from tests.study.disclosure.linking import Counted, linked

SEX = Factor("sex", ("female", "male"))
DX = Factor("dx", ("control", "patient"))
AGE = Factor("age", ("young", "old"))


def counts(tables: Tables) -> dict[str, int]:
    return {name: cell.count for cell in tables.cells for name in (cell.name, *cell.also)}


def test_cells_are_called_like_the_blocks_of_a_crosstab() -> None:
    tables = linked([Counted("c", (SEX, DX), np.array([[30, 11], [25, 14]]), missing=12)], people=92)
    assert counts(tables) == {
        "people": 92,
        "c/sex[female]/dx[control]": 30,
        "c/sex[female]/dx[patient]": 11,
        "c/sex[male]/dx[control]": 25,
        "c/sex[male]/dx[patient]": 14,
        "c/sex[female]": 41,
        "c/sex[male]": 39,
        "c/dx[control]": 55,
        "c/dx[patient]": 25,
        "c": 80,
        "c/missing": 12,
    }
    assert {block.name for block in Crosstab("c", (SEX, DX)).layout()} <= set(counts(tables))


def test_every_line_is_an_equation() -> None:
    rng = np.random.default_rng(1)
    tables = linked([Counted("a", (SEX, DX, AGE), rng.integers(0, 90, (2, 2, 2)))])
    number = counts(tables)
    assert len(tables.lines) == 3 * 9
    for total, *parts in tables.lines:
        assert number[total] == sum(number[part] for part in parts)
    held = tables.membership()
    for line in tables.lines:
        first, *others = tables.places(line)
        assert np.array_equal(held[first], sum(held[place] for place in others))


def test_two_tables_share_margins_and_the_total() -> None:
    first = Counted("a", (SEX, DX), np.array([[30, 11], [25, 14]]))
    second = Counted("b", (SEX, AGE), np.array([[20, 21], [19, 20]]))
    tables = linked([first, second])
    shared = {cell.name: cell.also for cell in tables.cells if cell.also}
    assert shared == {"a/sex[female]": ("b/sex[female]",), "a/sex[male]": ("b/sex[male]",), "a": ("b",)}
    with pytest.raises(ValueError, match=r"a/sex\[female\] and b/sex\[female\] are the same people"):
        linked([first, Counted("b", (SEX, AGE), np.array([[20, 20], [19, 20]]))])


def test_who_lacks_a_level_of_one_table_is_in_the_other() -> None:
    """Twelve people have a sex and no diagnosis: the margins of sex differ, and what is left between them is looked at."""
    first = Counted("a", (SEX, DX), np.array([[30, 11], [25, 14]]), missing=12)
    second = Counted("b", (SEX,), np.array([48, 44]))
    tables = linked([first, second])
    assert counts(tables)["a/sex[female]"] == 41
    assert not any(cell.also for cell in tables.cells)
    found = {one.cell.name: str(one.sums) for one in audit_pattern(tables, ()).flagged}
    assert found == {"b/sex[female] less a/sex[female]": "[7,7]", "b/sex[male] less a/sex[male]": "[5,5]"}
    cured = suppress(tables)
    assert isinstance(cured, Suppression)
    assert cured.primary == ()
    assert cured.secondary


def test_nobody_lacks_a_level_by_which_another_table_counts_everybody() -> None:
    complete = Counted("a", (SEX,), np.array([41, 39]))
    tables = linked([complete, Counted("b", (SEX, DX), np.array([[30, 11], [25, 14]]), missing=0)])
    assert {cell.name: cell.also for cell in tables.cells if cell.also} == {
        "a/sex[female]": ("b/sex[female]",),
        "a/sex[male]": ("b/sex[male]",),
        "a": ("b",),
    }


def test_only_margins_that_are_asked_for_are_printed() -> None:
    tables = linked([Counted("a", (SEX, DX), np.array([[30, 1], [25, 14]]), margins=[("sex",), ()])])
    printed = {cell.name for cell in tables.cells if cell.printed}
    assert printed == {"a/sex[female]", "a/sex[male]", "a"}
    unasked = {cell.name for cell in tables.cells if cell.standing is Standing.UNASKED}
    assert len(unasked) == 4
    assert not audit_pattern(tables, ()).flagged


def test_an_earlier_release_is_public_where_it_printed() -> None:
    earlier = Counted(
        "old",
        (SEX,),
        np.array([7, 73]),
        standing=Standing.PUBLIC,
        withheld=frozenset({"old/sex[female]", "old/sex[male]"}),
    )
    tables = linked([earlier, Counted("new", (SEX,), np.array([7, 73]))])
    assert [(cell.name, cell.standing) for cell in tables.cells] == [
        ("old/sex[female]", "withheld"),
        ("old/sex[male]", "withheld"),
        ("old", "public"),
    ]
    found = suppress(tables)
    assert isinstance(found, Suppression)
    assert found.hidden == ()


def test_differences_are_of_nested_sets_and_small() -> None:
    tables = linked([Counted("t", (Factor("f", tuple("abcd")),), np.array([3, 4, 40, 50]))])
    added = with_differences(tables, 10).cells[len(tables.cells) :]
    assert added == ()
    merged = Tables((*tables.cells, Cell("abc", frozenset({("a",), ("b",), ("c",)}), 47)))
    (rest,) = with_differences(merged, 10).cells[len(merged.cells) :]
    assert (rest.name, rest.count, rest.standing) == ("abc less t/f[c]", 7, "unasked")


def test_too_many_combinations_are_refused_with_a_cure() -> None:
    factors = [Factor(f"f{number}", tuple("abcdefgh")) for number in range(5)]
    with pytest.raises(StudyFileError, match="32768 groups of people apart, more than 20000; print fewer"):
        linked([Counted(one.name, (one,), np.full(8, 20)) for one in factors])


@pytest.mark.parametrize(
    ("cells", "message"),
    [
        ((Cell("a", frozenset("a"), 1), Cell("a", frozenset("b"), 1)), "same name"),
        ((Cell("a", frozenset("a"), 1), Cell("b", frozenset("a"), 1)), "same atoms"),
        ((Cell("a", frozenset("a"), -1),), "fewer than no people"),
        ((Cell("a", frozenset(), 0),), "no atoms"),
    ],
)
def test_cells_are_sets_of_people_with_names(cells: tuple[Cell, ...], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Tables(cells)
