"""The roster as an operator writes it: ``consortium.yaml``.

The file's exact bytes are what the operator signs and what admins compare by fingerprint; this module only says what they
mean. Unknown keys are refused, and keys are public: nothing here is secret.
"""

import json
from typing import Annotated, Literal

from pydantic import Field, StringConstraints, ValidationError

from cohortsum.crypto.errors import StudyFileError
from cohortsum.protocol.roster import Identity, Role, Roster, roster_digest
from cohortsum.study.definition.models import Section, Slug, Text
from cohortsum.study.definition.problems import Problems
from cohortsum.study.definition.tree import read_yaml

KEY_PREFIX = "ed25519:"

PublicKey = Annotated[str, StringConstraints(pattern=r"^ed25519:[0-9a-f]{64}$")]


class IdentityEntry(Section):
    """One identity of the roster."""

    id: Slug
    role: Literal["site", "coordinator", "trustee", "statistician", "checker", "auditor"]
    index: Annotated[int, Field(ge=0, le=65535)] | None = None
    name: Text
    organisation: Text
    key: PublicKey
    seal: Annotated[str, StringConstraints(pattern=r"^x25519:[0-9a-f]{64}$")] | None = None


class ConsortiumFile(Section):
    """A whole roster file."""

    consortium: Slug
    roster: Annotated[int, Field(ge=1, le=2**31 - 1)]
    identities: Annotated[tuple[IdentityEntry, ...], Field(min_length=2, max_length=2000)]


def load_roster(text: bytes, source: str) -> Roster:
    """Return the roster in the YAML bytes ``text``; its digest is over exactly these bytes.

    Raises StudyFileError with every problem, and ConfigurationError for keys, indices or roles that clash.
    """
    tree, place = read_yaml(text, source)
    try:
        held = ConsortiumFile.model_validate_json(json.dumps(tree, allow_nan=False))
    except ValidationError as error:
        problems = Problems(place)
        for detail in error.errors(include_url=False, include_input=False):
            problems.add(detail["loc"], f"{detail['msg']}; correct it")
        problems.raise_if_any()
        raise AssertionError("a failed validation names at least one problem") from error
    identities: dict[str, Identity] = {}
    for entry in held.identities:
        if entry.id in identities:
            raise StudyFileError(f"{source}: identity {entry.id} is listed twice; ids must differ")
        if (entry.index is not None) != (entry.role == "site"):
            raise StudyFileError(
                f"{source}: identity {entry.id}: an index belongs to every site and to nobody else"
            )
        key = bytes.fromhex(entry.key.removeprefix(KEY_PREFIX))
        identities[entry.id] = Identity(entry.id, Role(entry.role), entry.index, key)
    return Roster(held.consortium, held.roster, identities, roster_digest(text))
