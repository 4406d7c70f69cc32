"""Checks that sites, coordinator and whoever verifies later have in common.

A result counts only if **all** m members signed the same answers over the same inputs. Fewer would do against members that only fail:
m - (m - 1)/2 signatures include an honest one. But the engine needs all members to the end anyway, a retry is cheap, and a member that
signs something else shows that something is wrong. So there is one rule and no choice of signatures that a coordinator could make.

Passively secure: signatures say who vouches for an answer, not that it is right. A member that lies about its shares can shift an opened
number or flip a bit unseen. Answers may therefore make a gate stricter, and never take the place of a check that sites make themselves.
"""

from collections.abc import Sequence
from typing import TypeVar

from cohortsum.crypto.encoding import digest
from cohortsum.crypto.errors import ConfigurationError, RemoteProtocolError
from cohortsum.protocol.committee.codec import decode
from cohortsum.protocol.committee.messages import Deal, Key, Result, Signed, authenticate
from cohortsum.protocol.committee.plain import answers_from_bytes
from cohortsum.protocol.committee.plan import Answer, CommitteePlan
from cohortsum.protocol.roster import Role, Roster

OUTCOME = "cohortsum/v1/committee/outcome"

M = TypeVar("M", Key, Deal, Result)


def of_sites(
    signed: Sequence[Signed], sites: Sequence[int], kind: type[M], check: str, context: bytes, roster: Roster
) -> list[tuple[Signed, M]]:
    """Return signed messages with their content, after checking that they are one of each site, in this order.

    Args:
        signed: the messages.
        sites: roster indices.
        kind: what each must hold.
        check: the name of the check, for the error.
        context: of the run.
        roster: pinned.

    Raises:
        RemoteProtocolError: ``check``, or C1, C2.
    """
    if len(signed) != len(sites):
        raise RemoteProtocolError(check, f"{len(signed)} messages of {len(sites)} sites")
    found: list[tuple[Signed, M]] = []
    for one, index in zip(signed, sites, strict=True):
        identity = authenticate(one, context, roster)
        message = decode(one)
        if identity.role is not Role.SITE or identity.index != index or not isinstance(message, kind):
            raise RemoteProtocolError(check, f"not a {kind.__name__} of the site whose turn it is")
        found.append((one, message))
    return found


def outcome_digest(results: Sequence[Signed]) -> bytes:
    """Return the digest of what all members agree on, whoever's signatures stand below it: what a next stage names as ``earlier``."""
    return digest(OUTCOME, results[0].context, results[0].payload)


def agreed_answers(
    plan: CommitteePlan, context: bytes, roster: Roster, results: Sequence[Signed]
) -> tuple[Answer, ...]:
    """Return what all members signed.

    Args:
        plan: of the run.
        context: of the run.
        roster: pinned.
        results: one per member, in their order.

    Raises:
        RemoteProtocolError: C8, or C1, C2.
    """
    read = of_sites(results, plan.members, Result, "C8", context, roster)
    said = {(result.inputs_digest, result.answers) for _, result in read}
    if len(said) != 1:
        raise RemoteProtocolError("C8", "the members do not agree on inputs or answers")
    try:
        return answers_from_bytes(plan, read[0][1].answers)
    except ConfigurationError as error:
        raise RemoteProtocolError("C8", error.message) from error
