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
"""

from collections.abc import Iterable
from dataclasses import dataclass

from cohortsum.crypto.errors import RemoteProtocolError
from cohortsum.protocol.envelope import open_envelope
from cohortsum.protocol.messages import Envelope, GateOpening
from cohortsum.protocol.opening import Sworn, check_gate, checked_gate
from cohortsum.protocol.plan import RoundPlan
from cohortsum.protocol.proof import Transcript
from cohortsum.protocol.roster import Role, Roster
from cohortsum.protocol.witness import WitnessedRound, witnessed


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
