"""The chain of an audit log: whatever is done to a line is noticed and named, and a crash leaves something that goes on."""

import hashlib
import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cohortsum.crypto.errors import StoreError
from cohortsum.protocol.audit import MAX_LINE, ZERO, Deed, DeedKind, Head, Line, follow, line_digest, settle
from cohortsum.protocol.audit_check import Examined, Wrong, examine

AT = datetime(2026, 11, 30, 12, 0, 0, 123456, tzinfo=UTC)
DIGEST = st.binary(min_size=32, max_size=32)
DEEDS = st.builds(
    Deed,
    st.sampled_from(DeedKind),
    study=DIGEST | st.just(b""),
    context=DIGEST | st.just(b""),
    digest=DIGEST | st.just(b""),
    by=st.text(max_size=80),
    detail=st.text(max_size=80),
)


def log_of(count: int, head: Head | None = None) -> tuple[list[bytes], Head]:
    """Return a log of so many lines, one by one, and its head."""
    lines: list[bytes] = []
    head = head or Head()
    for number in range(count):
        kind = DeedKind.LOG_BEGUN if head.number == 0 else DeedKind.INPUT_MASKED
        deed = Deed(kind, bytes([number]) * 32, b"c" * 32, bytes([number, 1]) * 16, by=f"site{number}")
        line, head = follow(head, [deed], AT + timedelta(seconds=number))
        lines.append(line)
    return lines, head


LINES, HEAD = log_of(7)


def found(lines: Sequence[bytes], head: Head = HEAD) -> tuple[int, Wrong] | None:
    fault = examine(b"".join(lines), head).fault
    return None if fault is None else (fault.number, fault.wrong)


def settled(data: bytes, head: Head) -> tuple[Head, list[DeedKind]]:
    held = settle(head, len(data), lambda start, length: data[start : start + length])
    return held.head, [deed.kind for deed in held.notes]


def test_a_line_holds_the_hash_of_the_line_before_it_line_end_included() -> None:
    assert json.loads(LINES[0])["previous"] == ZERO.hex()
    for before, after in pairwise(LINES):
        assert json.loads(after)["previous"] == hashlib.sha256(before).hexdigest()


@given(DEEDS, st.integers(1, 2**63))
def test_a_line_is_read_as_it_was_written_and_holds_one_short_line_of_ascii(deed: Deed, number: int) -> None:
    data = Line(number, AT, deed, b"p" * 32).to_bytes()
    line = Line.from_bytes(data)
    assert line is not None
    assert line.to_bytes() == data
    assert (line.deed.kind, line.deed.digest, line.number) == (deed.kind, deed.digest, number)
    assert data.isascii()
    assert data.count(b"\n") == 1
    assert len(data) <= MAX_LINE


@given(st.binary(max_size=200) | st.text().map(lambda text: json.dumps([text]).encode()))
def test_anything_else_is_no_line(data: bytes) -> None:
    assert Line.from_bytes(data) is None


@pytest.mark.parametrize(
    "change",
    [
        (b'"number":3', b'"number":true'),
        (b'"number":3', b'"number":3.0'),
        (b'"number":3', b'"number": 3'),
        (b'"by":"site2"', b'"by":["site2"]'),
        (b'"by":"site2"', b'"by":""'),
        (b'"by":"site2"', b'"by":"site2","by":"site2"'),
        (b'"by":"site2"', b'"by":"site2","people":12'),
        (b"+00:00", b""),
        (b"input masked", b"people counted"),
        (b"}", b"[" * 900),
    ],
)
def test_a_line_has_one_form(change: tuple[bytes, bytes]) -> None:
    assert change[0] in LINES[2]
    assert Line.from_bytes(LINES[2].replace(*change)) is None


def test_free_text_does_not_get_into_a_line() -> None:
    data = Line(1, AT, Deed(DeedKind.STARTED, by='a"b\nsub-01/x=\u200b', detail="ü" * 99), ZERO).to_bytes()
    held = json.loads(data)
    assert held["by"] == "a_b_sub-01_x__"
    assert held["detail"] == "_" * 64


def test_a_log_as_it_was_written_holds_together() -> None:
    assert found(LINES) is None
    held = examine(b"".join(LINES), HEAD)
    assert [line.number for line in held.lines] == list(range(1, 8))
    assert (held.unconfirmed, held.torn) == (0, 0)
    assert held.holds(line_digest(LINES[3]))
    assert examine(b"", Head()) == Examined((), (), None, 0, 0)


@pytest.mark.parametrize("place", range(7))
def test_any_flipped_bit_of_any_line_is_noticed_and_the_line_is_named(place: int) -> None:
    for byte in range(len(LINES[place])):
        for bit in range(8):
            other = bytearray(LINES[place])
            other[byte] ^= 1 << bit
            assert found([*LINES[:place], bytes(other), *LINES[place + 1 :]]) == (place + 1, Wrong.ALTERED)


@given(st.data())
def test_any_other_content_of_a_line_is_noticed_and_the_line_is_named(data: st.DataObject) -> None:
    place = data.draw(st.integers(0, 6))
    other = Line(place + 1, AT, data.draw(DEEDS), _previous(place)).to_bytes()
    if other != LINES[place]:
        assert found([*LINES[:place], other, *LINES[place + 1 :]]) == (place + 1, Wrong.ALTERED)


def _previous(place: int) -> bytes:
    return ZERO if place == 0 else line_digest(LINES[place - 1])


@given(st.integers(0, 5), st.integers(1, 6))
def test_dropped_lines_are_noticed_and_the_first_is_named(place: int, count: int) -> None:
    left = LINES[:place] + LINES[place + count :]
    cut = place + count >= len(LINES)
    assert found(left) == (place + 1, Wrong.CUT if cut else Wrong.MISSING)


@given(st.permutations(range(7)))
def test_lines_in_another_order_are_noticed_and_the_first_is_named(order: list[int]) -> None:
    if order != sorted(order):
        first = next(place for place, held in enumerate(order) if held != place)
        assert found([LINES[place] for place in order]) == (first + 1, Wrong.OUT_OF_ORDER)


@given(st.integers(0, 6), st.integers(0, 7))
def test_a_line_that_is_there_twice_is_noticed(place: int, again: int) -> None:
    fault = found([*LINES[:again], LINES[place], *LINES[again:]])
    assert fault is not None
    assert fault[1] is Wrong.OUT_OF_ORDER


def test_a_log_that_was_cut_anywhere_is_noticed_and_takes_no_further_line() -> None:
    whole = b"".join(LINES)
    for size in range(len(whole)):
        fault = found([whole[:size]])
        assert fault == (whole[:size].count(b"\n") + 1, Wrong.CUT)
        with pytest.raises(StoreError, match="ends before line 7"):
            settled(whole[:size], HEAD)


@given(st.integers(0, 6), DEEDS, st.integers(0, 9))
def test_a_story_written_anew_from_some_line_on_does_not_end_where_the_database_says(
    place: int, deed: Deed, more: int
) -> None:
    """Whoever may write the file alone can make every line follow, but not the head."""
    _, head = log_of(place)
    other, _ = follow(head, [deed, *[Deed(DeedKind.STARTED)] * more], AT)
    if not other.startswith(b"".join(LINES[place:])):
        assert found([*LINES[:place], other]) is not None


def test_whoever_writes_file_and_database_is_found_out_by_a_head_that_was_noted_elsewhere() -> None:
    other, head = follow(Head(), [Deed(DeedKind.LOG_BEGUN), *[Deed(DeedKind.STARTED)] * 6], AT)
    assert found([other], head) is None
    assert not examine(other, head).holds(HEAD.digest)


@given(st.lists(DEEDS, max_size=3), st.integers(0, 2000), st.lists(DEEDS, min_size=1, max_size=2))
def test_whatever_a_crash_leaves_behind_the_head_the_chain_goes_on_and_says_so(
    late: list[Deed], cut: int, then: list[Deed]
) -> None:
    surplus, _ = follow(HEAD, late, AT)
    data = b"".join(LINES) + surplus[: len(surplus) - cut if cut < len(surplus) else 0]
    after, notes = settled(data, HEAD)
    left = data.count(b"\n") - 7
    assert after.number == 7 + left
    assert notes == ([DeedKind.LOG_REPAIRED] if len(data) > HEAD.size else [])
    held = settle(HEAD, len(data), lambda start, length: data[start : start + length])
    lines, head = follow(held.head, (*held.notes, *then), AT)
    whole = data[: held.head.size] + lines
    assert examine(whole, head).fault is None
    assert examine(whole, head).unconfirmed == 0
    before = examine(data, HEAD)
    assert (before.fault, before.unconfirmed) == (None, left)
    assert before.torn == len(data) - held.head.size


def test_what_does_not_follow_is_not_kept_and_stops_everything() -> None:
    whole = b"".join(LINES)
    for tail in (LINES[3], b"{}\n", b"\n", b"\0" * 100 + b"\n"):
        with pytest.raises(StoreError, match="behind line 7 does not follow"):
            settled(whole + tail, HEAD)
        assert found([whole, tail]) is not None


def test_a_last_line_that_is_another_one_stops_everything() -> None:
    other = LINES[6].replace(b"site6", b"site5")
    with pytest.raises(StoreError, match="line 7 is another one"):
        settled(b"".join([*LINES[:6], other]), HEAD)


def test_a_database_that_was_lost_takes_a_whole_log_up_again() -> None:
    assert settled(b"".join(LINES), Head()) == (HEAD, [DeedKind.LOG_REPAIRED])
    assert examine(b"".join(LINES), Head()).unconfirmed == 7


def test_a_database_that_was_set_back_takes_up_the_lines_it_does_not_know() -> None:
    _, earlier = log_of(4)
    assert settled(b"".join(LINES), earlier) == (HEAD, [DeedKind.LOG_REPAIRED])
    assert examine(b"".join(LINES), earlier).unconfirmed == 3


def test_a_new_file_goes_on_with_the_chain_and_may_not_lose_its_first_lines() -> None:
    fresh = HEAD.renewed()
    assert settled(b"", fresh) == (fresh, [DeedKind.LOG_RENEWED])
    first, head = follow(fresh, [Deed(DeedKind.LOG_RENEWED)], AT)
    second, head = follow(head, [Deed(DeedKind.STARTED)], AT)
    third, last = follow(head, [Deed(DeedKind.LOG_RENEWED)], AT)  # as if it had been renewed again
    assert examine(first + second, head).fault is None
    assert (head.number, head.first) == (9, 8)
    assert found([second], head) == (1, Wrong.MISSING)
    assert found([third], last) == (8, Wrong.MISSING)
    assert found([*LINES, first, second], head) == (8, Wrong.OUT_OF_ORDER)
    assert settled(first + second, Head()) == (head, [DeedKind.LOG_REPAIRED])  # the database was lost


@given(st.text())
def test_a_head_is_kept_as_text(text: str) -> None:
    assert Head.from_text(HEAD.to_text()) == HEAD
    assert Head.from_text(None) == Head()
    if len(text.split(" ")) != 4:
        with pytest.raises(StoreError, match="head of the audit log"):
            Head.from_text(text)
