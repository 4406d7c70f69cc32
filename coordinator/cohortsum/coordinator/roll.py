"""Who counts at the coordinator now: the rosters and the deny-list in its folder, read again when they change.

The operator admits and revokes with commands of their own while the coordinator runs; a revocation is effective at once.
Files that cannot be read leave the last good state in force and are reported.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import structlog

from cohortsum.coordinator.admission import load_consortium
from cohortsum.coordinator.config import CoordinatorConfig, read_file
from cohortsum.crypto.errors import CohortsumError, ConfigurationError
from cohortsum.crypto.keyfile import parse_hex
from cohortsum.crypto.signing import SIGNATURE_BYTES
from cohortsum.protocol.denylist import DenyList, nobody_denied, without_denied
from cohortsum.protocol.roster import Roster
from cohortsum.study.definition.consortium import open_roster

log: structlog.stdlib.BoundLogger = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Roll:
    """Every roster version, and who is denied.

    Attributes:
        rosters: as the operator signed them, by version; never empty.
        deny: the newest deny-list.
    """

    rosters: Mapping[int, Roster]
    deny: DenyList

    def whole(self, version: int) -> Roster:
        """Return the roster of a version; raises ConfigurationError for one that is not here."""
        held = self.rosters.get(version)
        if held is None:
            raise ConfigurationError(
                f"roster version {version}, which the study names, is not at this coordinator (it has "
                f"{', '.join(map(str, sorted(self.rosters)))}); write one of these into the study"
            )
        return held

    def counted(self, version: int) -> Roster:
        """Return the roster of a version without the identities that are denied."""
        return without_denied(self.whole(version), self.deny)

    @property
    def now(self) -> Roster:
        """The newest roster without the identities that are denied: who may call."""
        return self.counted(max(self.rosters))


class RollBook:
    """The roll of a consortium's folder.

    Args:
        config: the coordinator's settings.
        folder: of the consortium; with ``rosters/`` it is read from there, else from the one file in the settings.
    """

    def __init__(self, config: CoordinatorConfig, folder: Path) -> None:
        self._config, self._folder = config, folder
        self._seen: frozenset[str] = self._state()
        self._roll = self._read()

    @property
    def roll(self) -> Roll:
        """The roll as it is now."""
        state = self._state()
        if state != self._seen:
            try:
                self._roll, self._seen = self._read(), state
                log.info("roll.read", roster=max(self._roll.rosters), deny=self._roll.deny.serial)
            except CohortsumError as error:
                self._seen = state
                log.error("roll.unreadable", sentence=error.message)
        return self._roll

    def _state(self) -> frozenset[str]:
        """Return what tells whether anything was written: names and times of all files."""
        homes = (self._folder / "rosters", self._folder / "denials")
        files = (path for home in homes for path in home.glob("*.*"))
        return frozenset(f"{path.parent.name}/{path.name} {path.stat().st_mtime_ns}" for path in files)

    def _read(self) -> Roll:
        config = self._config
        if (self._folder / "rosters").is_dir():
            consortium = load_consortium(self._folder)
            return Roll(consortium.rosters, consortium.deny)
        text = read_file(config.roster)
        signature = parse_hex(
            read_file(config.roster_signature), SIGNATURE_BYTES, config.roster_signature.name
        )
        roster = open_roster(text, signature, bytes.fromhex(config.operator_key), config.roster.name)
        return Roll({roster.version: roster}, nobody_denied(roster.consortium))
