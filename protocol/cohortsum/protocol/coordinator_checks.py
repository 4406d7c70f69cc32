"""The checks the coordinator makes on what sites send, so that one bad message costs one site and not the round."""

import hmac
from collections.abc import Mapping, Sequence

from cohortsum.crypto.commitments import commit_share
from cohortsum.crypto.errors import RemoteProtocolError
from cohortsum.protocol.ahead import SLOT_BYTES
from cohortsum.protocol.bounds import threshold
from cohortsum.protocol.coordinator_states import (
    U1,
    U2,
    U3,
    Dealing,
    DealtAhead,
    Input,
    Masking,
    OpeningData,
    OpeningGate,
)
from cohortsum.protocol.envelope import open_envelope
from cohortsum.protocol.masking import words_digest, words_from_bytes
from cohortsum.protocol.messages import (
    Advert,
    Consistency,
    DataShares,
    Envelope,
    GateShares,
    MaskedInput,
    Message,
    ShareEntry,
    Shares,
)
from cohortsum.protocol.plan import GATE_LENGTH
from cohortsum.protocol.roster import Role, Roster, SiteId
from cohortsum.protocol.seeds import ciphertext_digest
from cohortsum.protocol.transcript import adverts_digest, shares_digest


def adverts(context: bytes, envelopes: Sequence[Envelope], roster: Roster) -> dict[int, Advert]:
    """Return the adverts of U1 by index; each was checked when it came in."""
    return {
        roster.sites[SiteId(envelope.sender)]: open_envelope(envelope, Advert, context, roster, Role.SITE)
        for envelope in envelopes
    }


def dealt_again(
    context: bytes, adverts_of: Sequence[Envelope], shares_of: Sequence[Envelope], roster: Roster
) -> DealtAhead:
    """Return what an attempt dealt for later ones, from the signed messages of its dealers; raises RemoteProtocolError.

    Ciphertexts are not among them: their holders have opened them already.
    """
    held = adverts(context, adverts_of, roster)
    ordered = tuple(sorted(adverts_of, key=lambda one: roster.sites[SiteId(one.sender)]))
    u1 = U1(adverts_digest(context, ordered), threshold(len(held)), held, context)
    dealings: dict[int, Dealing] = {}
    for one in shares_of:
        message = open_envelope(one, Shares, context, roster, Role.SITE)
        if message.adverts_digest != u1.h1:
            raise RemoteProtocolError("R1.8", "shares dealt under another L1")
        dealings[roster.sites[SiteId(one.sender)]] = Dealing(one, message, {})
    dealers = tuple(held.envelope for _, held in sorted(dealings.items()))
    slots_held = min((len(advert.ahead) // SLOT_BYTES for advert in held.values()), default=0)
    return DealtAhead(context, u1, U2(shares_digest(context, u1.h1, dealers), dealings), slots_held)


def slots(message: Message, ahead: int) -> None:
    """R1.10: an advert or a dealer's list holds as many slots as the opening asked for."""
    match message:
        case Advert():
            held, holders = message.ahead, 1
        case Shares():
            held, holders = message.ahead_commitments, len(message.holders)
        case _:
            return
    if len(held) != SLOT_BYTES * ahead * holders:
        raise RemoteProtocolError("R1.10", "keys or commitments for more or fewer iterations than asked for")


def dealing(
    u1: U1, site: int, envelope: Envelope, message: Message, ciphertexts: tuple[bytes, ...]
) -> Dealing:
    """R1: a dealer of U1 signed one entry and attached one ciphertext for every site of L1."""
    if not isinstance(message, Shares) or site not in u1.adverts:
        raise RemoteProtocolError("R1.8", "not a share message of an advertiser")
    if message.adverts_digest != u1.h1:
        raise RemoteProtocolError("R1.8", "shares dealt under another L1")
    if list(message.holders) != sorted(u1.adverts) or len(ciphertexts) != len(u1.adverts):
        raise RemoteProtocolError("R1.8", "shares must be dealt to every site of L1, by roster index")
    digests = b"".join(map(ciphertext_digest, ciphertexts))
    if not hmac.compare_digest(message.ciphertext_digests, digests):
        raise RemoteProtocolError("R1.8", "a ciphertext is not the one its dealer signed")
    held = dict(zip(message.holders, ciphertexts, strict=True))
    return Dealing(envelope, message, held)


def masked(
    state: Masking, site: int, envelope: Envelope, message: Message, attached: tuple[bytes, ...]
) -> Input:
    """R2: a site of U2 signed its digests under this transcript and attached its gate words."""
    if not isinstance(message, MaskedInput) or site not in state.u2.dealings:
        raise RemoteProtocolError("R2", "not a masked input of a site of U2")
    if (message.adverts_digest, message.shares_digest) != (state.u1.h1, state.u2.h2):
        raise RemoteProtocolError("R2", "masked under another transcript")
    if len(attached) != 1 or len(attached[0]) != 8 * GATE_LENGTH:
        raise RemoteProtocolError("R2", "the gate words are missing or of another length")
    if not hmac.compare_digest(words_digest(words_from_bytes(attached[0])), message.gate_digest):
        raise RemoteProtocolError("R2", "the gate words are not the ones signed")
    return Input(envelope, message, attached[0])


def consistency(u3: U3, site: int, message: Message) -> None:
    """R3: a survivor stands by the survivor set as it was sent."""
    if not isinstance(message, Consistency) or site not in u3.inputs:
        raise RemoteProtocolError("R3", "not a survivor's signature")
    if message.statement != u3.statement:
        raise RemoteProtocolError("R3", "a survivor signed another survivor set")


def gate_shares(state: OpeningGate, site: int, message: GateShares) -> None:
    """R4a: shares for exactly the survivors and the dropouts, each as its dealer signed it."""
    dropped = set(state.u2.dealings) - set(state.u3.inputs)
    if message.gate.keys() != state.u3.inputs.keys() or set(message.mask) != dropped:
        raise RemoteProtocolError("R4.9", "shares for other sites than the survivors and the dropouts")
    _answering(state.u3, site, message.statement)
    context = state.u1.secrets
    for owner, share in message.gate.items():
        _share(context, "gate", owner, site, share, _entry(state.u2.dealings, owner, site).gate_commitment)
    for owner, share in message.mask.items():
        _share(context, "mask", owner, site, share, _entry(state.u2.dealings, owner, site).mask_commitment)


def data_shares(state: OpeningData, site: int, message: DataShares) -> None:
    """R4b: shares for exactly the survivors, each as its dealer signed it."""
    if message.data.keys() != state.u3.inputs.keys():
        raise RemoteProtocolError("R4.10", "shares for other sites than the survivors")
    _answering(state.u3, site, message.statement)
    context = state.u1.secrets
    for owner, share in message.data.items():
        _share(context, "data", owner, site, share, _entry(state.u2.dealings, owner, site).data_commitment)


def _answering(u3: U3, site: int, statement: bytes) -> None:
    if site not in u3.inputs or statement != u3.statement:
        raise RemoteProtocolError("R4", "not an answer of a survivor to this survivor set")


def _entry(dealings: Mapping[int, Dealing], owner: int, holder: int) -> ShareEntry:
    return dealings[owner].shares.entry(holder)


def _share(context: bytes, kind: str, owner: int, holder: int, share: int, committed: bytes) -> None:
    if not hmac.compare_digest(commit_share(context, kind, owner, holder, share), committed):
        raise RemoteProtocolError("R4.13", f"a {kind} share of site index {owner} is not the one it dealt")
