"""The deny-list: keys that no longer count, signed by the operator, effective at once.

A roster never shrinks, because studies name the version they were written for; a stolen or retired key is denied instead, in
every version. What is denied is the key: its owner may be admitted again under a new one. Lists are numbered by a serial that
only grows, and a key once denied stays denied, so neither a replayed list nor a careless one brings it back.
"""

from dataclasses import dataclass
from datetime import datetime

from cohortsum.crypto.errors import AuthenticationError, ConfigurationError
from cohortsum.crypto.signing import verify
from cohortsum.protocol.roster import Identity, Roster

DENY_LIST = "cohortsum/v1/deny-list"


@dataclass(frozen=True, slots=True)
class Denied:
    """One key that no longer counts.

    Attributes:
        id: whose it was in the roster.
        key: Ed25519 public key, 32 bytes.
        since: when it was denied; with a time zone.
        reason: for people; one line.
    """

    id: str
    key: bytes
    since: datetime
    reason: str


@dataclass(frozen=True, slots=True)
class DenyList:
    """All denied keys of a consortium.

    Attributes:
        consortium: name of the consortium.
        serial: grows with every list; 0 stands for no list yet.
        denied: the keys, each once.
    """

    consortium: str
    serial: int
    denied: tuple[Denied, ...]

    def __post_init__(self) -> None:
        """Check that a key stands here once."""
        if len({entry.key for entry in self.denied}) != len(self.denied):
            raise ConfigurationError(
                f"deny-list of {self.consortium}: a key is listed twice; list each key once"
            )

    def entry_for(self, identity: Identity) -> Denied | None:
        """Return why this identity's key no longer counts, or None where it does."""
        return next((entry for entry in self.denied if entry.key == identity.key), None)


def without_denied(roster: Roster, deny: DenyList) -> Roster:
    """Return the roster as it counts now: without identities whose key is denied, under the same digest.

    Plans are still made from the whole roster, so that everybody agrees on them whatever list they hold. Raises
    AuthenticationError if the coordinator itself is denied.
    """
    kept = {name: entry for name, entry in roster.identities.items() if deny.entry_for(entry) is None}
    if roster.coordinator.id not in kept:
        raise AuthenticationError(
            f"the key of coordinator '{roster.coordinator.id}' is denied; ask the operator"
        )
    return Roster(roster.consortium, roster.version, kept, roster.digest)


def nobody_denied(consortium: str) -> DenyList:
    """Return what holds before an operator has denied anything."""
    return DenyList(consortium, 0, ())


def verify_deny_list(signed: bytes, signature: bytes, operator: bytes) -> None:
    """Raise AuthenticationError unless ``operator`` (an Ed25519 public key) signed these very bytes."""
    verify(operator, signature, DENY_LIST, signed)


def check_succeeds(held: DenyList, new: DenyList) -> None:
    """Raise ConfigurationError unless ``new`` may take the place of ``held``: same consortium, higher serial, nothing undone.

    A list equal to the one held is accepted: receiving it twice has no second effect.
    """
    if new == held:
        return
    if new.consortium != held.consortium:
        raise ConfigurationError(
            f"deny-list: it is for consortium {new.consortium}, expected {held.consortium}; ask the operator for yours"
        )
    if new.serial <= held.serial:
        raise ConfigurationError(
            f"deny-list: serial {new.serial}, but serial {held.serial} is held here; ask the operator for the newest one"
        )
    undone = [entry.id for entry in held.denied if entry.key not in {other.key for other in new.denied}]
    if undone:
        raise ConfigurationError(
            f"deny-list: serial {new.serial} no longer denies a key of {', '.join(undone)}; a denied key stays denied, "
            "its owner is admitted again under a new one"
        )
