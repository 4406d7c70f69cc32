"""Gathering the proof bundle of a study from the store, the operator's signed files and the sealed rounds.

A bundle is made anew whenever it is asked for, and written beside the results folder whenever that is. It is verified here before it
leaves, as everybody else will: one that would not hold is refused with the check that it fails.
"""

from collections.abc import Callable, Mapping
from importlib.metadata import version
from pathlib import Path

import structlog
from sqlalchemy import select

from cohortsum.coordinator.config import CoordinatorConfig, read_file
from cohortsum.coordinator.item_rows import read_items
from cohortsum.coordinator.publish import release_folder
from cohortsum.coordinator.roll import Roll
from cohortsum.coordinator.sealing import SealedRounds, sealed_folder
from cohortsum.coordinator.store import ResultRow, RoundRow, Store, StudyRow
from cohortsum.coordinator.trail import kept_transcript
from cohortsum.crypto.errors import CohortsumError, RefusedError
from cohortsum.crypto.fingerprint import roster_words
from cohortsum.crypto.keyfile import parse_hex
from cohortsum.crypto.signing import PUBLIC_BYTES, SIGNATURE_BYTES, IdentityKey
from cohortsum.protocol.envelope import Signer
from cohortsum.protocol.roster import roster_digest
from cohortsum.protocol.witness import witnessed
from cohortsum.report.bundle_check import check_bundle
from cohortsum.report.bundle_release import rules_json
from cohortsum.report.document import OUT, from_json
from cohortsum.study.definition import parse_canonical
from cohortsum.study.definition.signing import SignedStudy
from cohortsum.study.planning import plan_study
from cohortsum.study.release.bundle import Paper, Papers, Parts, write_bundle
from cohortsum.study.release.bundle_decisions import decision_to_json
from cohortsum.study.release.charges import charges_of

log: structlog.stdlib.BoundLogger = structlog.get_logger()


class Binder:
    """Makes proof bundles.

    Args:
        store: the durable store.
        results: releases, in a folder per study and version.
        roll: returns who counts now.
        key: the coordinator's identity key.
        papers: returns the operator's signed files for a roster version; None where this process was not given any.
    """

    def __init__(
        self,
        store: Store,
        results: Path,
        roll: Callable[[], Roll],
        key: IdentityKey,
        papers: Callable[[int], Papers] | None,
    ) -> None:
        self._store, self._results, self._roll, self._key, self._papers = store, results, roll, key, papers

    def bundle(self, digest: bytes) -> bytes:
        """Return the proof bundle of a study whose results have left, at least one of them.

        Raises RefusedError where there is nothing to prove, or what is kept here would not hold.
        """
        if self._papers is None:
            raise RefusedError("this coordinator was started without the operator's signed files")
        try:
            parts, software = self._parts(digest, self._papers)
            archive = write_bundle(parts, Signer(self._roll().now.coordinator, self._key), software)
        except RefusedError:
            raise
        except CohortsumError as error:
            log.error("bundle.not_made", study=digest.hex()[:16], sentence=error.message)
            raise RefusedError("the bundle cannot be made; the coordinator's log says why") from error
        words = roster_words(parts.papers.operator, roster_digest(parts.papers.roster.text))
        failure = check_bundle(archive, "bundle", words).failure
        if failure is not None:
            raise RefusedError(f"the bundle does not hold ({failure.check}): {failure.sentence}")
        return archive

    def write(self, digest: bytes) -> None:
        """Write the bundle beside the results folder, or report why there is none; a study in review has none yet."""
        if self._papers is None:
            return
        with self._store.transaction() as session:
            study = parse_canonical(session.get_one(StudyRow, digest.hex()).canonical)
            result = session.get(ResultRow, digest.hex())
            left = result is not None and any(
                item.state in OUT for item in from_json(result.document).release
            )
        if not left:
            return
        if study.protection.mode == "committee":
            return  # there are no rounds of sums to prove
        path = bundle_path(self._results, study.study, study.version)
        draft = path.with_name(f".{path.name}.draft")
        try:
            archive = self.bundle(digest)
            path.parent.mkdir(parents=True, exist_ok=True)
            draft.write_bytes(archive)
            draft.rename(path)
        except CohortsumError as error:
            log.error("bundle.not_made", study=study.study, version=study.version, sentence=error.message)
        except OSError as error:
            log.error("bundle.not_written", study=study.study, version=study.version, errno=error.errno)

    def _parts(self, digest: bytes, papers_of: Callable[[int], Papers]) -> tuple[Parts, str]:
        with self._store.transaction() as session:
            row, result = session.get(StudyRow, digest.hex()), session.get(ResultRow, digest.hex())
            if row is None:
                raise RefusedError("no such study at this coordinator")
            if result is None:
                raise RefusedError(f"study {row.name} is {row.state}; there is no result to prove")
            signed = SignedStudy(row.canonical, row.statistician, row.signature)
            if parse_canonical(row.canonical).protection.mode == "committee":
                raise RefusedError("a committee answered this study, and bundles prove rounds of sums")
            written = result.document
            document = from_json(written)
            query = (
                select(RoundRow.context)
                .where(RoundRow.study == digest.hex(), RoundRow.state == "opened")
                .order_by(RoundRow.iteration)
            )
            contexts = [bytes.fromhex(context) for context in session.scalars(query)]
            decisions = tuple(
                decision_to_json(signature.decision)
                for held in read_items(session, digest.hex())
                if held.item.state in OUT
                for signature in held.item.signatures
            )
        if not any(item.state in OUT for item in document.release):
            raise RefusedError(f"nothing of study {document.study.id} is released yet")
        study = parse_canonical(signed.canonical)
        roster = self._roll().whole(study.roster)
        plan = plan_study(study, roster)
        transcripts = tuple(kept_transcript(self._store, context, roster) for context in contexts)
        rounds = [witnessed(one, plan.round, roster) for one in transcripts]
        names: Mapping[int, str] = {index: str(site) for site, index in roster.sites.items()}
        kept = SealedRounds(sealed_folder(release_folder(self._results, study)), digest, lambda: roster)
        sealed = [held for context in contexts if (held := kept.read(context)) is not None]
        parts = Parts(
            signed,
            papers_of(study.roster),
            transcripts,
            written,
            charges_of(plan, rounds, names),
            rules_json(document),
            decisions,
            tuple(sealed) if len(sealed) == len(contexts) else (),
        )
        return parts, f"cohortsum {version('cohortsum')}"


def bundle_path(results: Path, study: str, number: int) -> Path:
    """Return where the bundle of a study's version is written, beside its results folder."""
    return results / study / f"v{number}.bundle.zip"


def papers_in(config: CoordinatorConfig, folder: Path) -> Callable[[int], Papers]:
    """Return what reads the operator's signed files of a roster version from a consortium's folder, as they are then.

    Raises, when called, ConfigurationError for a file that cannot be read; signatures are checked with the bundle.
    """
    operator = parse_hex(config.operator_key.encode(), PUBLIC_BYTES, "operator_key")

    def paper(home: str, number: int) -> Paper:
        path = folder / home / f"{number}.yaml"
        return _paper(path, path.with_suffix(".sig"))

    def read(number: int) -> Papers:
        rosters, denials = _numbers(folder / "rosters"), _numbers(folder / "denials")
        if not rosters:
            return Papers(operator, _paper(config.roster, config.roster_signature))
        newest = paper("rosters", rosters[-1]) if rosters[-1] != number else None
        deny = paper("denials", denials[-1]) if denials else None
        return Papers(operator, paper("rosters", number), newest, deny)

    return read


def _paper(path: Path, signature: Path) -> Paper:
    return Paper(read_file(path), parse_hex(read_file(signature), SIGNATURE_BYTES, signature.name))


def _numbers(folder: Path) -> tuple[int, ...]:
    return tuple(sorted(int(path.stem) for path in folder.glob("*.yaml") if path.stem.isdecimal()))
