"""Tombstones: proof that an attempt was not opened and never will be.

When a round aborts a site erases its secrets and signs how far it had answered: not at all, or the gate. n - t + c + 1
tombstones of U1 leave at most t - 1 sites, the c liars among the signers included, that could still answer; one fewer
leaves t. Enough of them with `none`: nothing of the attempt is open, now or later. Enough in all, some with `gate`: the
data stay closed, but the gate is open, over the survivors that the tombstone names.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum

from cohortsum.protocol.bounds import threshold
from cohortsum.protocol.ledger.rules import ALL, Rules
from cohortsum.protocol.ledger.sites import NamedRound


class Answered(StrEnum):
    """How far a site had answered when it erased its secrets; one that answered for data signs no tombstone."""

    NONE = "none"
    GATE = "gate"


@dataclass(frozen=True, slots=True)
class Tombstone:
    """A site's signed word that it will answer nothing more in a context.

    Attributes:
        context: the attempt.
        site: roster index.
        answered: how far it had answered.
        named: with `gate`, the round and the t signatures it answered to; None otherwise.
        signature: the site's, over all of the above.
    """

    context: bytes
    site: int
    answered: Answered
    named: NamedRound | None
    signature: bytes


TombstoneCheck = Callable[[Tombstone], bool]
"""Whether a tombstone carries its own site's valid signature."""


def tombstone_quorum(advertisers: int, colluding: int, rules: Rules = ALL) -> int:
    """Return how many tombstones close an attempt of ``advertisers`` sites (n - t + c + 1)."""
    return advertisers - threshold(advertisers) + colluding + rules.whole_quorum


@dataclass(frozen=True, slots=True)
class Buried:
    """What valid tombstones say about one attempt.

    Attributes:
        none: sites that had answered nothing.
        gate: rounds that sites had answered the gate of, by site.
    """

    none: frozenset[int]
    gate: dict[int, NamedRound]


def buried(
    tombstones: Iterable[Tombstone], context: bytes, advertisers: frozenset[int], check: TombstoneCheck
) -> Buried:
    """Return what the genuine tombstones of ``context`` by members of U1 say; a site that signed two ways counts as gate."""
    genuine = [
        stone
        for stone in tombstones
        if stone.context == context and stone.site in advertisers and check(stone)
    ]
    gate = {
        stone.site: stone.named
        for stone in genuine
        if stone.answered is Answered.GATE and stone.named is not None
    }
    none = frozenset(stone.site for stone in genuine if stone.answered is Answered.NONE)
    return Buried(none - gate.keys(), gate)
