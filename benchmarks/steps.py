"""The two steps that masking consists of, built from the product's own functions on the secrets of a played round.

A site: agree on a key with every peer, derive, mask gate and data, and digest what it sends. The coordinator: add the
uploads, combine and check the seeds, derive the keys, and take the masks off. Both give back what they computed, so that
the caller can compare it with what the round's machines made of the same secrets.
"""

from dataclasses import dataclass

import numpy as np

from benchmarks.measure import Laps
from benchmarks.played import Contribution, Played
from cohortsum.crypto import shamir
from cohortsum.crypto.masks import Vector, add_masks
from cohortsum.protocol.masking import (
    Dropouts,
    MaskKeys,
    add_words,
    mask,
    removal_keys,
    site_keys,
    words_digest,
)
from cohortsum.protocol.opening import check_mask_seed, check_self_seed
from cohortsum.protocol.seeds import PARTS, mask_key, pair_mask_keys, self_mask_key


@dataclass(frozen=True, slots=True)
class Masked:
    """A site's masked data with its digest, and where the time went."""

    words: Vector
    digest: bytes
    laps: Laps


def mask_site(at: Contribution) -> Masked:
    """Do a site's mask step: parts ``keys``, ``mask`` and ``digest``."""
    laps, attempt, roll, dealt = Laps(), at.state.attempt, at.state.roll, at.state.dealt
    index, cap = at.setup.index, at.setup.plan.protection.gate_cap
    with laps.lap("keys"):
        own = mask_key(attempt.context, attempt.seeds.element("mask"))
        pairs = {
            peer: pair_mask_keys(
                own, index, roll.adverts[peer].mask_key, peer, attempt.context, roll.h1, dealt.h2
            )
            for peer in dealt.shares
            if peer != index
        }
        keys = {
            part: site_keys(
                part,
                index,
                self_mask_key(attempt.context, part, index, attempt.seeds.element(part)),
                pairs,
            )
            for part in PARTS
        }
    values = at.values.copy()  # a site masks its own fresh values in place
    with laps.lap("mask"):
        gate = mask(np.minimum(values[:1], cap), keys["gate"])
        data = mask(values, keys["data"])
    with laps.lap("digest"):
        words_digest(gate)
        digest = words_digest(data)
    return Masked(data, digest, laps)


@dataclass(frozen=True, slots=True)
class Unmasked:
    """The opened words, and where the time went."""

    words: Vector
    laps: Laps


def unmask(round_: Played) -> Unmasked:
    """Do the coordinator's unmask step: parts ``sum``, ``seeds``, ``keys`` and ``expand``."""
    laps = Laps()
    shamir.weights.cache_clear()  # the weights belong to one survivor set, so every round computes them once
    with laps.lap("sum"):
        total = add_words((round_.uploads[site] for site in sorted(round_.uploads)), round_.length)
    with laps.lap("seeds"):
        own = {owner: _seed(round_, owner, dropped=False) for owner in sorted(round_.uploads)}
        lost = {owner: _seed(round_, owner, dropped=True) for owner in round_.dropped}
    with laps.lap("keys"):
        keys = _keys(round_, own, lost)
    with laps.lap("expand"):
        add_masks(total, keys.plus, keys.minus)
    return Unmasked(total, laps)


def _seed(round_: Played, owner: int, dropped: bool) -> int:
    answers = (
        {site: answer.mask[owner] for site, answer in round_.gate_shares.items()}
        if dropped
        else {site: answer.data[owner] for site, answer in round_.data_shares.items()}
    )
    seed = shamir.combine({site + 1: share for site, share in answers.items()}, round_.threshold)
    if dropped:
        check_mask_seed(round_.context, owner, seed, round_.adverts[owner], "R4.7")
    else:
        check_self_seed(round_.context, "data", owner, seed, round_.adverts[owner], "R4.6")
    return seed


def _keys(round_: Played, own: dict[int, int], lost: dict[int, int]) -> MaskKeys:
    publics = {index: advert.mask_key for index, advert in round_.adverts.items()}
    dropouts = Dropouts.of(round_.context, lost, own, publics)
    return removal_keys("data", round_.context, round_.h1, round_.h2, own, dropouts)
