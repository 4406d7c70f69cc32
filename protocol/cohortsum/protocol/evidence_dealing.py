"""Shares that were dealt or given back wrongly: what a site signed about them, against what it sent.

**Bad shares.** A dealer's list names, per holder, the digest of a ciphertext and the commitments to what is in it. Where the ciphertext
opens under some key to anything else, the dealer sealed it so: opening another's ciphertext under a key that is not its own means to hit
a tag of 128 bits with each trial. A list that leaves out an advertiser is shown without any key, beside the adverts that it names.

**Bad answers.** An answer names the statement that its sender signed. Its preimage, the share lists of U2 and the masked inputs of U3, is
in the file and hashes to it; so these are the very lists that the sender had checked its shares against when they arrived (R2.7), and no
dealer can have shown it another one. Whoever then gives back another share, or shares for others than U3 and U2 without U3, lies.
"""

import hmac
from typing import TypeVar

from cohortsum.crypto.commitments import commit_share
from cohortsum.crypto.errors import AuthenticationError, RemoteProtocolError, ShareError
from cohortsum.crypto.sealing import KEY_AND_NONCE_BYTES, unseal
from cohortsum.crypto.secret import SecretBytes
from cohortsum.protocol.ahead import SLOT_BYTES, commitments_for, shares_of
from cohortsum.protocol.envelope import open_envelope
from cohortsum.protocol.evidence import Evidence
from cohortsum.protocol.evidence_round import About, Broken
from cohortsum.protocol.messages import (
    Adverts,
    DataShares,
    Envelope,
    GateShares,
    Kind,
    MaskedInput,
    Shares,
)
from cohortsum.protocol.plan import RoundPlan
from cohortsum.protocol.roster import Role, Roster, SiteId
from cohortsum.protocol.seeds import ciphertext_digest, sealing_data, unpack_shares
from cohortsum.protocol.transcript import adverts_digest, shares_digest, statement

M = TypeVar("M")


def bad_shares(evidence: Evidence, about: About, roster: Roster, _plan: RoundPlan) -> Broken:
    """Return what a dealer's own list and ciphertext show; raises AuthenticationError where they fit."""
    messages = evidence.messages
    if evidence.key:
        if len(messages) != 1:
            raise AuthenticationError("one share message is expected")
        dealer, listed = _opened(messages[0], Shares, about.context, roster)
        wrong = _sealed_wrongly(evidence, about.context, dealer, listed)
    else:
        if len(messages) != 2 or evidence.ciphertext or evidence.holder:
            raise AuthenticationError("the adverts and one share message are expected, and nothing else")
        dealer, listed = _opened(messages[1], Shares, about.context, roster)
        wrong = _left_out(messages[0], about.context, listed, roster)
    check, sentence = wrong
    return Broken(check, messages[-1].sender, sentence)


def _sealed_wrongly(evidence: Evidence, context: bytes, dealer: int, listed: Shares) -> tuple[str, str]:
    holder = evidence.holder
    if holder not in listed.holders or len(evidence.key) != KEY_AND_NONCE_BYTES:
        raise AuthenticationError(
            "the dealer's list does not name this holder, or the key has another length"
        )
    entry, place = listed.entry(holder), listed.holders.index(holder)
    if not hmac.compare_digest(entry.ciphertext_digest, ciphertext_digest(evidence.ciphertext)):
        raise AuthenticationError("the ciphertext is not the one that the dealer signed")
    h1, size = listed.adverts_digest, len(listed.ahead_commitments) // len(listed.holders)
    key = SecretBytes(evidence.key, "sealing key")
    try:
        plaintext = unseal(key, evidence.ciphertext, sealing_data(context, h1, dealer, holder))
    except AuthenticationError:
        raise AuthenticationError(
            "the ciphertext does not open under this key, which proves nothing"
        ) from None
    finally:
        key.wipe()
    what = f"sealed for site index {holder}"
    try:
        held = unpack_shares(plaintext, 1 + size // SLOT_BYTES, dealer, holder, h1)
    except ShareError:
        return "R2.7", f"{what} a share that is no field element"
    if held is None:
        return "R2.6", f"{what} something that says it is for somebody else, or has another length"
    own, *slots = held
    expected = (entry.mask_commitment, entry.gate_commitment, entry.data_commitment)
    of_slots = b"".join(commitments_for(context, slots, dealer, holder))
    same = own.commitments(context, dealer, holder) == expected
    if same and of_slots == listed.ahead_commitments[place * size : (place + 1) * size]:
        raise AuthenticationError("the shares are those that the dealer signed")
    return "R2.7", f"{what} other shares than those it signed"


def _left_out(adverts: Envelope, context: bytes, listed: Shares, roster: Roster) -> tuple[str, str]:
    """A dealer's list against the adverts whose digest it names; who signed these together is of no concern."""
    try:
        message = open_envelope(adverts, Adverts, context, roster, Role.COORDINATOR)
    except RemoteProtocolError as error:
        raise AuthenticationError(error.message) from None
    if adverts_digest(context, message.adverts) != listed.adverts_digest:
        raise AuthenticationError("the dealer was shown other adverts")
    names = [roster.sites.get(SiteId(advert.sender)) for advert in message.adverts]
    if None in names or names == list(listed.holders):
        raise AuthenticationError("the dealer's list names exactly the advertisers")
    return "R2.7", "dealt shares to others than the advertisers that its list names"


def bad_answer(evidence: Evidence, about: About, roster: Roster, _plan: RoundPlan) -> Broken:
    """Return what a site's answer shows, behind the messages of its statement; raises AuthenticationError where it fits."""
    if len(evidence.messages) < 3 or evidence.ciphertext or evidence.key or evidence.holder:
        raise AuthenticationError("lists, masked inputs and an answer are expected, and nothing else")
    *before, last = evidence.messages
    lists = [held for held in before if held.kind is Kind.SHARES]
    masked = before[len(lists) :]
    dealt = dict(_opened(held, Shares, about.dealing, roster) for held in lists)
    members = dict(_opened(held, MaskedInput, about.context, roster) for held in masked)
    h1 = next(iter(dealt.values())).adverts_digest if dealt else b""
    h2 = shares_digest(about.dealing, h1, lists)
    answer = _answer(last, about.context, roster)
    if answer.statement != statement(about.context, h1, h2, masked):
        raise AuthenticationError("the answer is to another survivor set than the one in the file")
    sender = roster.sites[SiteId(last.sender)]
    return _wrong_answer(about, sender, last.sender, answer, dealt, frozenset(members))


def _wrong_answer(
    about: About,
    sender: int,
    name: str,
    answer: GateShares | DataShares,
    dealt: dict[int, Shares],
    members: frozenset[int],
) -> Broken:
    if isinstance(answer, GateShares):
        parts = {"gate": (answer.gate, members), "mask": (answer.mask, dealt.keys() - members)}
        check = "R4.9"
    else:
        parts, check = {"data": (answer.data, members)}, "R4.10"
    for kind, (given, expected) in parts.items():
        if set(given) != expected:
            return Broken(
                check, name, f"gave {kind} shares of others than the survivor set that it signed asks for"
            )
    for kind, (given, _) in parts.items():
        for owner, share in given.items():
            listed = dealt.get(owner)
            if listed is None or sender not in listed.holders:
                raise AuthenticationError("the lists do not name the accused as a holder")
            if about.opening.dealt and len(listed.ahead_commitments) < (
                about.opening.slot * SLOT_BYTES * len(listed.holders)
            ):
                raise AuthenticationError("the slot of the opening is not in the lists")
            used = shares_of(listed, about.opening.slot) if about.opening.dealt else listed
            entry = used.entry(sender)
            signed = {
                "gate": entry.gate_commitment,
                "mask": entry.mask_commitment,
                "data": entry.data_commitment,
            }[kind]
            if not hmac.compare_digest(commit_share(about.secrets, kind, owner, sender, share), signed):
                return Broken(
                    "R4.13", name, f"gave back another {kind} share of site index {owner} than it was dealt"
                )
    raise AuthenticationError("every share is the one that was dealt")


def _answer(envelope: Envelope, context: bytes, roster: Roster) -> GateShares | DataShares:
    if envelope.kind is Kind.GATE_SHARES:
        return _opened(envelope, GateShares, context, roster)[1]
    return _opened(envelope, DataShares, context, roster)[1]


def _opened(envelope: Envelope, expected: type[M], context: bytes, roster: Roster) -> tuple[int, M]:
    """Return a site's roster index and message; raises AuthenticationError for anything else."""
    try:
        message = open_envelope(envelope, expected, context, roster, Role.SITE)
    except RemoteProtocolError as error:
        raise AuthenticationError(error.message) from None
    return roster.sites[SiteId(envelope.sender)], message
