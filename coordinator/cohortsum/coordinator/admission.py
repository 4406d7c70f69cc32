"""How a consortium comes into being and grows: what an operator's files will hold after a step.

Nothing here writes: every step reads the folder, checks, and returns the files to be written in their order, a signature
always before what it signs, so that an interrupted step leaves the old state. Roster versions are kept for good because
studies name them; admitting or renewing one identity adds a version and touches no file of anybody else. A revocation goes
into the deny-list and not into the roster; after it, and only then, the same id may be admitted under a new key.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from cohortsum.coordinator.config import read_file
from cohortsum.crypto.errors import ConfigurationError
from cohortsum.crypto.keyfile import parse_hex
from cohortsum.crypto.signing import PUBLIC_BYTES, SIGNATURE_BYTES, IdentityKey
from cohortsum.protocol.denylist import DENY_LIST, Denied, DenyList, nobody_denied
from cohortsum.protocol.roster import ROSTER, Roster
from cohortsum.study.definition.consortium import (
    ConsortiumFile,
    IdentityEntry,
    RequestFile,
    load_roster,
    open_roster,
    parse_key,
    quoted,
    read_section,
    write_roster,
)
from cohortsum.study.definition.deny import open_deny_list, write_deny_list

Files = Mapping[str, bytes]
"""Content by path below the consortium's folder, in the order of writing."""

SETTINGS = """\
# The coordinator of this consortium. Paths are relative to this file.

roster: consortium.yaml           # copies of the newest files under rosters/ and denials/
roster_signature: consortium.sig
operator_key: {operator}
identity: {identity}
identity_key: identity.key
listen: {listen}
# metrics: 127.0.0.1:9464         # Prometheus, plain HTTP: keep it inside
store: sqlite:///coordinator.db   # beside this file
spool: spool                      # uploads of open rounds
results: results                  # released results
"""


@dataclass(frozen=True, slots=True)
class Consortium:
    """A consortium as its operator's folder holds it, every signature verified.

    Attributes:
        operator: the operator's public key.
        files: the roster files by version.
        rosters: what they mean, by version.
        deny: the newest deny-list; serial 0 where there is none.
    """

    operator: bytes
    files: Mapping[int, ConsortiumFile]
    rosters: Mapping[int, Roster]
    deny: DenyList

    @property
    def version(self) -> int:
        """The newest version."""
        return max(self.files)

    @property
    def newest(self) -> ConsortiumFile:
        """The newest roster file."""
        return self.files[self.version]


def found(consortium: str, coordinator: IdentityEntry, listen: str, operator: IdentityKey) -> Files:
    """Return the files of a new consortium without sites: roster version 1 and coordinator.yaml."""
    settings = SETTINGS.format(
        operator=operator.public.hex(),
        identity=quoted(coordinator.id),
        listen=quoted(listen),
    )
    return {
        "operator.pub": operator.public.hex().encode() + b"\n",
        "coordinator.yaml": settings.encode(),
        **_signed_roster(consortium, 1, (coordinator,), operator),
    }


def load_consortium(folder: Path) -> Consortium:
    """Return the consortium in a folder; raises ConfigurationError or AuthenticationError naming the file."""
    operator = parse_hex(read_file(folder / "operator.pub"), PUBLIC_BYTES, "operator.pub")
    files: dict[int, ConsortiumFile] = {}
    rosters: dict[int, Roster] = {}
    for version in _numbers(folder / "rosters"):
        text, signature, source = _signed(folder, "rosters", version)
        rosters[version] = open_roster(text, signature, operator, source, version)
        files[version] = read_section(ConsortiumFile, text, source)
    if not files:
        raise ConfigurationError(f"{folder}: no consortium; make one with `cohortsum coordinator init`")
    serials = _numbers(folder / "denials")
    deny = nobody_denied(files[max(files)].consortium)
    if serials:
        text, signature, source = _signed(folder, "denials", serials[-1])
        deny = open_deny_list(text, signature, operator, source, serials[-1])
    return Consortium(operator, files, rosters, deny)


def admit(
    held: Consortium, requests: Sequence[RequestFile], operator: IdentityKey, *, replace: bool = False
) -> Files:
    """Return the next roster version with everybody who asks admitted or renewed; empty where nothing changes.

    Args:
        held: the consortium.
        requests: verified requests; all are admitted or none.
        operator: the operator's private key.
        replace: let a revoked key be followed by a new one under the same id.

    Raises:
        ConfigurationError: an id with another key or role, a key that is denied or in use, or no index left.
    """
    entries = {entry.id: entry for entry in held.newest.identities}
    for request in requests:
        entries[request.id] = _entry(held, entries, request, replace)
    if tuple(entries.values()) == held.newest.identities:
        return {}
    _check_operator(held, operator)
    return _signed_roster(held.newest.consortium, held.version + 1, tuple(entries.values()), operator)


def revoke(held: Consortium, name: str, reason: str, now: datetime, operator: IdentityKey) -> Files:
    """Return the next deny-list, with the key of ``name`` on it.

    Raises ConfigurationError for somebody who is not in the newest roster or whose key is denied already.
    """
    identity = held.rosters[held.version].identities.get(name)
    if identity is None:
        raise ConfigurationError(
            f"'{name}' is not in roster version {held.version}; `cohortsum coordinator roster` lists who is"
        )
    earlier = held.deny.entry_for(identity)
    if earlier is not None:
        raise ConfigurationError(
            f"the key of '{name}' was revoked on {earlier.since.date()}; nothing is left to do"
        )
    _check_operator(held, operator)
    entry = Denied(name, identity.key, now, reason)
    deny = DenyList(held.newest.consortium, held.deny.serial + 1, (*held.deny.denied, entry))
    text = write_deny_list(deny)
    return _series("denials", "deny", deny.serial, text, operator.sign(DENY_LIST, text))


def _entry(
    held: Consortium, entries: Mapping[str, IdentityEntry], request: RequestFile, replace: bool
) -> IdentityEntry:
    """Return the entry that a request becomes."""
    denied = {entry.key for entry in held.deny.denied}
    if parse_key(request.key) in denied:
        raise ConfigurationError(
            f"'{request.id}': this key is revoked; it stays so: they make a new one and ask again"
        )
    other = next(
        (entry.id for entry in entries.values() if entry.key == request.key and entry.id != request.id), None
    )
    if other is not None:
        raise ConfigurationError(
            f"'{request.id}': '{other}' has this key already; every identity needs its own"
        )
    before = entries.get(request.id)
    if before is None:
        index = _next_index(held, entries) if request.role == "site" else None
        return IdentityEntry(
            id=request.id,
            role=request.role,
            index=index,
            name=request.name,
            organisation=request.organisation,
            key=request.key,
            seal=request.seal,
        )
    if before.role != request.role:
        raise ConfigurationError(
            f"'{request.id}' is {before.role} and asks to be {request.role}; a role needs an id of its own"
        )
    if before.key != request.key and not (replace and parse_key(before.key) in denied):
        raise ConfigurationError(
            f"'{request.id}' has another key in roster version {held.version}; if the old one is lost or stolen, call them, "
            f"then `cohortsum coordinator revoke` and `admit --replace`"
        )
    changed = {"name": request.name, "organisation": request.organisation, "key": request.key}
    if request.seal is not None:
        changed["seal"] = request.seal
    return before.model_copy(update=changed)


def _next_index(held: Consortium, entries: Mapping[str, IdentityEntry]) -> int:
    """Return the index after every one that any version has ever used: none is used twice."""
    used = [entry.index for file in held.files.values() for entry in file.identities]
    used += [entry.index for entry in entries.values()]
    index = max((place for place in used if place is not None), default=-1) + 1
    if index > 65535:
        raise ConfigurationError("no index is left: a consortium has 65536 sites over its whole life")
    return index


def _check_operator(held: Consortium, operator: IdentityKey) -> None:
    if operator.public != held.operator:
        raise ConfigurationError(
            "operator.key is not the key that signed this consortium; restore the right one, sites have pinned it"
        )


def _signed_roster(
    consortium: str, version: int, entries: Sequence[IdentityEntry], operator: IdentityKey
) -> Files:
    text = write_roster(consortium, version, entries)
    load_roster(text, "consortium.yaml")
    return _series("rosters", "consortium", version, text, operator.sign(ROSTER, text))


def _series(home: str, name: str, number: int, text: bytes, signature: bytes) -> Files:
    signed = signature.hex().encode() + b"\n"
    return {
        f"{home}/{number}.sig": signed,
        f"{home}/{number}.yaml": text,
        f"{name}.sig": signed,
        f"{name}.yaml": text,
    }


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
