"""The rounds in a proof bundle, and whether the result document says of them what they show."""

from collections.abc import Mapping, Sequence
from itertools import pairwise

from cohortsum.crypto.errors import AuthenticationError, ConfigurationError, RemoteProtocolError
from cohortsum.protocol.codec import packet_to_bytes
from cohortsum.protocol.denylist import DenyList
from cohortsum.protocol.messages import Packet, Regimen
from cohortsum.protocol.roster import Roster
from cohortsum.protocol.witness import WitnessedRound, witnessed
from cohortsum.report.base_document import base_document
from cohortsum.report.document import ResultDocument, from_json
from cohortsum.study.disclosure.regimens import regime_of_sites
from cohortsum.study.disclosure.verdict import Regime
from cohortsum.study.planning import StudyPlan
from cohortsum.study.release.bundle import approvals_of, file_of, round_folder, transcripts_in

RESULT = "result.json"
SAME = (
    ("study", "study/study.json"),
    ("roster", "roster/consortium.yaml"),
    ("round", "rounds"),
    ("epoch", "study/study.json"),
    ("sites", "rounds"),
    ("thresholds", "study/study.json"),
    ("noise", "study/study.json"),
    ("privacy", "study/study.json and rounds"),
    ("profile", "approvals"),
    ("waivers", "approvals"),
)
"""Fields of the document that follow from other files, and from which, in the order in which they are compared."""


def rounds_in(files: Mapping[str, bytes], plan: StudyPlan, roster: Roster) -> tuple[WitnessedRound, ...]:
    """Return the rounds of a bundle, each proven; raises AuthenticationError naming the folder of one that is not."""
    found: list[WitnessedRound] = []
    for place, transcript in enumerate(transcripts_in(files), start=1):
        try:
            found.append(witnessed(transcript, plan.round, roster))
        except RemoteProtocolError as error:
            raise AuthenticationError(
                f"{round_folder(place)}: {error.message}; the messages do not show a round that the sites let open: keep the "
                "bundle and tell the operator"
            ) from None
    if len({one.context for one in found}) != len(found):
        raise AuthenticationError("rounds: one round is there twice; keep the bundle and tell the operator")
    if [one.key.iteration for one in found] != list(range(1, len(found) + 1)):
        raise AuthenticationError("rounds: expected iterations from 1 on, none missing; get the bundle again")
    for before, after in pairwise(found):
        if not (after.bound and set(after.bound) <= set(before.survivors)):
            raise AuthenticationError(
                f"{round_folder(after.key.iteration)}: not over the survivors of the round before, or fewer of them"
            )
    return tuple(found)


def check_approvals(files: Mapping[str, bytes], rounds: Sequence[WitnessedRound]) -> None:
    """Raise unless the folder holds exactly the approvals that the rounds were opened with."""
    first, *further = transcripts_in(files)
    expected = {name: packet_to_bytes(Packet(held)) for name, held in approvals_of(first).items()}
    held = {name: data for name, data in files.items() if name.startswith("approvals/")}
    if missing := sorted(expected.keys() - held.keys()):
        raise ConfigurationError(f"{missing[0]}: missing, round 1 was opened with it; get the bundle again")
    wrong = sorted(name for name, data in held.items() if expected.get(name) != data)
    if wrong:
        raise AuthenticationError(f"{wrong[0]}: not the approval that round 1 was opened with")
    for one, transcript in zip(rounds[1:], further, strict=True):
        if not set(approvals_of(transcript).values()) <= set(approvals_of(first).values()):
            raise AuthenticationError(
                f"{round_folder(one.key.iteration)}: opened with another approval than round 1 was"
            )


def result_of(
    files: Mapping[str, bytes],
    plan: StudyPlan,
    roster: Roster,
    deny: DenyList,
    rounds: Sequence[WitnessedRound],
) -> tuple[ResultDocument, Regime]:
    """Return the result document and the regime of its sites.

    Raises:
        ConfigurationError: it cannot be read, or an approval names rules that this version does not know.
        AuthenticationError: it says something else than follows from study, rounds and approvals; names the field.
    """
    try:
        document = from_json(file_of(files, RESULT))
    except RecursionError:
        raise ConfigurationError(f"{RESULT}: nested too deeply for a result document") from None
    names = {index: str(site) for site, index in roster.sites.items()}
    regime = _regime(document, roster, deny, rounds[0])
    built_on = document.round.builds_on_version
    if (built_on is not None) != bool(rounds[0].earlier) or (built_on or 0) >= plan.study.version:
        raise AuthenticationError(
            f"{RESULT}: round.builds_on_version: does not fit round 1, which "
            + ("builds on an earlier one" if rounds[0].earlier else "stands alone")
        )
    expected = base_document(
        plan, roster, rounds, regime, names=names, builds_on=built_on, software=document.software
    )
    for name, source in SAME:
        if getattr(document, name) != getattr(expected, name):
            raise AuthenticationError(
                f"{RESULT}: {name}: not what follows from {source}; do not use this result, keep the bundle and tell the operator"
            )
    return document, regime


def _regime(document: ResultDocument, roster: Roster, deny: DenyList, first: WitnessedRound) -> Regime:
    """Return the regime of the sites in the sums, from their approvals.

    A coordinator that was restarted after one of them was denied has forgotten what that site approved, and takes the strictest
    profile for it; both are right.
    """
    names = {index: str(site) for site, index in roster.sites.items()}
    said = {names[index]: first.approvals[index].regimen for index in first.survivors}
    known = regime_of_sites(said)
    gone = {site for site in said if deny.entry_for(roster.identities[site]) is not None}
    strict = regime_of_sites({site: Regimen("dpuk") if site in gone else held for site, held in said.items()})
    held = (document.profile, tuple(block.waiver() for block in document.waivers))
    return strict if gone and held != (known.profile, known.waivers) else known
