"""A file of evidence: what `protocol.evidence` holds, with all that a stranger needs to read it offline.

One list of length-prefixed fields: the operator's key, the signed roster and the newest one, the signed study, the evidence, who presents it, and that
identity's signature over everything before. The signature says who kept the file, and makes every byte count; what it proves does not rest
on it. There is no date in it: nobody could check one.
"""

from dataclasses import dataclass

from cohortsum.crypto.encoding import encode
from cohortsum.crypto.errors import AuthenticationError, ConfigurationError
from cohortsum.crypto.signing import PUBLIC_BYTES, SIGNATURE_BYTES
from cohortsum.protocol.envelope import Signer
from cohortsum.protocol.evidence import MAX_EVIDENCE_BYTES, split
from cohortsum.study.definition.signing import SignedStudy
from cohortsum.study.release.bundle import Paper, Papers

EVIDENCE_FILE = "cohortsum/v1/evidence-file"
SUFFIX = ".evidence"
MAX_FILE_BYTES = MAX_EVIDENCE_BYTES + 32 * 1024 * 1024
_START = encode(EVIDENCE_FILE.encode())
_FIELDS = 12


@dataclass(frozen=True, slots=True)
class EvidenceFile:
    """A file of evidence, read but not believed.

    Attributes:
        operator: the operator's Ed25519 public key.
        roster: that the study names, with the operator's signature.
        newest: the newest one at whoever kept the file, or None where that is the same: people know its fingerprint.
        study: as its statistician signed it.
        evidence: bytes of `protocol.evidence`.
        by: id of who presents it.
        signature: of theirs.
        signed: the bytes that this signature covers.
    """

    operator: bytes
    roster: Paper
    newest: Paper | None
    study: SignedStudy
    evidence: bytes
    by: str
    signature: bytes
    signed: bytes


def write_evidence(papers: Papers, study: SignedStudy, evidence: bytes, signer: Signer) -> bytes:
    """Return the file in which ``signer`` presents evidence; equal parts give equal bytes."""
    signed = encode(
        EVIDENCE_FILE.encode(),
        papers.operator,
        papers.roster.text,
        papers.roster.signature,
        b"" if papers.newest is None else papers.newest.text,
        b"" if papers.newest is None else papers.newest.signature,
        study.canonical,
        study.statistician.encode(),
        study.signature,
        evidence,
        signer.identity.id.encode(),
    )
    return signed + encode(signer.key.sign(EVIDENCE_FILE, signed))


def is_evidence(data: bytes) -> bool:
    """Return whether bytes begin as a file of evidence does."""
    return data.startswith(_START)


def read_evidence(data: bytes, source: str) -> EvidenceFile:
    """Return the parts of a file of evidence; nothing is verified. Raises ConfigurationError for anything else."""
    try:
        fields = split(data, _FIELDS) if len(data) <= MAX_FILE_BYTES else ()
        if len(fields) != _FIELDS or not is_evidence(data):
            raise AuthenticationError("other fields")
        _, operator, text, by_operator, later, later_by_operator, canonical, author, by_author = fields[:9]
        evidence, by, signature = fields[9:]
        signatures = (by_operator, by_author, signature, *((later_by_operator,) if later else ()))
        if len(operator) != PUBLIC_BYTES or any(len(one) != SIGNATURE_BYTES for one in signatures):
            raise AuthenticationError("a key or signature has another length")
        return EvidenceFile(
            operator,
            Paper(text, by_operator),
            Paper(later, later_by_operator) if later else None,
            SignedStudy(canonical, author.decode(), by_author),
            evidence,
            by.decode(),
            signature,
            data[: -8 - SIGNATURE_BYTES],
        )
    except (AuthenticationError, UnicodeDecodeError):
        raise ConfigurationError(
            f"{source}: damaged, or no file of evidence; get it again from whoever kept it"
        ) from None
