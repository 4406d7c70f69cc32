"""What a run shows: the messages of a member, and everything that is opened by all of them together."""

import asyncio
from collections import defaultdict
from collections.abc import Iterator, Sequence
from importlib import import_module
from typing import Any

import numpy as np
import pytest

from cohortsum.crypto.field import COMMITTEE
from cohortsum.crypto.shamir import combine
from cohortsum.node.committee.engine import HEADER, INTEGER_BITS, STATISTICAL
from cohortsum.protocol.committee import OpenCounts
from cohortsum.protocol.committee.evaluation import evaluate
from tests.committee.ring import Tape, computed, plan_of

STATS: Any = import_module("scipy.stats")
P, SIZE = COMMITTEE.prime, COMMITTEE.size
CELLS = 40
FALSE_ALARM = 1e-6
UNREPAIRED = (
    "-I",
    "-c",
    "from cohortsum.node.committee import engine, worker\n"
    "engine._zero_test = lambda runtime, integers: runtime.np_is_zero_public\n"
    "worker.main()",
)
"""A worker that keeps MPyC's own zero test."""


def recorded(members: int, sums: Sequence[int], command: Sequence[str] | None = None) -> Tape:
    """Return everything that was said while ``sums``, the first site's numbers, were computed on with k = 10."""
    plan, tape = plan_of(members, OpenCounts("x", len(sums), 10, 100)), Tape()
    vectors = [list(sums), *([0] * len(sums) for _ in range(3))]
    answers = asyncio.run(
        computed(plan, vectors, tape) if command is None else computed(plan, vectors, tape, command=command)
    )
    shown = tuple(value if value >= 10 else -1 for value in sums)
    assert all(answer == (shown,) for answer in answers)
    return tape


def elements(payload: bytes) -> list[int]:
    return [int.from_bytes(payload[at : at + SIZE], "little") for at in range(0, len(payload), SIZE)]


def seen(tape: Tape, corrupt: set[int]) -> list[bytes]:
    """Return all elements that reach the corrupt members: their shares of the sums, and what honest ones send them."""
    said = {
        (sender, message[HEADER.size :])
        for sender, receiver, message in tape.messages
        if receiver in corrupt and sender not in corrupt and len(message) >= HEADER.size + SIZE
        if HEADER.unpack_from(message)[1] == len(message) - HEADER.size
    }
    held = [COMMITTEE.to_bytes(share) for member in corrupt for share in tape.shares[member]]
    return [*held, *(part.to_bytes(SIZE, "little") for _, payload in said for part in elements(payload))]


def opened(tape: Tape, degree: int) -> Iterator[list[int]]:
    """Yield every vector that was opened: members who send the same to several, or one to the next, show shares."""
    said: dict[int, dict[int, dict[int, bytes]]] = defaultdict(lambda: defaultdict(dict))
    for sender, receiver, message in tape.messages:
        if len(message) > HEADER.size and HEADER.unpack_from(message)[1] == len(message) - HEADER.size:
            said[HEADER.unpack_from(message)[0]][sender][receiver] = message[HEADER.size :]
    members = len(tape.shares)
    for senders in said.values():
        if any(len(set(to.values())) > 1 for to in senders.values()):
            continue  # shares of shares: nothing is opened
        if all(len(to) == degree for to in senders.values()) and len(senders) == members:
            shares = {sender + 1: elements(next(iter(to.values()))) for sender, to in senders.items()}
            count = len(next(iter(shares.values())))
            yield [
                combine({point: share[at] for point, share in shares.items()}, degree + 1, P)
                for at in range(count)
            ]


def chi_square(view: Sequence[bytes]) -> float:
    """Return how likely uniform elements differ as much: by the values of their bytes."""
    counts = np.bincount(np.frombuffer(b"".join(view), np.uint8), minlength=256)
    return float(STATS.chisquare(counts).pvalue)


@pytest.mark.parametrize(("members", "corrupt"), [(3, {0}), (3, {2}), (5, {0, 3})])
def test_what_a_minority_sees_is_uniform_whatever_the_inputs(members: int, corrupt: set[int]) -> None:
    """Two inputs with one answer: the same messages in number and length, and all elements uniform in both."""
    low = recorded(members, [7, 12, 0, 40] * 5)
    high = recorded(members, [1, 12, 9, 40] * 5)
    views = seen(low, corrupt), seen(high, corrupt)
    assert len(views[0]) > 900
    for view in views:
        assert chi_square(view) > FALSE_ALARM
    tables = [np.bincount(np.frombuffer(b"".join(view), np.uint8), minlength=256) for view in views]
    assert STATS.chi2_contingency(np.array(tables)).pvalue > FALSE_ALARM

    def lengths(tape: Tape) -> list[tuple[int, int, int]]:
        return sorted((sender, receiver, len(message)) for sender, receiver, message in tape.messages)

    # squares that happen to be 0 are drawn again, once in 2**128: every run has the same messages
    assert lengths(low) == lengths(high)


def test_a_plain_sharing_would_not_pass() -> None:
    """The statistic finds shares whose polynomials have small coefficients."""
    view = [COMMITTEE.to_bytes(7 + small) for small in range(2000)]
    assert chi_square(view) < FALSE_ALARM


def test_all_members_together_open_masked_numbers_bits_and_the_counts_that_may_be_seen() -> None:
    hidden, shown = [7, 0, 3, 9], [12, 40, 10, 99]
    tape = recorded(3, [*hidden, *shown])
    vectors = list(opened(tape, 1))
    assert len(vectors) == 3
    masked = [vector for vector in vectors if min(vector) > 2**STATISTICAL // 2**10]
    bits = [vector for vector in vectors if set(vector) <= {0, 1}]
    values = [vector for vector in vectors if vector not in masked and vector not in bits]
    assert len(masked) == 1
    assert max(masked[0]) < 2 ** (STATISTICAL + INTEGER_BITS)
    assert bits == [[1, 1, 1, 1, 0, 0, 0, 0]]
    assert values == [shown]


@pytest.mark.parametrize("count", [0, 9])
def test_masked_numbers_are_uniform_in_their_low_bits(count: int) -> None:
    """An opened number is S - k + 2**l + r + 2**l R: its last l bits are those of a uniform r, whatever S is."""
    bits = (4 * 100).bit_length() + 1
    tape = recorded(3, [count] * 600)
    low = [value % 2**bits for vector in opened(tape, 1) if min(vector) > 2 for value in vector]
    assert len(low) == 600
    assert STATS.kstest(np.array(low) / 2**bits, "uniform").pvalue > FALSE_ALARM


def _products(tape: Tape, cells: int) -> Iterator[bool]:
    """Yield, per opened product of degree 2, whether it falls into two factors over the field.

    With three members of degree 1 each opens its value of such a product to both others: a quadratic that is known entirely.
    """
    said: dict[int, dict[int, list[bytes]]] = defaultdict(lambda: defaultdict(list))
    for sender, _, message in tape.messages:
        if len(message) == HEADER.size + cells * SIZE:
            said[HEADER.unpack_from(message)[0]][sender].append(message[HEADER.size :])
    for senders in said.values():
        if sorted(senders) != [0, 1, 2] or any(len(to) != 2 or to[0] != to[1] for to in senders.values()):
            continue
        for at in range(cells):
            one, two, three = (elements(senders[member][0])[at] for member in range(3))
            square = (one - 2 * two + three) * pow(2, -1, P) % P
            linear = (two - one - 3 * square) % P
            constant = (one - linear - square) % P
            discriminant = (linear * linear - 4 * square * constant) % P
            yield pow(discriminant, (P - 1) // 2, P) == 1


def test_the_zero_test_of_the_engine_shows_factors_and_ours_does_not() -> None:
    """A product of two sharings of degree 1 always has two roots; one behind a fresh sharing of zero has, half of the time."""
    counts = [3, 25] * (CELLS // 2)
    factors = list(_products(recorded(3, counts, UNREPAIRED), CELLS))
    assert len(factors) >= CELLS
    assert all(factors)
    factors = list(_products(recorded(3, counts), CELLS))
    assert len(factors) == CELLS
    assert 0 < sum(factors) < CELLS


def test_the_product_behind_a_zero_test_tells_the_compared_number() -> None:
    """Why the factors matter: the engine's product over seven bits, for every mask; c is opened, and e would be known.

    Half of the products are 0, which is what the test is for. Of the others nearly each fits one compared number only.
    """
    bits = 7

    def product(opened: int, mask: int, sign: int) -> int:
        differing, result = 0, 1
        for bit in reversed(range(bits)):
            theirs, own = opened >> bit & 1, mask >> bit & 1
            result *= sign + own - theirs + 3 * differing
            differing += own ^ theirs
        return result * (sign - 1 + 3 * differing)

    told = seen_products = 0
    for opened_low in range(0, 2**bits, 5):
        numbers: dict[int, set[int]] = defaultdict(set)
        for mask in range(2**bits):
            for sign in (-1, 1):
                numbers[product(opened_low, mask, sign)].add((opened_low - mask) % 2**bits)
        for value, fitting in numbers.items():
            if value:
                seen_products += 1
                told += len(fitting) == 1
    assert seen_products > 1000
    assert told > 0.9 * seen_products


def test_nothing_is_opened_but_what_the_evaluation_opens() -> None:
    """The evaluation is the only caller of the engine: its two operations are all that is opened."""

    class Counting:
        def __init__(self) -> None:
            self.calls: list[str] = []

        async def at_least(self, shares: Sequence[int], bounds: Sequence[int], greatest: int) -> list[bool]:
            self.calls.append("at_least")
            return [share >= bound for share, bound in zip(shares, bounds, strict=True)]

        async def reveal(self, shares: Sequence[int]) -> list[int]:
            self.calls.append("reveal")
            return list(shares)

    counting = Counting()
    asyncio.run(evaluate(plan_of(3, OpenCounts("x", 2, 10, 100)), [7, 12], counting))
    assert counting.calls == ["at_least", "reveal"]
