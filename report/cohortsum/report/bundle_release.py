"""What happened to a release in a proof bundle after its rounds: decisions, rules, charges, and the part for auditors."""

import json
from collections.abc import Mapping, Sequence

from cohortsum.crypto.errors import AuthenticationError, CohortsumError, ConfigurationError
from cohortsum.protocol.denylist import DenyList, without_denied
from cohortsum.protocol.roster import Roster
from cohortsum.protocol.witness import WitnessedRound, blocks_of
from cohortsum.report.document import OUT, ResultDocument, SignatureBlock
from cohortsum.study.disclosure.verdict import Regime
from cohortsum.study.planning import StudyPlan
from cohortsum.study.release.bundle import file_of, sealed_name
from cohortsum.study.release.bundle_decisions import decision_from_json, panel_then
from cohortsum.study.release.charges import charges_of
from cohortsum.study.release.decision import Decision
from cohortsum.study.release.item import Item, checked, decided
from cohortsum.study.release.panel import nobody_signs, panel_of
from cohortsum.study.release.sealed import auditors_of, check_sealed, read_sealed

RULES, CHARGES = "rules.json", "charges.json"
STOP = "do not use this result, keep the bundle and tell the operator"


def rules_json(document: ResultDocument) -> bytes:
    """Return ``rules.json``: what the document says that the rules found."""
    held = [rule.model_dump(mode="json") for rule in document.rules]
    return json.dumps(held, ensure_ascii=False, indent=1, sort_keys=True).encode() + b"\n"


def check_decisions(
    files: Mapping[str, bytes],
    plan: StudyPlan,
    roster: Roster,
    newest: Roster,
    deny: DenyList,
    author: str,
    document: ResultDocument,
) -> str:
    """Return in words who signed; raises unless every item that left has the decisions that the study asks for, and no others.

    Args:
        files: of the bundle.
        plan: of the study.
        roster: that the study names.
        newest: the newest roster.
        deny: the deny-list.
        author: id of the statistician who signed the study.
        document: the result.

    Raises AuthenticationError naming file or item, and ConfigurationError for a file that is no decision.
    """
    names = sorted(name for name in files if name.startswith("decisions/"))
    if names != [f"decisions/{place:04}.json" for place in range(1, len(names) + 1)]:
        raise ConfigurationError("decisions: expected files 0001, 0002 and so on; get the bundle again")
    made: dict[str, list[tuple[str, Decision]]] = {}
    for name in names:
        decision = decision_from_json(file_of(files, name), name)
        made.setdefault(decision.item, []).append((name, decision))
    study = plan.study
    authors = [one.identities[author] for one in (roster, newest) if author in one.identities]
    panel = panel_of(
        study.digest,
        study.release.checkers,
        authors,
        newest.identities.values(),
        roster.identities.values(),
        document.sites.survivors,
    )
    gone: set[str] = set()
    signed = 0
    for block in document.release:
        held = made.pop(block.item, [])
        if block.digest is None:
            if held:
                raise AuthenticationError(f"{held[0][0]}: about {block.item}, which has not left; {STOP}")
            continue
        item = checked(
            Item(block.item, bytes.fromhex(block.digest)),
            passed=True,
            nobody_signs=nobody_signs(study.release.checkers),
        )
        source = "result.json"
        try:
            then, since = panel_then(panel, [decision for _, decision in held], deny)
            gone.update(since)
            for source, decision in held:  # noqa: B007 - named in the error
                item = decided(item, decision, then)
        except CohortsumError as error:
            raise AuthenticationError(
                f"{held[0][0] if source == 'result.json' and held else source}: {error.message}; {STOP}"
            ) from None
        if item.state is not block.state:
            missing = ", ".join(then.missing(item.signatures)) or f"a decision that makes it {block.state}"
            raise AuthenticationError(f"result.json: {block.item} is {block.state} without {missing}; {STOP}")
        blocks = tuple(
            SignatureBlock(
                by=one.decision.by,
                role=one.role.value,
                act=one.decision.act.value,
                at=one.decision.at,
                reason=one.decision.reason,
            )
            for one in item.signatures
        )
        if blocks != block.signatures:
            raise AuthenticationError(
                f"result.json: {block.item}: lists other signatures than lie in decisions; {STOP}"
            )
        signed += len(blocks)
    if made:
        name = min(name for held in made.values() for name, _ in held)
        raise AuthenticationError(f"{name}: about an item that the result does not have; {STOP}")
    left = sum(block.state in OUT for block in document.release)
    words = f"{left} of {len(document.release)} items left, {signed} decisions"
    if nobody_signs(study.release.checkers):
        words += "; the study asks nobody to sign"
    return words + (f"; keys denied since: {', '.join(sorted(gone))}" if gone else "")


def check_rules(files: Mapping[str, bytes], document: ResultDocument, regime: Regime) -> str:
    """Return what the rules say in words; raises AuthenticationError unless the file says what the document does."""
    if file_of(files, RULES) != rules_json(document):
        raise AuthenticationError(f"{RULES}: says something else than result.json about the rules; {STOP}")
    waived = f", {len(regime.waivers)} waivers" if regime.waivers else ""
    return f"{len(document.rules)} results, as in the document{waived}"


def check_charges(
    files: Mapping[str, bytes], plan: StudyPlan, roster: Roster, rounds: Sequence[WitnessedRound]
) -> str:
    """Return in words what was charged; raises AuthenticationError unless it follows from the rounds."""
    names = {index: str(site) for site, index in roster.sites.items()}
    if file_of(files, CHARGES) != charges_of(plan, rounds, names):
        raise AuthenticationError(f"{CHARGES}: not what follows from study and rounds; {STOP}")
    return "follow from study and rounds; the sites' ledgers stay at the sites"


def check_all_sealed(
    files: Mapping[str, bytes],
    plan: StudyPlan,
    roster: Roster,
    newest: Roster,
    deny: DenyList,
    rounds: Sequence[WitnessedRound],
) -> str:
    """Return in words for whom the rounds are sealed; raises unless every round is, whole, for every auditor who counts."""
    counted = without_denied(newest, deny) if deny.denied else newest
    of_study = {one.id for one in auditors_of(roster)}
    auditors = [
        one for one in auditors_of(counted) if one.id in of_study and roster.identities[one.id] == one
    ]
    held = sorted(name for name in files if name.startswith("sealed/"))
    if not of_study and not held:
        return "the roster has no auditor with a sealing key: nothing is sealed"
    expected = [sealed_name(place) for place in range(1, len(rounds) + 1)]
    if held != expected:
        wrong = sorted(set(held) ^ set(expected))[0]
        raise AuthenticationError(
            f"{wrong}: every opened round is sealed once, for the auditors; get the bundle again"
        )
    for name, proven in zip(expected, rounds, strict=True):
        alone = proven.key.iteration == 1 and not proven.earlier
        length = sum(block.size for block in blocks_of(proven, plan.round, frozenset())) if alone else None
        encrypted = plan.round.encryption is not None
        check_sealed(read_sealed(file_of(files, name), name), proven, auditors, length, name, encrypted)
    ids = ", ".join(one.id for one in auditors) or "auditors who no longer count"
    return f"{len(rounds)} rounds for {ids}; only they see whether the right things are sealed"
