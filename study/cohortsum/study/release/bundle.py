"""The proof bundle: what a release rests on, in one archive that anybody checks offline.

=======================  =========================================================================================
``manifest.json``        the SHA-256 and size of every other file, the study, and what wrote it
``manifest.sig``         the coordinator's signature over the manifest's bytes
``study/``               the canonical study, and the statistician's signature
``roster/``              the roster as the operator signed it, the operator's key, the deny-list in force
``approvals/``           the sites' signed approvals, by roster index
``rounds/NNNN/``         the signed messages of every opened round
``charges.json``         what the study charged its survivors for, as far as these messages say
``result.json``          the typed result document
``rules.json``           what the rules of disclosure found
``decisions/``           the signed decisions of checkers
``sealed/NNNN.sealed``   what an auditor needs to add a round's sum up again, for the auditors alone
=======================  =========================================================================================

Nothing in it but the sealed part goes beyond what a release and a round's transcript show anyway: public keys, commitments,
digests, signatures, and the released tables. A round whose secrets were dealt ahead has its adverts and shares in the round that
dealt them.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from cohortsum.crypto.encoding import encode
from cohortsum.crypto.errors import AuthenticationError, ConfigurationError, RemoteProtocolError
from cohortsum.protocol.codec import MAX_SITES, decode, packet_from_bytes, packet_to_bytes
from cohortsum.protocol.envelope import Signer
from cohortsum.protocol.messages import Envelope, Opening, Packet
from cohortsum.protocol.proof import Transcript
from cohortsum.study.definition.signing import SignedStudy
from cohortsum.study.formats import other_major_in
from cohortsum.study.release.archive import pack

BUNDLE: Literal["cohortsum.bundle/1"] = "cohortsum.bundle/1"
MANIFEST_SIGNATURE = "cohortsum/v1/bundle-manifest"
MANIFEST, MANIFEST_SIG = "manifest.json", "manifest.sig"
LISTS = ("adverts", "shares", "masked", "consistency")
MAX_MANIFEST_BYTES = 4 * 1024 * 1024

Digest = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]


class Section(BaseModel):
    """A JSON file of the bundle: unknown keys are refused, values are not shown in errors."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, hide_input_in_errors=True)


class Entry(Section):
    """What the manifest says of a file."""

    sha256: Digest
    bytes: Annotated[int, Field(ge=0)]


class Manifest(Section):
    """``manifest.json``."""

    bundle: Literal["cohortsum.bundle/1"]
    study: Digest
    coordinator: str
    created_by: str
    files: dict[str, Entry]


class StudySignature(Section):
    """``study/signature.json``."""

    statistician: str
    signature: Annotated[str, Field(pattern="^[0-9a-f]{128}$")]


class SurvivorList(Section):
    """``rounds/NNNN/survivors.json``: roster indices."""

    survivors: list[int]


S = TypeVar("S", bound=Section)


@dataclass(frozen=True, slots=True)
class Paper:
    """A file and the operator's signature over its exact bytes, 64 bytes."""

    text: bytes
    signature: bytes


@dataclass(frozen=True, slots=True)
class Papers:
    """The operator's signed files.

    Attributes:
        operator: Ed25519 public key.
        roster: ``consortium.yaml`` of the version that the study names.
        newest: the newest version, where that is another: checkers decide under it.
        deny: ``deny.yaml``; None where nobody is denied.
    """

    operator: bytes
    roster: Paper
    newest: Paper | None = None
    deny: Paper | None = None


@dataclass(frozen=True, slots=True)
class Parts:
    """What goes into a bundle.

    Attributes:
        signed: the study.
        papers: of the roster version that it names.
        rounds: transcripts of the opened rounds, in their order.
        result: the document's bytes.
        charges: bytes of ``charges.json``.
        rules: bytes of ``rules.json``.
        decisions: one file's bytes each.
        sealed: for every round what is sealed to the auditors; empty where the roster has none who can open it.
    """

    signed: SignedStudy
    papers: Papers
    rounds: tuple[Transcript, ...]
    result: bytes
    charges: bytes
    rules: bytes
    decisions: tuple[bytes, ...] = ()
    sealed: tuple[bytes, ...] = field(default=(), repr=False)


def write_bundle(parts: Parts, signer: Signer, software: str) -> bytes:
    """Return the bundle of these parts, signed by the coordinator; equal parts give equal bytes."""
    files = dict(_files(parts))
    manifest = Manifest(
        bundle=BUNDLE,
        study=_digest_of(parts.rounds[0]).hex(),
        coordinator=signer.identity.id,
        created_by=software,
        files={name: entry_of(content) for name, content in sorted(files.items())},
    )
    text = manifest.model_dump_json(indent=1).encode() + b"\n"
    signature = signer.key.sign(MANIFEST_SIGNATURE, text).hex().encode() + b"\n"
    return pack({**files, MANIFEST: text, MANIFEST_SIG: signature})


def entry_of(content: bytes) -> Entry:
    """Return what the manifest says of a file."""
    return Entry(sha256=hashlib.sha256(content).hexdigest(), bytes=len(content))


def round_folder(place: int) -> str:
    """Return the folder of an opened round, from 1."""
    return f"rounds/{place:04}"


def sealed_name(place: int) -> str:
    """Return the name of what is sealed of an opened round, from 1."""
    return f"sealed/{place:04}.sealed"


def opening_of(envelope: Envelope, name: str) -> Opening:
    """Return the opening in an envelope whose signature is checked elsewhere; raises ConfigurationError for anything else."""
    try:
        message = decode(envelope.kind, envelope.payload)
    except RemoteProtocolError as error:
        raise ConfigurationError(f"{name}: {error.message}") from None
    if not isinstance(message, Opening):
        raise ConfigurationError(f"{name}: expected the opening of a round")
    return message


def transcripts_in(files: Mapping[str, bytes]) -> tuple[Transcript, ...]:
    """Return the transcripts of a bundle, in the order of their rounds.

    Raises ConfigurationError naming a file that is missing, has no place, or cannot be read, and AuthenticationError where a round
    lacks the one that dealt its secrets.
    """
    folders = sorted({name.rpartition("/")[0] for name in files if name.startswith("rounds/")})
    if folders != [round_folder(place) for place in range(1, len(folders) + 1)] or not folders:
        raise ConfigurationError(
            "rounds: expected folders 0001, 0002 and so on, one for every round; get the bundle again"
        )
    found: list[Transcript] = []
    dealt: dict[bytes, Transcript] = {}
    for folder in folders:
        opening = _packet(file_of(files, f"{folder}/opening.packet"), f"{folder}/opening.packet")
        origin = opening_of(opening, f"{folder}/opening.packet").dealt
        lists = LISTS[2:] if origin else LISTS
        wanted = {f"{folder}/{name}.packets" for name in lists} | {
            f"{folder}/opening.packet",
            f"{folder}/survivors.json",
        }
        if surplus := sorted({name for name in files if name.startswith(f"{folder}/")} - wanted):
            raise ConfigurationError(f"{surplus[0]}: a file that has no place in a bundle; get it again")
        held = {
            name: _packets(file_of(files, f"{folder}/{name}.packets"), f"{folder}/{name}.packets")
            for name in lists
        }
        if origin and origin not in dealt:
            raise AuthenticationError(
                f"{folder}/opening.packet: its secrets were dealt in a round that is not in the bundle"
            )
        source = dealt.get(origin)
        survivors = read_json(
            SurvivorList, file_of(files, f"{folder}/survivors.json"), f"{folder}/survivors.json"
        )
        transcript = Transcript(
            opening,
            held["adverts"] if source is None else source.adverts,
            held["shares"] if source is None else source.shares,
            held["masked"],
            tuple(survivors.survivors),
            held["consistency"],
        )
        dealt[opening.context] = transcript
        found.append(transcript)
    return tuple(found)


def file_of(files: Mapping[str, bytes], name: str) -> bytes:
    """Return a file of the bundle; raises ConfigurationError where it is missing."""
    held = files.get(name)
    if held is None:
        raise ConfigurationError(f"{name}: missing from the bundle; get it again from the coordinator")
    return held


def read_json(model: type[S], data: bytes, name: str) -> S:
    """Return a JSON file of the bundle; raises ConfigurationError naming file and fields, never a value."""
    try:
        return model.model_validate_json(data)
    except ValidationError as error:
        faults = error.errors(include_url=False, include_context=False, include_input=False)
        fields = "; ".join(f"{'.'.join(map(str, one['loc'])) or 'file'}: {one['msg']}" for one in faults[:3])
        cure = ""
        if other := other_major_in(data, "bundle", BUNDLE):
            fields, cure = f"bundle {other}", ": verify it with the cohortsum version that wrote it"
        raise ConfigurationError(f"{name}: {fields}; expected a file of {BUNDLE}{cure}") from None


def _files(parts: Parts) -> Mapping[str, bytes]:
    papers, signed = parts.papers, parts.signed
    signature = StudySignature(statistician=signed.statistician, signature=signed.signature.hex())
    files = {
        "study/study.json": signed.canonical,
        "study/signature.json": signature.model_dump_json().encode() + b"\n",
        "roster/operator.pub": _hex(papers.operator),
        "result.json": parts.result,
        "rules.json": parts.rules,
        "charges.json": parts.charges,
    }
    for name, paper in (("consortium", papers.roster), ("newest", papers.newest), ("deny", papers.deny)):
        if paper is not None:
            files |= {f"roster/{name}.yaml": paper.text, f"roster/{name}.sig": _hex(paper.signature)}
    for place, transcript in enumerate(parts.rounds, start=1):
        files |= _of_round(round_folder(place), transcript)
    for name, envelope in approvals_of(parts.rounds[0]).items():
        files[name] = packet_to_bytes(Packet(envelope))
    files |= {f"decisions/{place:04}.json": held for place, held in enumerate(parts.decisions, start=1)}
    files |= {sealed_name(place): held for place, held in enumerate(parts.sealed, start=1)}
    return files


def approvals_of(transcript: Transcript) -> Mapping[str, Envelope]:
    """Return the approvals that a round was opened with, by the name of their file; their order is that of roster indices."""
    opening = opening_of(transcript.opening, "opening")
    return {f"approvals/{place:04}.packet": held for place, held in enumerate(opening.approvals, start=1)}


def _of_round(folder: str, transcript: Transcript) -> Mapping[str, bytes]:
    dealt = opening_of(transcript.opening, folder).dealt
    lists = (transcript.adverts, transcript.shares, transcript.masked, transcript.consistency)
    survivors = SurvivorList(survivors=list(transcript.survivors))
    return {
        f"{folder}/opening.packet": packet_to_bytes(Packet(transcript.opening)),
        f"{folder}/survivors.json": survivors.model_dump_json().encode() + b"\n",
        **{
            f"{folder}/{name}.packets": encode(*(packet_to_bytes(Packet(one)) for one in held))
            for name, held in zip(LISTS, lists, strict=True)
            if not (dealt and name in LISTS[:2])
        },
    }


def _packets(data: bytes, name: str) -> tuple[Envelope, ...]:
    return tuple(_packet(held, name) for held in split(data, name, MAX_SITES))


def split(data: bytes, name: str, most: int) -> tuple[bytes, ...]:
    """Return the fields that `crypto.encoding.encode` joined, at most ``most``; raises ConfigurationError for other bytes."""
    fields: list[bytes] = []
    place = 0
    while place < len(data):
        size = int.from_bytes(data[place : place + 8], "big")
        start, place = place + 8, place + 8 + size
        if place > len(data) or len(fields) == most:
            raise ConfigurationError(f"{name}: damaged, or more than {most} entries; get the bundle again")
        fields.append(data[start:place])
    return tuple(fields)


def _packet(data: bytes, name: str) -> Envelope:
    try:
        packet = packet_from_bytes(data)
    except RemoteProtocolError as error:
        raise ConfigurationError(f"{name}: {error.message}") from None
    if packet.attachments:
        raise ConfigurationError(
            f"{name}: attachments, where only signed messages belong; get the bundle again"
        )
    return packet.envelope


def _digest_of(transcript: Transcript) -> bytes:
    return opening_of(transcript.opening, "opening").study_digest


def _hex(data: bytes) -> bytes:
    return data.hex().encode() + b"\n"
