"""The checks a site makes in every step; each raises under its own name and changes nothing.

The numbering (R1.4, R3.7) is the product's own and is explained in docs/protocol.md, with the attack each check stops.
"""

import hmac
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from cohortsum.crypto.errors import (
    AuthenticationError,
    LocalProtocolError,
    RemoteProtocolError,
    ShareError,
)
from cohortsum.crypto.sealing import unseal
from cohortsum.protocol.ahead import SLOT_BYTES, advert_of, commitments_for
from cohortsum.protocol.bounds import check_bounds, threshold
from cohortsum.protocol.envelope import open_envelope
from cohortsum.protocol.masking import (
    AddMasks,
    add_words,
    removal_keys,
    signed,
    words_digest,
    words_from_bytes,
)
from cohortsum.protocol.messages import (
    Advert,
    Adverts,
    Closing,
    Consistency,
    Delivery,
    GateOpening,
    MaskedInput,
    Opening,
    Quorum,
    Shares,
    Survivors,
)
from cohortsum.protocol.opening import (
    Sworn,
    check_gate,
    check_mask_seed,
    check_result,
    check_self_seed,
    checked_gate,
    dropouts_of,
    result_digest,
)
from cohortsum.protocol.plan import Suppliers, first_beyond
from cohortsum.protocol.protected import protected_rule
from cohortsum.protocol.roster import Role, SiteId
from cohortsum.protocol.seeds import HeldShares, ciphertext_digest, sealing_data, sealing_key, unpack_shares
from cohortsum.protocol.site_states import Advertised, Agreed, Attempt, Dealt, Masked, Roll, Shared, SiteSetup
from cohortsum.protocol.transcript import adverts_digest, shares_digest


def opening(setup: SiteSetup, message: Opening) -> None:
    """R0: the round is of the study, roster and epoch this site approved, and new."""
    plan = setup.plan
    if message.study_digest != plan.study_digest:
        raise RemoteProtocolError("R0.1", "the round is of another study than this site approved")
    if message.roster_digest != plan.roster_digest:
        raise RemoteProtocolError("R0.2", "the round is under another roster than this site pinned")
    key = message.key
    if (key.round_id, key.iteration, key.attempt) in setup.seen_rounds:
        raise RemoteProtocolError("R0.3", "this site has taken part in this very round before")
    if message.epoch != plan.epoch:
        raise RemoteProtocolError("R0.7", "the round is over another data epoch than this site approved")
    if setup.approval not in message.approvals:
        raise RemoteProtocolError("R0.1", "this site's own approval is missing or altered")
    if setup.bound_survivors is not None and message.survivors != setup.bound_survivors:
        raise RemoteProtocolError("R0.6", "a retry must be bound to the survivors this site signed before")
    if message.earlier:
        earlier = setup.earlier.get(message.earlier)
        if earlier is None or message.survivors != earlier.survivors:
            raise RemoteProtocolError(
                "R0.12", "the round builds on an earlier one that this site did not sign with these survivors"
            )
    iteration(setup, message)


def iteration(setup: SiteSetup, message: Opening) -> None:
    """R0: the round is the next one of this study, with the parameters this site derived, and its secrets are not spent."""
    plan, previous = setup.plan, setup.previous
    if message.key.iteration != plan.iteration:
        raise RemoteProtocolError(
            "R0.13", f"iteration {message.key.iteration} is opened, this site is at {plan.iteration}"
        )
    if message.plan != (b"" if plan.iteration == 1 else plan.digest):
        raise RemoteProtocolError("R5.2", "the iteration has other parameters than this site derived")
    if previous is not None and not (message.survivors and set(message.survivors) <= set(previous)):
        raise RemoteProtocolError(
            "R0.14", "an iteration is over the survivors of the one before, or fewer of them"
        )
    if message.ahead and not (plan.seen and plan.iteration > 1 and not message.dealt):
        raise RemoteProtocolError("R0.15", "secrets are dealt ahead in an iteration after the first only")
    if not message.dealt:
        return
    ahead = setup.ahead
    if ahead is None or ahead.context != message.dealt or not ahead.has(message.slot):
        raise RemoteProtocolError("R0.16", "this site holds no such secrets dealt ahead, or has spent them")
    if plan.iteration == 1 or message.survivors != ahead.members:
        raise RemoteProtocolError("R0.16", "secrets dealt ahead serve exactly the sites that dealt them")


def roll(setup: SiteSetup, state: Advertised, message: Adverts) -> Roll:
    """R1: L1 holds distinct pinned sites with canonical, distinct keys, enough of them, within the bounds."""
    context = state.attempt.context
    if state.advert not in message.adverts:
        raise RemoteProtocolError("R1.1", "this site's own advert is missing or altered")
    adverts: dict[int, Advert] = {}
    for envelope in message.adverts:
        advert = open_envelope(envelope, Advert, context, setup.roster, Role.SITE)  # R1.3, R1.4
        index = setup.roster.sites[SiteId(envelope.sender)]
        if adverts and index <= max(adverts):
            raise RemoteProtocolError("R1.2", "adverts must come by roster index, once each")
        if index not in state.attempt.supplies:
            raise RemoteProtocolError(
                "R1.3", f"{envelope.sender} advertised without an approval of this study"
            )
        if advert.counter < setup.peers.get(index, 0):
            raise RemoteProtocolError(
                "R1.9", f"{envelope.sender} has forgotten rounds that it took part in; it must recover first"
            )
        if len(advert.ahead) != SLOT_BYTES * len(state.own.ahead):
            raise RemoteProtocolError("R1.10", f"{envelope.sender} deals ahead for more or fewer iterations")
        adverts[index] = advert
    keys = [
        key
        for advert in adverts.values()
        for slot in range(1, len(state.own.ahead) + 1)
        for key in (advert_of(advert, slot).mask_key,)
    ]
    keys += [key for advert in adverts.values() for key in (advert.channel_key, advert.mask_key)]
    if len(set(keys)) != len(keys):
        raise RemoteProtocolError("R1.5", "two public keys of the adverts are the same")
    least = max(threshold(len(adverts)), setup.min_sites)
    if len(adverts) < least:
        raise RemoteProtocolError("R1.6", f"{len(adverts)} sites advertised, {least} are required")
    if state.attempt.bound is not None and tuple(adverts) != state.attempt.bound:
        raise RemoteProtocolError("R1.6", "the round must hold exactly the survivors it is bound to")
    if state.attempt.within is not None and not adverts.keys() <= set(state.attempt.within):
        raise RemoteProtocolError("R1.6", "the iteration holds a site that the one before did not")
    check_bounds(len(adverts), setup.plan.protection, "R1.7")
    return Roll(adverts_digest(context, message.adverts), threshold(len(adverts)), adverts, context)


def delivery(
    setup: SiteSetup, state: Shared, message: Delivery, ciphertexts: tuple[bytes, ...]
) -> tuple[Dealt, Mapping[int, tuple[HeldShares, ...]]]:
    """R2: every dealer of U2 signed what it sealed for this site, and all of it opens and matches, now.

    Return the shares of this attempt, and by dealer those of the slots dealt ahead.
    """
    context, at = state.attempt.context, state.roll
    if len(ciphertexts) != len(message.shares):
        raise RemoteProtocolError("R2.4", "one ciphertext per dealer is required")
    shares: dict[int, HeldShares] = {}
    slots: dict[int, tuple[HeldShares, ...]] = {}
    for envelope, ciphertext in zip(message.shares, ciphertexts, strict=True):
        listed = open_envelope(envelope, Shares, context, setup.roster, Role.SITE)  # R2.4
        dealer = setup.roster.sites[SiteId(envelope.sender)]
        if dealer not in at.adverts:
            raise RemoteProtocolError("R2.1", f"{envelope.sender} dealt shares without advertising")
        if shares and dealer <= max(shares):
            raise RemoteProtocolError("R2.1", "dealers must come by roster index, once each")
        try:
            shares[dealer], *further = _unseal(setup, state, dealer, listed, ciphertext)
            slots[dealer] = tuple(further)
        except RemoteProtocolError as error:
            error.accused = envelope.sender
            raise
    if state.shares not in message.shares:
        raise RemoteProtocolError("R2.2", "this site's own share message is missing or altered")
    least = max(at.threshold, setup.min_sites)
    if len(shares) < least:
        raise RemoteProtocolError("R2.3", f"{len(shares)} sites dealt shares, {least} are required")
    return Dealt(shares_digest(context, at.h1, message.shares), shares), slots


def _unseal(
    setup: SiteSetup, state: Shared, dealer: int, listed: Shares, ciphertext: bytes
) -> tuple[HeldShares, ...]:
    context, at, ahead = state.attempt.context, state.roll, len(state.own.ahead)
    if listed.adverts_digest != at.h1:
        raise RemoteProtocolError("R2.4", f"site index {dealer} dealt shares under another L1")
    if list(listed.holders) != sorted(at.adverts):
        raise RemoteProtocolError("R2.7", f"site index {dealer} did not deal to every site of L1")
    entry = listed.entry(setup.index)
    if not hmac.compare_digest(entry.ciphertext_digest, ciphertext_digest(ciphertext)):
        raise RemoteProtocolError("R2.4", f"the ciphertext of site index {dealer} is not the one it signed")
    try:
        key = sealing_key(state.channels[dealer], context, dealer, setup.index, at.h1)
        plaintext = unseal(key, ciphertext, sealing_data(context, at.h1, dealer, setup.index))
    except AuthenticationError as error:
        raise RemoteProtocolError("R2.5", f"the shares of site index {dealer} do not open") from error
    try:
        held = unpack_shares(plaintext, 1 + ahead, dealer, setup.index, at.h1)
    except ShareError as error:
        raise RemoteProtocolError("R2.7", f"a share of site index {dealer} is no field element") from error
    if held is None:
        raise RemoteProtocolError("R2.6", f"the shares of site index {dealer} are for somebody else")
    expected = (entry.mask_commitment, entry.gate_commitment, entry.data_commitment)
    own, *slots = held
    place, size = listed.holders.index(setup.index), SLOT_BYTES * ahead
    of_slots = b"".join(commitments_for(context, slots, dealer, setup.index))
    signed_of_slots = listed.ahead_commitments[place * size : (place + 1) * size]
    if len(listed.ahead_commitments) != size * len(listed.holders) or of_slots != signed_of_slots:
        raise RemoteProtocolError(
            "R2.7", f"the shares that site index {dealer} dealt ahead are not the ones it signed"
        )
    if own.commitments(context, dealer, setup.index) != expected:
        raise RemoteProtocolError("R2.7", f"the shares of site index {dealer} are not the ones it signed")
    return held


def contribution(setup: SiteSetup, attempt: Attempt, people: int, values: NDArray[np.int64]) -> None:
    """R2: what this site adds respects floor, layout, bounds and supplies; a fault here is our own."""
    protection = setup.plan.protection
    if not setup.min_participants_per_site <= people <= protection.max_participants:
        raise LocalProtocolError(
            "R2.8", "the number of people is below this site's floor or above max_participants"
        )
    if values.dtype != np.int64 or values.shape != (sum(block.size for block in attempt.blocks),):
        raise LocalProtocolError("R2.9", "the values do not have the plan's layout")
    supplied = attempt.supplies[setup.index]
    noise = setup.plan.noise_bounds
    bounds = [
        (
            0
            if block.supply and not block.supply[0] <= supplied
            else block.unit_bound * people + 1
            if block.per == "person"
            else block.unit_bound
        )
        + noise.get(block.name, 0)
        for block in attempt.blocks
    ]
    beyond = first_beyond(attempt.blocks, bounds, values)
    if beyond is not None:
        raise LocalProtocolError("R2.9", f"a value of block {beyond.name} exceeds the plan's bound")
    first = attempt.blocks[0]
    noised = abs(int(values[0]) - people * setup.plan.people_levels)
    if first.size != 1 or noised > noise.get(first.name, 0):
        raise LocalProtocolError("R2.9", "the first block must hold the number of people")


def survivors(setup: SiteSetup, state: Masked, message: Survivors) -> Mapping[int, MaskedInput]:
    """R3: U3 lies within U2, holds this site, is large enough everywhere, and every digest is signed."""
    attempt, at, dealt = state.attempt, state.roll, state.dealt
    members: dict[int, MaskedInput] = {}
    for envelope in message.masked:
        masked = open_envelope(envelope, MaskedInput, attempt.context, setup.roster, Role.SITE)  # R3.7
        index = setup.roster.sites[SiteId(envelope.sender)]
        if index not in dealt.shares:
            raise RemoteProtocolError("R3.1", f"{envelope.sender} is named as survivor but dealt no shares")
        if members and index <= max(members):
            raise RemoteProtocolError("R3.1", "survivors must come by roster index, once each")
        if (masked.adverts_digest, masked.shares_digest) != (at.h1, dealt.h2):
            raise RemoteProtocolError("R3.7", f"{envelope.sender} masked under another transcript")
        members[index] = masked
    if state.masked not in message.masked:
        raise RemoteProtocolError("R3.2", "this site is not among the survivors with its own digest")
    least = max(at.threshold, setup.min_sites)
    if len(members) < least:
        raise RemoteProtocolError("R3.3", f"{len(members)} survivors, {least} are required")
    if attempt.bound is not None and tuple(members) != attempt.bound:
        raise RemoteProtocolError("R3.3", "the round must keep exactly the survivors it is bound to")
    protection = setup.plan.protection
    suppliers = Suppliers({index: attempt.supplies[index] for index in members})
    for block in attempt.blocks:
        if suppliers.least(block) - protection.max_colluding_sites < protection.min_honest_inputs:
            raise RemoteProtocolError("R3.6", f"too few suppliers of block {block.name} survive")
    broken = protected_rule(
        {index: at.adverts[index] for index in members},
        {index: attempt.supplies[index] for index in members},
        protection.suppliers_least,
    )
    if broken is not None:
        raise RemoteProtocolError("R3.8", broken)
    used = {at.adverts[index].used for index in members if at.adverts[index].protected} - {b""}
    if used and any(setup.named.get(context) != tuple(members) for context in used):
        raise RemoteProtocolError(
            "R3.8", "protected sites name an earlier attempt that this site did not see with these survivors"
        )
    return members


def quorum(setup: SiteSetup, state: Agreed, message: Quorum) -> tuple[tuple[int, bytes], ...]:
    """R4.1 to R4.4: at least t distinct survivors signed the very statement this site signed; return their signatures."""
    signers: list[int] = []
    for envelope in message.signatures:
        signed = open_envelope(envelope, Consistency, state.attempt.context, setup.roster, Role.SITE)
        if signed.statement != state.statement:
            raise RemoteProtocolError("R4.4", f"{envelope.sender} signed another survivor set")
        signers.append(setup.roster.sites[SiteId(envelope.sender)])
    if len(set(signers)) != len(signers):
        raise RemoteProtocolError("R4.1", "a signer is counted twice")
    if not set(signers) <= state.survivors.keys():
        raise RemoteProtocolError("R4.2", "a signer is no survivor")
    if len(signers) < state.roll.threshold:
        raise RemoteProtocolError("R4.3", f"{len(signers)} signatures, {state.roll.threshold} are required")
    return tuple(zip(signers, (envelope.signature for envelope in message.signatures), strict=True))


def gate(setup: SiteSetup, agreed: Agreed, message: GateOpening) -> None:
    """R4.5 to R4.8: everything opened is what its owner signed, and the count this site adds up suffices."""
    at, context = agreed.roll, agreed.attempt.context
    sworn = Sworn(context, at.secrets, at.h1, agreed.dealt.h2, at.adverts, agreed.survivors, agreed.dropped)
    check_gate(checked_gate(sworn, message), setup.plan, setup.min_participants, "R4.8")


def recomputed(
    setup: SiteSetup, agreed: Agreed, message: Closing, words: tuple[bytes, ...], add: AddMasks
) -> NDArray[np.int64]:
    """R5.0: everything that was opened is what its owner signed; return the sum that this site adds up itself."""
    at, context = agreed.roll, agreed.attempt.context
    if not setup.plan.seen:
        raise RemoteProtocolError("R5.0", "the sums of this round are not for sites, and none are taken")
    if message.data.keys() != agreed.survivors.keys() or tuple(sorted(message.mask)) != agreed.dropped:
        raise RemoteProtocolError("R5.0", "the opened sum names other survivors or dropouts")
    if len(words) != len(agreed.survivors):
        raise RemoteProtocolError("R5.0", "one masked input per survivor is required")
    length = sum(block.size for block in agreed.attempt.blocks)
    for (owner, masked), held in zip(sorted(agreed.survivors.items()), words, strict=True):
        if len(held) != 8 * length or not hmac.compare_digest(
            words_digest(words_from_bytes(held)), masked.data_digest
        ):
            raise RemoteProtocolError(
                "R5.0", f"the masked input of site index {owner} is not the one it signed"
            )
        check_self_seed(at.secrets, "data", owner, message.data[owner], at.adverts[owner], "R5.0")
    for owner, seed in message.mask.items():
        check_mask_seed(at.secrets, owner, seed, at.adverts[owner], "R5.0")
    dropouts = dropouts_of(at.secrets, message.mask, agreed.survivors, at.adverts)
    keys = removal_keys("data", context, at.h1, agreed.dealt.h2, message.data, dropouts)
    total = add_words(map(words_from_bytes, words), length)
    add(total, keys.plus, keys.minus)
    if not hmac.compare_digest(result_digest(total), message.result_digest):
        raise RemoteProtocolError("R5.0", "the sum is another than the one the coordinator announced")
    values = signed(total)
    check_result(setup.plan, agreed.attempt.blocks, values, len(agreed.survivors))
    return values
