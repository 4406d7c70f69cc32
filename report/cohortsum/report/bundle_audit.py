"""What an auditor finds in the sealed part of a verified bundle: the sums, and whether the released tables follow from them.

Every masked input must be the one that its site signed, every seed the one that it committed to, so the sums are those of these
sites, whatever the coordinator says. From a round's sums follow the parameters of the next, whose digest the sites hashed into
their masks, and in the end the tables and what the rules make of them.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from cohortsum.crypto.agreement import AgreementKey
from cohortsum.crypto.errors import AuthenticationError, ConfigurationError, RefusedError, RemoteProtocolError
from cohortsum.protocol.masking import AddMasks, add_over
from cohortsum.protocol.opening import check_result
from cohortsum.protocol.roster import Identity, Role
from cohortsum.protocol.witness import WitnessedRound, blocks_of, recomputed, recomputed_unlocked
from cohortsum.report.bundle_check import Proven
from cohortsum.report.document import TableBlock
from cohortsum.study.disclosure.gate import cohort_gate
from cohortsum.study.planning import Sites, StudyPlan, Sums, by_block
from cohortsum.study.release.bundle import sealed_name
from cohortsum.study.release.sealed import RoundSeal, open_sealed, read_sealed
from cohortsum.study.results import Table

EARLIER = "the study builds on an earlier version, whose sums are in the bundle of that version"
STEPS = "the rounds were cut short, so the tables are not computed again here"


@dataclass(frozen=True, slots=True)
class Audited:
    """What an auditor found.

    Attributes:
        rounds: how many sums were added up again.
        people: in the last one.
        same: released tables that follow from the sums, by name.
        other: released tables that are others than first computed: an item that was returned is computed again by its remedy.
        unknown: why no table was computed again; empty where they were.
    """

    rounds: int
    people: int
    same: tuple[str, ...]
    other: tuple[str, ...]
    unknown: str


def audit(proven: Proven, auditor: str, key: AgreementKey, add: AddMasks = add_over) -> Audited:
    """Open the sealed part of a verified bundle and add every sum up again.

    Args:
        proven: a bundle that `check_bundle` found whole.
        auditor: id in the roster.
        key: the auditor's private sealing key.
        add: adds masks.

    Raises:
        ConfigurationError: nobody of that id, or nothing is sealed.
        AuthenticationError: the sealed part does not open, or a sum is not what its sites signed.
    """
    identity = _identity(proven, auditor, key)
    plan, sums, people = proven.plan, list[Sums](), 0
    if proven.rounds[0].earlier:
        raise ConfigurationError(f"sealed: {EARLIER}; this version adds up studies that stand alone")
    for place, one in enumerate(proven.rounds, start=1):
        if one.plan not in (b"", plan.round.digest):
            raise AuthenticationError(
                f"rounds/{place:04}: its parameters do not follow from the sums of the round before"
            )
        opened, people = _sum(proven, plan, one, sealed_name(place), (identity, key), add)
        sums.append(opened)
        following = plan.advance(opened) if place < len(proven.rounds) else None
        if place < len(proven.rounds):
            if following is None:
                raise AuthenticationError(f"rounds/{place + 1:04}: the study was over after the round before")
            plan = following
    if plan.advance(sums[-1]) is not None:
        return Audited(len(sums), people, (), (), STEPS)
    last = proven.rounds[-1]
    tables = plan.finish(sums[-1], Sites(len(last.advertised), len(last.survivors)))
    return _compared(proven, plan, sums, people, tables)


def _identity(proven: Proven, auditor: str, key: AgreementKey) -> Identity:
    identity = proven.roster.identities.get(auditor)
    if identity is None or identity.role is not Role.AUDITOR or not identity.seal:
        raise ConfigurationError(f"--id {auditor}: no auditor with a sealing key in the study's roster")
    if identity.seal != key.public:
        raise ConfigurationError(
            f"--key: not the private half of the sealing key that the roster has for {auditor}"
        )
    if sealed_name(1) not in proven.files:
        raise ConfigurationError("sealed: the bundle has no part for auditors")
    return identity


def _sum(
    proven: Proven,
    plan: StudyPlan,
    one: WitnessedRound,
    name: str,
    reader: tuple[Identity, AgreementKey],
    add: AddMasks,
) -> tuple[Sums, int]:
    bound = RoundSeal(plan.study.digest, proven.roster.digest, one.context)
    encryption = plan.round.encryption
    opened = open_sealed(
        read_sealed(proven.files[name], name), bound, one, *reader, name, encryption is not None
    )
    blocks = blocks_of(one, plan.round, frozenset())
    length = sum(block.size for block in blocks)
    try:
        if encryption is None:
            values = recomputed(one, opened, length, add)
        else:
            values = recomputed_unlocked(one, opened, length, encryption.modulus, proven.roster, add)
        people = check_result(plan.round, blocks, values, len(one.survivors))
    except RemoteProtocolError as error:
        raise AuthenticationError(
            f"{name}: {error.message}; the coordinator sealed something else than was opened: keep the bundle and tell the operator"
        ) from None
    return by_block(blocks, values), people


def _compared(
    proven: Proven, plan: StudyPlan, sums: list[Sums], people: int, tables: Iterable[Table]
) -> Audited:
    try:
        gated = cohort_gate(plan, tuple(tables), sums[-1], proven.regime)
    except RefusedError as error:
        raise AuthenticationError(f"result.json: the rules let nothing out: {error.message}") from None
    made = {table.analysis: TableBlock.of(table).canonical() for table in gated.tables}
    same = {block.analysis: made.get(block.analysis) == block.canonical() for block in proven.document.tables}
    return Audited(
        len(sums),
        people,
        tuple(name for name, equal in same.items() if equal),
        tuple(name for name, equal in same.items() if not equal),
        "",
    )
