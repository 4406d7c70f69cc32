"""The committee of a study under a roster: who its members are, and whether its counts stay in the proven range of sums."""

from cohortsum.crypto.errors import StudyFileError
from cohortsum.protocol.committee.plan import MOST_SITES
from cohortsum.protocol.committee.programs import LONGEST, SUM_BITS
from cohortsum.protocol.roster import Roster
from cohortsum.study.definition import FrozenStudy
from cohortsum.study.definition.by_committee import counts_of


def members_of(study: FrozenStudy, roster: Roster) -> tuple[int, ...]:
    """Return the roster indices of the members, ascending; raises StudyFileError for one that is no site of the roster."""
    named = study.protection.committee or ()
    known = {str(site): index for site, index in roster.sites.items()}
    if unknown := [name for name in named if name not in known]:
        raise StudyFileError(
            f"study {study.study}, field 'protection.committee': {', '.join(unknown)}: no site of roster version {roster.version}; "
            "name sites of the roster"
        )
    return tuple(sorted(known[name] for name in named))


def check_committee(study: FrozenStudy, roster: Roster) -> None:
    """Raise StudyFileError unless a committee can serve a study over all sites of its roster; nothing to check in other modes."""
    if study.protection.mode != "committee":
        return
    members_of(study, roster)
    sites, people = len(roster.sites), study.protection.max_participants
    if sites > MOST_SITES:
        raise StudyFileError(
            f"study {study.study}: a committee takes numbers from at most {MOST_SITES} sites, the roster has {sites}; write mode: masking"
        )
    # a search has as many intervals as a run takes numbers, and a table no more
    longest = max(
        LONGEST if spec.kind == "quantiles" else counts_of(spec, study.variables)
        for spec in study.analyses.values()
    )
    if longest * sites * people >= 2**SUM_BITS:
        raise StudyFileError(
            f"study {study.study}, field 'protection.max_participants': sums of {longest} counts over {sites} sites could exceed "
            f"2**{SUM_BITS}; write at most {(2**SUM_BITS - 1) // (longest * sites)}"
        )
