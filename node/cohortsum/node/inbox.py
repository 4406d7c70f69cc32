"""The studies that reached this node: one signed file per study under ``studies/``, verified before it is kept.

The coordinator lists studies and hands them out; nothing it says about them is believed. A study whose roster version is
not pinned here, or that no statistician of that roster signed, is not kept.
"""

from collections.abc import Mapping
from pathlib import Path

from cohortsum.crypto.errors import ConfigurationError
from cohortsum.node.decisions import Asked, read_asked
from cohortsum.node.files import make_folder, read, replace
from cohortsum.node.ledger_file import note_in
from cohortsum.protocol.audit import Deed, DeedKind
from cohortsum.study.definition import FrozenStudy, parse_canonical
from cohortsum.study.definition.signing import SignedStudy, signed_study_from_json, signed_study_to_json

STUDIES = "studies"


def keep(folder: Path, signed: SignedStudy) -> Asked:
    """Verify a study and keep it; return what it asks for. One that is kept is only verified. Raises as `read_asked`."""
    asked = read_asked(folder, signed)
    digest = asked.plan.study.digest
    if kept(folder, digest) == signed:
        return asked
    home = folder / STUDIES
    if not home.exists():
        make_folder(home)
    note_in(folder, Deed(DeedKind.STUDY_HEARD, digest, by=asked.statistician), once=f"heard {digest.hex()}")
    replace(home / f"{digest.hex()}.json", signed_study_to_json(signed))
    return asked


def held(folder: Path) -> Mapping[bytes, SignedStudy]:
    """Return the studies kept here, by digest, the oldest version of a study first."""
    found = [signed_study_from_json(read(path)) for path in sorted((folder / STUDIES).glob("*.json"))]
    studies = [(parse_canonical(signed.canonical), signed) for signed in found]
    studies.sort(key=lambda pair: (pair[0].study, pair[0].version))
    return {study.digest: signed for study, signed in studies}


def kept(folder: Path, digest: bytes) -> SignedStudy | None:
    """Return the study kept here under a digest, or None; one file is read, however many are kept."""
    path = folder / STUDIES / f"{digest.hex()}.json"
    if not path.exists():
        return None
    signed = signed_study_from_json(read(path))
    return signed if parse_canonical(signed.canonical).digest == digest else None


def find(folder: Path, name: str) -> SignedStudy:
    """Return a study by file, by id (its newest version), by ``ID@VERSION`` or by the start of its digest.

    Raises ConfigurationError where nothing, or more than one study, fits.
    """
    path = Path(name)
    if path.suffix == ".json" and path.exists():
        return signed_study_from_json(read(path))
    studies = [(parse_canonical(signed.canonical), signed) for signed in held(folder).values()]
    fitting = [(study, signed) for study, signed in studies if fits(study, name)]
    newest: dict[str, tuple[FrozenStudy, SignedStudy]] = {
        study.study: (study, signed) for study, signed in fitting
    }
    if len(newest) != 1:
        known = ", ".join(f"{study.study}@{study.version}" for study, _ in studies) or "none yet"
        raise ConfigurationError(f"'{name}': no study here, or several; name one of {known}")
    return next(iter(newest.values()))[1]


def fits(study: FrozenStudy, name: str) -> bool:
    """Return whether a person who writes ``name`` means this study."""
    named = name in (study.study, f"{study.study}@{study.version}")
    return named or (len(name) >= 8 and study.digest.hex().startswith(name))
