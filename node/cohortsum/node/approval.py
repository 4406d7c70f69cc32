"""An admin's yes to one study, as the node's folder holds it: ``approved.txt``, one digest per line."""

from dataclasses import dataclass
from pathlib import Path

from cohortsum.crypto.errors import ConfigurationError
from cohortsum.node.files import read, replace
from cohortsum.node.pinning import load_pin
from cohortsum.protocol.denylist import without_denied
from cohortsum.study.definition import parse_canonical
from cohortsum.study.definition.signing import SignedStudy, open_study
from cohortsum.study.planning import StudyPlan, plan_study

APPROVED = "approved.txt"


@dataclass(frozen=True, slots=True)
class Asked:
    """A study as its statistician signed it, planned under the roster that this node pinned."""

    plan: StudyPlan
    statistician: str


def read_asked(folder: Path, signed: SignedStudy) -> Asked:
    """Return what a signed study asks for.

    Raises ConfigurationError where its roster version is not pinned here, and AuthenticationError unless a statistician of
    that roster signed it.
    """
    pin = load_pin(folder)
    pinned = pin.of_version(parse_canonical(signed.canonical).roster)
    study = open_study(signed, without_denied(pinned, pin.deny))
    return Asked(plan_study(study, pinned), signed.statistician)


def approved(folder: Path) -> frozenset[bytes]:
    """Return the digests of the studies the admin approved; none where there is no file yet."""
    path = folder / APPROVED
    if not path.exists():
        return frozenset()
    try:
        return frozenset(bytes.fromhex(line) for line in read(path).decode("ascii").split())
    except ValueError:
        raise ConfigurationError(
            f"{APPROVED}: expected one study digest per line, in hexadecimal digits; repair it"
        ) from None


def set_approval(folder: Path, digest: bytes, wanted: bool) -> None:
    """Write down, or take back, the approval of a study."""
    held = approved(folder)
    digests = held | {digest} if wanted else held - {digest}
    replace(folder / APPROVED, "".join(f"{entry.hex()}\n" for entry in sorted(digests)).encode())
