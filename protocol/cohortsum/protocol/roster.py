"""The roster: who is who, pinned by every site out of band.

A roster lists identity keys with their roles and is signed by the consortium's operator. Its digest is taken over the exact
signed bytes. The coordinator can never make a site accept another one; this pin, not a certificate authority run by the
coordinator, is the public-key infrastructure that the protocol's proof needs, and the defence against invented sites.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NewType

from cohortsum.crypto.agreement import check_public
from cohortsum.crypto.encoding import digest
from cohortsum.crypto.errors import ConfigurationError
from cohortsum.crypto.signing import public_key, verify

SiteId = NewType("SiteId", str)

ROSTER = "cohortsum/v1/roster"


class Role(StrEnum):
    """What an identity may do."""

    SITE = "site"
    COORDINATOR = "coordinator"
    TRUSTEE = "trustee"
    STATISTICIAN = "statistician"
    CHECKER = "checker"
    AUDITOR = "auditor"


@dataclass(frozen=True, slots=True)
class Identity:
    """One entry of the roster.

    Attributes:
        id: unique name, for example ``amc``.
        role: what it may do.
        index: a site's place, 0 to 2**16 - 1, which fixes its share point ``index + 1``; None for other roles.
        key: Ed25519 public key, 32 bytes.
        seal: X25519 public key, 32 bytes, under which proof bundles are sealed to an auditor; empty for none.
    """

    id: str
    role: Role
    index: int | None
    key: bytes
    seal: bytes = b""


@dataclass(frozen=True, slots=True)
class Roster:
    """A signed list of identities.

    Attributes:
        consortium: name of the consortium.
        version: grows by one with every change; a study names the version it was written for.
        identities: the entries by id.
        digest: SHA-256 over the signed bytes, 32 bytes.
    """

    consortium: str
    version: int
    identities: Mapping[str, Identity]
    digest: bytes
    sites: Mapping[SiteId, int] = field(init=False)

    def __post_init__(self) -> None:
        """Check what every later step relies on: sound, distinct keys, distinct indices, exactly one coordinator."""
        entries = tuple(self.identities.values())
        for entry in entries:
            public_key(entry.key)
            if entry.seal:
                check_public(entry.seal)
        sites = {
            SiteId(entry.id): entry.index
            for entry in entries
            if entry.role is Role.SITE and entry.index is not None
        }
        if len({entry.key for entry in entries}) != len(entries):
            raise ConfigurationError(
                f"roster of {self.consortium}: two identities share a key; every identity needs its own"
            )
        if len(set(sites.values())) != len(sites) or not all(0 <= index < 2**16 for index in sites.values()):
            raise ConfigurationError(
                f"roster of {self.consortium}: site indices must be distinct and from 0 to 65535"
            )
        if len(sites) != sum(entry.role is Role.SITE for entry in entries):
            raise ConfigurationError(f"roster of {self.consortium}: every site needs an index")
        if sum(entry.role is Role.COORDINATOR for entry in entries) != 1:
            raise ConfigurationError(f"roster of {self.consortium}: exactly one coordinator is required")
        object.__setattr__(self, "sites", dict(sorted(sites.items(), key=lambda item: item[1])))

    @property
    def coordinator(self) -> Identity:
        """The one coordinator."""
        return next(entry for entry in self.identities.values() if entry.role is Role.COORDINATOR)

    def of_role(self, role: Role) -> tuple[Identity, ...]:
        """Return the identities of one role, in the roster's order."""
        return tuple(entry for entry in self.identities.values() if entry.role is role)


def roster_digest(signed: bytes) -> bytes:
    """Return the digest that admins compare and pin, over the exact signed bytes."""
    return digest(ROSTER, signed)


def verify_roster(signed: bytes, signature: bytes, operator: bytes) -> None:
    """Raise AuthenticationError unless ``operator`` (an Ed25519 public key) signed these very bytes."""
    verify(operator, signature, ROSTER, signed)
