"""Commitments bind: whatever is said differently gives another commitment."""

import hashlib
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cohortsum.crypto.commitments import SEED, SHARE, check, commit_seed, commit_share
from cohortsum.crypto.errors import AuthenticationError, ShareError
from cohortsum.crypto.field import PRIME

CONTEXT = hashlib.sha256(b"context").digest()
CONTEXTS = st.binary(min_size=32, max_size=32) | st.just(CONTEXT)
ELEMENTS = st.integers(0, PRIME - 1) | st.sampled_from([0, 1, PRIME - 1])
INDICES = st.integers(0, 3)
SEEDS = st.tuples(CONTEXTS, st.sampled_from(["gate", "data"]), INDICES, ELEMENTS)
SHARES = st.tuples(CONTEXTS, st.sampled_from(["mask", "gate", "data"]), INDICES, INDICES, ELEMENTS)


def by_hand(*fields: bytes) -> bytes:
    return hashlib.sha256(b"".join(struct.pack(">Q", len(text)) + text for text in fields)).digest()


@given(SEEDS)
def test_a_seed_commitment_covers_label_context_part_owner_and_seed(
    said: tuple[bytes, str, int, int],
) -> None:
    context, part, owner, seed = said
    fields = (context, part.encode(), struct.pack(">Q", owner), seed.to_bytes(32, "little"))
    assert commit_seed(*said) == by_hand(b"cohortsum/v1/commit/seed", *fields)


@given(SHARES)
def test_a_share_commitment_covers_label_context_kind_owner_holder_and_share(
    said: tuple[bytes, str, int, int, int],
) -> None:
    context, kind, owner, holder, share = said
    ends = struct.pack(">Q", owner), struct.pack(">Q", holder)
    fields = (context, kind.encode(), *ends, share.to_bytes(32, "little"))
    assert commit_share(*said) == by_hand(b"cohortsum/v1/commit/share", *fields)


@given(SEEDS, SEEDS, SHARES, SHARES)
def test_commitments_are_equal_exactly_if_everything_is(
    seed: tuple[bytes, str, int, int],
    other_seed: tuple[bytes, str, int, int],
    share: tuple[bytes, str, int, int, int],
    other_share: tuple[bytes, str, int, int, int],
) -> None:
    assert (commit_seed(*seed) == commit_seed(*other_seed)) == (seed == other_seed)
    assert (commit_share(*share) == commit_share(*other_share)) == (share == other_share)
    assert commit_seed(*seed) != commit_share(*share)


def test_any_flipped_bit_of_a_value_is_noticed() -> None:
    honest = commit_seed(CONTEXT, "gate", 1, 0)
    assert len({honest, *(commit_seed(CONTEXT, "gate", 1, 1 << bit) for bit in range(255))}) == 256
    share = commit_share(CONTEXT, "gate", 1, 2, 0)
    assert len({share, *(commit_share(CONTEXT, "gate", 1, 2, 1 << bit) for bit in range(255))}) == 256


def test_owner_and_holder_cannot_trade_places() -> None:
    assert commit_share(CONTEXT, "gate", 1, 2, 5) != commit_share(CONTEXT, "gate", 2, 1, 5)
    assert SEED != SHARE


@pytest.mark.parametrize("value", [-1, PRIME, 2**256])
def test_only_elements_of_the_field_are_committed_to(value: int) -> None:
    """A seed and the same seed plus p would be two openings of one element."""
    with pytest.raises(ShareError):
        commit_seed(CONTEXT, "gate", 1, value)
    with pytest.raises(ShareError):
        commit_share(CONTEXT, "gate", 1, 2, value)


def test_check_takes_the_same_bytes_and_nothing_else() -> None:
    honest = commit_seed(CONTEXT, "gate", 1, 7)
    check(honest, commit_seed(CONTEXT, "gate", 1, 7))
    value = int.from_bytes(honest, "big")
    others = [(value ^ 1 << bit).to_bytes(32, "big") for bit in range(256)]
    for other in [*others, b"", honest[:-1], honest + b"\0"]:
        with pytest.raises(AuthenticationError, match=r"^authentication failed$"):
            check(honest, other)
