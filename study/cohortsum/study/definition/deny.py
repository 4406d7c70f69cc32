"""The deny-list as a file, ``deny.yaml``; the operator signs its exact bytes. Unknown keys are refused."""

from typing import Annotated

from pydantic import AwareDatetime, Field

from cohortsum.crypto.errors import AuthenticationError, ConfigurationError
from cohortsum.protocol.denylist import Denied, DenyList, verify_deny_list
from cohortsum.study.definition.consortium import (
    PublicKey,
    format_key,
    not_signed,
    parse_key,
    quoted,
    read_section,
)
from cohortsum.study.definition.fields import Section, Slug, Text


class DeniedEntry(Section):
    """One denied key."""

    id: Slug
    key: PublicKey
    since: AwareDatetime
    reason: Text


class DenyFile(Section):
    """A whole deny-list."""

    consortium: Slug
    serial: Annotated[int, Field(ge=1, le=2**31 - 1)]
    denied: Annotated[tuple[DeniedEntry, ...], Field(min_length=1, max_length=10_000)]


def load_deny_list(text: bytes, source: str) -> DenyList:
    """Return the deny-list in the YAML bytes ``text``; nothing is verified.

    Raises StudyFileError with every problem, and ConfigurationError for a key listed twice.
    """
    held = read_section(DenyFile, text, source)
    denied = tuple(Denied(entry.id, parse_key(entry.key), entry.since, entry.reason) for entry in held.denied)
    return DenyList(held.consortium, held.serial, denied)


def open_deny_list(
    text: bytes, signature: bytes, operator: bytes, source: str, serial: int | None = None
) -> DenyList:
    """Return the deny-list behind signed bytes; arguments and errors as those of `open_roster`."""
    try:
        verify_deny_list(text, signature, operator)
    except AuthenticationError:
        raise AuthenticationError(not_signed(source)) from None
    deny = load_deny_list(text, source)
    if serial not in (None, deny.serial):
        raise ConfigurationError(f"{source}: holds serial {deny.serial}; restore the file under its own name")
    return deny


def write_deny_list(held: DenyList) -> bytes:
    """Return the bytes of a deny-list file, one key per line; times in UTC to the second.

    Raises StudyFileError for a reason that is not one printable line.
    """
    lines = [f"consortium: {quoted(held.consortium)}", f"serial: {held.serial}", "denied:"]
    for entry in held.denied:
        fields = {
            "id": entry.id,
            "key": format_key(entry.key),
            "since": entry.since.isoformat(timespec="seconds"),
            "reason": entry.reason,
        }
        lines.append("  - {" + ", ".join(f"{key}: {quoted(value)}" for key, value in fields.items()) + "}")
    text = ("\n".join(lines) + "\n").encode()
    load_deny_list(text, "deny.yaml")
    return text
