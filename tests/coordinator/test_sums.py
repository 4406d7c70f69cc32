"""Opened sums as bytes: what was packed comes back, and damage is a StoreError, never another number."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cohortsum.crypto.errors import StoreError
from cohortsum.study.sums import HEAD_BYTES, Integers, pack, unpack

INT64 = st.integers(-(2**63), 2**63 - 1)
SUMS = st.dictionaries(st.text(max_size=8), st.lists(INT64, max_size=5), max_size=4)


def arrays(held: dict[str, list[int]]) -> dict[str, Integers]:
    return {name: np.array(values, np.int64) for name, values in held.items()}


@given(SUMS)
def test_what_was_packed_comes_back(held: dict[str, list[int]]) -> None:
    found = unpack(pack(arrays(held)))
    assert {name: values.tolist() for name, values in found.items()} == held
    assert list(found) == list(held)


@given(SUMS, st.data())
def test_a_cut_is_a_store_error(held: dict[str, list[int]], data: st.DataObject) -> None:
    packed = pack(arrays(held))
    cut = data.draw(st.integers(0, len(packed) - 1))
    with pytest.raises(StoreError, match="restore the store"):
        unpack(packed[:cut])


@given(SUMS, st.binary(min_size=1, max_size=24))
def test_more_bytes_are_a_store_error(held: dict[str, list[int]], more: bytes) -> None:
    with pytest.raises(StoreError):
        unpack(pack(arrays(held)) + more)


@given(SUMS, st.data())
def test_a_damaged_byte_is_a_store_error(held: dict[str, list[int]], data: st.DataObject) -> None:
    packed = bytearray(pack(arrays(held)))
    packed[data.draw(st.integers(0, len(packed) - 1))] ^= data.draw(st.integers(1, 255))
    with pytest.raises(StoreError):
        unpack(bytes(packed))


@pytest.mark.parametrize(
    "data",
    [b"", b"\0" * 7, b"\0" * 8, b"not sums at all", bytes(8) + b"[]"],
    ids=["nothing", "short head", "empty head", "other bytes", "a head of no length"],
)
def test_other_bytes_are_a_store_error(data: bytes) -> None:
    with pytest.raises(StoreError):
        unpack(data)


@pytest.mark.parametrize("head", ["[1, 2]", '[["a"]]', '[["a", null]]', '[["a", "b"]]', '[["a", 2]]'])
def test_a_list_of_another_form_is_a_store_error(head: str) -> None:
    assert json.loads(head)
    data = len(head).to_bytes(HEAD_BYTES, "little") + head.encode() + bytes(8)
    with pytest.raises(StoreError):
        unpack(data)
