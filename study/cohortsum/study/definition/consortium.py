"""The roster as an operator writes it, ``consortium.yaml``, and a request to be in it, ``request.yaml``.

The roster's exact bytes are what the operator signs and what admins compare by fingerprint; this module only says what they
mean. A request is signed by the key it asks to have admitted, which proves that the sender holds that key; that the key is
the sender's own is for people to compare. Unknown keys are refused, and keys are public: nothing here is secret.
"""

import json
from collections.abc import Iterable
from functools import lru_cache
from typing import Annotated, Literal, TypeVar

from pydantic import Field, StringConstraints, ValidationError

from cohortsum.crypto.errors import AuthenticationError, ConfigurationError, StudyFileError
from cohortsum.crypto.signing import IdentityKey, verify
from cohortsum.protocol.roster import Identity, Role, Roster, roster_digest, verify_roster
from cohortsum.study.definition.fields import Section, Slug, Text
from cohortsum.study.definition.problems import Problems
from cohortsum.study.definition.tree import read_yaml

KEY_PREFIX = "ed25519:"
SEAL_PREFIX = "x25519:"
REQUEST = "cohortsum/v1/admission-request"
ROSTERS_AT_HAND = 16
"""Rosters that a process holds ready: daemons ask for the pinned ones at every study, and reading YAML of 200 sites takes 0.3 s."""

PublicKey = Annotated[str, StringConstraints(pattern=r"^ed25519:[0-9a-f]{64}$")]
SealKey = Annotated[str, StringConstraints(pattern=r"^x25519:[0-9a-f]{64}$")]
RoleName = Literal["site", "coordinator", "trustee", "statistician", "checker", "auditor"]

_S = TypeVar("_S", bound=Section)


class IdentityEntry(Section):
    """One identity of the roster."""

    id: Slug
    role: RoleName
    index: Annotated[int, Field(ge=0, le=65535)] | None = None
    name: Text
    organisation: Text
    key: PublicKey
    seal: SealKey | None = None


class ConsortiumFile(Section):
    """A whole roster file."""

    consortium: Slug
    roster: Annotated[int, Field(ge=1, le=2**31 - 1)]
    identities: Annotated[tuple[IdentityEntry, ...], Field(min_length=1, max_length=2000)]


class RequestFile(Section):
    """Somebody's request to be admitted, with their own signature over its fields."""

    id: Slug
    role: RoleName
    name: Text
    organisation: Text
    key: PublicKey
    seal: SealKey | None = None
    signature: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{128}$")]


def read_section(model: type[_S], text: bytes, source: str) -> _S:
    """Return the YAML bytes ``text`` as ``model``; raises StudyFileError with every problem and its line."""
    tree, place = read_yaml(text, source)
    try:
        return model.model_validate_json(json.dumps(tree, allow_nan=False))
    except ValidationError as error:
        problems = Problems(place)
        for detail in error.errors(include_url=False, include_input=False):
            problems.add(detail["loc"], f"{detail['msg']}; correct it")
        problems.raise_if_any()
        raise AssertionError("a failed validation names at least one problem") from error


@lru_cache(ROSTERS_AT_HAND)
def load_roster(text: bytes, source: str) -> Roster:
    """Return the roster in the YAML bytes ``text``; its digest is over exactly these bytes. The same bytes are read once.

    Raises StudyFileError with every problem, and ConfigurationError for keys, indices or roles that clash.
    """
    held = read_section(ConsortiumFile, text, source)
    identities: dict[str, Identity] = {}
    for entry in held.identities:
        if entry.id in identities:
            raise StudyFileError(f"{source}: identity {entry.id} is listed twice; ids must differ")
        if (entry.index is not None) != (entry.role == "site"):
            raise StudyFileError(
                f"{source}: identity {entry.id}: an index belongs to every site and to nobody else"
            )
        identities[entry.id] = Identity(
            entry.id,
            Role(entry.role),
            entry.index,
            parse_key(entry.key),
            b"" if entry.seal is None else parse_seal(entry.seal),
        )
    return Roster(held.consortium, held.roster, identities, roster_digest(text))


def open_roster(
    text: bytes, signature: bytes, operator: bytes, source: str, version: int | None = None
) -> Roster:
    """Return the roster behind signed bytes.

    Args:
        text: the roster's exact bytes.
        signature: the operator's, 64 bytes.
        operator: the operator's Ed25519 public key.
        source: the file's name in messages.
        version: the version that the file's name says, if it says one.

    Raises:
        AuthenticationError: unless the operator signed these very bytes.
        ConfigurationError: the file holds another version than its name says, or cannot be used.
    """
    try:
        verify_roster(text, signature, operator)
    except AuthenticationError:
        raise AuthenticationError(not_signed(source)) from None
    roster = load_roster(text, source)
    if version not in (None, roster.version):
        raise ConfigurationError(
            f"{source}: holds version {roster.version}; restore the file under its own name"
        )
    return roster


def not_signed(source: str) -> str:
    """Return the sentence about a file whose bytes the operator did not sign."""
    return f"{source}: not as the operator signed it; restore file and signature, or get both from the operator again"


def write_roster(consortium: str, version: int, entries: Iterable[IdentityEntry]) -> bytes:
    """Return the bytes of a roster file, one identity per line, so that two versions compare by eye."""
    lines = [f"consortium: {quoted(consortium)}", f"roster: {version}", "identities:"]
    for entry in entries:
        fields = entry.model_dump(exclude_none=True)
        lines.append("  - {" + ", ".join(f"{key}: {quoted(value)}" for key, value in fields.items()) + "}")
    return ("\n".join(lines) + "\n").encode()


def write_request(
    name: str, role: RoleName, title: str, organisation: str, key: IdentityKey, seal: bytes = b""
) -> bytes:
    """Return the bytes of a signed request.

    Args:
        name: the id wanted in the roster.
        role: what the identity is to do.
        title: a name for people.
        organisation: whose it is.
        key: the identity's private key.
        seal: an auditor's public sealing key, 32 bytes; empty for none.

    Raises:
        StudyFileError: for an id, title or organisation that a roster cannot carry, or a sealing key of somebody who is no auditor.
    """
    fields = (name, role, title, organisation)
    signature = key.sign(REQUEST, *_request_parts(fields, key.public, seal)).hex()
    held: dict[str, str] = dict(zip(("id", "role", "name", "organisation"), fields, strict=True))
    held["key"] = format_key(key.public)
    if seal:
        held["seal"] = SEAL_PREFIX + seal.hex()
    held["signature"] = signature
    text = "".join(f"{key}: {quoted(value)}\n" for key, value in held.items()).encode()
    load_request(text, "request")
    return text


def load_request(text: bytes, source: str) -> RequestFile:
    """Return the request in the YAML bytes ``text``, its own signature verified.

    Raises StudyFileError with every problem, and AuthenticationError where the key it names did not sign it.
    """
    held = read_section(RequestFile, text, source)
    fields = (held.id, held.role, held.name, held.organisation)
    key = parse_key(held.key)
    seal = b"" if held.seal is None else parse_seal(held.seal)
    if seal and held.role != "auditor":
        raise StudyFileError(f"{source}: seal: a sealing key is for auditors; ask without it")
    try:
        verify(key, bytes.fromhex(held.signature), REQUEST, *_request_parts(fields, key, seal))
    except AuthenticationError:
        raise AuthenticationError(
            f"{source}: its signature is not by the key it names; ask for the file as it was made"
        ) from None
    return held


def _request_parts(fields: Iterable[str], key: bytes, seal: bytes) -> tuple[bytes, ...]:
    """Return what a request signs; one without a sealing key signs what it always did."""
    return (*(field.encode() for field in fields), key, *((seal,) if seal else ()))


def format_key(public: bytes) -> str:
    """Return a public key as rosters write it."""
    return KEY_PREFIX + public.hex()


def parse_key(text: str) -> bytes:
    """Return the 32 bytes of a public key as rosters write it."""
    return bytes.fromhex(text.removeprefix(KEY_PREFIX))


def parse_seal(text: str) -> bytes:
    """Return the 32 bytes of a sealing key as rosters write it."""
    return bytes.fromhex(text.removeprefix(SEAL_PREFIX))


def quoted(value: str | int) -> str:
    """Return a scalar as YAML that no reader takes for anything else: JSON strings are YAML strings."""
    return json.dumps(value, ensure_ascii=False)
