"""Evidence that a coordinator keeps against sites: one file per lie in a folder beside its settings, mode 0600, never overwritten.

Of files that hold a site's answer, and so shares, there is one per attempt. The line of the audit log is written
once the file is on disk. A disk that refuses costs the evidence and nothing else: the log says so.
"""

import hashlib
import os
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import structlog

from cohortsum.coordinator.record import StudyRecord
from cohortsum.crypto.errors import CohortsumError
from cohortsum.protocol.envelope import Signer
from cohortsum.protocol.evidence import Evidence, Finding, evidence_from_bytes
from cohortsum.protocol.evidence_check import check_evidence
from cohortsum.protocol.plan import RoundPlan
from cohortsum.protocol.roster import Roster
from cohortsum.study.definition.signing import SignedStudy
from cohortsum.study.release.bundle import Papers
from cohortsum.study.release.evidence_file import SUFFIX, read_evidence, write_evidence

log: structlog.stdlib.BoundLogger = structlog.get_logger()

EVIDENCE = "evidence"


@dataclass(frozen=True, slots=True)
class EvidenceBook:
    """Where evidence goes.

    Attributes:
        folder: made if need be, with mode 0700.
        papers: returns the operator's signed files for a roster version.
    """

    folder: Path
    papers: Callable[[int], Papers]

    def keep(
        self,
        evidence: Evidence,
        plan: RoundPlan,
        roster: Roster,
        signed: SignedStudy,
        signer: Signer,
        record: StudyRecord,
    ) -> None:
        """Write evidence and its line of the audit log, unless this lie is on file already.

        Args:
            evidence: as the machine made it.
            plan: of the first round of the study.
            roster: of the study.
            signed: the study.
            signer: the coordinator.
            record: of the study.
        """
        found = check_evidence(evidence.to_bytes(), roster, plan)
        if not isinstance(found, Finding):
            return
        path = self.folder / f"{found.context.hex()}-{found.check}-{found.accused}{SUFFIX}"
        if path.exists():
            return
        try:
            if evidence.holds_shares and self._has_shares(found.context):
                return
            papers = self.papers(roster.version)
            data = write_evidence(papers, signed, evidence.to_bytes(), signer)
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            _write(path, data)
            record.evidence_kept(found.context, hashlib.sha256(data).digest(), found.accused, found.check)
        except CohortsumError as error:
            log.error("evidence.not_kept", accused=found.accused, check=found.check, sentence=error.message)
        except OSError as error:
            log.error("evidence.not_kept", accused=found.accused, check=found.check, errno=error.errno)
        else:
            log.error("evidence.kept", accused=found.accused, check=found.check, file=path.name)

    def _has_shares(self, context: bytes) -> bool:
        """Return whether a file about this attempt holds shares: fewer than t of one attempt may ever lie side by side."""
        held = (
            read_evidence(path.read_bytes(), path.name)
            for path in self.folder.glob(f"{context.hex()}-*{SUFFIX}")
        )
        return any(evidence_from_bytes(one.evidence).holds_shares for one in held)


def _write(path: Path, data: bytes) -> None:
    """Make a private file with these bytes, all or nothing."""
    draft = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "wb") as out:
        out.write(data)
        out.flush()
        os.fsync(out.fileno())
    draft.rename(path)
    folder = os.open(path.parent, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
