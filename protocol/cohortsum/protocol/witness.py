"""What the signed messages of an opened round prove to somebody who took no part in it and believes nobody.

A site reads a transcript against what it signed itself (`proof`). A witness has signed nothing, so it asks more: every masked input
of the survivors must name the very L1 and U2 that lie here, and t survivors must have signed the one statement about them. As at most
c sites lie and 2 t > n + c, that survivor set is the only one that this context can have opened. What every honest survivor had to
check before it signed is derived again. Given what was opened, a witness also adds the sum up (`recomputed`), as sites do
in R5.0.
"""

import hmac
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from cohortsum.crypto.errors import RemoteProtocolError
from cohortsum.protocol.ahead import SLOT_BYTES, advert_of
from cohortsum.protocol.bounds import check_bounds, threshold
from cohortsum.protocol.context import RoundKey, slot_context
from cohortsum.protocol.envelope import open_envelope
from cohortsum.protocol.masking import (
    AddMasks,
    MaskKeys,
    add_over,
    removal_keys,
    signed,
    words_digest,
    words_from_bytes,
)
from cohortsum.protocol.messages import Advert, Approval, MaskedInput, Packet, Unlocked
from cohortsum.protocol.opening import check_mask_seed, check_self_seed, dropouts_of
from cohortsum.protocol.plan import PlannedBlock, RoundPlan, Suppliers
from cohortsum.protocol.proof import Transcript, verified
from cohortsum.protocol.protected import protected_rule
from cohortsum.protocol.roster import Role, Roster
from cohortsum.protocol.transcript import statement


@dataclass(frozen=True, slots=True)
class WitnessedRound:
    """What a transcript proves to a witness. Sites are roster indices.

    Attributes:
        key: which round it was.
        context: 32 bytes.
        bound: the sites that the attempt was bound to; empty for one that stood alone.
        earlier: context of the round that opened what did not travel again; empty for none.
        plan: digest of the plan of an iteration after the first; empty in the first.
        dealt: context of the attempt that dealt this one's secrets ahead; empty where it dealt its own.
        approvals: of the sites that were invited.
        supplies: what each of them had signed to supply.
        adverts: of U1, with the keys and commitments that this round used.
        secrets: the context that these are bound to.
        delivered: U2.
        survivors: U3.
        masked: what each survivor signed about its masked input.
        h1: hash of L1.
        h2: hash of U2.
        statement: what they signed about this set, 32 bytes.
        signers: the survivors whose signatures name this very set, at least t.
    """

    key: RoundKey
    context: bytes
    bound: tuple[int, ...]
    earlier: bytes
    plan: bytes
    dealt: bytes
    approvals: Mapping[int, Approval]
    supplies: Mapping[int, frozenset[str]]
    adverts: Mapping[int, Advert] = field(repr=False)
    secrets: bytes
    delivered: frozenset[int]
    survivors: tuple[int, ...]
    masked: Mapping[int, MaskedInput] = field(repr=False)
    h1: bytes
    h2: bytes
    statement: bytes
    signers: tuple[int, ...]

    @property
    def advertised(self) -> tuple[int, ...]:
        """U1."""
        return tuple(sorted(self.adverts))

    @property
    def dropped(self) -> tuple[int, ...]:
        """The sites of U2 without U3, whose mask seeds were opened."""
        return tuple(sorted(self.delivered - set(self.survivors)))


@dataclass(frozen=True, slots=True)
class OpenedInputs:
    """What was opened of a round, by roster index: enough to add its sum up again, too little to open one input.

    Attributes:
        words: the survivors' masked data words, as bytes.
        data: the survivors' data seeds.
        mask: the mask seeds of the sites that dropped out after they dealt.
        unlocked: in two-key mode, in the place of ``words``: the trustee's word about the masked sum, that sum attached.
    """

    words: Mapping[int, bytes] = field(repr=False)
    data: Mapping[int, int] = field(repr=False)
    mask: Mapping[int, int] = field(repr=False)
    unlocked: Packet | None = field(default=None, repr=False)


def witnessed(transcript: Transcript, plan: RoundPlan, roster: Roster) -> WitnessedRound:
    """Return what a transcript proves to a witness: that its survivors, and nobody else, are in one sum that could be opened.

    Args:
        transcript: of the round; where secrets were dealt ahead, with the adverts and shares of the attempt that dealt them.
        plan: of the first round of the study.
        roster: as the operator signed it, denied identities included: what they signed then is still what happened.

    Raises:
        RemoteProtocolError: M1 to M4 and R0.1 as `proof.read_transcript`; R1.2 to R1.7, R2.1, R3.1 to R3.8 and R4.3 where the messages
            are not those of a round that honest sites let open.
    """
    held = verified(transcript, plan, roster)
    opening, survivors = held.opening, transcript.survivors
    _once(transcript.adverts, held.adverts, "R1.2", "adverts")
    _once(transcript.shares, held.shares, "R2.1", "share messages")
    _once(transcript.masked, held.masked, "R3.1", "masked inputs")
    _once(transcript.consistency, held.consistency, "R4.1", "signatures")
    if not held.adverts.keys() <= held.approvals.keys():
        raise RemoteProtocolError("R1.3", "a site advertised without an approval of this study")
    if opening.survivors and not held.adverts.keys() <= set(opening.survivors):
        raise RemoteProtocolError("R1.6", "the round holds a site that it was not bound to")
    protection, t = plan.protection, threshold(len(held.adverts))
    check_bounds(len(held.adverts), protection, "R1.7")
    if not held.shares.keys() <= held.adverts.keys():
        raise RemoteProtocolError("R2.1", "a site dealt shares without advertising")
    if any(message.adverts_digest != held.h1 for _, message in held.shares.values()):
        raise RemoteProtocolError("R2.4", "a site dealt shares under another L1")
    if (
        list(survivors) != sorted(set(survivors))
        or not set(survivors) <= held.masked.keys() & held.shares.keys()
    ):
        raise RemoteProtocolError("R3.1", "a survivor without a masked input, or one that dealt no shares")
    members = {index: held.masked[index] for index in survivors}
    if any((one.adverts_digest, one.shares_digest) != (held.h1, held.h2) for _, one in members.values()):
        raise RemoteProtocolError("R3.7", "a survivor masked under another transcript than this one")
    least = max(t, protection.min_sites)
    if len(members) < least:
        raise RemoteProtocolError("R3.3", f"{len(members)} survivors, {least} are required")
    if opening.key.iteration == 1:
        _suppliers(plan, {index: held.supplies[index] for index in held.approvals}, survivors)
    slot, adverts = opening.slot, {index: advert for index, (_, advert) in held.adverts.items()}
    if opening.dealt:
        if any(len(advert.ahead) < slot * SLOT_BYTES for advert in adverts.values()) or slot < 1:
            raise RemoteProtocolError("R0.16", f"slot {slot} was not dealt ahead by every site")
        adverts = {index: advert_of(advert, slot) for index, advert in adverts.items()}
    broken = protected_rule(
        {index: adverts[index] for index in survivors},
        {index: held.supplies[index] for index in survivors},
        protection.suppliers_least,
    )
    if broken is not None:
        raise RemoteProtocolError("R3.8", broken)
    stands_by = statement(held.context, held.h1, held.h2, (envelope for envelope, _ in members.values()))
    signers = tuple(index for index, _ in held.signatures(stands_by, survivors))
    if len(signers) < t:
        raise RemoteProtocolError(
            "R4.3", f"{len(signers)} signatures over this survivor set, {t} are required"
        )
    return WitnessedRound(
        opening.key,
        held.context,
        opening.survivors,
        opening.earlier,
        opening.plan,
        opening.dealt,
        held.approvals,
        held.supplies,
        adverts,
        slot_context(opening.dealt, slot) if opening.dealt else held.context,
        frozenset(held.shares),
        survivors,
        {index: message for index, (_, message) in members.items()},
        held.h1,
        held.h2,
        stands_by,
        signers,
    )


def recomputed(
    proven: WitnessedRound, opened: OpenedInputs, length: int, add: AddMasks = add_over
) -> NDArray[np.int64]:
    """R5.0: return the sum of a round, (length,) int64, added up from what was opened.

    Args:
        proven: the round.
        opened: what was opened of it.
        length: how many numbers travelled.
        add: adds masks.

    Raises RemoteProtocolError (R5.0) unless every input and seed is the one that its owner signed or committed to.
    """
    if tuple(sorted(opened.words)) != proven.survivors:
        raise RemoteProtocolError("R5.0", "the opened sum names other survivors or dropouts")
    total = np.zeros(length, dtype=np.uint64)
    for owner, held in sorted(opened.words.items()):
        signed_digest = proven.masked[owner].data_digest
        if len(held) != 8 * length or not hmac.compare_digest(
            words_digest(words_from_bytes(held)), signed_digest
        ):
            raise RemoteProtocolError(
                "R5.0", f"the masked input of site index {owner} is not the one it signed"
            )
        total += words_from_bytes(held)
    keys = _removal(proven, opened)
    add(total, keys.plus, keys.minus)
    return signed(total)


def recomputed_unlocked(
    proven: WitnessedRound,
    opened: OpenedInputs,
    length: int,
    modulus: int,
    roster: Roster,
    add: AddMasks = add_over,
) -> NDArray[np.int64]:
    """R5.0 in two-key mode: return the sum of a round, (length,) int64, from the masked sum that the trustee signed.

    Args:
        proven: the round.
        opened: what was opened of it.
        length: how many numbers travelled.
        modulus: of the masks.
        roster: names the trustee.
        add: adds masks.

    Raises RemoteProtocolError (R5.0, M1 to M4) unless the trustee decrypted this sum and every seed is what its owner committed to.
    """
    if opened.unlocked is None or len(opened.unlocked.attachments) != 1:
        raise RemoteProtocolError("R5.0", "the sum comes without the word of the trustee")
    word = open_envelope(opened.unlocked.envelope, Unlocked, proven.context, roster, Role.TRUSTEE)
    (held,) = opened.unlocked.attachments
    total = words_from_bytes(held) if len(held) == 8 * length else np.zeros(0, np.uint64)
    if word.statement != proven.statement or not hmac.compare_digest(words_digest(total), word.masked_digest):
        raise RemoteProtocolError("R5.0", "the masked sum is not the one that the trustee decrypted")
    if len(total) and int(total.max()) >= modulus:
        raise RemoteProtocolError("R5.0", "the masked sum is no vector of residues")
    keys = _removal(proven, opened)
    add(total, keys.plus, keys.minus, modulus=modulus)
    return signed(total, modulus)


def _removal(proven: WitnessedRound, opened: OpenedInputs) -> MaskKeys:
    """Return the keys that open a sum, from seeds that are what their owners committed to."""
    adverts = proven.adverts
    if tuple(sorted(opened.data)) != proven.survivors or tuple(sorted(opened.mask)) != proven.dropped:
        raise RemoteProtocolError("R5.0", "the opened sum names other survivors or dropouts")
    for owner, seed in opened.data.items():
        check_self_seed(proven.secrets, "data", owner, seed, adverts[owner], "R5.0")
    for owner, seed in opened.mask.items():
        check_mask_seed(proven.secrets, owner, seed, adverts[owner], "R5.0")
    dropouts = dropouts_of(proven.secrets, opened.mask, proven.survivors, adverts)
    return removal_keys("data", proven.context, proven.h1, proven.h2, opened.data, dropouts)


def blocks_of(proven: WitnessedRound, plan: RoundPlan, unchanged: frozenset[str]) -> tuple[PlannedBlock, ...]:
    """Return the blocks that travelled in a round.

    Args:
        proven: the round.
        plan: of this very round.
        unchanged: names of blocks that an earlier round had opened; empty for a round that stands alone.
    """
    return plan.travelling(proven.supplies, unchanged)


def _once(envelopes: Sequence[object], held: Mapping[int, object], check: str, what: str) -> None:
    if len(envelopes) != len(held) or list(held) != sorted(held):
        raise RemoteProtocolError(check, f"{what} must come by roster index, once each")


def _suppliers(plan: RoundPlan, supplies: Mapping[int, frozenset[str]], survivors: Iterable[int]) -> None:
    """R3.6: every block that enough approving sites supplied keeps enough suppliers among the survivors."""
    protection, members = plan.protection, Suppliers({index: supplies[index] for index in survivors})
    for block in plan.kept(supplies):
        if members.least(block) - protection.max_colluding_sites < protection.min_honest_inputs:
            raise RemoteProtocolError("R3.6", f"too few suppliers of block {block.name} survive")
