"""Suppression: the known traps come out exactly, nothing cheaper is safe, and a second attacker pins no small cell of 500 tables."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from cohortsum.study.disclosure.audit import Problem, Verifier, audit_pattern
from cohortsum.study.disclosure.rules import DEFAULT, Knowledge, Rule
from cohortsum.study.disclosure.suppression import Held, Suppression, suppress
from cohortsum.study.disclosure.tables import Cell, Standing, Tables
from cohortsum.study.variables import Factor
from tests.study.disclosure.attackers import Place, Sheet, is_safe, naive, name_of, places
from tests.study.disclosure.linking import Counted, linked
from tests.study.disclosure.tables import (
    COUNTIES,
    EVERYBODY,
    GROUPS,
    T2,
    T3,
    T3_NAIVE,
    T4,
    called,
    hidden_places,
    of_sheets,
    random_sheets,
    regions,
)

SUMS = Rule(knowledge=Knowledge.SUMS)
MARKS = Rule(knowledge=Knowledge.MARKS)
FOUR = Rule(threshold=4, knowledge=Knowledge.SUMS)
"""As sdcTable's test has it: counts up to 3 are small."""


def pattern(tables: Tables, rule: Rule = DEFAULT, proposals: int = 60) -> Suppression:
    found = suppress(tables, rule, proposals)
    assert isinstance(found, Suppression)
    return found


def cheapest(tables: Tables, rule: Rule = DEFAULT) -> Suppression:
    found = pattern(tables, rule)
    assert found.cost == found.at_least
    return found


def intervals(tables: Tables, found: Suppression, rule: Rule = DEFAULT) -> dict[str, str]:
    audit = audit_pattern(tables, found.hidden, rule)
    assert not audit.flagged
    return {one.cell.name: str(one.sums) for one in audit.findings if one.cell.printed}


def known(tables: Tables, found: Suppression, name: str, rule: Rule = DEFAULT) -> str:
    return str(audit_pattern(tables, found.hidden, rule).of(name).known)


# --- the known traps of privacy.md 8.3


@pytest.mark.parametrize("rule", [SUMS, DEFAULT, MARKS])
def test_t1_the_complement_of_a_small_count_is_hidden(rule: Rule) -> None:
    tables = linked([Counted("t", (Factor("wmh", ("> 100", "rest")),), np.array([7, 73]))], people=80)
    found = cheapest(tables, rule)
    assert (found.primary, found.secondary) == (("t/wmh[> 100]",), ("t/wmh[rest]",))
    assert intervals(tables, found, rule) == {"t/wmh[> 100]": "[0,80]", "t/wmh[rest]": "[0,80]"}
    expected = {Knowledge.SUMS: "[0,80]", Knowledge.ZEROS: "[1,79]", Knowledge.MARKS: "[1,9]"}
    assert known(tables, found, "t/wmh[> 100]", rule) == expected[rule.knowledge]


@pytest.mark.parametrize("rule", [SUMS, DEFAULT, MARKS])
def test_t2_the_cheapest_rectangle_is_hidden(rule: Rule) -> None:
    """Acceptance check 15."""
    found = cheapest(T2, rule)
    assert found.primary == called("A/high")
    assert found.secondary == called("A/mid", "C/mid", "C/high")
    assert found.cost == 63
    expected = ("[7,32]", "[0,25]", "[13,38]", "[0,25]")
    assert intervals(T2, found, rule) == dict(
        zip(called("A/mid", "A/high", "C/mid", "C/high"), expected, strict=True)
    )


def test_t3_two_hidden_cells_per_row_and_column_do_not_suffice() -> None:
    """Acceptance check 16."""
    (flagged,) = audit_pattern(T3, T3_NAIVE).flagged
    assert (flagged.cell.name, str(flagged.sums), flagged.problem) == (
        *called("r1/c3"),
        "[8,8]",
        Problem.EXACT,
    )
    withheld = T3.withholding(T3_NAIVE)
    found = cheapest(withheld)
    assert (found.hidden, found.cost) == (called("r2/c3"), 25)
    assert intervals(withheld, found)[called("r1/c3")[0]] == "[0,33]"
    cures = {
        cell.name: cell.count
        for cell in T3.cells
        if cell.name not in T3_NAIVE and not audit_pattern(T3, (*T3_NAIVE, cell.name)).flagged
    }
    assert sorted(cures, key=cures.__getitem__)[:2] == [*called("r2/c3", "r4/c1")]


def test_t3_from_the_start_costs_less_than_the_naive_pattern_with_its_cure() -> None:
    found = cheapest(T3)
    naive_cost = sum(T3.cells[place].count for place in T3.places(T3_NAIVE)) - 8 + 25
    assert found.primary == called("r1/c3")
    assert found.secondary == called("r1/c1", "r2/c1", "r2/c3")
    assert found.cost == 51 < naive_cost


def test_t4_a_small_pair_in_a_row_is_proven_small() -> None:
    naive_pattern = called("A/mid", "A/high", "C/mid", "C/high")
    for rule in (SUMS, DEFAULT):
        flagged = {one.cell.name: one for one in audit_pattern(T4, naive_pattern, rule).flagged}
        for name in called("A/mid", "A/high"):
            assert (str(flagged[name].sums), flagged[name].problem) == ("[0,7]", Problem.PROVEN)
        found = cheapest(T4, rule)
        assert found.primary == called("A/mid", "A/high")
        assert found.secondary == called("A/low", "C/low", "C/mid", "C/high")
        assert [intervals(T4, found, rule)[name] for name in found.primary] == ["[0,24]", "[0,21]"]


def test_t5_two_safe_breakdowns_give_a_region_away_together() -> None:
    """The pattern of sdcTable's test-linked-tables: region N as well."""
    small = tuple("ABKLM")
    by_county, by_group = regions(COUNTIES | EVERYBODY), regions(GROUPS | EVERYBODY)
    for tables, interval in ((by_county, "[0,9]"), (by_group, "[0,7]")):
        found = cheapest(tables, FOUR)
        assert (found.hidden, intervals(tables, found, FOUR)["K"]) == (small, interval)
    both = regions(COUNTIES | GROUPS | EVERYBODY)
    (flagged,) = audit_pattern(both, small, FOUR).flagged
    assert (flagged.cell.name, str(flagged.sums), flagged.problem) == ("K", "[3,3]", Problem.EXACT)
    found = cheapest(both, FOUR)
    assert (found.primary, found.secondary) == (small, ("N",))
    assert intervals(both, found, FOUR)["K"] == "[0,10]"


def test_t5_needs_more_before_an_attacker_who_sees_that_zeros_are_printed() -> None:
    """A and B are 4 together: no range of 1 to 3 reaches 4, though that of 0 to 4 does."""
    both = regions(COUNTIES | GROUPS | EVERYBODY)
    zeros = replace(FOUR, knowledge=Knowledge.ZEROS)
    flagged = {one.cell.name: str(one.known) for one in audit_pattern(both, (*"ABKLMN",), zeros).flagged}
    assert (flagged["A"], flagged["B"]) == ("[1,3]", "[1,3]")
    assert cheapest(both, zeros).secondary == ("I", "N")


def test_t5_a_second_study_is_held() -> None:
    """Acceptance check 17: the counties are out, and then the groups are asked for."""
    first = cheapest(regions(COUNTIES | EVERYBODY), FOUR)
    released = regions(COUNTIES | EVERYBODY).released(first.hidden)
    asked = regions(GROUPS).cells[len("ABIJKLMN") :]
    found = cheapest(Tables((*released.cells, *asked)), FOUR)
    assert found.hidden == ("big", "small")
    # had the groups been published elsewhere, nothing would help any more
    public = tuple(replace(cell, standing=Standing.PUBLIC) for cell in asked)
    held = suppress(Tables((*released.cells, *public)), FOUR)
    assert isinstance(held, Held)
    (flagged,) = held.audit.flagged
    assert (flagged.cell.name, str(flagged.sums)) == ("K", "[3,3]")


# --- nothing cheaper is safe


def affordable(weights: list[int], below: int) -> Iterator[set[int]]:
    """Yield the positions of every selection that weighs less than ``below`` and to which nothing can be added."""

    def grown(chosen: list[int], start: int, left: int) -> Iterator[set[int]]:
        if all(weight > left for place, weight in enumerate(weights) if place not in chosen):
            yield set(chosen)
        for place in range(start, len(weights)):
            if weights[place] <= left:
                yield from grown([*chosen, place], place + 1, left - weights[place])

    return grown([], 0, below - 1) if below > 0 else iter(())


def check_that_nothing_cheaper_is_safe(sheet: Sheet, found: Suppression, rule: Rule) -> int:
    """Hiding less never protects more, so the greatest selections that cost less speak for all of them."""
    counts = {place: int(sheet.with_totals[place[1]]) for place in places([sheet])}
    small = {place for place, count in counts.items() if 1 <= count < rule.threshold}
    others = [place for place, count in counts.items() if count >= rule.threshold]
    floor = 0 if rule.knowledge is Knowledge.SUMS else 1
    tried = 0
    for chosen in affordable([counts[place] for place in others], found.cost):
        tried += 1
        hidden = small | {others[place] for place in chosen}
        assert not is_safe([sheet], hidden, rule.threshold, floor, rule.threshold)
    assert is_safe([sheet], hidden_places([sheet], found.hidden), rule.threshold, floor, rule.threshold)
    return tried


def test_t2_was_searched_exhaustively() -> None:
    sheet = Sheet(("f0", "f1"), np.array([[40, 25, 7], [38, 30, 22], [45, 20, 18]]))
    assert check_that_nothing_cheaper_is_safe(sheet, cheapest(of_sheets([sheet]), SUMS), SUMS) > 10


@pytest.mark.parametrize("shape", [(5,), (2, 3), (3, 3), (2, 2, 2)])
def test_nothing_cheaper_is_safe(shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(11)
    tried = 0
    for _ in range(12):
        counts = rng.poisson(rng.gamma(1.0, 12.0, shape)).astype(np.int64)
        sheet = Sheet(tuple(f"f{axis}" for axis in range(len(shape))), counts)
        found = cheapest(of_sheets([sheet]))
        if found.cost <= 70:  # beyond, there are too many selections
            tried += check_that_nothing_cheaper_is_safe(sheet, found, DEFAULT)
    assert tried >= 5


def test_of_patterns_that_cost_the_same_the_one_with_fewest_cells_is_taken_and_then_the_first() -> None:
    # beside 7 people, 20 can be hidden as one cell or as two
    factor = Factor("f", ("a", "b", "c", "d", "e"))
    one = linked([Counted("t", (factor,), np.array([7, 30, 10, 20, 20]))], people=87)
    assert cheapest(one).secondary == ("t/f[c]",)
    two = linked([Counted("t", (factor,), np.array([2, 30, 20, 10, 10]))], people=72)
    assert cheapest(two, replace(DEFAULT, width=20)).secondary == ("t/f[c]",)
    assert cheapest(two).secondary == ("t/f[d]",)


# --- 500 random tables


def naive_cost(sheets: list[Sheet], tables: Tables) -> int:
    """Return what the first safe pattern of the naive method costs; its patterns only grow."""
    verifier = Verifier(tables, DEFAULT)
    cells = verifier.tables.cells

    def mask(hidden: set[Place]) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        names = {name_of(number, sheets[number], at) for number, at in hidden}
        return np.array([cell.printed and cell.name in names for cell in cells])

    patterns = naive(sheets, DEFAULT.threshold)
    unsafe, safe = -1, len(patterns) - 1
    while safe - unsafe > 1:
        middle = (unsafe + safe) // 2
        if verifier.unsafe(mask(patterns[middle])):
            unsafe = middle
        else:
            safe = middle
    chosen = mask(patterns[safe])
    assert not verifier.unsafe(chosen)
    return sum(
        cell.count for cell, here in zip(cells, chosen, strict=True) if here and not DEFAULT.small(cell)
    )


@pytest.mark.parametrize("seed", range(10))
def test_a_second_attacker_pins_no_small_cell_and_the_naive_method_never_costs_less(seed: int) -> None:
    rng = np.random.default_rng(seed)
    for _ in range(50):
        sheets = random_sheets(rng)
        tables = of_sheets(sheets)
        found = suppress(tables)
        assert isinstance(found, Suppression)
        assert found.cost == found.at_least
        assert is_safe(sheets, hidden_places(sheets, found.hidden), 10, 1, 10)
        assert found.cost == 0 or found.cost <= naive_cost(sheets, tables)


def test_the_second_attacker_rejects_what_is_not_safe() -> None:
    """Showing any secondary cell again breaks a cheapest pattern."""
    rng = np.random.default_rng(100)
    shown = 0
    while shown < 40:
        sheets = random_sheets(rng)
        found = cheapest(of_sheets(sheets))
        cells = hidden_places(sheets, found.hidden)
        for name in found.secondary[:2]:
            shown += 1
            again = {(number, at) for number, at in cells if name_of(number, sheets[number], at) != name}
            if len(sheets) == 1:
                assert not is_safe(sheets, again, 10, 1, 10)
                assert audit_pattern(of_sheets(sheets), [one for one in found.hidden if one != name]).flagged


# --- linked tables, one after the other


def test_a_linked_table_never_undoes_the_protection_of_an_earlier_one() -> None:
    rng = np.random.default_rng(7)
    held = 0
    for _ in range(25):
        whole = rng.poisson(rng.gamma(1.0, 15.0, (2, 3, 2))).astype(np.int64)
        sheets = [Sheet(("f0", "f1"), whole.sum(axis=2)), Sheet(("f0", "f2"), whole.sum(axis=1))]
        alone = cheapest(of_sheets(sheets[:1]))
        first, second = _counted(sheets)
        released = replace(first, standing=Standing.PUBLIC, withheld=frozenset(alone.hidden))
        found = suppress(linked([released, second]))
        if isinstance(found, Held):
            held += 1
            assert found.audit.flagged
            continue
        hidden = {*alone.hidden, *found.hidden}
        assert is_safe(sheets, hidden_places(sheets, hidden), 10, 1, 10)
        assert all(name.startswith("t1") for name in found.hidden)
        # judged together they cost at most as much, and either is safe without the other
        together = cheapest(of_sheets(sheets))
        assert together.cost <= alone.cost + found.cost
        assert is_safe(sheets[:1], hidden_places(sheets[:1], together.hidden), 10, 1, 10)
    assert held < 20


def _counted(sheets: list[Sheet]) -> list[Counted]:
    return [
        Counted(
            f"t{number}",
            tuple(
                Factor(axis, tuple(f"l{level}" for level in range(size)))
                for axis, size in zip(sheet.axes, sheet.counts.shape, strict=True)
            ),
            sheet.counts,
        )
        for number, sheet in enumerate(sheets)
    ]


# --- what is known, and the end of a search


def test_marks_promise_that_sums_add_nothing_to_them() -> None:
    """A row of 7 and 12 marks 7 as small; hiding only 12 beside it would say that 7 is at most 19 - 10 = 9, which the mark says."""
    tables = linked([Counted("t", (Factor("f", ("a", "b", "c")),), np.array([7, 12, 60]))], people=79)
    found = cheapest(tables, MARKS)
    assert (found.secondary, known(tables, found, "t/f[a]", MARKS)) == (("t/f[b]",), "[1,9]")
    narrow = linked([Counted("t", (Factor("f", ("a", "b", "c")),), np.array([7, 11, 60]))], people=78)
    (flagged,) = audit_pattern(narrow, ("t/f[a]", "t/f[b]"), MARKS).flagged
    assert (str(flagged.known), flagged.problem) == ("[1,8]", Problem.PROVEN)
    assert cheapest(narrow, MARKS).secondary == ("t/f[c]",)


def test_marks_of_margins_bound_what_is_inside_them() -> None:
    """Two cells of a row of 6 are at most 8 each by its mark; that is no reason to hold the table."""
    tables = linked(
        [Counted("t", (Factor("r", ("a", "b")), Factor("c", ("x", "y"))), np.array([[4, 2], [40, 35]]))]
    )
    found = cheapest(tables, MARKS)
    assert known(tables, found, "t/r[a]", MARKS) == "[2,9]"
    assert known(tables, found, "t/r[a]/c[x]", MARKS) == "[1,8]"


def test_zeros_are_small_where_the_rule_says_so() -> None:
    tables = linked(
        [Counted("t", (Factor("f", ("a", "b", "c", "d")),), np.array([0, 12, 40, 30]))], people=82
    )
    assert cheapest(tables).hidden == ()
    rule = replace(DEFAULT, zeros_are_disclosive=True)
    found = cheapest(tables, rule)
    assert (found.primary, found.secondary) == (("t/f[a]",), ("t/f[b]",))
    assert known(tables, found, "t/f[a]", rule) == "[0,12]"


def test_empty_cells_protect_nobody() -> None:
    tables = linked([Counted("t", (Factor("f", ("a", "b", "c")),), np.array([5, 0, 40]))], people=45)
    assert cheapest(tables).secondary == ("t/f[c]",)


def test_a_table_is_held_whose_public_total_leaves_too_little_room() -> None:
    tables = linked([Counted("t", (Factor("f", ("a", "b")),), np.array([7, 4]))], people=11)
    held = suppress(tables)
    assert isinstance(held, Held)
    assert {one.problem for one in held.audit.flagged} == {Problem.NARROW}
    assert cheapest(tables, replace(DEFAULT, width=9)).secondary == ()


def test_nothing_is_hidden_where_nothing_is_small() -> None:
    assert cheapest(T2, Rule(threshold=1)).hidden == ()
    assert cheapest(T2, Rule(threshold=7)).hidden == ()


def test_whole_people_know_more_than_fractions() -> None:
    """Of a + b + e, b + c + e and a + c + e = 11 follows that e is odd: from 1, not from 0."""
    people = {"e": 1, "a": 5, "b": 5, "c": 5, "d": 40}

    def cell(name: str, parts: str, standing: Standing = Standing.ASKED) -> Cell:
        return Cell(name, frozenset(parts), sum(people[part] for part in parts), standing)

    sums = [cell(name, name) for name in ("abe", "bce", "ace")]
    tables = Tables((cell("e", "e"), *sums, cell("all", "abced", Standing.PUBLIC)))
    wide = replace(SUMS, width=11)
    (flagged,) = audit_pattern(tables, ("e",), wide).flagged
    assert (str(flagged.known), flagged.problem) == ("[1,11]", Problem.NARROW)
    assert cheapest(tables, replace(SUMS, width=10)).secondary == ()
    assert cheapest(tables, wide).secondary == ("abe",)


def test_a_search_that_is_cut_short_ends_with_a_safe_pattern_and_a_bound() -> None:
    rng = np.random.default_rng(3)
    sheet = Sheet(("f0", "f1", "f2"), rng.poisson(rng.gamma(1.0, 20.0, (3, 3, 2))).astype(np.int64))
    tables = of_sheets([sheet])
    full = cheapest(tables)
    for proposals in (1, 2):
        short = pattern(tables, DEFAULT, proposals)
        assert is_safe([sheet], hidden_places([sheet], short.hidden), 10, 1, 10)
        assert short.at_least <= full.cost <= short.cost
        assert short.at_least < short.cost


def test_the_same_tables_give_the_same_pattern() -> None:
    rng = np.random.default_rng(4)
    tables = of_sheets([Sheet(("f0", "f1"), rng.poisson(rng.gamma(1.0, 15.0, (5, 5))).astype(np.int64))])
    assert suppress(tables) == suppress(tables)
