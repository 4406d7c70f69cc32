"""Opening gate and data: recomputing a sum from what was opened, believing nobody's number.

Both sides run this. The gate: the coordinator to know whether to go on, every site to decide whether it releases the shares of
the data seeds. The data: the coordinator for its result, and every site where another round follows from it. A single input
stays hidden: the masks between two honest survivors are unknown to everyone else.
"""

import hmac
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cohortsum.crypto.commitments import commit_seed
from cohortsum.crypto.encoding import digest
from cohortsum.crypto.errors import RemoteProtocolError
from cohortsum.crypto.masks import Vector, add_masks
from cohortsum.protocol.masking import (
    Dropouts,
    add_words,
    removal_keys,
    signed,
    words_digest,
    words_from_bytes,
    words_to_bytes,
)
from cohortsum.protocol.messages import Advert, GateOpening, MaskedInput
from cohortsum.protocol.plan import GATE_LENGTH, PlannedBlock, RoundPlan, first_beyond
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


@dataclass(frozen=True, slots=True)
class Sworn:
    """What the sites of a round signed, against which everything opened is held.

    Attributes:
        context: of the attempt, 32 bytes.
        secrets: the context that keys and commitments are bound to.
        h1: digest of L1.
        h2: digest of U2.
        adverts: of U1, by index.
        masked: of the survivors, by index.
        dropped: U2 without U3.
    """

    context: bytes
    secrets: bytes
    h1: bytes
    h2: bytes
    adverts: Mapping[int, Advert]
    masked: Mapping[int, MaskedInput]
    dropped: tuple[int, ...]


def checked_gate(sworn: Sworn, opening: GateOpening) -> int:
    """R4.5 to R4.7: return the capped count of people, of what its owners signed and of nothing else."""
    if opening.survivors.keys() != sworn.masked.keys() or tuple(sorted(opening.dropped)) != sworn.dropped:
        raise RemoteProtocolError("R4.5", "the opened gate names other survivors or dropouts")
    for owner, opened in opening.survivors.items():
        words = words_digest(words_from_bytes(opened.words))
        if not hmac.compare_digest(words, sworn.masked[owner].gate_digest):
            raise RemoteProtocolError(
                "R4.5", f"the gate words of site index {owner} are not the ones it signed"
            )
        check_self_seed(sworn.secrets, "gate", owner, opened.seed, sworn.adverts[owner], "R4.6")
    for owner, seed in opening.dropped.items():
        check_mask_seed(sworn.secrets, owner, seed, sworn.adverts[owner], "R4.7")
    dropouts = dropouts_of(sworn.secrets, opening.dropped, opening.survivors, sworn.adverts)
    return gate_sum(sworn.context, sworn.h1, sworn.h2, opening, dropouts)


def dropouts_of(
    secrets: bytes, seeds: Mapping[int, int], survivors: Iterable[int], adverts: Mapping[int, Advert]
) -> Dropouts:
    """Return what dropouts left in the survivors' vectors.

    Args:
        secrets: the context that mask keys are bound to.
        seeds: the opened mask seeds of the dropouts, by index, already checked.
        survivors: U3.
        adverts: of U1.
    """
    publics = {owner: advert.mask_key for owner, advert in adverts.items()}
    return Dropouts.of(secrets, seeds, survivors, publics)


def result_digest(words: Vector) -> bytes:
    """Return the digest by which a closing names the opened words."""
    return digest("cohortsum/v1/result", words_to_bytes(words))


def check_result(
    plan: RoundPlan,
    blocks: Sequence[PlannedBlock],
    values: NDArray[np.int64],
    survivors: int,
    gate_total: int = 0,
) -> int:
    """R5: the opened numbers lie where honest contributions can put them; return the number of people.

    ``gate_total`` is 0 where the count at the gate is not known here; one with noise of its own bounds nothing. The people are
    compared with max_participants first: beyond it nothing proves that other numbers did not wrap.
    """
    people, slack = plan.people_of(int(values[0])), plan.people_slack
    least = gate_total if plan.noise is None or plan.noise.gate is None else 0
    if not least - slack <= people <= plan.protection.max_participants + slack:
        raise RemoteProtocolError(
            "R5.3",
            "the opened number of people is above max_participants or below the gate; nothing is published",
        )
    bounds = [
        (people + slack if block.per == "person" else survivors) * block.unit_bound
        + survivors * (1 + plan.noise_bounds.get(block.name, 0))
        for block in blocks
    ]
    block = first_beyond(blocks, bounds, values)
    if block is not None:
        raise RemoteProtocolError(
            "R5.4", f"block {block.name} is out of its possible range: a site sent impossible numbers"
        )
    return people


def check_gate(total: int, plan: RoundPlan, min_participants: int, check: str) -> None:
    """Raise RemoteProtocolError ``check`` unless the gate sum reaches the effective minimum.

    A check against honest mistakes and small cohorts, not against liars: nobody sees a single count.
    """
    protection = plan.protection
    minimum = (
        max(protection.min_participants, min_participants)
        + protection.max_colluding_sites * protection.gate_cap
    )
    if total < minimum * plan.gate_levels:
        raise RemoteProtocolError(
            check, f"too few participants: the gate must reach {minimum} in capped counts"
        )
