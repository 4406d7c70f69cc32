"""What a trustee checks before it decrypts the sum of a round's ciphertexts, and what it signs about it.

In two-key mode the data part of every site is masked modulo the plaintext prime and then encrypted under a key that the trustee drew for
this context alone. The trustee holds the outer lock and nothing else: what it decrypts is a sum of vectors that are still masked, and
uniform to it whatever it was handed. It decrypts once in a context, and believes neither the coordinator nor any single site:

==  ======================================================================================================================
K0  (sites) the key of a round is signed by the roster's one trustee for this very context, under the study's parameters
K1  the signed messages show, to a witness (`witness`), one survivor set that t sites stand by, within every bound of the study
K2  the gate, added up again from what its owners signed, suffices
K3  it drew a key for this very context, and has decrypted nothing under it but, at most, this very sum
K4  of this study it has decrypted nothing but sums over these very survivors
==  ======================================================================================================================

It cannot see that the ciphertext is the sum over these survivors: another one decrypts to a vector that no opened seed unmasks.
"""

import hmac
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from cohortsum.crypto.bfv import EncryptionKey, Parameters
from cohortsum.crypto.encoding import digest
from cohortsum.crypto.errors import ConfigurationError, CryptoError, RemoteProtocolError
from cohortsum.protocol.codec import packet_from_bytes, packet_to_bytes
from cohortsum.protocol.envelope import open_envelope
from cohortsum.protocol.messages import EncryptionKeyOffer, Envelope, GateOpening, Packet, Unlocked
from cohortsum.protocol.opening import Sworn, check_gate, checked_gate
from cohortsum.protocol.plan import RoundPlan
from cohortsum.protocol.proof import Transcript
from cohortsum.protocol.roster import Identity, Role, Roster
from cohortsum.protocol.witness import WitnessedRound, witnessed

PARAMETERS = "cohortsum/v1/encryption-parameters"
KEY = "cohortsum/v1/encryption-key"


@dataclass(frozen=True, slots=True)
class UnlockRequest:
    """What a coordinator shows a trustee beside the sum of ciphertexts; nothing in it is believed.

    Attributes:
        transcript: the signed messages of the round, with the survivors' signatures.
        gate: the opened gate, as the coordinator signed it for the sites.
    """

    transcript: Transcript
    gate: Envelope


def permit(
    request: UnlockRequest, plan: RoundPlan, roster: Roster, decrypted: Iterable[tuple[int, ...]]
) -> WitnessedRound:
    """K1, K2 and K4: return the round that was found in order, or raise RemoteProtocolError with the check that failed.

    Args:
        request: as it came.
        plan: that the trustee built from the study the statistician signed.
        roster: as the operator signed it.
        decrypted: the survivor sets of this study over which this trustee decrypted a sum before.
    """
    proven = witnessed(request.transcript, plan, roster)
    opening = open_envelope(request.gate, GateOpening, proven.context, roster, Role.COORDINATOR)
    sworn = Sworn(
        proven.context, proven.secrets, proven.h1, proven.h2, proven.adverts, proven.masked, proven.dropped
    )
    check_gate(checked_gate(sworn, opening), plan, 0, "K2")
    if any(survivors != proven.survivors for survivors in decrypted):
        raise RemoteProtocolError("K4", "a sum of this study over other sites was decrypted before")
    return proven


def parameters_digest(parameters: Parameters) -> bytes:
    """Return the digest by which a trustee names the parameters of its key."""
    return digest(PARAMETERS, parameters.encode())


def key_digest(key: bytes) -> bytes:
    """Return the digest by which a trustee names a public key."""
    return digest(KEY, key)


def offer_of(parameters: Parameters, key: bytes) -> EncryptionKeyOffer:
    """Return what a trustee signs about a public key."""
    return EncryptionKeyOffer(parameters_digest(parameters), key_digest(key))


def trustee_of(roster: Roster) -> Identity:
    """Return the one trustee of a roster; raises ConfigurationError where there is none, or more than one."""
    trustees = roster.of_role(Role.TRUSTEE)
    if len(trustees) != 1:
        raise ConfigurationError(
            f"two_key needs one trustee in the roster, roster version {roster.version} has {len(trustees)}; have the operator "
            "admit one, or write mode: masking"
        )
    return trustees[0]


def offer_attachments(offer: Packet) -> tuple[bytes, ...]:
    """Return what travels with the opening of a round: the trustee's signed offer, and its public key."""
    return packet_to_bytes(Packet(offer.envelope)), *offer.attachments


def offered_key(
    attachments: Sequence[bytes], context: bytes, parameters: Parameters | None, roster: Roster
) -> EncryptionKey | None:
    """K0: return the key behind what came with an opening, or None where the plan encrypts nothing.

    Args:
        attachments: as they came.
        context: of the round.
        parameters: of the plan.
        roster: the pinned roster.

    Raises RemoteProtocolError (K0, and M1 to M4 for the offer itself).
    """
    if parameters is None:
        if attachments:
            raise RemoteProtocolError("K0", "a key for a round whose study does not encrypt")
        return None
    if len(attachments) != 2:
        raise RemoteProtocolError("K0", "the opening comes without the key of the trustee")
    offer = packet_from_bytes(attachments[0])
    return check_offer(Packet(offer.envelope, (attachments[1],)), context, parameters, roster)


def check_offer(packet: Packet, context: bytes, parameters: Parameters, roster: Roster) -> EncryptionKey:
    """K0: return the key that the roster's trustee offers for a context; raises RemoteProtocolError for any other."""
    trustee = trustee_of(roster)
    offer = open_envelope(packet.envelope, EncryptionKeyOffer, context, roster, Role.TRUSTEE)
    if packet.envelope.sender != trustee.id or len(packet.attachments) != 1:
        raise RemoteProtocolError("K0", "the key is not the one that the trustee offers")
    (key,) = packet.attachments
    if not hmac.compare_digest(offer.parameters, parameters_digest(parameters)):
        raise RemoteProtocolError("K0", "the trustee offers a key under other parameters than the study's")
    if not hmac.compare_digest(offer.key, key_digest(key)):
        raise RemoteProtocolError("K0", "the key is another one than the trustee signed")
    try:
        return EncryptionKey.from_bytes(key, parameters)
    except CryptoError as error:
        raise RemoteProtocolError("K0", f"the trustee's key cannot be used: {error.message}") from error


def check_unlocked(envelope: Envelope, expected: Unlocked, context: bytes, roster: Roster) -> None:
    """Check that the roster's trustee signed that this sum of ciphertexts decrypted to these masked words.

    Raises RemoteProtocolError M1 to M4, and K3 where it signed something else.
    """
    trustee = trustee_of(roster)
    said = open_envelope(envelope, Unlocked, context, roster, Role.TRUSTEE)
    if envelope.sender != trustee.id or said != expected:
        raise RemoteProtocolError("K3", f"{trustee.id} signed another sum than this one")
