"""The people rule: what one site may answer for without anything about few of its people coming out.

Everybody else may run the same blocks without this site, so each of its totals counts as known. Two totals can then be
subtracted, three combined: all, men, and a set that is women and three men. A new people set must therefore equal an
earlier one (nothing new is learnt about who) or keep every rational combination of the recorded sets and itself at no
people or at least k (`span`). That includes the distance between two sets, and a set of 1 to k-1 people itself. The rule
needs nobody's knowledge but the site's own.

A set holds keyed hashes of row ids, so that the ledger names nobody without the site's key and a person keeps one code from
snapshot to snapshot.
"""

import hashlib
import hmac
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from cohortsum.crypto.errors import StoreError
from cohortsum.protocol.ledger.rules import ALL, Limits, Reason, Rules
from cohortsum.protocol.ledger.span import Finding, Vector, least_support

CODE_BYTES = 16
"""Of a keyed hash; two of a million people share one with probability below 2**-88."""


@dataclass(frozen=True, slots=True)
class PeopleSet:
    """The people whose rows enter one block.

    Attributes:
        codes: one code of 16 bytes per person.
    """

    codes: frozenset[bytes] = field(repr=False)

    def __post_init__(self) -> None:
        if any(len(code) != CODE_BYTES for code in self.codes):
            raise StoreError(
                f"a people set holds codes of {CODE_BYTES} bytes; the ledger is damaged, run node recover"
            )

    @classmethod
    def of(cls, ids: Iterable[str], key: bytes) -> "PeopleSet":
        """Return the set of the people with these row ids; ``key`` is the site's own and never leaves it."""
        return cls(frozenset(hmac.digest(key, name.encode(), "sha256")[:CODE_BYTES] for name in ids))

    def __len__(self) -> int:
        return len(self.codes)

    def distance(self, other: "PeopleSet") -> int:
        """Return the number of people in one set but not in both."""
        return len(self.codes ^ other.codes)

    @property
    def name(self) -> str:
        """A digest that stands for the set, as hex."""
        return hashlib.sha256(b"".join(sorted(self.codes))).hexdigest()

    def to_data(self) -> str:
        """Return the sorted codes as hex."""
        return b"".join(sorted(self.codes)).hex()

    @classmethod
    def from_data(cls, data: str) -> "PeopleSet":
        """Return the set of `to_data`; raises StoreError if it is not one."""
        try:
            joined = bytes.fromhex(data)
        except ValueError:
            raise StoreError("a people set of the ledger is not hexadecimal; run node recover") from None
        return cls(frozenset(joined[at : at + CODE_BYTES] for at in range(0, len(joined), CODE_BYTES)))


@dataclass(frozen=True, slots=True)
class Allowed:
    """The set may be answered for; ``first_time``: it equals no earlier one."""

    first_time: bool


@dataclass(frozen=True, slots=True)
class NearDuplicate:
    """The set is fewer than k people away from ``of``, the nearest first."""

    of: tuple[PeopleSet, ...]


@dataclass(frozen=True, slots=True)
class StaysOut:
    """The set may not be answered for."""

    reason: Reason


PeopleOutcome = Allowed | NearDuplicate | StaysOut


def atoms(sets: Sequence[PeopleSet]) -> dict[Vector, int]:
    """Return how many people are in exactly the same ``sets``, by indicator: (sets,) of 0 and 1, never all 0."""
    membership: dict[bytes, int] = {}
    for position, people in enumerate(sets):
        for code in people.codes:
            membership[code] = membership.get(code, 0) | 1 << position
    counts = Counter(membership.values())
    return {tuple(bits >> position & 1 for position in range(len(sets))): n for bits, n in counts.items()}


def judge(recorded: Iterable[PeopleSet], new: PeopleSet, limits: Limits, rules: Rules = ALL) -> PeopleOutcome:
    """Return what the people rule says about ``new`` at a site that has answered for ``recorded``."""
    known = frozenset(recorded)
    if new in known or not rules.people:
        return Allowed(first_time=new not in known)
    near = sorted((distance, old.name, old) for old in known if (distance := old.distance(new)) < limits.k)
    if near:
        return NearDuplicate(tuple(old for _, _, old in near))
    if not rules.combinations:
        return Allowed(first_time=True)
    cells = atoms([*sorted(known, key=lambda people: people.name), new])
    if len(cells) > limits.max_atoms:
        return StaysOut(Reason.TOO_MANY_ATOMS)
    totals = list(zip(*cells, strict=True))
    match least_support(totals, list(cells.values()), limits.k, limits.max_steps):
        case Finding.CLEAR:
            return Allowed(first_time=True)
        case Finding.FEW:
            return StaysOut(Reason.FEW_LEFT)
        case Finding.TOO_LONG:
            return StaysOut(Reason.SEARCH_TOO_LONG)
