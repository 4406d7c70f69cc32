"""Seeds of an attempt: both ends derive one key, and nobody who was told anything else does."""

import hashlib
from dataclasses import replace
from itertools import combinations

import pytest

from cohortsum.crypto.agreement import AgreementKey
from cohortsum.crypto.commitments import commit_seed, commit_share
from cohortsum.crypto.field import PRIME
from cohortsum.crypto.sealing import KEY_AND_NONCE_BYTES
from cohortsum.crypto.shamir import combine
from cohortsum.protocol.seeds import (
    PARTS,
    SHARE_KINDS,
    HeldShares,
    Seeds,
    advertise,
    channel_key,
    channel_secret,
    ciphertext_digest,
    deal,
    mask_key,
    pack_shares,
    pair_mask_keys,
    sealing_data,
    sealing_key,
    self_mask_key,
    unpack_shares,
)
from tests.protocol.consortium import stream


def label(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()


CONTEXT, H1, H2 = label("context"), label("h1"), label("h2")
OTHER = label("other")
SEEDS = {index: Seeds.draw(stream(f"seeds/{index}")) for index in (2, 5, 9)}
MASKS = {index: mask_key(CONTEXT, seeds.element("mask")) for index, seeds in SEEDS.items()}
CHANNELS = {index: channel_key(CONTEXT, seeds) for index, seeds in SEEDS.items()}


# Drawing and wiping


def test_seeds_are_four_independent_draws_of_the_field() -> None:
    seeds = SEEDS[2]
    drawn = {held.reveal() for held in (seeds.channel, seeds.mask, seeds.gate, seeds.data)}
    assert len(drawn) == 4
    assert all(0 <= seeds.element(kind) < PRIME for kind in SHARE_KINDS)
    assert len({seeds.element(kind) for kind in SHARE_KINDS}) == 3
    assert not drawn & {held.reveal() for held in (SEEDS[5].channel, SEEDS[5].mask, SEEDS[5].gate)}


def test_a_seed_of_p_or_more_is_drawn_again() -> None:
    offered = iter(
        [bytes(32), b"\xff" * 32, bytes(32), bytes([1] + 31 * [0]), PRIME.to_bytes(32, "little"), bytes(32)]
    )
    seeds = Seeds.draw(lambda _: next(offered))
    assert [seeds.element(kind) for kind in SHARE_KINDS] == [0, 1, 0]


def test_seeds_do_not_show_and_are_wiped() -> None:
    seeds = Seeds.draw(stream("shown"))
    shown = repr(seeds)
    for kind in SHARE_KINDS:
        assert str(seeds.element(kind)) not in shown
    for held in (seeds.channel, seeds.mask, seeds.gate, seeds.data):
        assert held.reveal().hex() not in shown
    seeds.wipe()
    for held in (seeds.channel, seeds.mask, seeds.gate, seeds.data):
        with pytest.raises(ValueError, match="wiped"):
            held.reveal()


# Adverts


def test_an_advert_commits_to_both_self_seeds_and_names_both_keys() -> None:
    seeds = SEEDS[5]
    advert = advertise(CONTEXT, 5, seeds)
    assert advert.channel_key == CHANNELS[5].public
    assert advert.mask_key == MASKS[5].public
    assert advert.gate_commitment == commit_seed(CONTEXT, "gate", 5, seeds.element("gate"))
    assert advert.data_commitment == commit_seed(CONTEXT, "data", 5, seeds.element("data"))
    fields = ("channel_key", "mask_key", "gate_commitment", "data_commitment")
    assert len({getattr(advert, name) for name in fields}) == 4


def test_in_another_context_nothing_of_an_advert_is_the_same() -> None:
    one, other = advertise(CONTEXT, 5, SEEDS[5]), advertise(OTHER, 5, SEEDS[5])
    fields = ("channel_key", "mask_key", "gate_commitment", "data_commitment")
    assert all(getattr(one, name) != getattr(other, name) for name in fields)
    moved = advertise(CONTEXT, 6, SEEDS[5])
    assert moved.gate_commitment != one.gate_commitment
    assert moved.data_commitment != one.data_commitment


# Shares


def test_any_threshold_holders_give_every_seed_and_every_seed_has_its_own_polynomial() -> None:
    holders = [0, 3, 4, 7, 11]
    dealt = deal(SEEDS[5], 4, holders, stream("deal"))
    assert list(dealt) == holders
    for kind in SHARE_KINDS:
        shares = {holder + 1: getattr(dealt[holder], kind) for holder in holders}
        for size in (3, 4):
            opened = {
                combine({point: shares[point] for point in chosen}, size)
                for chosen in combinations(sorted(shares), size)
            }
            assert (opened == {SEEDS[5].element(kind)}) == (size == 4)
            assert (SEEDS[5].element(kind) in opened) == (size == 4)
    values = [getattr(dealt[holder], kind) for holder in holders for kind in SHARE_KINDS]
    assert len(set(values)) == len(values)


def test_dealing_twice_deals_other_shares_of_the_same_seeds() -> None:
    one, other = (deal(SEEDS[5], 2, [0, 1, 2], stream(name)) for name in ("one", "other"))
    assert all(one[holder] != other[holder] for holder in one)
    for dealt in (one, other):
        assert combine({holder + 1: held.data for holder, held in dealt.items()}, 2) == SEEDS[5].element(
            "data"
        )


HELD = HeldShares(PRIME - 1, 0, 12345)


@pytest.mark.parametrize("slots", [0, 1, 3])
def test_packed_shares_have_one_length_and_come_back(slots: int) -> None:
    for held in (HELD, HeldShares(0, 0, 0), HeldShares(1, PRIME - 1, PRIME - 1)):
        everything = (held, *(HeldShares(slot, slot + 1, PRIME - 1) for slot in range(slots)))
        packed = pack_shares(everything, 2, 5, H1)
        assert len(packed) == 8 + 8 + 32 + 3 * 32 * (1 + slots)
        assert unpack_shares(packed, 1 + slots, 2, 5, H1) == everything


def test_shares_for_somebody_else_or_of_another_length_are_not_unpacked() -> None:
    packed = pack_shares((HELD,), 2, 5, H1)
    for dealer, holder, h1 in ((3, 5, H1), (2, 6, H1), (5, 2, H1), (2, 5, H2)):
        assert unpack_shares(packed, 1, dealer, holder, h1) is None
    for size in (0, 47, len(packed) - 1):
        assert unpack_shares(packed[:size], 1, 2, 5, H1) is None
    assert unpack_shares(packed + b"\0", 1, 2, 5, H1) is None
    assert unpack_shares(packed, 2, 2, 5, H1) is None
    assert unpack_shares(pack_shares((HELD, HELD), 2, 5, H1), 1, 2, 5, H1) is None


def test_held_shares_do_not_show_and_are_committed_to_one_by_one() -> None:
    assert repr(HELD) == "HeldShares()"
    honest = HELD.commitments(CONTEXT, 2, 5)
    assert honest == (
        commit_share(CONTEXT, "mask", 2, 5, PRIME - 1),
        commit_share(CONTEXT, "gate", 2, 5, 0),
        commit_share(CONTEXT, "data", 2, 5, 12345),
    )
    for at, kind in enumerate(SHARE_KINDS):
        altered = replace(HELD, **{kind: 1}).commitments(CONTEXT, 2, 5)
        assert [one == other for one, other in zip(honest, altered, strict=True)] == [
            i != at for i in range(3)
        ]


# Sealing


def test_dealer_and_holder_derive_one_sealing_key() -> None:
    at_dealer = sealing_key(channel_secret(CHANNELS[2], CHANNELS[5].public, CONTEXT), CONTEXT, 2, 5, H1)
    at_holder = sealing_key(channel_secret(CHANNELS[5], CHANNELS[2].public, CONTEXT), CONTEXT, 2, 5, H1)
    assert at_dealer == at_holder
    assert len(at_dealer) == KEY_AND_NONCE_BYTES


def test_a_sealing_key_serves_one_direction_of_one_pair_in_one_context_and_l1() -> None:
    def key(
        peer: int = 5, context: bytes = CONTEXT, dealer: int = 2, holder: int = 5, h1: bytes = H1
    ) -> bytes:
        channel = channel_secret(CHANNELS[2], CHANNELS[peer].public, context)
        return sealing_key(channel, context, dealer, holder, h1).reveal()

    keys = [
        key(),
        key(peer=9),
        key(context=OTHER),
        key(dealer=5, holder=2),
        key(holder=9),
        key(dealer=9),
        key(h1=H2),
    ]
    assert len(set(keys)) == len(keys)
    assert len({raw[:32] for raw in keys}) == len({raw[32:] for raw in keys}) == len(keys)
    said = [
        sealing_data(context, h1, dealer, holder)
        for context in (CONTEXT, OTHER)
        for h1 in (H1, H2)
        for dealer, holder in ((2, 5), (5, 2), (2, 9))
    ]
    assert len(set(said)) == len(said)


def test_ciphertext_digests_are_bound_to_their_bytes() -> None:
    assert ciphertext_digest(b"a") != ciphertext_digest(b"b")
    assert ciphertext_digest(b"a") != hashlib.sha256(b"a").digest()


# Masks


def pair(
    own: AgreementKey = MASKS[2],
    own_index: int = 2,
    peer: bytes = MASKS[5].public,
    peer_index: int = 5,
    context: bytes = CONTEXT,
    h1: bytes = H1,
    h2: bytes = H2,
) -> dict[str, bytes]:
    keys = pair_mask_keys(own, own_index, peer, peer_index, context, h1, h2)
    return {part: key.reveal() for part, key in keys.items()}


def test_both_ends_of_every_pair_derive_the_same_mask_keys() -> None:
    for one, other in combinations(MASKS, 2):
        here = pair(MASKS[one], one, MASKS[other].public, other)
        assert here == pair(MASKS[other], other, MASKS[one].public, one)
        assert set(here) == set(PARTS)
        assert {len(key) for key in here.values()} == {32}


def test_mask_keys_differ_for_every_part_pair_context_and_transcript() -> None:
    told = [
        pair(),
        pair(context=OTHER),
        pair(h1=OTHER),
        pair(h2=OTHER),
        pair(h1=H2, h2=H1),
        pair(peer_index=6),
        pair(own_index=3),
        pair(own_index=5, peer_index=2),
        pair(peer=MASKS[9].public),
        pair(own=MASKS[9]),
    ]
    keys = [key for held in told for key in held.values()]
    assert len(set(keys)) == 2 * len(told)


def test_self_mask_keys_differ_for_every_part_owner_context_and_seed() -> None:
    keys = [
        self_mask_key(context, part, owner, seed).reveal()
        for context in (CONTEXT, OTHER)
        for part in PARTS
        for owner in (2, 5)
        for seed in (0, 1, PRIME - 1)
    ]
    assert len(set(keys)) == len(keys) == 24
    assert not set(keys) & set(pair().values())


def test_an_opened_mask_seed_gives_back_the_key_pair_in_its_context_only() -> None:
    """What the coordinator does with the seed of a dropout."""
    seed = SEEDS[5].element("mask")
    again = mask_key(CONTEXT, seed)
    assert again.public == MASKS[5].public
    assert pair(again, 5, MASKS[2].public, 2) == pair()
    assert mask_key(OTHER, seed).public != MASKS[5].public
    assert mask_key(CONTEXT, (seed + 1) % PRIME).public != MASKS[5].public
