"""The programs over plain numbers, where every answer can be written down at once: what is opened, and that it is right."""

import asyncio
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cohortsum.crypto.errors import ConfigurationError
from cohortsum.protocol.committee import (
    SUPPRESSED,
    Answer,
    CommitteePlan,
    Complement,
    OpenCounts,
    OrderStatistics,
    Program,
    Threshold,
    bottom_code,
    percentile,
    top_code,
)
from cohortsum.protocol.committee.evaluation import evaluate
from cohortsum.protocol.committee.programs import LONGEST

FIVE = [5, 25, 50, 75, 95]


class Plain:
    """Computes on numbers as they are and writes down everything that is opened."""

    def __init__(self) -> None:
        self.asked: list[tuple[int, int, bool]] = []
        self.revealed: list[int] = []

    async def at_least(self, shares: Sequence[int], bounds: Sequence[int], greatest: int) -> list[bool]:
        assert all(0 <= share <= greatest for share in shares)
        assert all(1 <= bound <= greatest for bound in bounds)
        assert len(shares) == len(bounds) > 0
        bits = [share >= bound for share, bound in zip(shares, bounds, strict=True)]
        self.asked.extend(zip(shares, bounds, bits, strict=True))
        return bits

    async def reveal(self, shares: Sequence[int]) -> list[int]:
        self.revealed.extend(shares)
        return list(shares)


def plan_of(*programs: Program, sites: int = 4) -> CommitteePlan:
    return CommitteePlan((0, 1, 2), tuple(range(sites)), 1, programs)


def run(plan: CommitteePlan, sums: Sequence[int]) -> tuple[tuple[Answer, ...], Plain]:
    plain = Plain()
    answers = asyncio.run(evaluate(plan, sums, plain))
    assert plan.check_answers(answers) == answers
    return answers, plain


def searched(values: Sequence[int], levels: int, ranks: Sequence[int], width: int) -> list[int]:
    """Return the levels of ranks, over as many stages as it takes."""
    program: OrderStatistics | None = OrderStatistics("x", levels, len(values), tuple(ranks), width=width)
    found = None
    while program is not None:
        counts = [sum(low <= value < high for value in values) for low, high in program.intervals]
        (answer,), plain = run(plan_of(program), counts)
        found = program.found(answer)
        assert found is not None
        # whoever knows the answer can write down every bit: rank r lies below cut u exactly if its level does
        below = [sum(value < low for value in values) for low, _ in program.intervals]
        for count, bound, bit in plain.asked[2:]:
            place = answer[1 + program.ranks.index(bound)]
            assert all(
                bit == (place < cut) for cut, people in enumerate(below) if people == count
            ) or bit == (count >= bound)
        assert not plain.revealed
        program = program.narrowed(found)
    assert found is not None
    return [low for low, _ in found]


@given(
    st.lists(st.integers(0, 299), min_size=1, max_size=60),
    st.integers(2, 64),
)
def test_percentiles_are_numpys(values: list[int], width: int) -> None:
    places = [percentile(len(values), percent) for percent in FIVE]
    ranks = sorted({rank for place in places for rank in (place.lower, place.upper)} | {1, len(values)})
    levels = dict(zip(ranks, searched(values, 300, ranks, width), strict=True))
    assert [levels[rank] for rank in ranks] == [sorted(values)[rank - 1] for rank in ranks]
    mine = [place.between(levels[place.lower], levels[place.upper]) for place in places]
    np.testing.assert_allclose(mine, np.percentile(values, FIVE), rtol=1e-13, atol=0)


@given(st.lists(st.integers(0, 40), min_size=1, max_size=80), st.integers(1, 12))
def test_top_and_bottom_code_points_are_reached_by_enough_people(values: list[int], least: int) -> None:
    ordered = sorted(values)
    top, bottom = ordered[top_code(len(values), least) - 1], ordered[bottom_code(len(values), least) - 1]
    enough = min(least, len(values))
    assert sum(value >= top for value in values) >= enough
    assert sum(value > top for value in values) < least
    assert sum(value <= bottom for value in values) >= enough
    assert sum(value < bottom for value in values) < least


def test_a_median_between_two_ranks_and_on_one() -> None:
    assert percentile(4, 50).weight == Fraction(1, 2)
    assert percentile(4, 50).between(3, 8) == 5.5
    assert percentile(5, 50).lower == percentile(5, 50).upper == 3


def test_other_people_than_were_opened_give_no_ranks() -> None:
    program = OrderStatistics("x", 8, 10, (1, 5))
    for off in (-1, 1):
        (answer,), plain = run(plan_of(program), [1, 2, 1, 1, 1, 1, 1, 2 + off])
        assert answer == (0, SUPPRESSED, SUPPRESSED)
        assert len(plain.asked) == 2
        assert program.found(answer) is None


def test_counts_below_k_are_suppressed_and_nothing_of_them_is_opened() -> None:
    (answer,), plain = run(plan_of(OpenCounts("x", 4, 10, 100)), [7, 12, 0, 40])
    assert answer == (SUPPRESSED, 12, SUPPRESSED, 40)
    assert plain.revealed == [12, 40]
    assert [bit for _, _, bit in plain.asked] == [False, True, False, True]


def test_zeros_are_shown_where_the_study_lets_them() -> None:
    (answer,), _ = run(plan_of(OpenCounts("x", 4, 10, 100, zeros=True)), [7, 12, 0, 40])
    assert answer == (SUPPRESSED, 12, 0, 40)


def test_a_total_with_a_closed_part_stays_closed() -> None:
    totals = ((0, 1), (2, 3), (4, 5))
    (answer,), plain = run(plan_of(OpenCounts("x", 4, 10, 100, totals=totals)), [7, 12, 30, 40])
    assert answer == (SUPPRESSED, 12, 30, 40, SUPPRESSED, 70, SUPPRESSED)
    assert plain.revealed == [12, 30, 40]


@given(st.lists(st.integers(0, 25), min_size=4, max_size=4), st.booleans())
def test_all_that_is_opened_with_totals_follows_from_the_answer(cells: list[int], zeros: bool) -> None:
    program = OpenCounts("x", 4, 10, 100, zeros, ((0, 1), (2, 3), (4, 5)))
    (answer,), plain = run(plan_of(program), cells)
    shown = [value for value in answer[:4] if value >= 10]
    expected = [value >= 10 for value in answer[:4]] + ([value != 0 for value in answer[:4]] if zeros else [])
    assert [bit for _, _, bit in plain.asked] == expected
    assert plain.revealed == shown
    parts = [answer[:2], answer[2:4], answer[:4]]
    assert list(answer[4:]) == [SUPPRESSED if SUPPRESSED in part else sum(part) for part in parts]


def test_further_cells_close_where_totals_are_wanted() -> None:
    # two by two with all margins: cells 0 1 / 2 3, rows 4 5, columns 6 7, all 8
    totals = ((0, 1), (2, 3), (0, 2), (1, 3), (4, 5))
    program = OpenCounts("x", 4, 10, 100, totals=totals, complement=Complement.CELLS)
    (answer,), _ = run(plan_of(program), [7, 12, 30, 40])
    assert answer == (*[SUPPRESSED] * 4, 19, 70, 37, 52, 89)


@pytest.mark.parametrize(
    ("cells", "answer"),
    [
        ([7, 12, 0, 40], [-1, 12, -1, 40]),
        ([12, 7, 40], [-1, -1, 40]),
        ([7, 12, 40], [-1, -1, 40]),
        ([12, 40], [12, 40]),
        ([7], [-1]),
        ([7, 3], [-1, -1]),
    ],
)
def test_a_small_cell_has_company(cells: list[int], answer: list[int]) -> None:
    program = OpenCounts("x", len(cells), 10, 100, complement=Complement.COMPANY)
    (found,), plain = run(plan_of(program), cells)
    assert list(found) == answer
    assert plain.revealed == [value for value in answer if value > 0]
    with pytest.raises(ConfigurationError, match="have no totals"):
        OpenCounts("x", 3, 10, 100, totals=((0, 1, 2),), complement=Complement.COMPANY)


@given(st.lists(st.sampled_from([0, 3, 9, 10, 25]), min_size=9, max_size=9), st.booleans())
def test_no_closed_number_follows_from_the_opened_ones(cells: list[int], zeros: bool) -> None:
    """Three by three with margins: the rank of the equations, with and without the unit vector of each closed number."""
    rows = tuple((3 * row, 3 * row + 1, 3 * row + 2) for row in range(3))
    columns = tuple((column, column + 3, column + 6) for column in range(3))
    totals = (*rows, *columns, (9, 10, 11))
    program = OpenCounts("x", 9, 10, 100, zeros, totals, Complement.CELLS)
    (answer,), _ = run(plan_of(program), cells)
    sums = [*cells, *(sum(cells[cell] for cell in total) for total in program.cells_of_totals)]
    opened = [place for place, value in enumerate(answer) if value != SUPPRESSED]
    assert all(answer[place] == sums[place] for place in opened)
    assert all(answer[place] >= 10 or (zeros and answer[place] == 0) for place in opened)
    basis = np.array(
        [[int(cell == one) for cell in range(9)] for one in range(9)]
        + [[total.count(cell) for cell in range(9)] for total in program.cells_of_totals]
    )
    known = basis[opened].reshape(len(opened), 9)
    rank = np.linalg.matrix_rank(known) if opened else 0
    for place in set(range(len(answer))) - set(opened):
        assert np.linalg.matrix_rank(np.vstack([known, basis[place]])) == rank + 1


@pytest.mark.parametrize("people", [9, 10, 11])
def test_a_threshold_is_one_bit(people: int) -> None:
    (answer,), plain = run(plan_of(Threshold("x", 10, 5)), [people])
    assert answer == (int(people >= 10),)
    assert len(plain.asked) == 1
    assert not plain.revealed


def test_a_bound_that_no_sum_can_reach_is_answered_without_asking() -> None:
    (answer,), plain = run(plan_of(Threshold("x", 100, 5)), [20])
    assert answer == (0,)
    assert not plain.asked


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (
            lambda: CommitteePlan((0, 1, 2), tuple(range(5)), 2, (Threshold("x", 1, 1),)),
            "a committee of 5 or more",
        ),
        (lambda: CommitteePlan((0, 1, 2), (0, 1, 2), 1, (Threshold("x", 1, 1),)), "4 or more must bring"),
        (lambda: CommitteePlan((0, 1), (0, 1), 0, (Threshold("x", 1, 1),)), "3, 5 or 7"),
        (lambda: CommitteePlan((0, 2, 1), (0, 1), 1, (Threshold("x", 1, 1),)), "ascending"),
        (lambda: CommitteePlan((0, 1, 2), tuple(range(201)), 1, (Threshold("x", 1, 1),)), "2 to 200"),
        (lambda: plan_of(Threshold("x", 1, 2**38)), "exceed 2"),
        (lambda: plan_of(Threshold("x", 1, 1), Threshold("x", 1, 1)), "a name of its own"),
        (lambda: plan_of(), "needs programs"),
        (lambda: OpenCounts("x", 3, 1, 5), "nothing is small"),
        (lambda: OpenCounts("x", 3, 2, 5, totals=((0, 3),)), "parts before it"),
        (lambda: OpenCounts("x", LONGEST + 1, 2, 5), "numbers"),
        (lambda: OrderStatistics("x", 5, 3, (1, 4)), "from 1 to the number"),
        (lambda: OrderStatistics("x", 5, 3, (2, 1)), "ascending"),
        (lambda: OrderStatistics("x", 5, 3, (1, 2), ((2, 4), (1, 3))), "not overlap"),
        (lambda: OrderStatistics("x", 5, 3, (1, 2), ((0, 4), (3, 5))), "not overlap"),
    ],
)
def test_plans_that_do_not_hold_are_refused(make: object, sentence: str) -> None:
    assert callable(make)
    with pytest.raises(ConfigurationError, match=sentence):
        make()


def test_a_sites_own_numbers_are_checked_against_the_plan() -> None:
    plan = plan_of(OpenCounts("x", 2, 10, 5), Threshold("y", 10, 9))
    plan.check_values([5, 0, 9])
    for values in ([6, 0, 9], [5, -1, 9], [5, 0, 10], [5, 0], [5, 0, 9, 0]):
        with pytest.raises(ConfigurationError, match="do not keep to the bounds"):
            plan.check_values(values)
