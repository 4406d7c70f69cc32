"""Verifying a file of evidence offline: a fixed order of checks, the first thing that is wrong, or who did what.

As with a proof bundle (`bundle_check`), a person brings the fingerprint of the roster. From it follow the operator's key, the roster and
everybody's keys; the plan follows from the signed study. Whoever presents the file is not believed in anything.
"""

from dataclasses import dataclass

from cohortsum.crypto.errors import AuthenticationError, CohortsumError, ConfigurationError
from cohortsum.crypto.fingerprint import Words, roster_words
from cohortsum.crypto.signing import verify
from cohortsum.protocol.evidence import Finding, Refusal
from cohortsum.protocol.evidence_check import check_evidence
from cohortsum.protocol.evidence_record import is_record
from cohortsum.protocol.roster import Roster, roster_digest
from cohortsum.report.bundle_check import Failure, Passed
from cohortsum.study.definition.consortium import open_roster
from cohortsum.study.definition.signing import open_study
from cohortsum.study.planning import plan_study
from cohortsum.study.release.evidence_file import EVIDENCE_FILE, EvidenceFile, read_evidence

CURE = "get the file again; if it is the same, it proves nothing"


@dataclass(frozen=True, slots=True)
class Proof:
    """What a file of evidence proves.

    Attributes:
        finding: who broke what.
        role: of the accused.
        study: id of the study.
        version: of the study.
        by: id of who presents the file.
    """

    finding: Finding
    role: str
    study: str
    version: int
    by: str

    @property
    def sentences(self) -> tuple[str, ...]:
        """Who did what, where, and what a reader of the file can find out besides."""
        found = self.finding
        said = (
            f"{self.role} {found.accused} {found.sentence}: {found.check}, {found.case}",
            f"study {self.study} version {self.version}, round {found.iteration}, attempt {found.attempt}, context "
            f"{found.context.hex()[:16]}; kept by {self.by}",
        )
        return (*said, f"a reader of this file can find out {found.sensitive}") if found.sensitive else said


@dataclass(frozen=True, slots=True)
class EvidenceVerdict:
    """What verification found.

    Attributes:
        passed: the checks that held, in their order.
        failure: the first that did not, or None.
        proof: what the file proves; None after a failure.
    """

    passed: tuple[Passed, ...]
    failure: Failure | None
    proof: Proof | None

    @property
    def readable(self) -> bool:
        """Whether there was a file of evidence to look into at all."""
        return bool(self.passed)


def check_evidence_file(data: bytes, source: str, words: Words) -> EvidenceVerdict:
    """Return what a file of evidence proves.

    Args:
        data: its bytes.
        source: the file's name in messages.
        words: fingerprint of operator and roster: of the roster that the study names, or of the newest in the file.
    """
    passed: list[Passed] = []
    check = "file"
    try:
        held = read_evidence(data, source)
        passed.append(Passed(check, f"{len(data)} bytes"))
        check = "roster"
        roster = _roster(held, words)
        passed.append(
            Passed(check, f"{roster.consortium}, version {roster.version}: the one of your fingerprint")
        )
        check = "presented by"
        check_presented(held, roster)
        passed.append(Passed(check, f"{held.by}, whose signature covers every byte"))
        check = "study"
        study = open_study(held.study, roster)
        plan = plan_study(study, roster).round
        passed.append(
            Passed(check, f"{study.study} version {study.version}, signed by {held.study.statistician}")
        )
        check = "evidence"
        if is_record(held.evidence):
            raise ConfigurationError(
                f"a record of what {held.by} was told of one attempt: it accuses nobody by itself; another site compares it with its "
                "own by `cohortsum node compare`"
            )
        found = check_evidence(held.evidence, roster, plan)
        if isinstance(found, Refusal):
            raise AuthenticationError(f"{found.reason}; {CURE}")
        passed.append(Passed(check, f"{found.case}, {found.check}: holds without believing {held.by}"))
    except CohortsumError as error:
        return EvidenceVerdict(tuple(passed), Failure(check, error.message), None)
    proof = Proof(found, str(roster.identities[found.accused].role), study.study, study.version, held.by)
    return EvidenceVerdict(tuple(passed), None, proof)


def _roster(held: EvidenceFile, words: Words) -> Roster:
    """Return the roster that the study names; the fingerprint makes the operator's key known, and that key the roster."""
    papers = [held.roster, *(() if held.newest is None else (held.newest,))]
    if words not in [roster_words(held.operator, roster_digest(paper.text)) for paper in papers]:
        raise AuthenticationError(
            "rosters and operator's key have another fingerprint than the one given; read it again, and ask the operator or a "
            "site of the consortium for it on a way of your own"
        )
    rosters = [open_roster(paper.text, paper.signature, held.operator, "the roster") for paper in papers]
    if len({roster.consortium for roster in rosters}) > 1:
        raise AuthenticationError(f"the rosters are of two consortia; {CURE}")
    return rosters[0]


def check_presented(held: EvidenceFile, roster: Roster) -> None:
    """Raise AuthenticationError unless an identity of the roster signed the whole file."""
    identity = roster.identities.get(held.by)
    if identity is None:
        raise AuthenticationError(f"'{held.by}' is nobody of the roster; {CURE}")
    try:
        verify(identity.key, held.signature, EVIDENCE_FILE, held.signed)
    except AuthenticationError:
        raise AuthenticationError(f"{held.by} did not sign this file, or it was altered; {CURE}") from None
