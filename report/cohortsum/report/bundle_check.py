"""Verifying a proof bundle offline: a fixed order of checks, and the first thing that is wrong.

Nothing in a bundle is trusted for being in it. A person brings one thing, the fingerprint of the consortium's roster, got from the
operator or a site and not with the bundle. From it follow the operator's key, from that the rosters, from these everybody else's
keys; and every later check compares a file with what somebody else signed. What the checks show and what they cannot is in
docs/proof-bundle.md.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from cohortsum.crypto.errors import AuthenticationError, CohortsumError, ConfigurationError
from cohortsum.crypto.fingerprint import Words, roster_words
from cohortsum.crypto.keyfile import parse_hex
from cohortsum.crypto.signing import PUBLIC_BYTES, SIGNATURE_BYTES, verify
from cohortsum.protocol.denylist import DenyList, nobody_denied
from cohortsum.protocol.roster import Roster, roster_digest
from cohortsum.protocol.witness import WitnessedRound
from cohortsum.report import bundle_release, bundle_rounds
from cohortsum.report.document import ResultDocument
from cohortsum.study.definition.consortium import open_roster
from cohortsum.study.definition.deny import open_deny_list
from cohortsum.study.definition.signing import SignedStudy, open_study
from cohortsum.study.disclosure.verdict import Regime
from cohortsum.study.planning import StudyPlan, plan_study
from cohortsum.study.release.archive import unpack
from cohortsum.study.release.bundle import (
    MANIFEST,
    MANIFEST_SIG,
    MANIFEST_SIGNATURE,
    MAX_MANIFEST_BYTES,
    Manifest,
    StudySignature,
    entry_of,
    file_of,
    read_json,
)

PLACES = re.compile(
    r"study/(study|signature)\.json|roster/(consortium|newest|deny)\.(yaml|sig)|roster/operator\.pub|approvals/\d{4}\.packet"
    r"|rounds/\d{4}/(opening\.packet|survivors\.json|(adverts|shares|masked|consistency)\.packets)|(charges|result|rules)\.json"
    r"|decisions/\d{4}\.json|sealed/\d{4}\.sealed"
)
"""Every name that a file of a bundle may have, beside the manifest and its signature."""
CURE = "get the bundle again; if it is the same, keep it and tell the operator"


@dataclass(frozen=True, slots=True)
class Passed:
    """A check that held, and what it found."""

    check: str
    found: str


@dataclass(frozen=True, slots=True)
class Failure:
    """The first check that did not hold; ``sentence`` names the file, what was expected and the cure."""

    check: str
    sentence: str


@dataclass(frozen=True, slots=True)
class Proven:
    """What a bundle holds, every check passed.

    Attributes:
        files: by name.
        roster: that the study names, denied identities included.
        newest: the newest roster in the bundle.
        deny: the deny-list.
        plan: of the study's first round.
        rounds: that opened, in their order.
        document: the result.
        regime: of the sites in the sums.
    """

    files: Mapping[str, bytes] = field(repr=False)
    roster: Roster
    newest: Roster
    deny: DenyList
    plan: StudyPlan
    rounds: tuple[WitnessedRound, ...]
    document: ResultDocument
    regime: Regime


@dataclass(frozen=True, slots=True)
class Verdict:
    """What verification found.

    Attributes:
        passed: the checks that held, in their order.
        failure: the first that did not, or None.
        proven: what the bundle holds; None after a failure.
    """

    passed: tuple[Passed, ...]
    failure: Failure | None
    proven: Proven | None

    @property
    def readable(self) -> bool:
        """Whether there was an archive to look into at all."""
        return bool(self.passed)


def check_bundle(archive: bytes, source: str, words: Words) -> Verdict:
    """Return what a bundle proves.

    Args:
        archive: its bytes.
        source: the file's name in messages.
        words: fingerprint of operator and roster: of the study's roster or of the newest in the bundle.
    """
    book = _Book()
    try:
        proven = _check(book, archive, source, words)
    except CohortsumError as error:
        return Verdict(tuple(book.passed), Failure(book.current, error.message), None)
    return Verdict(tuple(book.passed), None, proven)


class _Book:
    def __init__(self) -> None:
        self.passed: list[Passed] = []
        self.current = ""

    def begin(self, check: str) -> None:
        self.current = check

    def done(self, found: str) -> None:
        self.passed.append(Passed(self.current, found))


def _check(book: _Book, archive: bytes, source: str, words: Words) -> Proven:
    book.begin("archive")
    files = unpack(archive, source)
    book.done(f"{len(files)} files, {len(archive)} bytes")

    book.begin("manifest")
    manifest = _manifest(files)
    book.done("names every file and nothing else")

    book.begin("contents")
    for name, entry in sorted(manifest.files.items()):
        if entry_of(files[name]) != entry:
            raise AuthenticationError(f"{name}: not the file that the manifest names (SHA-256); {CURE}")
    book.done("every file has its SHA-256")

    book.begin("roster")
    roster, newest, deny = _rosters(files, words)
    book.done(
        f"{newest.consortium}, version {newest.version}: signed by the operator, and the one of your fingerprint"
    )

    book.begin("coordinator")
    _manifest_signature(files, manifest, roster, newest, deny)
    book.done(f"{manifest.coordinator} signed the manifest")

    book.begin("study")
    plan, author = _study(files, roster, manifest)
    book.done(f"{plan.study.study} version {plan.study.version}, signed by {author}")

    book.begin("rounds")
    rounds = bundle_rounds.rounds_in(files, plan, roster)
    signers = min(len(one.signers) for one in rounds)
    book.done(f"{len(rounds)} opened, each survivor set signed by {signers} or more of its sites")

    book.begin("approvals")
    bundle_rounds.check_approvals(files, rounds)
    book.done(f"{len(rounds[0].approvals)} sites approved the study")

    book.begin("result")
    document, regime = bundle_rounds.result_of(files, plan, roster, deny, rounds)
    book.done(
        f"round, epoch, thresholds, noise and profile {document.profile} follow; "
        f"{len(document.sites.survivors)} survivors as proven"
    )

    book.begin("decisions")
    book.done(bundle_release.check_decisions(files, plan, roster, newest, deny, author, document))

    book.begin("rules")
    book.done(bundle_release.check_rules(files, document, regime))

    book.begin("charges")
    book.done(bundle_release.check_charges(files, plan, roster, rounds))

    book.begin("sealed part")
    book.done(bundle_release.check_all_sealed(files, plan, roster, newest, deny, rounds))
    return Proven(files, roster, newest, deny, plan, rounds, document, regime)


def _manifest(files: Mapping[str, bytes]) -> Manifest:
    text = file_of(files, MANIFEST)
    file_of(files, MANIFEST_SIG)
    if len(text) > MAX_MANIFEST_BYTES:
        raise ConfigurationError(f"{MANIFEST}: more than {MAX_MANIFEST_BYTES} bytes; {CURE}")
    manifest = read_json(Manifest, text, MANIFEST)
    held = files.keys() - {MANIFEST, MANIFEST_SIG}
    if missing := sorted(manifest.files.keys() - held):
        raise ConfigurationError(f"{missing[0]}: missing, the manifest names it; {CURE}")
    if surplus := sorted(held - manifest.files.keys()):
        raise ConfigurationError(f"{surplus[0]}: not named in the manifest; {CURE}")
    if strange := sorted(name for name in held if not PLACES.fullmatch(name)):
        raise ConfigurationError(f"{strange[0]}: a file that has no place in a bundle; {CURE}")
    return manifest


def _rosters(files: Mapping[str, bytes], words: Words) -> tuple[Roster, Roster, DenyList]:
    operator = parse_hex(file_of(files, "roster/operator.pub"), PUBLIC_BYTES, "roster/operator.pub")
    names = ["roster/consortium.yaml", *(name for name in ("roster/newest.yaml",) if name in files)]
    texts = {name: file_of(files, name) for name in names}
    if words not in [roster_words(operator, roster_digest(text)) for text in texts.values()]:
        raise AuthenticationError(
            "roster/consortium.yaml: roster and operator's key have another fingerprint than the one given; read it again, "
            "and ask the operator or a site of the consortium for it on a way of your own"
        )
    rosters = [open_roster(text, _signature(files, name), operator, name) for name, text in texts.items()]
    roster, newest = rosters[0], rosters[-1]
    if newest.consortium != roster.consortium or (len(rosters) > 1 and newest.version <= roster.version):
        raise AuthenticationError(f"roster/newest.yaml: not a later version of the study's roster; {CURE}")
    deny = nobody_denied(roster.consortium)
    if "roster/deny.yaml" in files:
        name = "roster/deny.yaml"
        deny = open_deny_list(file_of(files, name), _signature(files, name), operator, name)
        if deny.consortium != roster.consortium:
            raise AuthenticationError(f"{name}: of another consortium; {CURE}")
    if surplus := [
        name
        for name in ("deny", "newest")
        if f"roster/{name}.sig" in files and f"roster/{name}.yaml" not in files
    ]:
        raise ConfigurationError(f"roster/{surplus[0]}.sig: a signature without its file; {CURE}")
    return roster, newest, deny


def _manifest_signature(
    files: Mapping[str, bytes], manifest: Manifest, roster: Roster, newest: Roster, deny: DenyList
) -> None:
    signature = parse_hex(file_of(files, MANIFEST_SIG), SIGNATURE_BYTES, MANIFEST_SIG)
    if files[MANIFEST_SIG] != signature.hex().encode() + b"\n":  # the one file that no digest covers
        raise ConfigurationError(
            f"{MANIFEST_SIG}: expected lower-case hexadecimal digits and a line end; {CURE}"
        )
    coordinator = newest.coordinator
    if deny.entry_for(coordinator) is not None:
        raise AuthenticationError(
            f"{MANIFEST_SIG}: the key of coordinator {coordinator.id} is denied; ask the operator for a bundle that was made since"
        )
    if manifest.coordinator != coordinator.id:
        raise AuthenticationError(
            f"{MANIFEST}: made by '{manifest.coordinator}', expected {coordinator.id}, the roster's coordinator; {CURE}"
        )
    try:
        verify(coordinator.key, signature, MANIFEST_SIGNATURE, files[MANIFEST])
    except AuthenticationError:
        raise AuthenticationError(
            f"{MANIFEST_SIG}: not the signature of {coordinator.id} of roster version {newest.version} over {MANIFEST}; {CURE}"
        ) from None


def _study(files: Mapping[str, bytes], roster: Roster, manifest: Manifest) -> tuple[StudyPlan, str]:
    name = "study/signature.json"
    held = read_json(StudySignature, file_of(files, name), name)
    signed = SignedStudy(file_of(files, "study/study.json"), held.statistician, bytes.fromhex(held.signature))
    try:
        study = open_study(signed, roster)
    except AuthenticationError:
        raise AuthenticationError(
            f"{name}: no statistician of roster version {roster.version} signed study/study.json; {CURE}"
        ) from None
    if study.digest.hex() != manifest.study:
        raise AuthenticationError(f"{MANIFEST}: names another study than study/study.json; {CURE}")
    return plan_study(study, roster), held.statistician


def _signature(files: Mapping[str, bytes], name: str) -> bytes:
    sig = name.replace(".yaml", ".sig")
    return parse_hex(file_of(files, sig), SIGNATURE_BYTES, sig)
