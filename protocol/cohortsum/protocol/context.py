"""The context of a round: one hash that every key, seal, signature and commitment depends on.

``ctx = SHA-256("cohortsum/v1/ctx", roster, study, round id, iteration, attempt, epoch, H(public inputs))``. The public
inputs are the plan (in an iteration with the parameters that it depends on), the signed approvals (who supplies what), the
survivors that a retry, an iteration or a round that builds on an earlier one is bound to, that earlier round, and which secrets,
dealt when, the attempt uses. A coordinator that tells sites different stories gives them different contexts, and masks that do
not cancel.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from cohortsum.crypto.encoding import digest, encode, number

CONTEXT = "cohortsum/v1/ctx"
PUBLIC_INPUTS = "cohortsum/v1/public"
SLOT = "cohortsum/v1/slot"
ROUND_ID_BYTES = 16


@dataclass(frozen=True, slots=True)
class RoundKey:
    """Which round this is.

    Attributes:
        round_id: 16 random bytes drawn by the coordinator; a site never takes part in one twice.
        iteration: 1 for a one-round study.
        attempt: 1 for the first; a retry draws fresh secrets.
    """

    round_id: bytes
    iteration: int
    attempt: int


def context_hash(
    roster_digest: bytes, study_digest: bytes, key: RoundKey, epoch: str, public_inputs: bytes
) -> bytes:
    """Return the 32-byte context hash of one attempt."""
    return digest(
        CONTEXT,
        roster_digest,
        study_digest,
        key.round_id,
        number(key.iteration),
        number(key.attempt),
        epoch.encode(),
        public_inputs,
    )


def public_inputs(
    plan_digest: bytes,
    approval_digests: Sequence[bytes],
    survivors: Sequence[int],
    earlier: bytes = b"",
    ahead: int = 0,
    dealt: bytes = b"",
    slot: int = 0,
) -> bytes:
    """Return the digest of what every site of a round must see alike.

    Args:
        plan_digest: the plan every site built for itself.
        approval_digests: envelope digests of the signed approvals, by roster index.
        survivors: roster indices the attempt is bound to; empty for a first attempt that stands alone.
        earlier: context of the round whose unchanged blocks do not travel again; empty for none.
        ahead: how many secrets are dealt for later iterations.
        dealt: context of the attempt that dealt this one's secrets; empty where it deals its own.
        slot: which of these, from 1.
    """
    batched = (number(ahead), dealt, number(slot)) if ahead or dealt else ()
    return digest(
        PUBLIC_INPUTS,
        plan_digest,
        encode(*approval_digests),
        encode(*(number(index) for index in survivors)),
        earlier,
        *batched,
    )


def slot_context(dealt: bytes, slot: int) -> bytes:
    """Return what the secrets of a slot are bound to: the attempt that dealt them, and their place in it."""
    return digest(SLOT, dealt, number(slot))
