"""An attempt that was open when the coordinator stopped, set up again.

Its opening says all that the setup needs: approvals, the survivors that it is bound to, the earlier version that it builds on, and the
secrets dealt ahead that it uses, whose keys and commitments stand in the signed messages of the attempt that dealt them. The setup is
taken only if it gives the very same opening; then sites that still hold their secrets go on as if the line had been down.
"""

from collections.abc import Callable
from dataclasses import dataclass

import structlog

from cohortsum.coordinator.amendment import Earlier
from cohortsum.coordinator.attempt_rows import OpenAttempt
from cohortsum.coordinator.record import StudyRecord
from cohortsum.crypto.errors import CohortsumError
from cohortsum.protocol.context import RoundKey
from cohortsum.protocol.coordinator import CoordinatorRound
from cohortsum.protocol.coordinator_checks import dealt_again
from cohortsum.protocol.coordinator_states import CoordinatorSetup
from cohortsum.protocol.envelope import Signer, open_envelope
from cohortsum.protocol.messages import Opening
from cohortsum.protocol.plan import RoundPlan
from cohortsum.protocol.roster import Role, Roster, SiteId

log: structlog.stdlib.BoundLogger = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Resumable:
    """An open attempt with what it needs.

    Attributes:
        held: what the store holds of it.
        setup: what the coordinator brings.
        key: of the attempt.
        earlier: the version whose sums are served; None for none.
    """

    held: OpenAttempt
    setup: CoordinatorSetup
    key: RoundKey
    earlier: Earlier | None


def resumable(
    record: StudyRecord,
    plan: RoundPlan,
    roster: Roster,
    signer: Signer,
    find_earlier: Callable[[], Earlier | None],
) -> Resumable | None:
    """Return the open attempt at a plan's round, or None where there is none or it cannot go on.

    It cannot where one of its sites was denied meanwhile, where the version that it builds on is gone, or before the trustee had
    offered a key.
    """
    held = record.open_attempt(plan.iteration)
    if held is None:
        return None
    try:
        opening = open_envelope(held.opening, Opening, held.opening.context, roster, Role.COORDINATOR)
        earlier = find_earlier() if opening.earlier else None
        dealt = dealt_again(opening.dealt, *record.dealing(opening.dealt), roster) if opening.dealt else None
        setup = CoordinatorSetup(
            signer,
            roster,
            plan,
            {roster.sites[SiteId(one.sender)]: one for one in opening.approvals},
            opening.survivors,
            opening.earlier,
            frozenset() if earlier is None else earlier.unchanged,
            exact=held.exact,
            ahead=opening.ahead,
            dealt=dealt,
            slot=opening.slot,
        )
        same = CoordinatorRound(setup, opening.key).opening == held.opening
    except (CohortsumError, KeyError) as error:
        log.warning("round.not_resumed", error=type(error).__name__)
        return None
    if (plan.encryption is None) is not (held.offer is None):
        log.warning("round.not_resumed", error="no key")
        return None
    if not same:
        log.warning("round.not_resumed", error="another opening")
        return None
    return Resumable(held, setup, opening.key, earlier)
