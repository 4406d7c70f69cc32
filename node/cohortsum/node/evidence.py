"""Evidence that a node keeps: one file per lie under ``evidence/``, mode 0600, never overwritten and never sent by itself.

A file is on disk, and a line in the audit log, before the session does anything else about what it found. Whom to give it to is for
the admin to decide (docs/evidence.md). Beside them lie records of what the coordinator told this site of its newest attempts: a second
site's record of the same attempt shows whether both were told the same.
"""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from cohortsum.crypto.errors import ConfigurationError
from cohortsum.node.config import load_node_config
from cohortsum.node.files import PRIVATE, read, read_key, read_public, read_signature, replace
from cohortsum.node.ledger_file import note_in
from cohortsum.node.pinning import OPERATOR, ROSTERS, load_pin
from cohortsum.protocol.audit import Deed, DeedKind
from cohortsum.protocol.envelope import Signer
from cohortsum.protocol.evidence import Evidence, Finding
from cohortsum.protocol.evidence_check import check_evidence
from cohortsum.protocol.evidence_record import Record, compared, record_from_bytes
from cohortsum.report.evidence_verdict import check_presented
from cohortsum.study.definition import parse_canonical
from cohortsum.study.definition.signing import SignedStudy, open_study
from cohortsum.study.planning import plan_study
from cohortsum.study.release.bundle import Paper, Papers
from cohortsum.study.release.evidence_file import SUFFIX, read_evidence, write_evidence

EVIDENCE = "evidence"
TOLD = ".told"
MOST_RECORDED = 64 * 1024 * 1024
"""Bytes of records that are kept; a record of 20 sites has some 80 thousand, one of 200 sites some 5 million."""


@dataclass(frozen=True, slots=True)
class Presented:
    """The study that evidence is about: its digest, the version of its roster, and its signed bytes."""

    digest: bytes
    roster: int
    signed: SignedStudy


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
        study: Presented,
        signer: Signer,
        note: Callable[[Deed], None],
    ) -> Path | None:
        """Write evidence and its line of the audit log; return the file, or None where this lie is on file already.

        Args:
            evidence: as it was checked.
            found: what it proves.
            study: that it is about.
            signer: this site.
            note: writes a line of the audit log.

        Raises:
            ConfigurationError: a file cannot be read or written.
            StoreError: the audit log refuses.
        """
        path = self.folder / f"{found.context.hex()}-{found.check}-{found.accused}{SUFFIX}"
        if path.exists():
            return None
        data = self._write(path, evidence.to_bytes(), study, signer)
        line = hashlib.sha256(data).digest()
        note(
            Deed(
                DeedKind.EVIDENCE_KEPT,
                study.digest,
                found.context,
                line,
                by=found.accused,
                detail=found.check,
            )
        )
        return path

    def remember(self, record: Record, study: Presented, signer: Signer) -> None:
        """Write the record of an attempt that is over, and remove the oldest beyond `MOST_RECORDED`; raises ConfigurationError."""
        self._write(self.folder / f"{record.opening.context.hex()}{TOLD}", record.to_bytes(), study, signer)
        newest, *older = reversed(self.records())
        total = newest.stat().st_size
        for path in older:
            total += path.stat().st_size
            if total > MOST_RECORDED:
                path.unlink(missing_ok=True)

    def records(self) -> list[Path]:
        """Return the records that are kept, the oldest first."""
        return sorted(self.folder.glob(f"*{TOLD}"), key=lambda path: path.stat().st_mtime_ns)

    def _write(self, path: Path, content: bytes, study: Presented, signer: Signer) -> bytes:
        """Put a private file with this content, signed by ``signer``, on disk and return its bytes."""
        data = write_evidence(self.papers(study.roster), study.signed, content, signer)
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise ConfigurationError(
                f"{EVIDENCE}: cannot be made ({error.strerror}); check rights of the node's folder"
            ) from None
        replace(path, data, PRIVATE)
        return data


def evidence_in(folder: Path) -> EvidenceBook:
    """Return where the node in ``folder`` keeps evidence."""
    return EvidenceBook(folder / EVIDENCE, lambda version: _papers(folder, version))


def compare(folder: Path, data: bytes, source: str) -> tuple[Path, ...]:
    """Return the evidence that another site's record gives beside those of the node in ``folder``; it is kept there.

    Args:
        folder: the node's.
        data: the other site's record.
        source: its name in messages.

    Raises:
        AuthenticationError: it is of another consortium or study than it says, or was altered.
        ConfigurationError: it is no record, or this site has none of that study.
    """
    held, pin = read_evidence(data, source), load_pin(folder)
    roster = pin.of_version(parse_canonical(held.study.canonical).roster)
    check_presented(held, roster)
    study = open_study(held.study, roster)
    plan, theirs = plan_study(study, roster).round, record_from_bytes(held.evidence)
    book, config = evidence_in(folder), load_node_config(folder / "node.yaml")
    signer = Signer(roster.identities[config.site], read_key(config.identity_key))
    presented, kept, same = Presented(study.digest, study.roster, held.study), list[Path](), 0
    for path in book.records():
        own = read_evidence(read(path), path.name)
        if own.study.canonical != held.study.canonical:
            continue
        same += 1
        for evidence in compared(record_from_bytes(own.evidence), theirs, roster, plan):
            found = check_evidence(evidence.to_bytes(), roster, plan)
            if isinstance(found, Finding):
                file = book.keep(evidence, found, presented, signer, partial(note_in, folder))
                kept += [] if file is None else [file]
    if not same:
        raise ConfigurationError(
            f"{source}: this site has no record of study {study.study}; nothing to compare"
        )
    return tuple(kept)


def _papers(folder: Path, version: int) -> Papers:
    """Return what is pinned of a roster version; the files were verified when they were pinned, and are again by every reader."""
    home = folder / ROSTERS
    newest = max(int(path.stem) for path in home.glob("*.yaml") if path.stem.isdecimal())
    later = None if newest == version else _paper(home / f"{newest}.yaml")
    return Papers(read_public(folder / OPERATOR), _paper(home / f"{version}.yaml"), later)


def _paper(path: Path) -> Paper:
    return Paper(read(path), read_signature(path.with_suffix(".sig")))
