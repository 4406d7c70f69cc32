"""The result document: one typed, versioned JSON file per release.

It names the study, roster, round and cohort the numbers belong to, who took part, under which rules they were computed
and who checked them, and holds every table. A cell is a number, text, or ``{"absent": reason}``: never null, NaN or a
number that stands for a withheld one. Unknown keys are refused in both directions, so a reader either understands all
of a document or says that it does not.

Schema 2 says of every item, one table each, where it stands and who signed it; the tables are those of the released ones, and of
every other item there is only its name and state. Schema 1 knew the state `released` without a checker and nothing else:
`from_json` reads it as a document of schema 2. The meaning of a number never changes.
"""

import datetime
import json
from typing import Annotated, Literal, Self, cast

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    FiniteFloat,
    PositiveInt,
    StrictInt,
    StrictStr,
    ValidationError,
    model_validator,
)

from cohortsum.crypto.errors import ConfigurationError
from cohortsum.study.disclosure.verdict import Outcome, RuleResult, Waiver
from cohortsum.study.formats import other_major_in
from cohortsum.study.release.item import item_digest
from cohortsum.study.release.states import State
from cohortsum.study.results import Absent, Cell, Status, Table

SCHEMA: Literal["cohortsum.result/2"] = "cohortsum.result/2"
SCHEMA_1 = "cohortsum.result/1"
OUT = (State.RELEASED, State.RETRACTED)
"""States of items whose numbers have left: their digest and signatures are public."""

Name = Annotated[str, Field(min_length=1)]
Digest = Annotated[str, Field(pattern="^[0-9a-f]{64}$", description="SHA-256 in lower-case hexadecimal")]


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


class StudyIdentity(_Model):
    """Which study file the numbers answer to."""

    id: Name
    title: str
    version: PositiveInt
    digest: Digest
    fingerprint: Annotated[Name, Field(description="short form of the digest that people compare")]


class RosterIdentity(_Model):
    """Which signed roster was in force, and of which consortium where the document says so."""

    version: PositiveInt
    digest: Digest
    consortium: Name | None = None


class LeftOut(_Model):
    """Sites that a fit went on without, from this round on; their people are in the sums before it and in none after."""

    iteration: PositiveInt
    sites: Annotated[tuple[Name, ...], Field(min_length=1)]


class RoundIdentity(_Model):
    """Which round, and which attempt at it, opened the sums; of a study with several, the first.

    Where the version builds on an earlier one, that version's round opened the blocks that did not change, over the same
    survivors. ``iterations`` counts the rounds that opened.
    """

    id: Name
    attempt: PositiveInt
    builds_on_version: PositiveInt | None = None
    iterations: PositiveInt = 1
    left_out: tuple[LeftOut, ...] = ()


class SignatureBlock(_Model):
    """One decision about an item: by whom, in which role, what, when (RFC 3339, UTC), and why where it needs a reason."""

    by: Name
    role: Name
    act: Name
    at: Name
    reason: str


class ItemBlock(_Model):
    """Where one item stands. Its digest (of table and study) and its signatures are here once its numbers have left."""

    item: Name
    state: State
    digest: Digest | None = None
    signatures: tuple[SignatureBlock, ...] = ()

    @model_validator(mode="after")
    def _check(self) -> Self:
        if (self.digest is not None) != (self.state in OUT) or (self.signatures and self.state not in OUT):
            raise ValueError("digest and signatures belong to items that are or were released")
        return self


class WaiverBlock(_Model):
    """One rule that a site set aside, and until when."""

    rule: Name
    value: str
    reason: str
    by: str
    until: datetime.date
    site: Name

    @classmethod
    def of(cls, waiver: Waiver) -> Self:
        """Return the block of a waiver."""
        held = waiver
        return cls(
            rule=held.rule, value=held.value, reason=held.reason, by=held.by, until=held.until, site=held.site
        )

    def waiver(self) -> Waiver:
        """Return the waiver that this block holds."""
        return Waiver(self.rule, self.value, self.reason, self.by, self.until, self.site)


class RuleBlock(_Model):
    """What one rule found in one table; never a value."""

    rule: Name
    table: Name
    outcome: Outcome
    what: str

    @classmethod
    def of(cls, result: RuleResult) -> Self:
        """Return the block of a result."""
        return cls(rule=result.rule, table=result.table, outcome=result.outcome, what=result.what)

    def result(self) -> RuleResult:
        """Return the result that this block holds."""
        return RuleResult(self.rule, self.table, self.outcome, self.what)


class Participation(_Model):
    """Sites by roster id, each list sorted; every site that took part is a survivor or a dropout.

    The sums are over the survivors, and over nobody else.
    """

    took_part: tuple[Name, ...]
    survivors: Annotated[tuple[Name, ...], Field(min_length=1)]
    dropouts: tuple[Name, ...]

    @model_validator(mode="after")
    def _check(self) -> Self:
        for sites in (self.took_part, self.survivors, self.dropouts):
            if list(sites) != sorted(set(sites)):
                raise ValueError("sites must be sorted and listed once")
        if sorted(self.survivors + self.dropouts) != list(self.took_part):
            raise ValueError("took_part must be the survivors and the dropouts, each site in one of them")
        return self


class Thresholds(_Model):
    """The study's thresholds; a site may hold stricter ones, which it checks by itself and does not tell."""

    min_sites: PositiveInt
    min_participants: PositiveInt
    min_participants_per_site: PositiveInt
    max_colluding_sites: Annotated[int, Field(ge=0)]
    min_honest_inputs: PositiveInt


class Privacy(_Model):
    """What the noise promises, and in plain words; absent without noise."""

    adjacency: Literal["replace_one", "add_or_remove"]
    epsilon: Annotated[FiniteFloat, Field(gt=0, description="of everything this study opened")]
    delta: Annotated[FiniteFloat, Field(gt=0, lt=1)]
    study_epsilon: Annotated[FiniteFloat, Field(gt=0, description="the study's total")]
    honest_sites: Annotated[PositiveInt, Field(description="whose noise the claim counts on")]
    fallback_epsilon: Annotated[FiniteFloat, Field(gt=0, description="should the masks of one site fail")]
    nano_rho: PositiveInt
    sampling_rate: Annotated[FiniteFloat, Field(gt=0, le=1)]
    openings: PositiveInt
    unprotected: Annotated[tuple[Name, ...], Field(description="variables that the study declares public")]
    method: Annotated[Name, Field(description="the accountant's bound behind epsilon")]
    sentences: tuple[Name, ...]


class AbsentCell(_Model):
    """No number here, and why."""

    absent: Name


JsonCell = StrictInt | FiniteFloat | StrictStr | AbsentCell


class TableBlock(_Model):
    """One result table; every row has one cell per column, and its status in the column ``status``."""

    analysis: Name
    kind: Name
    columns: tuple[Name, ...]
    rows: tuple[tuple[JsonCell, ...], ...]
    notes: tuple[Name, ...]

    @model_validator(mode="after")
    def _check(self) -> Self:
        if "status" not in self.columns or len(set(self.columns)) != len(self.columns):
            raise ValueError("columns must be unique and hold 'status'")
        status = self.columns.index("status")
        for row in self.rows:
            if len(row) != len(self.columns):
                raise ValueError("every row must have one cell per column")
            if row[status] not in tuple(Status):
                raise ValueError("every row must have a status that this version knows")
        return self

    @classmethod
    def of(cls, table: Table) -> Self:
        """Return the block that holds ``table``."""
        rows = tuple(tuple(_to_json(cell) for cell in row) for row in table.rows)
        return cls(
            analysis=table.analysis, kind=table.kind, columns=table.columns, rows=rows, notes=table.notes
        )

    def canonical(self) -> bytes:
        """Return the block as canonical JSON, UTF-8: sorted keys, no blanks; what an item's digest is taken over."""
        held = self.model_dump(mode="json")
        text = json.dumps(held, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
        return text.encode()

    def table(self) -> Table:
        """Return the table that this block holds."""
        rows = tuple(tuple(_from_json(cell) for cell in row) for row in self.rows)
        return Table(self.analysis, self.kind, self.columns, rows, self.notes)


class _FirstRelease(_Model):
    """How numbers came to be released in schema 1."""

    state: Literal["released"]
    checker: Literal["no checker"]


class _FirstDocument(BaseModel):
    """What of a document of schema 1 is read otherwise than in schema 2; the rest is the same."""

    model_config = ConfigDict(frozen=True, strict=True, allow_inf_nan=False)

    study: StudyIdentity
    waivers: tuple[()]
    release: _FirstRelease
    tables: tuple[TableBlock, ...]


class ResultDocument(_Model):
    """All results of one release."""

    schema_id: Literal["cohortsum.result/2"] = Field(alias="schema")
    software: Annotated[Name, Field(description="name and version of the program that finished the sums")]
    study: StudyIdentity
    roster: RosterIdentity
    round: RoundIdentity
    epoch: Annotated[Name, Field(description="label of the data epoch of the cohort")]
    profile: Literal["dpuk", "open_data"]
    waivers: tuple[WaiverBlock, ...]
    rules: tuple[RuleBlock, ...]
    noise: Literal["none", "distributed", "local"]
    privacy: Privacy | None = None
    release: tuple[ItemBlock, ...]
    sites: Participation
    thresholds: Thresholds
    tables: tuple[TableBlock, ...]

    @model_validator(mode="after")
    def _check(self) -> Self:
        items = {item.item: item for item in self.release}
        if len(items) != len(self.release):
            raise ValueError("every item must have its own name")
        released = [item.item for item in self.release if item.state is State.RELEASED]
        if [table.analysis for table in self.tables] != released:
            raise ValueError("tables must be those of the released items, in their order")
        study = bytes.fromhex(self.study.digest)
        for table in self.tables:
            if items[table.analysis].digest != item_digest(study, table.canonical()).hex():
                raise ValueError("every table must be the one that its item's digest names")
        if (self.noise == "none") != (self.privacy is None):
            raise ValueError("a document with noise says what it promises, and one without does not")
        return self


def to_json(document: ResultDocument) -> bytes:
    """Return the document as UTF-8 JSON with LF line ends; equal documents give equal bytes."""
    return document.model_dump_json(by_alias=True, exclude_none=True, indent=1).encode() + b"\n"


def from_json(data: bytes) -> ResultDocument:
    """Return the document that ``to_json`` wrote, in this schema or the one before.

    Raises:
        ConfigurationError: the bytes are not a document of this schema; names the fields, never a value.
    """
    try:
        return ResultDocument.model_validate_json(_as_schema_2(data))
    except ValidationError as error:
        faults = error.errors(include_url=False, include_context=False, include_input=False)
        fields = "; ".join(
            f"{'.'.join(map(str, fault['loc'])) or 'file'}: {fault['msg']}" for fault in faults[:5]
        )
        if (other := other_major_in(data, "schema", SCHEMA)) not in ("", SCHEMA_1):
            fields = f"schema {other}"
        raise ConfigurationError(
            f"result document: {fields}; expected schema {SCHEMA}: open it with the cohortsum version that wrote it"
        ) from None


def provenance(document: ResultDocument) -> str:
    """Return in one line what a reader must know before quoting a number: for footnotes and terminals."""
    study, built_on, number = document.study, document.round.builds_on_version, document.round.iterations
    return "; ".join(
        (
            f"study {study.id}, version {study.version}, fingerprint {study.fingerprint}",
            f"round {document.round.id}, epoch {document.epoch}"
            + (f", unchanged sums from version {built_on}" if built_on else "")
            + (f", {number} iterations" if number > 1 else "")
            + "".join(
                f", without {', '.join(left.sites)} from iteration {left.iteration} on"
                for left in document.round.left_out
            ),
            f"profile {document.profile}" + _waived(document),
            f"noise {document.noise}" + _promised(document.privacy),
            release_words(document),
        )
    )


def release_words(document: ResultDocument) -> str:
    """Return in a few words what left and who signed: ``released, no checker``, or how many items are where."""
    released = [item for item in document.release if item.state is State.RELEASED]
    signers = sorted({one.by for item in released for one in item.signatures if one.act == "release"})
    by = f"signed by {', '.join(signers)}" if signers else "no checker"
    others = [item.state for item in document.release if item.state is not State.RELEASED]
    if not others:
        return f"released, {by}"
    said = ", ".join(f"{others.count(state)} {_where(state)}" for state in State if state in others)
    left = f"{len(released)} of {len(document.release)} items released" + (f", {by}" if released else "")
    return f"{left}; {said}"


def _where(state: State) -> str:
    return "in the queue" if state is State.QUEUE else state


def _waived(document: ResultDocument) -> str:
    rules = sorted({waiver.rule for waiver in document.waivers})
    return f", waived: {', '.join(rules)}" if rules else ""


def _as_schema_2(data: bytes) -> bytes:
    """Return a document of schema 1 as one of schema 2; anything else unchanged, for the model to judge."""
    if SCHEMA_1.encode() not in data:  # most documents are not read twice
        return data
    try:
        held = json.loads(data)
    except (RecursionError, ValueError):
        return data
    if not isinstance(held, dict) or cast("dict[str, object]", held).get("schema") != SCHEMA_1:
        return data
    first = _FirstDocument.model_validate_json(data)
    study = bytes.fromhex(first.study.digest)
    release = [
        {
            "item": table.analysis,
            "state": "released",
            "digest": item_digest(study, table.canonical()).hex(),
        }
        for table in first.tables
    ]
    return json.dumps({**held, "schema": SCHEMA, "release": release, "rules": []}).encode()


def _promised(privacy: Privacy | None) -> str:
    return "" if privacy is None else f", epsilon {privacy.epsilon:.3g}, delta {privacy.delta:g}"


def json_schema() -> bytes:
    """Return the JSON Schema of the document, for editors and other programs."""
    schema = {"$schema": "https://json-schema.org/draft/2020-12/schema", **ResultDocument.model_json_schema()}
    return json.dumps(schema, indent=2, sort_keys=True).encode() + b"\n"


def _to_json(cell: Cell) -> JsonCell:
    match cell:
        case Absent(reason):
            return AbsentCell(absent=str(reason))  # a Status becomes plain text
        case float():
            return float(cell)  # numpy's float64 becomes a plain float
        case int():
            return int(cell)
        case str():
            return str(cell)


def _from_json(cell: JsonCell) -> Cell:
    return Absent(cell.absent) if isinstance(cell, AbsentCell) else cell
