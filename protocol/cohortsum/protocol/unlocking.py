"""What a trustee checks before it decrypts the sum of a round's ciphertexts, and what it signs about it.

In two-key mode the data part of every site is masked modulo the plaintext prime and then encrypted under a key that the trustee drew for
this context alone. The trustee holds the outer lock and nothing else: what it decrypts is a sum of vectors that are still masked, and
uniform to it whatever it was handed. It decrypts once in a context, and believes neither the coordinator nor any single site:

==  ======================================================================================================================
T1  the signed messages show, to a witness (`witness`), one survivor set that t sites stand by, within every bound of the study
T2  the gate, added up again from what its owners signed, suffices
T3  it drew a key for this very context, and has decrypted nothing under it but, at most, this very sum
T4  of this study it has decrypted nothing but sums over these very survivors
==  ======================================================================================================================

It cannot see that the ciphertext is the sum over these survivors: another one decrypts to a vector that no opened seed unmasks.

Sites in turn believe the trustee's signature and nothing else about a key that the coordinator brings them (T0): it is the one trustee
of the roster that offers it, for this context, under the study's parameters.
"""

import hmac
from collections.abc import Iterable
from dataclasses import dataclass

from cohortsum.crypto.bfv import EncryptionKey, Parameters
from cohortsum.crypto.encoding import digest
from cohortsum.crypto.errors import ConfigurationError, CryptoError, RemoteProtocolError
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
    """T1, T2 and T4: return the round that was found in order, or raise RemoteProtocolError with the check that failed.

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
    check_gate(checked_gate(sworn, opening), plan, 0, "T2")
    if any(survivors != proven.survivors for survivors in decrypted):
        raise RemoteProtocolError("T4", "a sum of this study over other sites was decrypted before")
    return proven


def trustee_of(roster: Roster) -> Identity:
    """Return the one trustee of a roster; raises ConfigurationError where there is none, or more than one."""
    held = roster.of_role(Role.TRUSTEE)
    if len(held) != 1:
        raise ConfigurationError(
            f"protection.mode two_key: roster version {roster.version} has {len(held)} trustees, and exactly one holds the second "
            "key; ask the operator to admit one, or to revoke all others, or write mode: masking"
        )
    return held[0]


def parameters_digest(parameters: Parameters) -> bytes:
    """Return the digest by which an offer names the parameters of its key, 32 bytes."""
    return digest(PARAMETERS, parameters.encode())


def key_digest(data: bytes) -> bytes:
    """Return the digest by which an offer names a public key, 32 bytes."""
    return digest(KEY, data)


def offer_of(parameters: Parameters, public: bytes) -> EncryptionKeyOffer:
    """Return what a trustee signs about a public key."""
    return EncryptionKeyOffer(parameters_digest(parameters), key_digest(public))


def check_offer(packet: Packet, context: bytes, parameters: Parameters, roster: Roster) -> EncryptionKey:
    """T0: return the key that the roster's one trustee offers for a context.

    Args:
        packet: the offer, with the public key as its only attachment.
        context: of the attempt, as the caller derived it.
        parameters: of the study.
        roster: as pinned, without denied identities.

    Raises:
        RemoteProtocolError: M1 to M4 for the offer's envelope; T0 where it is not the one trustee's, or of other parameters, or comes
            with another key than it names or with one that is no public key of these parameters.
        ConfigurationError: the roster has not exactly one trustee, or this installation cannot encrypt.
    """
    trustee = trustee_of(roster)
    offer = open_envelope(packet.envelope, EncryptionKeyOffer, context, roster, Role.TRUSTEE)
    if not hmac.compare_digest(offer.parameters, parameters_digest(parameters)):
        raise RemoteProtocolError("T0", f"{trustee.id} offers a key of other parameters than the study's")
    (key,) = packet.attachments if len(packet.attachments) == 1 else (b"",)
    if not hmac.compare_digest(offer.key, key_digest(key)):
        raise RemoteProtocolError("T0", f"the key beside the offer is not the one that {trustee.id} signed")
    try:
        return EncryptionKey.from_bytes(key, parameters)
    except CryptoError as error:
        raise RemoteProtocolError("T0", error.message, trustee.id) from error


def check_unlocked(envelope: Envelope, expected: Unlocked, context: bytes, roster: Roster) -> None:
    """Check that the roster's one trustee signed that this sum of ciphertexts decrypted to these masked words.

    Raises RemoteProtocolError M1 to M4, and T3 where it signed something else.
    """
    trustee = trustee_of(roster)
    if open_envelope(envelope, Unlocked, context, roster, Role.TRUSTEE) != expected:
        raise RemoteProtocolError("T3", f"{trustee.id} signed another sum than this one", trustee.id)
