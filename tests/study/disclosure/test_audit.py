"""The verifier: its intervals are those of every table that fits, and it rejects patterns that are known to be bad."""

from dataclasses import replace

import numpy as np
import pytest

from cohortsum.study.disclosure.audit import Problem, audit_pattern
from cohortsum.study.disclosure.rules import DEFAULT, Knowledge, Rule
from cohortsum.study.disclosure.suppression import Suppression, suppress
from cohortsum.study.disclosure.tables import Cell, Standing, Tables
from cohortsum.study.variables import Factor
from tests.study.disclosure.attackers import Attacker, Sheet, enumerated, name_of, places
from tests.study.disclosure.linking import Counted, linked
from tests.study.disclosure.tables import T2, called, of_sheets, random_sheets

SUMS = Rule(knowledge=Knowledge.SUMS)
THREE = Rule(threshold=3)


@pytest.mark.parametrize(("shape", "inside"), [((4,), 3), ((2, 3), 3), ((2, 2, 2), 3)])
def test_intervals_are_those_of_all_tables_that_fit(shape: tuple[int, ...], inside: int) -> None:
    """Every table is tried; the total is known, so that no count exceeds it."""
    rng = np.random.default_rng(1)
    for _ in range(8):
        counts = rng.integers(0, 5, shape).astype(np.int64)
        sheet = Sheet(tuple(f"f{axis}" for axis in range(len(shape))), counts)
        full = sheet.with_totals
        inner = [*np.ndindex(shape)]
        # some margins as well, but not the total
        margins = [at for at in np.ndindex(full.shape) if at not in inner][:-1]
        chosen: list[tuple[int, ...]] = [inner[at] for at in rng.permutation(len(inner)).tolist()[:inside]]
        chosen += [margins[at] for at in rng.permutation(len(margins)).tolist()[:2]]
        hidden = {at for at in chosen if full[at] > 0}
        tables = of_sheets([sheet])
        names = [name_of(0, sheet, at) for at in sorted(hidden)]
        found = audit_pattern(tables, names, THREE)
        for floor, knowledge in ((0, "sums"), (1, "known")):
            fitting = enumerated(sheet, hidden, floor, int(full.max()))
            assert any(np.array_equal(one, full) for one in fitting)
            for at in hidden:
                interval = getattr(found.of(name_of(0, sheet, at)), knowledge)
                values = [int(one[at]) for one in fitting]
                assert (interval.low, interval.high) == (min(values), max(values))


def test_intervals_are_those_of_a_second_attacker() -> None:
    rng = np.random.default_rng(2)
    for _ in range(40):
        sheets = random_sheets(rng)
        tables = of_sheets(sheets)
        hidden = {cell.name for cell in tables.cells if cell.count > 0 and rng.random() < 0.4}
        hidden |= {name for cell in tables.cells if cell.name in hidden for name in cell.also}
        found = audit_pattern(tables, hidden)
        at = {name_of(number, sheets[number], at): (number, at) for number, at in places(sheets)}
        for floor, knowledge in ((0, "sums"), (1, "known")):
            attacker = Attacker(sheets, {at[name] for name in hidden}, floor)
            for name in sorted(hidden)[:3]:
                interval = getattr(found.of(name), knowledge)
                low, high = attacker.interval([at[name]])
                assert (interval.low, interval.high) == (low, high if high < 10**5 else None)


@pytest.mark.parametrize(
    ("hidden", "problem"),
    [
        ((), Problem.SHOWN),
        (("A/high",), Problem.EXACT),
        (("A/high", "A/mid"), Problem.EXACT),
        (("A/high", "A/mid", "C/high"), Problem.EXACT),
        (("A/high", "A/mid", "B/mid", "C/high"), Problem.EXACT),
    ],
)
def test_bad_patterns_are_rejected(hidden: tuple[str, ...], problem: Problem) -> None:
    for rule in (SUMS, DEFAULT, Rule(knowledge=Knowledge.MARKS)):
        flagged = {one.cell.name: one for one in audit_pattern(T2, called(*hidden), rule).flagged}
        finding = flagged[called("A/high")[0]]
        assert finding.problem is problem
        assert str(finding.sums) == "[7,7]"


def test_the_problem_of_ones_and_zeros() -> None:
    """Langsrud's data1a: two ones hidden in a row of 9 that shows 0, 7 and 0 are 2 together, and neither is 0."""
    rows, columns = Factor("row", ("r1", "r2")), Factor("c", tuple("ABHMW"))
    table = Counted("t", (rows, columns), np.array([[0, 1, 7, 1, 0], [2, 0, 0, 2, 8]]))
    hidden = [
        "t/row[r1]/c[B]", "t/row[r1]/c[M]", "t/row[r2]/c[A]", "t/row[r2]/c[M]", "t/c[A]", "t/c[B]", "t/c[M]"
    ]  # fmt: skip
    rule = Rule(threshold=3, width=1, knowledge=Knowledge.SUMS)
    by_sums = audit_pattern(linked([table]), hidden, replace(rule, threshold=2)).of("t/row[r1]/c[B]")
    assert (str(by_sums.sums), by_sums.problem) == ("[0,2]", None)
    zeros = audit_pattern(linked([table]), hidden, replace(rule, threshold=2, knowledge=Knowledge.ZEROS))
    finding = zeros.of("t/row[r1]/c[B]")
    assert (str(finding.known), finding.problem) == ("[1,1]", Problem.EXACT)


def test_what_two_printed_sets_leave_between_them_is_looked_at() -> None:
    """Of 80 people 73 have a value: that 7 have none is nobody's cell, and follows."""
    tables = Tables((Cell("people", frozenset("ab"), 80), Cell("with a value", frozenset("a"), 73)))
    (flagged,) = audit_pattern(tables, ()).flagged
    assert flagged.cell.name == "people less with a value"
    assert (str(flagged.sums), flagged.problem) == ("[7,7]", Problem.EXACT)
    assert not audit_pattern(tables, ("with a value",)).flagged
    assert not audit_pattern(tables.released(()), ()).flagged  # beyond help


def test_the_cells_of_a_crossing_that_is_not_printed_are_looked_at() -> None:
    """Every margin of two factors is empty or at least 20, and yet they fix a cell of 3."""
    factors = (Factor("a", ("0", "1")), Factor("b", ("0", "1")), Factor("c", ("0", "1")))
    counts = np.array([[[3, 20], [20, 0]], [[20, 20], [20, 0]]])
    margins = [("a", "b"), ("a", "c"), ("b", "c")]
    tables = linked([Counted("t", factors, counts, margins)])
    printed = [cell.count for cell in tables.cells if cell.printed]
    assert min(count for count in printed if count) == 20
    (flagged,) = audit_pattern(tables, ()).flagged
    assert flagged.cell.name == "t/a[0]/b[0]/c[0]"
    assert (str(flagged.sums), flagged.problem) == ("[3,3]", Problem.EXACT)
    found = suppress(tables)
    assert isinstance(found, Suppression)
    assert found.primary == ()
    assert found.secondary
    two = (Factor("r", ("a", "b")), Factor("c", ("x", "y")))
    wide = linked([Counted("t", two, np.array([[23, 7], [4, 8]]), [("r",), ("c",)])])
    assert not audit_pattern(wide, ()).flagged


def test_a_cell_that_nothing_bounds_has_no_upper_end() -> None:
    tables = linked([Counted("t", (Factor("f", ("a", "b")),), np.array([3, 40]))])
    finding = audit_pattern(tables, ("t/f[a]", "t")).of("t/f[a]")
    assert (finding.known.low, finding.known.high, str(finding.known)) == (1, None, "[1,...]")
    assert finding.problem is None


def test_what_is_public_cannot_be_hidden_and_what_was_withheld_stays() -> None:
    tables = linked([Counted("t", (Factor("f", ("a", "b")),), np.array([3, 40]))], people=43)
    with pytest.raises(ValueError, match="people is public; hiding it now hides nothing"):
        audit_pattern(tables, ("t",))
    released = tables.released(("t/f[a]", "t/f[b]"))
    assert [cell.standing for cell in released.cells] == ["public", "withheld", "withheld"]
    assert not audit_pattern(released, ()).flagged


def test_counts_that_contradict_each_other_are_refused() -> None:
    cells = (Cell("a", frozenset("a"), 5), Cell("b", frozenset("b"), 20), Cell("both", frozenset("ab"), 24))
    with pytest.raises(ValueError, match="contradict"):
        audit_pattern(Tables((*cells, Cell("c", frozenset("c"), 1, Standing.UNASKED))), ())


@pytest.mark.parametrize(("threshold", "width"), [(0, None), (10, 0)])
def test_rules_that_mean_nothing_are_refused(threshold: int, width: int | None) -> None:
    with pytest.raises(ValueError, match="at least 1"):
        Rule(threshold, width)
