"""Who counts at the trustee now: the rosters and the deny-list in its folder, read again when they change.

Files are those that the operator hands out, as ``rosters/VERSION.yaml`` and ``denials/SERIAL.yaml``, each beside its signature; every
one is verified under the operator's key in the settings. `cohortsum trustee pin` and `deny` put them there, and a copy of the
operator's folders does as well. Files that cannot be read leave the last good state in force and are reported.
"""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import structlog

from cohortsum.crypto.errors import CohortsumError, ConfigurationError, RefusedError
from cohortsum.crypto.keyfile import parse_hex
from cohortsum.crypto.signing import SIGNATURE_BYTES
from cohortsum.protocol.denylist import DenyList, nobody_denied, without_denied
from cohortsum.protocol.roster import Role, Roster
from cohortsum.study.definition.consortium import open_roster
from cohortsum.study.definition.deny import open_deny_list
from cohortsum.trustee.config import read_file

ROSTERS, DENIALS = "rosters", "denials"

log: structlog.stdlib.BoundLogger = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Roll:
    """Every roster version that is pinned here, and who is denied.

    Attributes:
        rosters: as the operator signed them, by version; never empty.
        deny: the newest deny-list.
    """

    rosters: Mapping[int, Roster]
    deny: DenyList

    def whole(self, version: int) -> Roster:
        """Return the roster of a version; raises RefusedError for one that is not here."""
        held = self.rosters.get(version)
        if held is None:
            raise RefusedError(
                f"roster version {version}, which the study names, is not pinned at this trustee (it has "
                f"{', '.join(map(str, sorted(self.rosters)))}); its admin gets it from the operator and runs `cohortsum trustee pin`"
            )
        return held

    def counted(self, version: int) -> Roster:
        """Return the roster of a version without the identities that are denied; raises AuthenticationError if the coordinator is."""
        return without_denied(self.whole(version), self.deny)

    @property
    def newest(self) -> int:
        """The newest version."""
        return max(self.rosters)

    @property
    def now(self) -> Roster:
        """The newest roster without the identities that are denied: who may call."""
        return self.counted(self.newest)


def load_roll(folder: Path, operator: bytes) -> Roll:
    """Return the roll in a folder, every signature verified.

    Raises ConfigurationError where no roster is pinned, and AuthenticationError naming a file that the operator did not sign.
    """
    rosters: dict[int, Roster] = {}
    for version in _numbers(folder / ROSTERS):
        text, signature, source = _signed(folder, ROSTERS, version)
        rosters[version] = open_roster(text, signature, operator, source, version)
    if not rosters:
        raise ConfigurationError(
            "no roster is pinned; get consortium.yaml and consortium.sig from the operator and run `cohortsum trustee pin`"
        )
    consortium = rosters[max(rosters)].consortium
    serials = _numbers(folder / DENIALS)
    if not serials:
        return Roll(rosters, nobody_denied(consortium))
    text, signature, source = _signed(folder, DENIALS, serials[-1])
    deny = open_deny_list(text, signature, operator, source, serials[-1])
    if {deny.consortium, *(roster.consortium for roster in rosters.values())} != {consortium}:
        raise ConfigurationError(
            f"{source}: rosters and deny-list are of several consortia; a trustee serves one"
        )
    return Roll(rosters, deny)


class RollBook:
    """The roll of a trustee's folder.

    Args:
        folder: the trustee's.
        operator: the operator's public key.
    """

    def __init__(self, folder: Path, operator: bytes) -> None:
        self._folder, self._operator = folder, operator
        self._seen = self._state()
        self._roll = load_roll(folder, operator)

    @property
    def roll(self) -> Roll:
        """The roll as it is now."""
        state = self._state()
        if state != self._seen:
            self._seen = state
            try:
                self._roll = load_roll(self._folder, self._operator)
                log.info("roll.read", roster=self._roll.newest, deny=self._roll.deny.serial)
            except CohortsumError as error:
                log.error("roll.unreadable", sentence=error.message)
        return self._roll

    def _state(self) -> frozenset[str]:
        """Return what tells whether anything was written: names and times of all files."""
        state: set[str] = set()
        for home in (ROSTERS, DENIALS):
            for path in (self._folder / home).glob("*.*"):
                with suppress(FileNotFoundError):  # a file that was put in place by its new name just now
                    state.add(f"{home}/{path.name} {path.stat().st_mtime_ns}")
        return frozenset(state)


def own_place(roll: Roll, identity: str, public: bytes) -> str | None:
    """Return what is wrong with this trustee's place in the newest roster, with its cure, or None."""
    held = roll.rosters[roll.newest].identities.get(identity)
    if held is None or held.role is not Role.TRUSTEE:
        return (
            f"'{identity}' is no trustee of roster version {roll.newest}; send request.yaml to the operator"
        )
    if held.key != public:
        return (
            f"roster version {roll.newest} has another key for '{identity}'; restore the key file, or ask the operator to revoke the old "
            "key and admit the new one"
        )
    if roll.deny.entry_for(held) is not None:
        return f"the key of '{identity}' is denied; make a new one and ask the operator to admit it"
    return None


def _numbers(folder: Path) -> tuple[int, ...]:
    return tuple(sorted(int(path.stem) for path in folder.glob("*.yaml") if path.stem.isdecimal()))


def _signed(folder: Path, home: str, number: int) -> tuple[bytes, bytes, str]:
    path = folder / home / f"{number}.yaml"
    signature = path.with_suffix(".sig")
    return (
        read_file(path),
        parse_hex(read_file(signature), SIGNATURE_BYTES, f"{home}/{signature.name}"),
        f"{home}/{path.name}",
    )
