"""Secrets dealt ahead: one exchange of keys and shares for several iterations of a fit.

Iteration 1 of a fit is a round of its own and fixes the cohort. The next attempt that deals may deal for iterations after it
too: beside its own three seeds, three per *slot*, each bound to `slot_context`. A later attempt then begins with the masked
input: its masks are keyed by its own context, so that the parameters of that very iteration bind, while keys, commitments and
shares are those of the slot.

A slot belongs to one attempt at one iteration and is spent by it, whatever becomes of it: the same seeds behind two survivor
sets would open single inputs. The slots serve exactly the sites that dealt them, none missing; everything left is wiped when an
attempt fails, when the fit ends, or with the process.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from cohortsum.protocol.context import slot_context
from cohortsum.protocol.messages import Advert, Envelope, Shares
from cohortsum.protocol.seeds import HeldShares, SharedSeeds

PART_BYTES = 32
SLOT_BYTES = 3 * PART_BYTES


def advert_of(advert: Advert, slot: int) -> Advert:
    """Return an advert with the mask key and the commitments of one slot, from 1."""
    held = advert.ahead[(slot - 1) * SLOT_BYTES : slot * SLOT_BYTES]
    key, gate, data = (held[start : start + PART_BYTES] for start in range(0, SLOT_BYTES, PART_BYTES))
    return replace(advert, mask_key=key, gate_commitment=gate, data_commitment=data, ahead=b"")


def shares_of(shares: Shares, slot: int) -> Shares:
    """Return a dealer's signed list with the commitments of one slot, from 1."""
    per_holder = len(shares.ahead_commitments) // max(len(shares.holders), 1)
    parts: tuple[list[bytes], list[bytes], list[bytes]] = ([], [], [])
    for place in range(len(shares.holders)):
        start = place * per_holder + (slot - 1) * SLOT_BYTES
        for number, column in enumerate(parts):
            column.append(shares.ahead_commitments[start + number * PART_BYTES :][:PART_BYTES])
    mask, gate, data = (b"".join(column) for column in parts)
    return replace(
        shares, mask_commitments=mask, gate_commitments=gate, data_commitments=data, ahead_commitments=b""
    )


def commitments_for(
    context: bytes, slots: Sequence[HeldShares], dealer: int, holder: int
) -> tuple[bytes, ...]:
    """Return the commitments to what a dealer sealed for a holder in its slots, mask, gate and data of each."""
    return tuple(
        part
        for slot, held in enumerate(slots, start=1)
        for part in held.commitments(slot_context(context, slot), dealer, holder)
    )


@dataclass(slots=True)
class Ahead:
    """What a site holds of an attempt that dealt ahead; in memory only.

    Attributes:
        context: of the attempt that dealt.
        h1: of that attempt.
        h2: of that attempt.
        threshold: of that attempt.
        adverts: of its sites, by roster index.
        seeds: this site's own, by slot.
        shares: what every dealer sealed for this site, by dealer and slot.
        told: the coordinator's adverts and delivery of that attempt: what later evidence is read behind.
        next_slot: the first that is not spent.
    """

    context: bytes
    h1: bytes
    h2: bytes
    threshold: int
    adverts: Mapping[int, Advert] = field(repr=False)
    seeds: tuple[SharedSeeds, ...] = field(repr=False)
    shares: Mapping[int, tuple[HeldShares, ...]] = field(repr=False)
    told: tuple[Envelope, ...] = field(default=(), repr=False)
    next_slot: int = 1

    @property
    def members(self) -> tuple[int, ...]:
        """The sites whose secrets these are; empty where one of them did not deal."""
        return tuple(sorted(self.adverts)) if self.shares.keys() == self.adverts.keys() else ()

    def has(self, slot: int) -> bool:
        """Return whether a slot is there and neither it nor a later one is spent."""
        return self.next_slot <= slot <= len(self.seeds)

    def spend(self, slot: int) -> tuple[SharedSeeds, Mapping[int, Advert], Mapping[int, HeldShares]]:
        """Return own seeds, adverts and held shares of a slot, which no other attempt gets; those before it are wiped."""
        for skipped in self.seeds[self.next_slot - 1 : slot - 1]:
            skipped.wipe()
        self.next_slot = slot + 1
        adverts = {index: advert_of(advert, slot) for index, advert in self.adverts.items()}
        return self.seeds[slot - 1], adverts, {dealer: held[slot - 1] for dealer, held in self.shares.items()}

    def wipe(self) -> None:
        """Forget what is not spent."""
        for seeds in self.seeds[self.next_slot - 1 :]:
            seeds.wipe()
        self.next_slot = len(self.seeds) + 1
