"""Evidence that a node keeps: one file per lie under ``evidence/``, mode 0600, never overwritten and never sent by itself.

A file is on disk, and a line in the audit log, before the session does anything else about what it found. Whom to give it to is for
the admin to decide (docs/evidence.md).
"""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from cohortsum.crypto.errors import ConfigurationError
from cohortsum.node.files import PRIVATE, read, read_public, read_signature, replace
from cohortsum.node.ledger import Ledger
from cohortsum.node.pinning import OPERATOR, ROSTERS
from cohortsum.protocol.audit import Deed, DeedKind
from cohortsum.protocol.envelope import Signer
from cohortsum.protocol.evidence import Evidence, Finding
from cohortsum.study.definition.signing import SignedStudy
from cohortsum.study.release.bundle import Paper, Papers
from cohortsum.study.release.evidence_file import SUFFIX, write_evidence

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
        found: Finding,
        study: tuple[bytes, int, SignedStudy],
        signer: Signer,
        ledger: Ledger,
    ) -> Path | None:
        """Write evidence and its line of the audit log; return the file, or None where this lie is on file already.

        Args:
            evidence: as it was checked.
            found: what it proves.
            study: digest, roster version and signed bytes.
            signer: this site.
            ledger: that the audit log belongs to.

        Raises:
            ConfigurationError: a file cannot be read or written.
            StoreError: the audit log refuses.
        """
        path = self.folder / f"{found.context.hex()}-{found.check}-{found.accused}{SUFFIX}"
        if path.exists():
            return None
        digest, version, signed = study
        data = write_evidence(self.papers(version), signed, evidence.to_bytes(), signer)
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise ConfigurationError(
                f"{EVIDENCE}: cannot be made ({error.strerror}); check rights of the node's folder"
            ) from None
        replace(path, data, PRIVATE)
        line = hashlib.sha256(data).digest()
        ledger.note(
            Deed(DeedKind.EVIDENCE_KEPT, digest, found.context, line, by=found.accused, detail=found.check)
        )
        return path


def evidence_in(folder: Path) -> EvidenceBook:
    """Return where the node in ``folder`` keeps evidence."""
    return EvidenceBook(folder / EVIDENCE, lambda version: _papers(folder, version))


def _papers(folder: Path, version: int) -> Papers:
    """Return what is pinned of a roster version; the files were verified when they were pinned, and are again by every reader."""
    home = folder / ROSTERS
    newest = max(int(path.stem) for path in home.glob("*.yaml") if path.stem.isdecimal())
    later = None if newest == version else _paper(home / f"{newest}.yaml")
    return Papers(read_public(folder / OPERATOR), _paper(home / f"{version}.yaml"), later)


def _paper(path: Path) -> Paper:
    return Paper(read(path), read_signature(path.with_suffix(".sig")))
