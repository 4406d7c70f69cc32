"""The context of a round: one hash that every key, seal, signature and commitment depends on.

``ctx = SHA-256("cohortsum/v1/ctx", roster, study, round id, iteration, attempt, epoch, H(public inputs))``. The public
inputs of a one-round study are the plan, the signed approvals (who supplies what), the survivors that a retry or a round
that builds on an earlier one is bound to, and that earlier round. A coordinator that tells sites different stories gives them different contexts, and masks that do not cancel.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from cohortsum.crypto.encoding import digest, encode, number

CONTEXT = "cohortsum/v1/ctx"
PUBLIC_INPUTS = "cohortsum/v1/public"
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
    plan_digest: bytes, approval_digests: Sequence[bytes], survivors: Sequence[int], earlier: bytes = b""
) -> bytes:
    """Return the digest of what every site of a round must see alike.

    Args:
        plan_digest: the plan every site built for itself.
        approval_digests: envelope digests of the signed approvals, by roster index.
        survivors: roster indices the attempt is bound to; empty for a first attempt that stands alone.
        earlier: context of the round whose unchanged blocks do not travel again; empty for none.
    """
    return digest(
        PUBLIC_INPUTS,
        plan_digest,
        encode(*approval_digests),
        encode(*(number(index) for index in survivors)),
        earlier,
    )
