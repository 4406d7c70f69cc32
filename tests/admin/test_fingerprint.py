"""Words and QR codes: one digest, one phrase, and no two words that sound or look alike."""

import hashlib
import itertools
import xml.etree.ElementTree as ElementTree

import pytest
import segno
from hypothesis import given
from hypothesis import strategies as st

from cohortsum.crypto.errors import ConfigurationError
from cohortsum.crypto.fingerprint import (
    WORDS,
    key_words,
    parse_words,
    phrase,
    qr_svg,
    qr_text,
    roster_words,
)

keys = st.binary(min_size=32, max_size=32)


def edits(one: str, other: str) -> int:
    row = list(range(len(other) + 1))
    for place, letter in enumerate(one, start=1):
        next_row = [place]
        for at, against in enumerate(other, start=1):
            next_row.append(min(row[at] + 1, next_row[-1] + 1, row[at - 1] + (letter != against)))
        row = next_row
    return row[-1]


def test_the_list_holds_256_plain_words_in_order() -> None:
    assert len(WORDS) == 256
    assert list(WORDS) == sorted(WORDS)
    assert all(word.isascii() and word.isalpha() and word.islower() and 4 <= len(word) <= 9 for word in WORDS)


def test_no_two_words_share_three_letters_or_are_two_slips_apart() -> None:
    assert len({word[:3] for word in WORDS}) == 256
    assert min(edits(one, other) for one, other in itertools.combinations(WORDS, 2)) >= 3


def test_the_list_never_changes() -> None:
    listed = hashlib.sha256(" ".join(WORDS).encode()).hexdigest()
    assert listed == "8d2912b476932c66bca9bc51d0f5e23151e4850a0b263f8f63548cc0f729780c"


def test_words_are_the_first_96_bits_of_a_domain_separated_digest() -> None:
    domain, key = b"cohortsum/v1/fingerprint/key", bytes(range(32))
    framed = b"".join(len(part).to_bytes(8, "big") + part for part in (domain, key))
    assert key_words(key) == tuple(WORDS[byte] for byte in hashlib.sha256(framed).digest()[:12])


@given(keys, st.sampled_from([" ", ", ", "-", "\n", " / "]))
def test_typed_words_come_back_whatever_stands_between_them(key: bytes, between: str) -> None:
    words = key_words(key)
    assert parse_words(between.join(words).upper()) == words
    assert parse_words(phrase(words)) == words


@given(keys, keys, keys)
def test_words_of_a_roster_depend_on_operator_and_roster(
    operator: bytes, roster: bytes, other: bytes
) -> None:
    if other not in (operator, roster):
        assert (
            len({roster_words(operator, roster), roster_words(other, roster), roster_words(operator, other)})
            == 3
        )
    assert roster_words(operator, roster) != key_words(operator)


def test_a_word_outside_the_list_is_named_with_its_place_and_the_nearest_one() -> None:
    words = list(key_words(bytes(32)))
    words[4] = "jagwar"
    with pytest.raises(ConfigurationError, match=r"word 5 \(jagwar\).*did they say jaguar\?"):
        parse_words(" ".join(words))


@pytest.mark.parametrize("count", [0, 11, 13])
def test_another_number_of_words_is_refused(count: int) -> None:
    with pytest.raises(ConfigurationError, match=f"expected 12 words, got {count}"):
        parse_words(" ".join(["acorn"] * count))


def test_the_terminal_shows_exactly_the_modules_of_the_code() -> None:
    content = "imaging roster 3\n" + phrase(key_words(bytes(32)))
    lines = qr_text(content).rstrip("\n").splitlines()
    # a half block stands for two modules, one above the other; light ones are drawn
    drawn = {" ": (0, 0), "▀": (1, 0), "▄": (0, 1), "█": (1, 1)}
    rows: list[list[int]] = []
    for line in lines:
        pairs = [drawn[sign] for sign in line]
        rows += [[upper for upper, _ in pairs], [lower for _, lower in pairs]]
    matrix = segno.make_qr(content, error="m").matrix
    shown = [row[2 : 2 + len(matrix)] for row in rows[2 : 2 + len(matrix)]]
    assert shown == [[1 - module for module in row] for row in matrix]


def test_the_svg_is_an_image_and_holds_no_script() -> None:
    root = ElementTree.fromstring(qr_svg("imaging roster 3"))  # noqa: S314 - made here
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    assert {element.tag.rpartition("}")[2] for element in root.iter()} <= {"svg", "g", "path"}
