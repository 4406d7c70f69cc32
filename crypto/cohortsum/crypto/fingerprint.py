"""Fingerprints that people can compare by voice or by camera.

A key or a roster is 32 bytes; nobody reads those aloud without slips. Twelve words of a list of 256 carry the first 96 bits of
a digest: whoever wants another key or roster behind the same words needs about 2**96 trials (a second preimage). An operator
who makes both rosters needs 2**48 only, so words compare what an honest operator signed; programs compare whole digests.
The words differ from one another in their first three letters and by at least three edits. A QR code holds the same words.

Digests of studies and of items of a release have a shorter form of letters and digits (`short_form`): they are compared often, and
programs compare the whole digest as well.
"""

import difflib
import io
import re

from cohortsum.crypto.encoding import digest
from cohortsum.crypto.errors import ConfigurationError

KEY = "cohortsum/v1/fingerprint/key"
ROSTER = "cohortsum/v1/fingerprint/roster"
COUNT = 12
"""Words of a fingerprint, eight bits each."""

Words = tuple[str, ...]

WORDS: Words = tuple(
    """
    acorn admiral airport album almond alpine amber anchor apple apron atlas autumn avocado badge bakery
    bamboo banjo basket bazaar beacon beetle bicycle biscuit bonnet branch breeze bubble buffalo butter
    cabbage cactus camel candle carpet cedar cello chalk cherry chimney cinema circle clover cobalt
    coconut coffee copper cotton crayon cricket crystal cucumber cupboard curtain cymbal dancer denim
    desert diamond dolphin domino donkey drizzle dynamo eagle echo elbow eleven emerald engine envelope
    escape estuary evening fabric falcon feather fiddle fjord flamingo flute forest fossil fountain
    freckle galaxy garden geyser ginger giraffe glacier goblet gondola granite guitar gymnast harbor
    helmet hickory horizon hyacinth hydrant iceberg igloo indigo insect invoice iodine island item ivory
    jaguar jasmine jersey jewel jigsaw joyful jungle kayak kernel keyboard kingdom kiosk kiwi koala
    ladder lagoon lantern lavender lemon leopard library lilac lizard llama lobster locket lupin lyric
    magnet marble meadow mimosa mirror mitten monsoon mosaic muffin mustard napkin narwhal nectar nephew
    nickel noodle north nugget nutmeg oasis obelisk oboe ocean octopus olive onion opal orange orbit
    orchid oregano osprey outfit oxygen palace panda parrot pelican piano pillow planet poetry potato
    prairie pumpkin puzzle pyramid quartz quiver rabbit radish raven reef rhubarb ribbon robin rubber
    rustic saffron sesame sherbet shovel silver skate sketch slipper smile snowman spider spruce squid
    stadium sugar summer sunset swallow syrup teapot temple thistle thunder tractor trumpet tulip tundra
    turtle tuxedo twilight umbrella unicorn upward utensil vacuum valley vanilla veranda vessel village
    violin volcano voyage vulture waffle walnut water whisper window wombat wrinkle xylophone yacht yeast
    yogurt yonder zebra zenith zigzag zodiac
    """.split()  # noqa: SIM905 - 256 literals would hide the words
)
"""The list: place in it is the byte that a word stands for. Never change it: fingerprints are written down."""


ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
"""Crockford's base 32: no I, L, O, U."""
SHORT_BITS = 75


def short_form(value: bytes) -> str:
    """Return the first 75 bits of a digest for reading aloud, as in ``7KQ-M2X-0TA-9FD-W3C``."""
    bits = int.from_bytes(value, "big") >> (len(value) * 8 - SHORT_BITS)
    letters = [ALPHABET[(bits >> shift) & 31] for shift in range(SHORT_BITS - 5, -1, -5)]
    return "-".join("".join(letters[start : start + 3]) for start in range(0, len(letters), 3))


def key_words(public: bytes) -> Words:
    """Return the words of an Ed25519 public key."""
    return _words(digest(KEY, public))


def roster_words(operator: bytes, roster_digest: bytes) -> Words:
    """Return the words of a roster together with the operator's public key, so that one comparison pins both."""
    return _words(digest(ROSTER, operator, roster_digest))


def phrase(words: Words) -> str:
    """Return the words on one line, in groups of four."""
    return " / ".join(" ".join(words[start : start + 4]) for start in range(0, len(words), 4))


def parse_words(text: str) -> Words:
    """Return the words that somebody typed; blanks, punctuation and case do not matter.

    Raises ConfigurationError naming the place of a word that is not in the list.
    """
    words: Words = tuple(re.findall(r"[a-z]+", text.lower()))
    for place, word in enumerate(words, start=1):
        if word not in WORDS:
            close = difflib.get_close_matches(word, WORDS, 1)
            hint = f"; did they say {close[0]}?" if close else ""
            raise ConfigurationError(f"word {place} ({word}) is not in the list of words{hint}")
    if len(words) != COUNT:
        raise ConfigurationError(f"expected {COUNT} words, got {len(words)}; ask for all of them")
    return words


def qr_text(content: str) -> str:
    """Return a QR code of ``content`` in half blocks, for a UTF-8 terminal with light text on a dark ground."""
    import segno

    out = io.StringIO()
    segno.make_qr(content, error="m").terminal(out, compact=True, border=2)
    return out.getvalue()


def qr_svg(content: str) -> bytes:
    """Return a QR code of ``content`` as an SVG image."""
    import segno

    out = io.BytesIO()
    segno.make_qr(content, error="m").save(out, kind="svg", scale=4, border=4, light="white")
    return out.getvalue()


def _words(value: bytes) -> Words:
    return tuple(WORDS[byte] for byte in value[:COUNT])
