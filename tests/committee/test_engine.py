"""Real workers, joined in this process: answers equal the pooled rows', for 3, 5 and 7 members."""

import asyncio
import csv
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from cohortsum.protocol.committee import (
    SUPPRESSED,
    CommitteePlan,
    Complement,
    OpenCounts,
    OrderStatistics,
    Program,
    Threshold,
    cost,
    percentile,
    top_code,
)
from cohortsum.protocol.committee.dealing import deal, fresh_key
from tests.committee.ring import Tape, computed, plan_of
from tests.protocol.consortium import stream

PERCENTS = [5, 25, 50, 75, 95]
DATA = Path(__file__).resolve().parents[2] / "../shared/data/fcon1000.csv"


def agreed(
    plan: CommitteePlan, vectors: Sequence[Sequence[int]], tape: Tape | None = None
) -> list[Sequence[int]]:
    answers = asyncio.run(computed(plan, vectors, tape))
    assert all(answer == answers[0] for answer in answers)
    return list(answers[0])


def levels_of(
    sites: Sequence[Sequence[int]], levels: int, ranks: Sequence[int], members: int, width: int
) -> tuple[dict[int, int], int]:
    """Return the level of every rank, and how many stages it took."""
    people = sum(len(site) for site in sites)
    program: OrderStatistics | None = OrderStatistics("x", levels, people, tuple(ranks), width=width)
    found, stages = None, 0
    while program is not None:
        vectors = [program.vector(site) for site in sites]
        found = program.found(agreed(plan_of(members, program, sites=len(sites)), vectors)[0])
        assert found is not None
        program, stages = program.narrowed(found), stages + 1
    assert found is not None
    return {rank: low for rank, (low, _) in zip(ranks, found, strict=True)}, stages


@pytest.mark.parametrize("members", [3, 5, 7])
def test_counts_and_a_threshold_are_right_for_every_committee(members: int) -> None:
    counts = [[7, 3, 0, 10], [0, 3, 0, 10], [0, 6, 0, 20], [0, 0, 0, 0]]
    people = [[20], [20], [19], [0]]
    vectors = [[*row, *row, *own, *own] for row, own in zip(counts, people, strict=True)]
    plan = plan_of(
        members,
        OpenCounts("counts", 4, 10, 50),
        OpenCounts("with zeros and totals", 4, 10, 50, zeros=True, totals=((0, 1), (1, 3))),
        Threshold("few", 60, 50),
        Threshold("enough", 59, 50),
    )
    assert agreed(plan, vectors) == [
        (SUPPRESSED, 12, SUPPRESSED, 40),
        (SUPPRESSED, 12, 0, 40, SUPPRESSED, 52),
        (0,),
        (1,),
    ]


def test_comparisons_are_exact_at_both_ends_of_their_range() -> None:
    least, most = 2**34, 2**35 - 1
    counts = [0, 1, least - 1, least, least + 1, most - 1, most]
    plan = plan_of(3, OpenCounts("x", len(counts), least, most))
    vectors = [counts, [0] * 7, [0] * 7, [0] * 7]
    assert agreed(plan, vectors) == [tuple(count if count >= least else SUPPRESSED for count in counts)]
    assert agreed(plan, [[most] * 7] * 4) == [(4 * most,) * 7]


def test_percentiles_and_extremes_of_a_small_consortium_are_numpys() -> None:
    generator = np.random.default_rng(7)
    sites = [list(map(int, generator.normal(150, 40, size).clip(0, 299))) for size in (31, 5, 64)]
    pooled = sorted(value for site in sites for value in site)
    places = [percentile(len(pooled), percent) for percent in PERCENTS]
    wanted = {rank for place in places for rank in (place.lower, place.upper)}
    ranks = sorted(wanted | {1, len(pooled), top_code(len(pooled), 10)})
    levels, stages = levels_of(sites, 300, ranks, 3, 20)
    assert stages == 2
    assert levels == {rank: pooled[rank - 1] for rank in ranks}
    mine = [place.between(levels[place.lower], levels[place.upper]) for place in places]
    np.testing.assert_allclose(mine, np.percentile(pooled, PERCENTS), rtol=1e-13, atol=0)


@pytest.mark.skipif(not DATA.exists(), reason="the real table is not at hand: ../shared/data is absent")
def test_percentiles_of_real_thickness_over_23_sites_are_numpys() -> None:
    with DATA.open(encoding="utf-8", newline="") as table:
        rows = [(row["site"], float(row["lh_G_precentral_thickness"])) for row in csv.DictReader(table)]
    names = sorted({site for site, _ in rows})
    assert len(names) == 23
    # the table gives thickness to a thousandth of a millimetre
    sites = [[round(value * 1000) for site, value in rows if site == name] for name in names]
    pooled = np.array([value for _, value in rows])
    np.testing.assert_allclose(
        np.sort([v for site in sites for v in site]) / 1000, np.sort(pooled), rtol=1e-12
    )
    places = [percentile(len(pooled), percent) for percent in PERCENTS]
    ranks = sorted({rank for place in places for rank in (place.lower, place.upper)})
    levels, stages = levels_of(sites, 6000, ranks, 3, 80)
    assert stages == 2
    mine = [place.between(levels[place.lower] / 1000, levels[place.upper] / 1000) for place in places]
    np.testing.assert_allclose(mine, np.percentile(pooled, PERCENTS), rtol=1e-12)


def test_other_people_than_were_opened_are_told_by_one_bit() -> None:
    program = OrderStatistics("x", 4, 10, (1, 5))
    assert agreed(plan_of(3, program), [[1, 2, 3, 0], [1, 1, 1, 0], [0] * 4, [0] * 4]) == [
        (0, SUPPRESSED, SUPPRESSED)
    ]


def test_two_hundred_sites_and_hundreds_of_cells_in_pieces() -> None:
    cells = 300
    vectors = [[(site * cell) % 7 == 0 for cell in range(cells)] for site in range(200)]
    sums = [sum(vector[cell] for vector in vectors) for cell in range(cells)]
    (answer,) = agreed(plan_of(3, OpenCounts("x", cells, 30, 1), sites=200), vectors)
    assert answer == tuple(value if value >= 30 else SUPPRESSED for value in sums)
    assert SUPPRESSED in answer


def test_a_worker_has_locked_itself_in() -> None:
    tape = Tape()
    agreed(plan_of(3, Threshold("x", 5, 5)), [[5], [0], [0], [0]], tape)
    for locks in tape.locks:
        assert locks >= {
            "no core dumps",
            "processor time",
            "memory",
            "no new files or sockets",
            "no children",
        }


@pytest.mark.parametrize("members", [3, 5])
@pytest.mark.parametrize("what", ["threshold", "counts", "zeros", "cells and totals", "ranks"])
def test_what_a_run_costs_is_known_before(members: int, what: str) -> None:
    counts = [[20, 30, 40, 50]] * 4
    totals, cells = ((0, 1), (2, 3)), Complement.CELLS
    programs: dict[str, tuple[Program, list[list[int]]]] = {
        "threshold": (Threshold("x", 5, 5), [[2]] * 4),
        "counts": (OpenCounts("x", 4, 10, 50), counts),
        "zeros": (OpenCounts("x", 4, 10, 50, zeros=True), counts),
        "cells and totals": (OpenCounts("x", 4, 10, 50, totals=totals, complement=cells), counts),
        "ranks": (OrderStatistics("x", 64, 256, (1, 128, 256)), [[1] * 64] * 4),
    }
    program, vectors = programs[what]
    plan, tape = plan_of(members, program), Tape()
    agreed(plan, vectors, tape)
    known = cost(plan)
    sent = [
        sum(len(message) for sender, _, message in tape.messages if sender == one) for one in range(members)
    ]
    assert sum(sent) <= members * known.member_bytes
    assert max(sent) >= known.member_bytes * (0.8 if what == "ranks" else 0.98)
    assert len(tape.messages) <= members * known.messages
    pairs = Counter((sender, receiver) for sender, receiver, _ in tape.messages)
    assert max(pairs.values()) <= known.exchanges
    assert known.sealed_bytes > known.member_bytes


def test_what_a_dealer_sends_is_known_before() -> None:
    plan = plan_of(3, OpenCounts("x", 4, 10, 50))
    publics = [fresh_key(bytes(32), stream(str(member))).public for member in range(3)]
    sealed = deal(plan, bytes(32), 0, [1] * 4, publics, bytes(32), stream("dealer")).ciphertexts
    assert cost(plan).dealer_bytes == sum(map(len, sealed))
