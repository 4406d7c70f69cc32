"""Pinning a roster and applying a deny-list: what a trustee's folder will hold after a step.

Nothing here writes: a step checks and returns the files in the order of writing, a signature before what it signs. The operator's key was
given when the folder was made, and never changes. Every version is kept for the studies that name it; two different files under one number
are evidence of a lying operator or a stolen key, so they are refused.
"""

from collections.abc import Mapping
from pathlib import Path

from cohortsum.crypto.errors import ConfigurationError
from cohortsum.protocol.denylist import DenyList, check_succeeds
from cohortsum.protocol.roster import Roster
from cohortsum.study.definition.consortium import open_roster
from cohortsum.study.definition.deny import open_deny_list
from cohortsum.trustee.roll import DENIALS, ROSTERS, load_roll

Files = Mapping[str, bytes]
"""Content by path below the trustee's folder, in the order of writing."""


def pin(folder: Path, operator: bytes, text: bytes, signature: bytes) -> tuple[Roster, Files]:
    """Return a roster that may be pinned, and its files.

    Args:
        folder: the trustee's.
        operator: the operator's public key, from the settings.
        text: the roster's exact bytes.
        signature: the operator's, 64 bytes.

    Raises:
        AuthenticationError: the operator did not sign it.
        ConfigurationError: another consortium, or another roster under a version that is pinned.
    """
    roster = open_roster(text, signature, operator, "consortium.yaml")
    if any((folder / ROSTERS).glob("*.yaml")):
        roll = load_roll(folder, operator)
        if roll.deny.consortium != roster.consortium:
            raise ConfigurationError(
                f"consortium.yaml: it is for consortium {roster.consortium}, expected {roll.deny.consortium}; a trustee serves one"
            )
        held = roll.rosters.get(roster.version)
        if held is not None and held.digest != roster.digest:
            raise ConfigurationError(
                f"consortium.yaml: another roster than the one pinned as version {roster.version}, both signed by the operator; keep "
                "both files and call the operator"
            )
    return roster, _series(ROSTERS, roster.version, text, signature)


def deny(folder: Path, operator: bytes, text: bytes, signature: bytes) -> tuple[DenyList, Files]:
    """Return a deny-list that may take the place of the one in force, and its files; raises as `pin`, and for an older serial."""
    new = open_deny_list(text, signature, operator, "deny.yaml")
    check_succeeds(load_roll(folder, operator).deny, new)
    return new, _series(DENIALS, new.serial, text, signature)


def _series(home: str, number: int, text: bytes, signature: bytes) -> Files:
    return {f"{home}/{number}.sig": signature.hex().encode() + b"\n", f"{home}/{number}.yaml": text}
