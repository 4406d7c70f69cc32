"""What is planted in the tables of a consortium, and every form in which it could come out again.

Ids are words and values have five decimals: neither looks like anything that the last scrubber before a log knows, so that a
caller who writes one is found. Values lie above 60, so that no seconds of a time stamp are like them.
"""

import base64
import hashlib
import re
import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from math import log2

import numpy as np

from tests.edges.harness import people_at

ID_WORD = "quokka"
"""Every id begins with it."""
CODES = ("vermilion kestrel", "numbat nine lives")
"""Free text of people, where a level, a number or a column of no interest should be."""
LETTERS = "bcdfghjklmnpqrstvwxz"
MAX_PARTICIPANTS = 100_000
SURE = 8
"""A text of so many signs stands in nothing else by chance."""


@dataclass(frozen=True, slots=True)
class Person:
    """One row: an id, a level, and two values with five decimals that occur nowhere else."""

    id: str
    dx: str
    age: float
    thick: float


@dataclass(frozen=True, slots=True)
class Needle:
    """Bytes that must be nowhere; ``alone``: only where no letter, digit, dot or sign stands beside them."""

    label: str
    form: bytes
    alone: bool = False


def person(site: int, row: int) -> Person:
    """Return who stands in a row; no two have a value in common, and an age is no rounded thickness."""
    number = 97 * site + row
    word = "".join(LETTERS[number // 20**place % 20] for place in range(3))
    age = 61 + number % 38 + (31_417 + 193 * number) % 89_989 / 100_000
    thick = 1 + number % 3 + (27_183 + 331 * number) % 89_989 / 100_000
    return Person(f"{ID_WORD}{word}", ("control", "case")[row % 2], round(age, 5), round(thick, 5))


def people(site: int) -> list[Person]:
    """Return everybody of a site."""
    return [person(site, row) for row in range(people_at(site))]


def table(some: Iterable[Person]) -> str:
    """Return a site's table; a further outcome, which the second and third person lack, and a column that no study asks for."""
    rows = (
        f"{one.id},{one.dx},{one.age},{one.thick},{'' if place in (1, 2) else one.thick},{CODES[0]}"
        for place, one in enumerate(some)
    )
    return "\n".join(("person_id,dx,age,thick,thin,remark", *rows)) + "\n"


def text_needles(label: str, text: str) -> Iterator[Needle]:
    """Return a text as such, in capitals, in UTF-16, in hex, in Base64, and under hashes without a key."""
    raw = text.encode()
    yield Needle(f"{label} in UTF-8", raw)
    yield Needle(f"{label} in capitals", text.upper().encode())
    yield Needle(f"{label} in UTF-16", text.encode("utf-16-le"))
    yield from _encoded(label, raw)
    for name in ("md5", "sha1", "sha256", "blake2b"):
        hashed = hashlib.new(name, raw).digest()
        yield Needle(f"{name} of {label}", hashed[:16])
        yield Needle(f"{name} of {label} in hex", hashed[:16].hex().encode())


def value_needles(label: str, value: float, lower: float, upper: float) -> Iterator[Needle]:
    """Return a value as text with two to six decimals and more, and as a number alone, given and on the study's grid."""
    texts = {f"{value:.{places}f}" for places in range(2, 7)} | {repr(value), f"{value:.4e}", f"{value:.5e}"}
    for text in sorted(texts):  # a short one may be a part of any number
        yield Needle(f"{label} as text of {len(text)}", text.encode(), alone=len(text) < SURE)
    yield Needle(f"{label} as hex float", value.hex().encode())
    middle, half = (lower + upper) / 2, (upper - lower) / 2
    normalised = (value - middle) / half
    grid = round(normalised * 2.0 ** (62 - int(log2(MAX_PARTICIPANTS) + 1)))
    yield Needle(f"{label} on the grid as text", str(grid).encode())
    for order, name in (("<", "little"), (">", "big")):
        yield Needle(f"{label} as float64, {name} endian", struct.pack(f"{order}d", value))
        yield Needle(f"{label} normalised as float64, {name} endian", struct.pack(f"{order}d", normalised))
        yield Needle(f"{label} on the grid, {name} endian", struct.pack(f"{order}q", grid))
        yield Needle(f"{label} as float64 in hex, {name}", struct.pack(f"{order}d", value).hex().encode())


def pair_needles(label: str, first: float, second: float) -> Iterator[Needle]:
    """Return two neighbours of a row or a column as float32 and in hundredths as int32: alone they are too short to be sure."""
    both = np.array([first, second])
    for order, name in (("<", "little"), (">", "big")):
        yield Needle(f"{label} as float32, {name} endian", both.astype(f"{order}f4").tobytes())
        yield Needle(
            f"{label} as int32, {name} endian", np.rint(both * 100_000).astype(f"{order}i4").tobytes()
        )


def seed_needles(label: str, seed: bytes) -> Iterator[Needle]:
    """Return a secret as such, in hex, in Base64, as a whole number, and as Python shows bytes."""
    yield Needle(f"{label} raw", seed)
    yield Needle(f"{label} raw, reversed", seed[::-1])
    yield from _encoded(label, seed)
    yield Needle(f"{label} as Python shows it", repr(seed)[2:-1].encode())
    for order in ("little", "big"):
        number = int.from_bytes(seed, "little" if order == "little" else "big")
        yield Needle(f"{label} as a number, {order} endian", str(number).encode())
        yield Needle(f"{label} as a hex number, {order} endian", f"{number:x}".encode())


def needles_of(sites: Iterable[int]) -> list[Needle]:
    """Return the needles of what is planted at some sites: two people of each in every form, the ids of all, and free text."""
    found = [*text_needles("an id", ID_WORD)][:3]
    for code in CODES:
        found += text_needles("free text", code)
    for site in sites:
        everybody = people(site)
        for one in (everybody[0], everybody[-1]):
            found += text_needles(f"an id of site {site}", one.id)
            found += value_needles(f"an age of site {site}", one.age, 0, 100)
            found += value_needles(f"a thickness of site {site}", one.thick, 0, 5)
            found += pair_needles(f"a row of site {site}", one.age, one.thick)
        for one, other in pairwise(everybody[:3]):
            found += pair_needles(f"a column of site {site}", one.age, other.age)
            found += pair_needles(f"a column of site {site}", one.thick, other.thick)
    return found


def _encoded(label: str, raw: bytes) -> Iterator[Needle]:
    """Return hex, and the part of Base64 that does not depend on what stands around it, for its three places."""
    yield Needle(f"{label} in hex", raw.hex().encode())
    yield Needle(f"{label} in hex capitals", raw.hex().upper().encode())
    for shift in range(3):
        held = base64.b64encode(bytes(shift) + raw)
        whole = (shift + len(raw)) // 3 * 4
        inner = held[4 if shift else 0 : whole]
        yield Needle(f"{label} in Base64 at {shift}", inner)
        urlsafe = inner.translate(bytes.maketrans(b"+/", b"-_"))
        if urlsafe != inner:
            yield Needle(f"{label} in URL-safe Base64 at {shift}", urlsafe)


def pattern(needle: Needle) -> re.Pattern[bytes]:
    """Return what finds a needle that stands alone."""
    return re.compile(rb"(?<![\w.+-])[+-]?" + re.escape(needle.form) + rb"(?![\w.])")
