"""Evidence and records of rounds from anybody: as bytes, and truly signed by a party that may sign what it likes."""

from functools import cache

from cohortsum.crypto.encoding import number
from cohortsum.crypto.sealing import seal
from cohortsum.crypto.secret import SecretBytes
from cohortsum.protocol.codec import decode
from cohortsum.protocol.envelope import MESSAGE, Signer
from cohortsum.protocol.evidence import Case, Evidence, evidence_from_bytes
from cohortsum.protocol.evidence_check import check_evidence
from cohortsum.protocol.evidence_making import of_two
from cohortsum.protocol.evidence_record import Record, compared, record_from_bytes
from cohortsum.protocol.evidence_round import BEFORE
from cohortsum.protocol.messages import Envelope, Kind, ShareEntry, Shares
from cohortsum.protocol.seeds import ciphertext_digest, sealing_data
from cohortsum.report.evidence_verdict import check_evidence_file
from cohortsum.study.release.evidence_file import read_evidence
from tests.evidence.stories import Watched
from tests.evidence.test_file import WORDS
from tests.fuzz.target import Reader, Target, decoder, same

SITES = 5
KEY = bytes(range(44))
TOLD = (Kind.OPENING, *BEFORE)


@cache
def played() -> tuple[Watched, dict[Kind, Envelope]]:
    """Return an honest round, and what site 1 was told in it."""
    round_ = Watched(SITES)
    round_.run()
    told = {p.envelope.kind: p.envelope for w, i, p in round_.log if (w, i) == ("site", 1)}
    return round_, told


def _signed(signer: Signer, context: bytes, kind: Kind, payload: bytes) -> Envelope:
    """Return a payload that no codec made, truly signed."""
    sender = signer.identity.id
    signature = signer.key.sign(MESSAGE, context, number(kind), sender.encode(), payload)
    return Envelope(context, kind, sender, payload, signature)


def _evidence(data: bytes) -> Evidence:
    round_, _ = played()
    check_evidence(data, round_.roster, round_.plan)
    return evidence_from_bytes(data)


def _record(data: bytes) -> Record:
    round_, _ = played()
    record, own = record_from_bytes(data), round_.machines[1].record
    assert own is not None
    compared(record, own, round_.roster, round_.plan)
    return record


def _file(data: bytes) -> None:
    check_evidence_file(data, "file", WORDS)
    read_evidence(data, "file")


def _told(data: bytes) -> None:
    """Let a coordinator sign anything in the place of one of its messages."""
    round_, told = played()
    reader = Reader(data)
    kind = reader.pick(TOLD)
    lie = _signed(round_.coordinator.setup.signer, told[kind].context, kind, reader.rest())
    held = told | {kind: lie}
    for last, before in BEFORE.items():
        messages = tuple(held[one] for one in (*before, last))
        evidence = Evidence(Case.BROKEN_ROUND, "R4.4", held[Kind.OPENING], messages)
        check_evidence(evidence.to_bytes(), round_.roster, round_.plan)
    of_two(told[Kind.OPENING], told[kind], lie, round_.roster, round_.plan)


def _sealed(data: bytes) -> None:
    """Let a dealer seal anything for site 1, behind a true list."""
    round_, told = played()
    opening, own = told[Kind.OPENING], round_.machines[3].record
    assert own is not None
    h1, context = bytes(32), opening.context
    ciphertext = seal(SecretBytes(KEY, "key"), data, sealing_data(context, h1, 3, 1))
    entry = ShareEntry(1, ciphertext_digest(ciphertext), h1, h1, h1)
    envelope = round_.signers[3].sign(context, Shares.of(h1, [entry]))
    evidence = Evidence(Case.BAD_SHARES, "R2.7", opening, (envelope,), 1, ciphertext, KEY)
    check_evidence(evidence.to_bytes(), round_.roster, round_.plan)


def payloads() -> dict[str, bytes]:
    """Return what the coordinator truly said, as cases of `evidence-told`."""
    _, told = played()
    named = {kind: kind.name.lower().replace("_", "-") for kind in TOLD}
    assert all(decode(kind, told[kind].payload) for kind in TOLD)
    return {named[kind]: bytes([place]) + told[kind].payload for place, kind in enumerate(TOLD)}


TARGETS = (
    Target("evidence", decoder(_evidence, same(Evidence.to_bytes)), size=8192, examples=40),
    Target("evidence-record", decoder(_record, same(Record.to_bytes)), size=8192, examples=30),
    Target("evidence-file", decoder(_file), size=8192, examples=30),
    Target("evidence-told", decoder(_told), size=4096, examples=20),
    Target("evidence-sealed", decoder(_sealed), size=512, examples=30),
)
