"""Decoders of what is kept and handed on: results, items, decisions, bundles, audit logs, sums, a node's own notes."""

import hashlib
from dataclasses import replace
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

from cohortsum.cli.audit_reidentify_files import Columns, read_cohort
from cohortsum.crypto.derivation import AUDIT, derive
from cohortsum.crypto.encoding import encode
from cohortsum.crypto.errors import CohortsumError, ConfigurationError, StoreError
from cohortsum.crypto.sealing import KEY_AND_NONCE_BYTES, seal
from cohortsum.crypto.secret import SecretBytes
from cohortsum.node.board import STATE, BoardFile, read_board
from cohortsum.node.decisions import DECISIONS, read_decisions
from cohortsum.node.files import make_folder
from cohortsum.node.snapshot import SNAPSHOTS, held_snapshot
from cohortsum.protocol.audit import Head, Line, follow, settle
from cohortsum.protocol.audit_check import examine
from cohortsum.report.bundle_audit import audit
from cohortsum.report.bundle_check import Proven, check_bundle
from cohortsum.report.document import ResultDocument, from_json, to_json
from cohortsum.report.item_file import ItemFile, item_from_json, item_to_json, queue_item
from cohortsum.report.tables import from_csv, to_csv
from cohortsum.study.release.archive import pack, unpack
from cohortsum.study.release.bundle import MANIFEST, MANIFEST_SIG
from cohortsum.study.release.bundle_decisions import decision_from_json, decision_to_json
from cohortsum.study.release.sealed import RoundSeal, Sealer, auditors_of, check_sealed, read_sealed
from cohortsum.study.results import Table
from cohortsum.study.sums import DIGEST_BYTES
from cohortsum.study.sums import pack as pack_sums
from cohortsum.study.sums import unpack as unpack_sums
from tests.fuzz.target import CORPUS, Reader, Target, again, decoder, same, scratch
from tests.release.bundles import resigned, sealing_key, words

BUNDLE = CORPUS / "bundle" / "valid.zip"
"""The bundle of a real round, of which one file at a time is replaced."""
ITEM_STUDY = bytes.fromhex("0a" * 32)
MOMENT = datetime(2026, 11, 30, tzinfo=UTC)


@cache
def _whole() -> tuple[dict[str, bytes], Proven]:
    archive = BUNDLE.read_bytes()
    proven = check_bundle(archive, "bundle.zip", words()).proven
    assert proven is not None
    return dict(unpack(archive, "bundle.zip")), proven


def _bundle(data: bytes) -> None:
    check_bundle(data, "bundle.zip", words())


def members() -> list[str]:
    """Return the files of the bundle that a case may replace."""
    return sorted(_whole()[0].keys() - {MANIFEST, MANIFEST_SIG})


def _member(data: bytes) -> None:
    """Replace a file of the bundle and sign it all again, as a coordinator that lies would."""
    files, _ = _whole()
    reader = Reader(data)
    name = reader.pick(members())
    verdict = check_bundle(resigned({**files, name: reader.rest()}), "bundle.zip", words())
    if verdict.proven is not None and name.startswith("sealed/"):
        _audit(verdict.proven)


def _audit(proven: Proven) -> None:
    try:
        audit(proven, "aud1", sealing_key("aud1"))
    except CohortsumError:
        return


def _sealed(data: bytes) -> None:
    """Seal anything under true keys, as a coordinator that lies would, and let the auditor open it."""
    _, proven = _whole()
    name = "sealed/0001.sealed"
    one = proven.rounds[0]
    bound = RoundSeal(proven.plan.study.digest, proven.roster.digest, one.context)
    key = hashlib.sha256(b"key of a sealed round").digest()
    sealer = Sealer(bound, auditors_of(proven.roster), lambda _size: key)
    reader = Reader(data)
    pieces = [sealer.words(owner, reader.take(255) * (1 + reader.byte())) for owner in one.survivors]
    content = derive(SecretBytes(key, "bundle key"), one.context, AUDIT["seeds"], size=KEY_AND_NONCE_BYTES)
    pieces.append(encode(seal(content, reader.rest(), bound.associated(b"seeds"))))
    written = sealer.head + b"".join(pieces)
    check_sealed(read_sealed(written, name), one, auditors_of(proven.roster), None, name)
    _audit(replace(proven, files={**proven.files, name: written}))


def _log(data: bytes) -> None:
    """Examine and settle a log, also one that its owner's database remembers."""
    for head in (Head(), Head(1, hashlib.sha256(data).digest(), len(data), 1)):
        found = examine(data, head)
        assert len(found.lines) == len(found.digests)
        try:
            settled = settle(head, len(data), lambda place, size: data[place : place + max(0, size)])
        except StoreError:
            continue
        kept = data[: settled.head.size]
        more, _ = follow(settled.head, settled.notes, MOMENT)
        if head.number == 0:  # what was settled holds together, and goes on
            assert examine(kept + more, Head()).fault is None


def _line(data: bytes) -> Line:
    line = Line.from_bytes(data)
    if line is None:
        raise StoreError("no line")
    return line


def _head(data: bytes) -> Head:
    return Head.from_text(data.decode("utf-8", "replace"))


def _sums(data: bytes) -> dict[str, bytes]:
    """Read sums under a true digest: what another version wrote has one."""
    held = hashlib.sha256(data).digest() + data
    return {name: values.tobytes() for name, values in unpack_sums(held).items()}


def _packed(data: bytes, _value: object) -> None:
    unpacked = unpack_sums(hashlib.sha256(data).digest() + data)
    assert unpack_sums(pack_sums(unpacked)).keys() == unpacked.keys()
    assert pack_sums(unpacked)[DIGEST_BYTES:] == data


def _csv(data: bytes) -> Table:
    reader = Reader(data)
    kind = reader.pick(("summary", "regression", "quantiles", "crosstab", "normative"))
    return from_csv(reader.rest().decode("utf-8", "replace"), "table", kind)


def _written_csv(_data: bytes, table: Table) -> None:
    assert from_csv(to_csv(table), table.analysis, table.kind) == table


def _item(data: bytes) -> ItemFile:
    return item_from_json(data, ITEM_STUDY, "thickness")


def _shown(_data: bytes, file: ItemFile) -> None:
    queue_item(file)
    assert _item(item_to_json(file)) == file


def _result(data: bytes) -> ResultDocument:
    return from_json(data)


def _folder() -> Path:
    home = scratch() / "node"
    if not home.exists():
        make_folder(home)
        make_folder(home / SNAPSHOTS)
    return home


def _decisions(data: bytes) -> object:
    (_folder() / DECISIONS).write_bytes(data)
    return read_decisions(_folder())


def _board(data: bytes) -> BoardFile:
    (_folder() / STATE).write_bytes(data)
    board = read_board(_folder())
    assert board is not None
    return board


def _snapshot(data: bytes) -> bytes | None:
    (_folder() / SNAPSHOTS / "2026-11.json").write_bytes(data)
    return held_snapshot(_folder(), "2026-11")


def _scans(data: bytes) -> None:
    """Read two files of scans: text, or arrays as numpy writes them."""
    reader = Reader(data)
    kind = reader.pick((".csv", ".npy"))
    path = scratch() / f"scans{kind}"
    path.write_bytes(reader.rest())
    read_cohort(path, path, Columns("id", None, None) if kind == ".csv" else Columns(None, None, None))


TARGETS = (
    Target("result", decoder(_result, again(to_json, _result)), size=8192, examples=30),
    Target("release-item", decoder(_item, _shown), size=8192, examples=30),
    Target(
        "decision",
        decoder(
            lambda data: decision_from_json(data, "decision"),
            again(decision_to_json, lambda data: decision_from_json(data, "decision")),
        ),
        size=2048,
    ),
    Target("archive", decoder(lambda data: unpack(data, "archive"), same(pack), ConfigurationError)),
    Target("bundle", _bundle, size=2048, examples=20),
    Target("bundle-member", decoder(_member), examples=10),
    Target("sealed", decoder(lambda data: read_sealed(data, "sealed"), errors=ConfigurationError)),
    Target("sealed-opened", decoder(_sealed), examples=15),
    Target("audit-line", decoder(_line, same(Line.to_bytes)), size=1200),
    Target("audit-log", decoder(_log), examples=40),
    Target("audit-head", decoder(_head, again(lambda held: held.to_text().encode(), _head)), size=256),
    Target("sums", decoder(_sums, _packed, StoreError), size=1024),
    Target("result-table", decoder(_csv, _written_csv), size=8192),
    Target("node-decisions", decoder(_decisions), size=2048, examples=30),
    Target("node-state", decoder(_board), size=2048, examples=30),
    Target("node-snapshot", decoder(_snapshot), size=1024, examples=30),
    Target("scans", decoder(_scans), examples=30),
)
