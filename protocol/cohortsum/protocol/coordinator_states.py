"""The states of the coordinator in a round.

::

    Advertising -> Sharing -> Masking -> Agreeing -> OpeningGate -> OpeningData -> Combining -> Opened
        R0            R1         R2         R3           R4a            R4b                       R5

An attempt whose secrets were dealt ahead begins with Masking. Any state may go to Aborted. Seeds exist from OpeningGate
on, in memory only.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from cohortsum.protocol.ahead import advert_of, shares_of
from cohortsum.protocol.context import slot_context
from cohortsum.protocol.effects import Supplies
from cohortsum.protocol.envelope import Signer
from cohortsum.protocol.masking import Dropouts
from cohortsum.protocol.messages import Advert, DataShares, Envelope, GateShares, MaskedInput, Shares
from cohortsum.protocol.plan import PlannedBlock, RoundPlan
from cohortsum.protocol.roster import Roster


@dataclass(frozen=True, slots=True)
class CoordinatorSetup:
    """What the coordinator brings into a round.

    Attributes:
        signer: its identity.
        roster: the roster of the study.
        plan: the plan it built from the signed study.
        approvals: signed approvals by roster index; for a retry those of the bound survivors only.
        bound_survivors: indices the attempt is bound to; empty for a first attempt that stands alone.
        exact: whether none of them may be missing; an iteration may lose sites whose totals may be found by subtracting.
        earlier: context of the opened round whose unchanged blocks do not travel again; empty for none.
        unchanged: names of these blocks.
        ahead: how many secrets the sites deal beside this attempt's own, for iterations after it.
        dealt: what an earlier attempt dealt, where this one uses a slot of it.
        slot: which one, from 1.
    """

    signer: Signer
    roster: Roster
    plan: RoundPlan
    approvals: Mapping[int, Envelope]
    bound_survivors: tuple[int, ...] = ()
    earlier: bytes = b""
    unchanged: frozenset[str] = frozenset()
    exact: bool = True
    ahead: int = 0
    dealt: "DealtAhead | None" = None
    slot: int = 0


@dataclass(frozen=True, slots=True)
class Advertising:
    """Adverts come in."""

    adverts: Mapping[int, Envelope]


@dataclass(frozen=True, slots=True)
class U1:
    """L1: who advertised what, under which threshold, and the context that their secrets are bound to."""

    h1: bytes
    threshold: int
    adverts: Mapping[int, Advert]
    secrets: bytes


@dataclass(frozen=True, slots=True)
class Dealing:
    """One dealer's signed share message, opened, with its ciphertexts by holder."""

    envelope: Envelope
    shares: Shares
    ciphertexts: Mapping[int, bytes] = field(repr=False)


@dataclass(frozen=True, slots=True)
class Sharing:
    """Share messages come in."""

    u1: U1
    dealings: Mapping[int, Dealing]


@dataclass(frozen=True, slots=True)
class U2:
    """Who dealt shares, and h2 over their messages."""

    h2: bytes
    dealings: Mapping[int, Dealing]


@dataclass(frozen=True, slots=True)
class DealtAhead:
    """What an attempt dealt for iterations after it, as the coordinator keeps it in memory: no secret is among it.

    Attributes:
        context: of that attempt.
        u1: of that attempt.
        u2: of that attempt.
        slots: how many.
    """

    context: bytes
    u1: U1
    u2: U2
    slots: int

    @property
    def members(self) -> tuple[int, ...]:
        """The sites whose secrets these are; empty where one of them did not deal."""
        return tuple(sorted(self.u1.adverts)) if self.u1.adverts.keys() == self.u2.dealings.keys() else ()

    def of_slot(self, slot: int) -> tuple[U1, U2]:
        """Return both with the keys and commitments of one slot, from 1."""
        adverts = {index: advert_of(advert, slot) for index, advert in self.u1.adverts.items()}
        dealings = {
            index: replace(dealing, shares=shares_of(dealing.shares, slot))
            for index, dealing in self.u2.dealings.items()
        }
        u1 = replace(self.u1, adverts=adverts, secrets=slot_context(self.context, slot))
        return u1, replace(self.u2, dealings=dealings)


@dataclass(frozen=True, slots=True)
class Input:
    """A survivor candidate's signed digests with its gate words."""

    envelope: Envelope
    masked: MaskedInput
    gate_words: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Masking:
    """Masked inputs and uploads come in; a site counts once both are there and agree."""

    u1: U1
    u2: U2
    inputs: Mapping[int, Input]
    uploads: Mapping[int, bytes]

    @property
    def complete(self) -> tuple[int, ...]:
        """Sites whose upload matches the digest they signed."""
        return tuple(
            sorted(
                index
                for index, held in self.inputs.items()
                if self.uploads.get(index) == held.masked.data_digest
            )
        )


@dataclass(frozen=True, slots=True)
class U3:
    """The frozen survivors with their inputs, and the statement they are to sign."""

    inputs: Mapping[int, Input]
    statement: bytes


@dataclass(frozen=True, slots=True)
class Agreeing:
    """Signatures over the survivor set come in."""

    u1: U1
    u2: U2
    u3: U3
    signatures: Mapping[int, Envelope]


@dataclass(frozen=True, slots=True)
class OpeningGate:
    """Shares of gate seeds, and of dropouts' mask seeds, come in."""

    u1: U1
    u2: U2
    u3: U3
    answers: Mapping[int, GateShares] = field(repr=False)


@dataclass(frozen=True, slots=True)
class OpeningData:
    """The gate sufficed at the coordinator; shares of data seeds come in. ``gate`` is what it told the sites."""

    u1: U1
    u2: U2
    u3: U3
    gate_total: int
    mask_seeds: Mapping[int, int] = field(repr=False)
    dropouts: Dropouts
    answers: Mapping[int, DataShares] = field(repr=False)
    gate: Envelope


@dataclass(frozen=True, slots=True)
class Combining:
    """All seeds are open; the edge adds the uploads and removes the masks. ``gate`` is what was told to the sites."""

    u1: U1
    u2: U2
    u3: U3
    gate_total: int
    mask_seeds: Mapping[int, int] = field(repr=False)
    data_seeds: Mapping[int, int] = field(repr=False)
    gate: Envelope


@dataclass(frozen=True, slots=True)
class Opened:
    """The sum over the survivors.

    Attributes:
        advertised: U1, by index.
        survivors: U3, by index.
        people: the opened number of people.
        blocks: the blocks that travelled.
        values: (total size of the blocks,) int64.
    """

    advertised: tuple[int, ...]
    survivors: tuple[int, ...]
    people: int
    blocks: tuple[PlannedBlock, ...]
    values: NDArray[np.int64] = field(repr=False)


@dataclass(frozen=True, slots=True)
class Aborted:
    """No result.

    Attributes:
        reason: a public sentence.
        survivors: the survivor set, where one was named; a retry is bound to it unless the attempt is closed.
        advertised: U1; empty where the attempt ended before there was one.
        tombstones: of U1, by index.
        closed: whether enough of them are there: nobody can open the attempt any more.
    """

    reason: str
    survivors: tuple[int, ...]
    advertised: tuple[int, ...] = ()
    tombstones: Mapping[int, Envelope] = field(default_factory=dict[int, Envelope])
    closed: bool = False


CoordinatorState = (
    Advertising | Sharing | Masking | Agreeing | OpeningGate | OpeningData | Combining | Opened | Aborted
)


@dataclass(frozen=True, slots=True)
class Fixed:
    """What an attempt fixes for good: its context, what travels and who supplies it."""

    context: bytes
    blocks: tuple[PlannedBlock, ...]
    supplies: Supplies
