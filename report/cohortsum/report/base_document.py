"""What a result document says before any item: which study, roster and round, who took part, and under which rules.

All of it follows from the study and from what the rounds showed, so that whoever holds a round's signed messages derives it again.
"""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Protocol

from cohortsum.protocol.context import RoundKey
from cohortsum.protocol.roster import Roster
from cohortsum.report.document import (
    SCHEMA,
    LeftOut,
    Participation,
    Privacy,
    ResultDocument,
    RosterIdentity,
    RoundIdentity,
    StudyIdentity,
    Thresholds,
    WaiverBlock,
)
from cohortsum.study.claim import claim_of, sentences
from cohortsum.study.disclosure.verdict import Regime
from cohortsum.study.planning import Sites, StudyPlan


class OpenedRound(Protocol):
    """A round that opened; sites are roster indices."""

    @property
    def key(self) -> RoundKey:
        """Which round it was."""
        ...

    @property
    def advertised(self) -> tuple[int, ...]:
        """Who took part, U1."""
        ...

    @property
    def survivors(self) -> tuple[int, ...]:
        """Whose sum it is, U3."""
        ...


def base_document(
    plan: StudyPlan,
    roster: Roster,
    rounds: Sequence[OpenedRound],
    regime: Regime,
    *,
    names: Mapping[int, str],
    builds_on: int | None,
    software: str,
) -> ResultDocument:
    """Return the typed document of a study whose rounds opened, without any item.

    Args:
        plan: of the study.
        roster: in force when the rounds opened.
        rounds: that opened, at least one.
        regime: of the sites in the sums.
        names: ids of sites by roster index, those denied since included.
        builds_on: number of an earlier version that opened blocks which did not travel again; None where there is none.
        software: name and version of the program.
    """
    first = rounds[0]
    took_part = sorted(names[index] for index in first.advertised)
    survivors = sorted(names[index] for index in first.survivors)
    left = tuple(
        LeftOut(
            iteration=after.key.iteration,
            sites=tuple(sorted(names[index] for index in set(before.survivors) - set(after.survivors))),
        )
        for before, after in pairwise(rounds)
        if set(before.survivors) - set(after.survivors)
    )
    study, protection = plan.study, plan.round.protection
    return ResultDocument(
        schema=SCHEMA,
        software=software,
        study=StudyIdentity(
            id=study.study,
            title=study.title,
            version=study.version,
            digest=study.digest.hex(),
            fingerprint=study.fingerprint,
        ),
        roster=RosterIdentity(
            version=roster.version, digest=roster.digest.hex(), consortium=roster.consortium or None
        ),
        round=RoundIdentity(
            id=first.key.round_id.hex(),
            attempt=first.key.attempt,
            builds_on_version=builds_on,
            iterations=len(rounds),
            left_out=left,
        ),
        epoch=study.epoch,
        profile=regime.profile,
        waivers=tuple(map(WaiverBlock.of, regime.waivers)),
        rules=(),
        noise=study.privacy.noise,
        privacy=_privacy(plan, rounds),
        release=(),
        sites=Participation(
            took_part=tuple(took_part),
            survivors=tuple(survivors),
            dropouts=tuple(sorted(set(took_part) - set(survivors))),
        ),
        thresholds=Thresholds(
            min_sites=protection.min_sites,
            min_participants=protection.min_participants,
            min_participants_per_site=protection.min_participants_per_site,
            max_colluding_sites=protection.max_colluding_sites,
            min_honest_inputs=protection.min_honest_inputs,
        ),
        tables=(),
    )


def _privacy(plan: StudyPlan, rounds: Sequence[OpenedRound]) -> Privacy | None:
    """Return the promise of the noise, for the round that counts on the fewest sites."""
    fewest = min(rounds, key=lambda opened: len(opened.advertised))
    claim = claim_of(plan, Sites(len(fewest.advertised), len(fewest.survivors)), len(rounds))
    if claim is None:
        return None
    return Privacy(
        adjacency=claim.adjacency,
        epsilon=claim.epsilon,
        delta=claim.delta,
        study_epsilon=claim.study_epsilon,
        honest_sites=claim.honest,
        fallback_epsilon=claim.fallback_epsilon,
        nano_rho=claim.nano_rho,
        sampling_rate=claim.sampling_rate,
        openings=claim.openings,
        unprotected=claim.unprotected,
        method=claim.method,
        sentences=sentences(claim),
    )
