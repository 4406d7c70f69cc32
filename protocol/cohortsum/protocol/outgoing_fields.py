"""What one field of a message may hold: a digest, a key, a share, a small whole number, or a name that everybody knows.

Every rule takes a value of any type and answers yes or no, and shows nothing of it. Digests, keys and shares are uniform bytes, which
cannot be told from any other bytes with certainty. What `looks_random` refuses are text (UTF-8) and numbers put in their place, padded
or not; 32 random bytes are refused with a probability below 2**-35, the 16 of a coordinator's round id, as text, below 2**-17.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import cast

from cohortsum.crypto import field
from cohortsum.protocol.ahead import SLOT_BYTES
from cohortsum.protocol.approvals import approval_context
from cohortsum.protocol.codec import DIGEST_BYTES, MAX_AHEAD
from cohortsum.protocol.context import ROUND_ID_BYTES, RoundKey
from cohortsum.protocol.messages import Message, OpenedGate, Regimen, Shares, WaivedRule
from cohortsum.protocol.plan import GATE_LENGTH, PlannedBlock, RoundPlan
from cohortsum.protocol.roster import Role, Roster

WORD_BYTES = 8
MOST_COUNTED = 999_999
"""Of a whole number that counts something: seven digits may be a person's."""
IN_TEXT = frozenset("\0\t\n\r")
"""What stands in a text, or fills it up, beside what can be printed."""

CHECK = r"[ABKMUW][0-9]|R[0-9](?:\.[0-9]{1,2})?"
PLAIN = re.compile(rf"[A-Z]?[a-z]+(?:_[a-z]+)*(?:'s)?|[0-9]{{1,6}}|[tnc+<>=]|{CHECK}")
CHECK_NAME = re.compile(CHECK)


@dataclass(frozen=True, slots=True)
class Known:
    """What both ends of a line know before a message is sent, and may therefore be named in it.

    Attributes:
        plan: of the round.
        roster: its ids and indices.
        profiles: names of the policy profiles that exist.
        contexts: of this attempt, and of earlier ones that it may refer to; that of the approvals is always known.
        blocks: what travels in this attempt; None before one is open.
        waivers: rules that the sender's policy sets aside in public.
    """

    plan: RoundPlan
    roster: Roster
    profiles: frozenset[str]
    contexts: frozenset[bytes] = frozenset()
    blocks: tuple[PlannedBlock, ...] | None = None
    waivers: tuple[WaivedRule, ...] = ()

    @property
    def approvals(self) -> bytes:
        """The digest in the place of a context that approvals are bound to."""
        return approval_context(self.plan.study_digest, self.plan.roster_digest)

    @property
    def indices(self) -> frozenset[int]:
        """The roster indices of the sites."""
        return frozenset(self.roster.sites.values())

    @property
    def names(self) -> frozenset[str]:
        """What a sentence may name: ids of the roster, items, blocks, the epoch and profiles."""
        blocks = (block.name for block in self.plan.blocks)
        return frozenset(
            {*self.roster.identities, *self.plan.items, *blocks, self.plan.epoch, *self.profiles}
        )


Rule = Callable[[object, Message, Known], bool]
"""Whether a field may hold a value, given the message it is in."""


def looks_random(data: bytes) -> bool:
    """Return whether bytes, 32 or more, may be a digest, a key, a signature or a share: neither text nor padded numbers."""
    return 2 * data.count(0) < len(data) and not is_text(data)


def is_text(data: bytes) -> bool:
    """Return whether bytes are nothing but text in UTF-8, padded or not."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return False
    return all(letter in IN_TEXT or letter.isprintable() for letter in text)


def is_digest(value: object, size: int = DIGEST_BYTES) -> bool:
    """Return whether a value is ``size`` bytes that look random."""
    return type(value) is bytes and len(value) == size and looks_random(value)


def digest(value: object, _message: Message, _known: Known) -> bool:
    """A digest, a commitment or a public key: 32 bytes."""
    return is_digest(value)


def study(value: object, _message: Message, known: Known) -> bool:
    """The digest of the study."""
    return type(value) is bytes and value == known.plan.study_digest


def roster(value: object, _message: Message, known: Known) -> bool:
    """The digest of the roster."""
    return type(value) is bytes and value == known.plan.roster_digest


def plan_digest(value: object, _message: Message, known: Known) -> bool:
    """The digest of the plan of an iteration after the first, else nothing."""
    return type(value) is bytes and value == (b"" if known.plan.iteration == 1 else known.plan.digest)


def epoch(value: object, _message: Message, known: Known) -> bool:
    """The epoch of the plan."""
    return type(value) is str and value == known.plan.epoch


def regimen(value: object, _message: Message, known: Known) -> bool:
    """A profile that exists, a small number, and waivers word by word as the site's policy has them."""
    return (
        type(value) is Regimen
        and type(value.profile) is str
        and value.profile in known.profiles
        and is_count(value.count)
        and value.waivers == known.waivers[: len(value.waivers)]
    )


def supplies(value: object, _message: Message, known: Known) -> bool:
    """One bit per item of the plan, and no bit more."""
    items = len(known.plan.items)
    fits = type(value) is bytes and len(value) == -(-items // 8)
    return fits and not int.from_bytes(cast("bytes", value), "little") >> items


def earlier_context(value: object, _message: Message, known: Known) -> bool:
    """The context of an attempt that is known, or nothing."""
    return type(value) is bytes and (not value or value in known.contexts)


def round_key(value: object, _message: Message, known: Known) -> bool:
    """Which round this is: the iteration of the plan, and a small number of the attempt."""
    return (
        type(value) is RoundKey
        and type(value.round_id) is bytes
        and len(value.round_id) == ROUND_ID_BYTES
        and not is_text(value.round_id)
        and is_count(value.iteration)
        and value.iteration == known.plan.iteration
        and is_count(value.attempt)
    )


def is_count(value: object, most: int = MOST_COUNTED) -> bool:
    """Return whether a value is a whole number from 0 to ``most``, and no truth value."""
    return type(value) is int and 0 <= value <= most


def count(value: object, _message: Message, _known: Known) -> bool:
    """A whole number of masked inputs."""
    return is_count(value)


def slots(value: object, _message: Message, _known: Known) -> bool:
    """A whole number of slots dealt ahead, or the place of one."""
    return is_count(value, MAX_AHEAD)


def flag(value: object, _message: Message, _known: Known) -> bool:
    """A truth value."""
    return type(value) is bool


def slot_columns(value: object, _message: Message, _known: Known) -> bool:
    """Keys and commitments of the slots dealt ahead, 96 bytes each."""
    return type(value) is bytes and len(value) <= MAX_AHEAD * SLOT_BYTES and _digests(value, SLOT_BYTES)


def indices(value: object, _message: Message, known: Known) -> bool:
    """Roster indices in ascending order."""
    if type(value) is not tuple:
        return False
    held, sites = cast("tuple[object, ...]", value), known.indices
    if not all(type(index) is int and index in sites for index in held):
        return False
    whole = cast("tuple[int, ...]", held)
    return list(whole) == sorted(set(whole))


def per_holder(value: object, message: Message, _known: Known) -> bool:
    """One digest per holder of the list."""
    holders = len(message.holders) if isinstance(message, Shares) else 0
    return type(value) is bytes and len(value) == DIGEST_BYTES * holders and _digests(value, DIGEST_BYTES)


def slots_per_holder(value: object, message: Message, _known: Known) -> bool:
    """The same number of slots for every holder of the list, 96 bytes each."""
    holders = len(message.holders) if isinstance(message, Shares) else 0
    size = SLOT_BYTES * max(1, holders)
    return type(value) is bytes and len(value) <= MAX_AHEAD * size and _digests(value, size)


def is_share(value: object) -> bool:
    """Return whether a value may be a share or a seed: an element of the field that looks random."""
    return type(value) is int and 0 <= value < field.PRIME and looks_random(field.to_bytes(value))


def shares(value: object, _message: Message, known: Known) -> bool:
    """Shares or seeds by roster index."""
    return _by_index(value, known, is_share)


def opened_gates(value: object, _message: Message, known: Known) -> bool:
    """Masked gate words and seeds by roster index."""
    return _by_index(value, known, _is_opened_gate)


def check_name(value: object, _message: Message, _known: Known) -> bool:
    """The name of a check."""
    return type(value) is str and CHECK_NAME.fullmatch(value) is not None


def site_id(value: object, _message: Message, known: Known) -> bool:
    """The id of a site of the roster."""
    identity = known.roster.identities.get(value) if type(value) is str else None
    return identity is not None and identity.role is Role.SITE


def sentence(value: object, _message: Message, known: Known) -> bool:
    """A sentence of plain words, small numbers, names of checks, and what the plan and the roster name.

    A word of letters alone may be anybody's name: no site sends such a field.
    """
    if type(value) is not str or not value:
        return False
    names = known.names
    words = (word if word in names else word.strip("().,:;") for word in value.split())
    return all(not word or word in names or PLAIN.fullmatch(word) is not None for word in words)


def _is_opened_gate(value: object) -> bool:
    return (
        type(value) is OpenedGate
        and type(value.words) is bytes
        and len(value.words) == WORD_BYTES * GATE_LENGTH
        and is_share(value.seed)
    )


def _by_index(value: object, known: Known, each: Callable[[object], bool]) -> bool:
    if not isinstance(value, Mapping):
        return False
    held, sites = cast("Mapping[object, object]", value), known.indices
    named = all(type(index) is int and index in sites for index in held)
    return named and all(map(each, held.values()))


def _digests(data: bytes, size: int) -> bool:
    """Return whether bytes are whole groups of ``size``, and every 32 of them look random."""
    pieces = (data[start : start + DIGEST_BYTES] for start in range(0, len(data), DIGEST_BYTES))
    return len(data) % size == 0 and all(map(looks_random, pieces))
