"""One item of a release as the coordinator hands it to whoever decides about it: typed, versioned JSON with its values.

Whoever reads it computes the digest anew from the table in it and from the study, so that what is signed is what was shown. What
became different since earlier contents is worked out here, at the reader, from those contents. Unknown keys are refused.
"""

from collections.abc import Iterator
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from cohortsum.crypto.errors import AuthenticationError, ConfigurationError
from cohortsum.report.document import (
    Digest,
    Name,
    RuleBlock,
    SignatureBlock,
    StudyIdentity,
    TableBlock,
    WaiverBlock,
)
from cohortsum.report.queue_item import Change, Question, QueueItem, SignedAct
from cohortsum.study.formats import other_major_in
from cohortsum.study.release.checklist import CHECKLIST, answered
from cohortsum.study.release.differences import changes
from cohortsum.study.release.item import item_digest
from cohortsum.study.release.states import State

ITEM_SCHEMA: Literal["cohortsum.item/1"] = "cohortsum.item/1"


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


class EarlierBlock(_Model):
    """An earlier content of the item, and in words which one it was."""

    since: Name
    table: TableBlock


class ItemFile(_Model):
    """Everything that a decision about one item rests on."""

    schema_id: Literal["cohortsum.item/1"] = Field(alias="schema")
    study: StudyIdentity
    profile: Literal["dpuk", "open_data"]
    waivers: tuple[WaiverBlock, ...]
    item: Name
    state: State
    digest: Digest
    table: TableBlock
    rules: tuple[RuleBlock, ...]
    signatures: tuple[SignatureBlock, ...]
    missing: Annotated[tuple[Name, ...], Field(description="what it still needs before it leaves, in words")]
    earlier: tuple[EarlierBlock, ...]
    noise: Name

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.table.analysis != self.item:
            raise ValueError("the table must be the item's")
        return self


def item_to_json(file: ItemFile) -> bytes:
    """Return the file as UTF-8 JSON."""
    return file.model_dump_json(by_alias=True).encode()


def item_from_json(data: bytes, study: bytes, item: str) -> ItemFile:
    """Return what the coordinator handed out, once it is about the study and item that were asked for.

    Args:
        data: as `item_to_json` wrote it.
        study: digest of the study, 32 bytes.
        item: name of the item.

    Raises:
        ConfigurationError: the bytes are no such file; names the fields, never a value.
        AuthenticationError: it is about something else, or its digest is not that of its table.
    """
    try:
        file = ItemFile.model_validate_json(data)
    except ValidationError as error:
        faults = error.errors(include_url=False, include_context=False, include_input=False)
        fields = "; ".join(
            f"{'.'.join(map(str, fault['loc'])) or 'file'}: {fault['msg']}" for fault in faults[:5]
        )
        if other := other_major_in(data, "schema", ITEM_SCHEMA):
            fields = f"schema {other}"
        raise ConfigurationError(
            f"item of a release: {fields}; expected schema {ITEM_SCHEMA}: use the coordinator's version of cohortsum"
        ) from None
    if (file.study.digest, file.item) != (study.hex(), item):
        raise AuthenticationError("the coordinator handed out another item than the one that was asked for")
    if file.digest != item_digest(study, file.table.canonical()).hex():
        raise AuthenticationError("the item's digest is not that of the table that was handed out with it")
    return file


def queue_item(file: ItemFile) -> QueueItem:
    """Return an item as people look at it, with the answers of the machine and what differs from earlier contents."""
    rules = tuple(rule.result() for rule in file.rules)
    return QueueItem(
        study=file.study,
        profile=file.profile,
        waivers=tuple(waiver.waiver() for waiver in file.waivers),
        name=file.item,
        state=file.state.value,
        digest=file.digest,
        table=file.table.table(),
        rules=rules,
        checklist=tuple(Question(one.id, one.text, one.machine, answered(one, rules)) for one in CHECKLIST),
        signatures=tuple(SignedAct(one.by, one.role, one.act, one.at, one.reason) for one in file.signatures),
        changes=tuple(_changes(file)),
        noise=file.noise,
    )


def _changes(file: ItemFile) -> Iterator[Change]:
    """Yield every cell that differs, the newest earlier content first."""
    now = file.table.table()
    for earlier in file.earlier:
        for one in changes(earlier.table.table(), now):
            yield Change(earlier.since, one.what, one.row, one.column, one.before, one.after)
