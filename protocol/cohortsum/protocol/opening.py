"""Opening the gate: recomputing the capped count from what was opened, believing nobody's number.

Both sides run this: the coordinator to know whether to go on, every site to decide whether it releases the shares of the
data seeds. A single count stays hidden: the gate masks between two honest survivors are unknown to everyone else.
"""

import hmac
from collections.abc import Mapping

import numpy as np

from cohortsum.crypto.commitments import commit_seed
from cohortsum.crypto.errors import RemoteProtocolError
from cohortsum.crypto.masks import add_masks
from cohortsum.protocol.bounds import Protection
from cohortsum.protocol.masking import Dropouts, add_words, removal_keys, signed, words_from_bytes
from cohortsum.protocol.messages import Advert, GateOpening
from cohortsum.protocol.plan import GATE_LENGTH
from cohortsum.protocol.seeds import mask_key


def check_self_seed(context: bytes, part: str, owner: int, seed: int, advert: Advert, check: str) -> None:
    """Raise RemoteProtocolError ``check`` unless an opened self seed is the one its owner committed to."""
    committed = advert.gate_commitment if part == "gate" else advert.data_commitment
    if not hmac.compare_digest(commit_seed(context, part, owner, seed), committed):
        raise RemoteProtocolError(
            check, f"the {part} seed of site index {owner} is not the one it committed to"
        )


def check_mask_seed(context: bytes, owner: int, seed: int, advert: Advert, check: str) -> None:
    """Raise RemoteProtocolError ``check`` unless an opened mask seed belongs to the owner's public mask key."""
    if not hmac.compare_digest(mask_key(context, seed).public, advert.mask_key):
        raise RemoteProtocolError(check, f"the mask seed of site index {owner} does not match its public key")


def gate_sum(context: bytes, h1: bytes, h2: bytes, opening: GateOpening, dropouts: Dropouts) -> int:
    """Return the capped count of people over the survivors.

    Args:
        context: the round's context hash.
        h1: digest of L1.
        h2: digest of U2.
        opening: seeds and masked gate words, already checked against commitments and digests.
        dropouts: what the dropouts of ``opening`` left behind.
    """
    seeds = {owner: opened.seed for owner, opened in opening.survivors.items()}
    keys = removal_keys("gate", context, h1, h2, seeds, dropouts)
    total = add_words((words_from_bytes(opened.words) for opened in opening.survivors.values()), GATE_LENGTH)
    add_masks(total, keys.plus, keys.minus)
    return int(np.sum(signed(total)))


def dropouts_of(context: bytes, opening: GateOpening, adverts: Mapping[int, Advert]) -> Dropouts:
    """Return what the dropouts of an opening left in the survivors' vectors; their seeds are already checked."""
    publics = {owner: advert.mask_key for owner, advert in adverts.items()}
    return Dropouts.of(context, opening.dropped, opening.survivors, publics)


def check_gate(total: int, protection: Protection, min_participants: int, check: str) -> None:
    """Raise RemoteProtocolError ``check`` unless the gate sum reaches the effective minimum.

    A check against honest mistakes and small cohorts, not against liars: nobody sees a single count.
    """
    minimum = (
        max(protection.min_participants, min_participants)
        + protection.max_colluding_sites * protection.gate_cap
    )
    if total < minimum:
        raise RemoteProtocolError(
            check, f"too few participants: the gate must reach {minimum} in capped counts"
        )
