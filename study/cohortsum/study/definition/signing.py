"""A statistician's signature over the canonical bytes of a study."""

import json
from dataclasses import dataclass

from cohortsum.crypto.errors import AuthenticationError, StudyFileError
from cohortsum.crypto.signing import IdentityKey, verify
from cohortsum.protocol.roster import Role, Roster
from cohortsum.study.definition.freezing import parse_canonical
from cohortsum.study.definition.frozen import FrozenStudy

STUDY_SIGNATURE = "cohortsum/v1/study-signature"


@dataclass(frozen=True, slots=True)
class SignedStudy:
    """Canonical bytes of a study with their signature."""

    canonical: bytes
    statistician: str
    signature: bytes


def sign_study(study: FrozenStudy, statistician: str, key: IdentityKey) -> SignedStudy:
    """Return the study signed by a statistician of the roster."""
    signature = key.sign(STUDY_SIGNATURE, statistician.encode(), study.canonical)
    return SignedStudy(study.canonical, statistician, signature)


def signed_study_to_json(signed: SignedStudy) -> bytes:
    """Return a signed study as a file: canonical text, statistician and signature."""
    held = {
        "canonical": signed.canonical.decode("utf-8"),
        "statistician": signed.statistician,
        "signature": signed.signature.hex(),
    }
    return json.dumps(held, ensure_ascii=False, indent=1).encode() + b"\n"


def signed_study_from_json(data: bytes) -> SignedStudy:
    """Return the signed study in a file; nothing is verified. Raises StudyFileError for anything else."""
    try:
        held = json.loads(data)
        if set(held) != {"canonical", "statistician", "signature"}:
            raise ValueError("keys")
        return SignedStudy(
            str(held["canonical"]).encode("utf-8"),
            str(held["statistician"]),
            bytes.fromhex(held["signature"]),
        )
    except (AttributeError, RecursionError, TypeError, ValueError):
        raise StudyFileError("not a signed study: expected canonical, statistician and signature") from None


def open_study(signed: SignedStudy, roster: Roster) -> FrozenStudy:
    """Return the study behind signed bytes.

    Raises AuthenticationError unless a statistician of the roster signed exactly these bytes, and StudyFileError if they
    are no canonical study.
    """
    identity = roster.identities.get(signed.statistician)
    if identity is None or identity.role is not Role.STATISTICIAN:
        raise AuthenticationError(f"no statistician '{signed.statistician}' in the roster signed this study")
    verify(identity.key, signed.signature, STUDY_SIGNATURE, signed.statistician.encode(), signed.canonical)
    return parse_canonical(signed.canonical)
