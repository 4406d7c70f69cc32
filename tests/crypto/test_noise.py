"""Noise: exact laws by chi-square against their definition, exact coins by their whole tree, and where the words come from.

Fixed keys make most statistical tests pass always or never; those on fresh words (the reference, and one of the product)
do not. Each statistic rejects below ALARM, and there are fewer than 100 of them: words drawn anew would fail this file once
in about a million runs.
"""

import ast
import copy
import pickle
import secrets
from collections.abc import Callable, Iterator, Sequence
from decimal import Context, Decimal
from fractions import Fraction
from functools import cache
from hashlib import sha256
from math import factorial
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

# scipy ships no types; what it returns is converted where it is used
from scipy.special import bdtr, bdtrc, chdtrc, ndtr  # pyright: ignore[reportUnknownVariableType, reportMissingTypeStubs]

from cohortsum.crypto import noise
from cohortsum.crypto.noise import (
    CANDIDATES,
    MOST_SCALE,
    MOST_SIGMA,
    Integers,
    NoiseStream,
    bernoulli_exp,
    discrete_gaussian,
    discrete_laplace,
)
from cohortsum.crypto.secret import SecretBytes
from tests import slow_crypto
from tests.crypto import noise_reference

ALARM = 1e-8
MILLION = 1_000_000
SIGMAS = [1, 3, 300, 1000]
DIGITS = Context(prec=50)
KEYS = st.binary(min_size=32, max_size=32)

Floats = NDArray[np.float64]


def keyed(label: str) -> NoiseStream:
    return NoiseStream(SecretBytes(sha256(label.encode()).digest(), "noise key"))


@cache
def gaussians(sigma: int) -> Integers:
    """Return a million values of the product, the same in every test."""
    return discrete_gaussian(sigma, MILLION, keyed(f"gaussian {sigma}"))


# The laws, from their definition, and what does not fit them


@cache
def gaussian_law(variance: Fraction) -> Floats:
    """Return P(-m), ..., P(m) to 50 digits, rounded once; beyond m = 11 sigma lies less than 1e-26."""
    most = int(11 * float(variance) ** 0.5) + 11
    twice = DIGITS.divide(Decimal(2 * variance.numerator), Decimal(variance.denominator))
    return _normed([DIGITS.exp(DIGITS.divide(Decimal(-x * x), twice)) for x in range(most + 1)])


@cache
def laplace_law(scale: int) -> Floats:
    """Return P(-m), ..., P(m) to 50 digits, rounded once; beyond m = 60 scales lies less than 1e-25."""
    return _normed([DIGITS.exp(DIGITS.divide(Decimal(-x), Decimal(scale))) for x in range(60 * scale + 1)])


def _normed(right: Sequence[Decimal]) -> Floats:
    both = [*reversed(right[1:]), *right]
    total = Decimal(0)
    for weight in both:
        total = DIGITS.add(total, weight)
    return np.array([float(DIGITS.divide(weight, total)) for weight in both])


def counted(values: Integers, most: int) -> Floats:
    """Return how often -most, ..., most occur; what lies outside counts as the nearer end."""
    return np.bincount(np.clip(values, -most, most) + most, minlength=2 * most + 1).astype(np.float64)


def merged(expected: Floats, least: float) -> NDArray[np.intp]:
    """Return where bins start that are as narrow as they can be with an expectation of ``least`` each."""
    starts, held = [0], 0.0
    for at, more in enumerate(expected.tolist()):
        if held >= least:
            starts.append(at)
            held = 0.0
        held += more
    if held < least and len(starts) > 1:
        starts.pop()
    return np.array(starts, dtype=np.intp)


def chi_square(values: Integers, law: Floats, least: float) -> float:
    """Return the probability of a fit as bad as this one, or worse."""
    expected = law * len(values)
    starts = merged(expected, least)
    seen = np.add.reduceat(counted(values, len(law) // 2), starts)
    due = np.add.reduceat(expected, starts)
    return float(chdtrc(len(starts) - 1, float(((seen - due) ** 2 / due).sum())))


def faults(values: Integers, law: Floats) -> list[str]:
    """Return what does not fit: single values in bins of 25 or more, or the shape in some 60 bins."""
    chances = {
        "values": chi_square(values, law, 25),
        "shape": chi_square(values, law, max(25.0, len(values) / 60)),
    }
    return [name for name, chance in chances.items() if chance < ALARM]


def two_sample(ones: Integers, others: Integers) -> float:
    """Return the chi-square probability that both are of one law, in bins that hold 25 of the fewer."""
    most = int(max(np.abs(ones).max(), np.abs(others).max()))
    a, b = counted(ones, most), counted(others, most)
    starts = merged((a + b) * min(len(ones), len(others)) / (len(ones) + len(others)), 25)
    a, b = np.add.reduceat(a, starts), np.add.reduceat(b, starts)
    ratio = (len(others) / len(ones)) ** 0.5
    return float(chdtrc(len(starts) - 1, float(((a * ratio - b / ratio) ** 2 / (a + b)).sum())))


def unlikely(deviation: float) -> bool:
    """Tell whether a standard normal deviation is beyond the alarm, on either side."""
    return 2 * float(ndtr(-abs(deviation))) < ALARM


def unlikely_count(count: int, total: int, chance: float) -> bool:
    """Tell whether a binomial count is beyond the alarm, on either side."""
    at_most = float(bdtr(count, total, chance))
    at_least = float(bdtrc(count - 1, total, chance)) if count else 1.0
    return min(at_most, at_least) < ALARM / 2


# Gaussian values


@pytest.mark.parametrize("sigma", SIGMAS)
def test_a_million_gaussian_values_have_the_law(sigma: int) -> None:
    assert faults(gaussians(sigma), gaussian_law(Fraction(sigma**2))) == []


def test_the_law_of_zero_is_the_known_one() -> None:
    law = gaussian_law(Fraction(1))
    assert law[len(law) // 2] == pytest.approx(0.39894228, abs=5e-9)
    assert float(law.sum()) == pytest.approx(1, abs=1e-12)
    assert not unlikely_count(int(np.sum(gaussians(1) == 0)), MILLION, 0.39894228)


@pytest.mark.parametrize("sigma", SIGMAS)
def test_moments_are_those_of_the_law(sigma: int) -> None:
    law = gaussian_law(Fraction(sigma**2))
    support = np.arange(len(law)) - len(law) // 2
    for power in (1, 2, 4):
        terms, drawn = (support / sigma) ** power, (gaussians(sigma) / sigma) ** power
        mean = float((law * terms).sum())
        spread = float((law * (terms - mean) ** 2).sum() / MILLION) ** 0.5
        assert not unlikely((float(drawn.mean()) - mean) / spread), power


@pytest.mark.parametrize("sigma", SIGMAS)
def test_signs_are_fair_at_every_magnitude(sigma: int) -> None:
    values = gaussians(sigma)
    plus, minus = values[values > 0], -values[values < 0]
    assert not unlikely_count(len(plus), len(plus) + len(minus), 0.5)
    assert two_sample(plus, minus) >= ALARM


@pytest.mark.parametrize("sigma", SIGMAS)
@pytest.mark.parametrize("power", [1, 2])
def test_values_say_nothing_about_those_that_follow(sigma: int, power: int) -> None:
    """Neither their sign nor their size; also across the batches in which candidates are tried."""
    drawn = (gaussians(sigma) / sigma) ** power
    drawn = (drawn - drawn.mean()) / drawn.std()
    for lag in (1, 2, 3, CANDIDATES):
        products = drawn[lag:] * drawn[:-lag]
        assert not unlikely(float(products.mean()) * len(products) ** 0.5), lag


def test_words_of_the_system_give_the_law_too() -> None:
    assert faults(discrete_gaussian(3, 200_000, NoiseStream.fresh()), gaussian_law(Fraction(9))) == []


def test_the_greatest_sigma_has_the_law() -> None:
    values = discrete_gaussian(MOST_SIGMA, 400_000, keyed("greatest"))
    assert faults(values, gaussian_law(Fraction(MOST_SIGMA**2))) == []


def test_the_sampler_knows_no_floats() -> None:
    """No true division, no constant with a point, no function or type of numpy's that makes floats."""
    assert noise.__file__ is not None
    nodes = list(ast.walk(ast.parse(Path(noise.__file__).read_text(encoding="utf-8"))))
    assert not [node for node in nodes if isinstance(node, ast.Div)]
    constants = {type(node.value) for node in nodes if isinstance(node, ast.Constant)}
    assert constants <= {int, str, bool, type(None)}
    used = {
        node.attr
        for node in nodes
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "np"
    }
    assert used == {
        *("abs", "any", "arange", "empty", "flatnonzero", "ones", "where", "zeros"),
        *("bool_", "int64", "uint64"),
    }


# The tests can fail


def _of_law(variance: Fraction) -> Integers:
    law = gaussian_law(variance)
    return (
        np.random.default_rng(2).choice(np.arange(len(law)) - len(law) // 2, MILLION, p=law).astype(np.int64)
    )


@pytest.mark.parametrize(
    ("sigma", "values", "found"),
    [
        pytest.param(1, lambda: _of_law(Fraction(1)), [], id="another exact sampler"),
        pytest.param(1, lambda: _of_law(Fraction(101, 100) ** 2), ["values", "shape"], id="1 % wide at 1"),
        pytest.param(1, lambda: _of_law(Fraction(99, 100) ** 2), ["values", "shape"], id="1 % narrow at 1"),
        pytest.param(300, lambda: discrete_gaussian(303, MILLION, keyed("wide")), ["shape"], id="1 % at 300"),
        pytest.param(
            1000, lambda: discrete_gaussian(1010, MILLION, keyed("wide")), ["shape"], id="1 % at 1000"
        ),
        pytest.param(
            1,
            lambda: np.rint(np.random.default_rng(1).normal(0, 1, MILLION)).astype(np.int64),
            ["values", "shape"],
            id="rounded normals",
        ),
        pytest.param(300, lambda: gaussians(300) | 1, ["values", "shape"], id="odd values only"),
        pytest.param(
            300,
            lambda: np.where(gaussians(300) == 9, 0, gaussians(300)),
            ["values"],
            id="one value taken for another",
        ),
    ],
)
def test_the_statistics_see_another_law(sigma: int, values: Callable[[], Integers], found: list[str]) -> None:
    assert faults(values(), gaussian_law(Fraction(sigma**2))) == found


# The reference


@pytest.mark.parametrize("variance", [Fraction(7, 16), Fraction(5, 3), Fraction(1001, 10)])
def test_the_reference_has_the_law_at_any_rational_variance(variance: Fraction) -> None:
    values = np.array([noise_reference.discrete_gaussian(variance) for _ in range(10_000)])
    assert faults(values, gaussian_law(variance)) == []


@pytest.mark.parametrize(("sigma", "another"), [(1, 2), (30, 33)])
def test_reference_and_product_agree(sigma: int, another: int) -> None:
    slow = np.array([noise_reference.discrete_gaussian(Fraction(sigma**2)) for _ in range(20_000)])
    assert two_sample(slow, discrete_gaussian(sigma, 200_000, keyed("agree"))) >= ALARM
    assert two_sample(slow, discrete_gaussian(another, 200_000, keyed("agree"))) < ALARM


# Laplace values


@pytest.mark.parametrize("scale", [1, 2, 100])
def test_a_million_laplace_values_have_the_law(scale: int) -> None:
    values = discrete_laplace(scale, MILLION, keyed(f"laplace {scale}"))
    assert faults(values, laplace_law(scale)) == []


def test_the_greatest_scale_has_the_law() -> None:
    """Too wide for a table: P(|x| >= j scale / 4) is exp(-j / 4), but for less than 1e-12."""
    values = np.abs(discrete_laplace(MOST_SCALE, MILLION, keyed("greatest scale")))
    quarters = np.minimum(values // (MOST_SCALE // 4), 39)
    due = MILLION * -np.diff(np.append(np.exp(-np.arange(40) / 4), 0.0))
    seen = np.bincount(quarters, minlength=40)
    assert float(chdtrc(39, float(((seen - due) ** 2 / due).sum()))) >= ALARM
    assert int(values.max()) > 2**43


# Coins of exp(-a / b)


class Scripted(NoiseStream):
    """A stream that gives the integers it is told to and notes the bounds it was asked for."""

    def __init__(self, script: Sequence[int]) -> None:
        super().__init__(SecretBytes(bytes(32), "noise key"))
        self.script: Iterator[int] = iter(script)
        self.bounds: list[int] = []

    def below(self, bound: int, count: int) -> Integers:
        self.bounds.append(bound)
        values = np.array([next(self.script) for _ in range(count)], dtype=np.int64)
        assert np.all((values >= 0) & (values < bound))
        return values


@pytest.mark.parametrize(("a", "b"), [(1, 3), (5, 7), (999, 1000)])
def test_the_tree_of_a_coin_adds_up_to_exp(a: int, b: int) -> None:
    """Every path of up to 25 throws, weighed with exact fractions: true ones sum to exp(-a/b), but for 2 in 25!.

    Of k b integers, a win the k-th throw: the greatest of them, and the least that loses, stand for all.
    """
    true, reached = Fraction(0), Fraction(1)
    for throws in range(1, 26):
        stream = Scripted([a - 1] * (throws - 1) + [a])
        (coin,) = bernoulli_exp(np.array([a]), b, stream).tolist()
        assert stream.bounds == [k * b for k in range(1, throws + 1)]
        lost = 1 - Fraction(a, throws * b)
        true += coin * reached * lost
        reached *= 1 - lost
    series = sum(Fraction((-a) ** j, b**j * factorial(j)) for j in range(25))
    assert abs(true - series) <= Fraction(2, factorial(25))


@pytest.mark.parametrize(
    ("script", "coin", "bounds"),
    [
        ([0, 0, 0, 1, 0, 0, 1], True, [7, 1, 2, 3, 1, 2, 3]),
        ([0, 0, 0, 1, 0, 1], False, [7, 1, 2, 3, 1, 2]),
        ([0, 0, 1], False, [7, 1, 2]),
    ],
)
def test_a_coin_of_exp_of_minus_two_needs_two_of_exp_of_minus_one(
    script: list[int], coin: bool, bounds: list[int]
) -> None:
    """After exp(-0/7), which is true at once; a coin that fell is not thrown again."""
    stream = Scripted(script)
    assert bernoulli_exp(np.array([14]), 7, stream).tolist() == [coin]
    assert stream.bounds == bounds
    assert next(stream.script, None) is None


@pytest.mark.parametrize("b", [1, 2, 3, 113, 32_000_000])
def test_coins_fall_as_exp_says(b: int) -> None:
    """Ten chances from exp(-0) to exp(-9/2) side by side in one vector, a million coins."""
    numerators = np.arange(10) * b // 2
    coins = bernoulli_exp(np.tile(numerators, MILLION // 10), b, keyed(f"coins {b}")).reshape(-1, 10)
    chances = np.exp(-(numerators / b))
    certain = numerators == 0
    assert bool(np.all(coins[:, certain]))
    seen, chances = coins[:, ~certain].sum(axis=0), chances[~certain]
    spread = len(coins) * chances * (1 - chances)
    assert float(chdtrc(len(seen), float(((seen - len(coins) * chances) ** 2 / spread).sum()))) >= ALARM


# Uniform integers


class Worded(NoiseStream):
    """A stream of given words."""

    def __init__(self, words: Sequence[int]) -> None:
        super().__init__(SecretBytes(bytes(32), "noise key"))
        self.given: Iterator[int] = iter(words)

    def words(self, count: int) -> NDArray[np.uint64]:
        return np.array([next(self.given) for _ in range(count)], dtype=np.uint64)


@given(st.data())
def test_every_integer_is_the_image_of_equally_many_words(data: st.DataObject) -> None:
    """The first and the last word of an integer's range give it; words left over are drawn again."""
    bound = data.draw(st.one_of(st.integers(2, 100), st.integers(2, 2**63 - 1)))
    value = data.draw(st.one_of(st.just(bound - 1), st.integers(0, bound - 1)))
    share = 2**64 // bound
    words = [value * share, value * share + share - 1]
    assert Worded(words).below(bound, 2).tolist() == [value, value]
    if share * bound < 2**64:
        over = data.draw(st.one_of(st.just(share * bound), st.integers(share * bound, 2**64 - 1)))
        again = [over, words[0], over, 2**64 - 1, 2**64 - 1, 0, words[1]]
        assert Worded(again).below(bound, 3).tolist() == [0, value, value]


@settings(deadline=None)
@given(KEYS, st.integers(1, 2**63 - 1), st.integers(0, 40))
def test_integers_stay_below_their_bound(key: bytes, bound: int, count: int) -> None:
    values = NoiseStream(SecretBytes(key, "noise key")).below(bound, count)
    assert values.dtype == np.int64
    assert values.shape == (count,)
    assert all(0 <= value < bound for value in values.tolist())


@pytest.mark.parametrize("bound", [2, 3, 5, 7, 256, 1000])
def test_integers_are_uniform(bound: int) -> None:
    values = keyed(f"below {bound}").below(bound, 1 << 18)
    counts, due = np.bincount(values, minlength=bound), (1 << 18) / bound
    assert len(counts) == bound
    assert float(chdtrc(bound - 1, float(((counts - due) ** 2 / due).sum()))) >= ALARM


def test_a_bound_that_refuses_many_words_is_as_even() -> None:
    """A quarter of all words is left over; reduced instead of refused, the lower half would come twice as often."""
    counts = np.bincount(keyed("refused").below(3 << 61, 1 << 18) >> 61, minlength=3)
    due = (1 << 18) / 3
    assert float(chdtrc(2, float(((counts - due) ** 2 / due).sum()))) >= ALARM


# Where the words come from


def test_words_are_those_of_the_cipher_and_none_comes_twice() -> None:
    """Calls of any length go on in one keystream; after an odd one its other half block is left out."""
    key = sha256(b"words").digest()
    stream = NoiseStream(SecretBytes(key, "noise key"))
    drawn = [stream.words(count).tolist() for count in (3, 0, 4, 1, 1, 2)]
    words = slow_crypto.mask_words(key, 14)
    assert drawn == [words[0:3], [], words[4:8], words[8:9], words[10:11], words[12:14]]


def test_a_fresh_stream_asks_the_system_for_its_key(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int | None] = []

    def token_bytes(size: int | None = None) -> bytes:
        asked.append(size)
        return sha256(b"told").digest()

    monkeypatch.setattr(secrets, "token_bytes", token_bytes)
    drawn = discrete_gaussian(300, 100, NoiseStream.fresh())
    assert asked == [32]
    assert np.array_equal(drawn, discrete_gaussian(300, 100, keyed("told")))


def test_two_fresh_streams_differ_whatever_seed_numpy_was_given() -> None:
    drawn: list[list[int]] = []
    for _ in range(2):
        np.random.seed(1)
        drawn.append(discrete_gaussian(300, 100, NoiseStream.fresh()).tolist())
    assert drawn[0] != drawn[1]


def test_a_key_gives_its_own_draws_and_a_stream_does_not_repeat_them() -> None:
    streams = [keyed("same"), keyed("same"), keyed("other")]
    first, same, other = (discrete_gaussian(1000, 1000, stream) for stream in streams)
    assert np.array_equal(first, same)
    assert not np.array_equal(first, other)
    following = discrete_gaussian(1000, 1000, streams[0])
    assert not np.array_equal(first, following)
    assert np.array_equal(following, discrete_gaussian(1000, 1000, streams[1]))


def test_a_stream_shows_and_copies_nothing() -> None:
    stream = NoiseStream.fresh()
    assert repr(stream) == "<noise stream>"
    for copied in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="never pickled or copied"):
            copied(stream)


def test_a_wiped_stream_draws_nothing() -> None:
    key = SecretBytes(bytes(range(32)), "noise key")
    stream = NoiseStream(key)
    stream.wipe()
    assert len(key) == 0
    with pytest.raises(ValueError, match="this noise key has been wiped"):
        discrete_gaussian(1, 1, stream)


# Sizes and refusals


@pytest.mark.parametrize("draw", [discrete_gaussian, discrete_laplace])
@pytest.mark.parametrize("size", [0, 1, 2, 1000, CANDIDATES + 1])
def test_as_many_values_as_asked_for(draw: Callable[[int, int, NoiseStream], Integers], size: int) -> None:
    values = draw(5, size, keyed("sizes"))
    assert values.shape == (size,)
    assert values.dtype == np.int64


@pytest.mark.parametrize(
    ("draw", "most"),
    [(discrete_gaussian, MOST_SIGMA), (discrete_laplace, MOST_SCALE)],
    ids=["sigma", "scale"],
)
def test_a_width_outside_the_headroom_is_refused(
    draw: Callable[[object, int, NoiseStream], Integers], most: int
) -> None:
    for outside in (0, -1, most + 1, 2**63, 10**30):
        with pytest.raises(ValueError, match=f"an integer from 1 to {most}, got {outside}"):
            draw(outside, 1, keyed("refused"))
    for no_integer in (1.0, 300.5, "1", Fraction(1)):
        with pytest.raises(TypeError):
            draw(no_integer, 1, keyed("refused"))
    assert draw(np.int64(most), 1, keyed("taken")).shape == (1,)


@pytest.mark.parametrize("bound", [0, -1, 2**63, 2**64])
def test_a_bound_that_int64_cannot_hold_is_refused(bound: int) -> None:
    with pytest.raises(ValueError, match=r"a bound is an integer from 1 to"):
        keyed("refused").below(bound, 1)


@pytest.mark.parametrize(
    ("numerators", "denominator", "message"),
    [
        (np.array([1]), 0, "a denominator is an integer from 1"),
        (np.array([1]), MOST_SCALE + 1, "a denominator is an integer from 1"),
        (np.array([0, -1]), 1, "int64 and not negative"),
        (np.array([0.5]), 1, "int64 and not negative"),
        (np.array([1], dtype=np.uint64), 1, "int64 and not negative"),
    ],
)
def test_a_coin_that_is_no_probability_is_refused(
    numerators: Integers, denominator: int, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        bernoulli_exp(numerators, denominator, keyed("refused"))


def test_the_greatest_numerators_stay_within_int64() -> None:
    """exp(-2**23) never happens, and finding that out does not wrap or take 2**23 rounds."""
    numerators = np.array([2**63 - 1, 2**63 - 1, 0])
    assert bernoulli_exp(numerators, MOST_SCALE, keyed("wide")).tolist() == [False, False, True]


@pytest.mark.parametrize("size", [0, 16, 31, 33])
def test_a_key_of_another_length_is_refused(size: int) -> None:
    with pytest.raises(ValueError, match=f"32 bytes, got {size}"):
        NoiseStream(SecretBytes(bytes(size), "noise key"))


def test_a_negative_size_is_refused() -> None:
    with pytest.raises(ValueError, match="negative"):
        discrete_gaussian(1, -1, keyed("refused"))
