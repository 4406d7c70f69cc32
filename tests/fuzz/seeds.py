"""Writes the small inputs that every target begins with: ``python -m tests.fuzz.seeds``.

Valid ones come from the product's own encoders, nasty ones are written by hand. What the fuzzer or a person found since lies beside
them as ``found-...`` and stays. The bundle of a real round, the certificates and what TenSEAL makes hold fresh keys, so they are made again only
with ``--fresh``. All other keys are those of the tests.
"""

import hashlib
import json
import sys
from collections.abc import Iterator
from typing import cast

import numpy as np

from cohortsum.coordinator.release_wire import ItemLine, ReleaseList, decision_to_wire, list_to_wire
from cohortsum.crypto.certificates import trust_anchor
from cohortsum.crypto.encoding import number
from cohortsum.crypto.fingerprint import key_words, phrase
from cohortsum.node.committee.frames import Frame, FrameKind
from cohortsum.protocol.audit import Deed, DeedKind, Head, follow
from cohortsum.protocol.codec import encode, envelope_to_wire, packet_to_bytes
from cohortsum.protocol.committee import messages as committee
from cohortsum.protocol.committee.codec import encode as committee_encode
from cohortsum.protocol.committee.codec import packet_to_wire, sealed_to_wire
from cohortsum.protocol.committee.plain import answers_to_bytes
from cohortsum.protocol.ledger import History, Step, Write, to_data
from cohortsum.protocol.masking import words_hasher
from cohortsum.protocol.messages import (
    Abort,
    Approval,
    Burial,
    Complaint,
    EncryptionKeyOffer,
    Envelope,
    Kind,
    Message,
    NotTakingPart,
    Packet,
    Regimen,
    Tombstone,
    Unlocked,
    WaivedRule,
)
from cohortsum.report.document import StudyIdentity, TableBlock, to_json
from cohortsum.report.item_file import ItemFile, item_to_json
from cohortsum.report.tables import to_csv
from cohortsum.study.definition.consortium import write_request
from cohortsum.study.definition.deny import write_deny_list
from cohortsum.study.definition.signing import signed_study_to_json
from cohortsum.study.definition.withdrawal import withdraw
from cohortsum.study.release.archive import pack, unpack
from cohortsum.study.release.bundle_decisions import decision_to_json
from cohortsum.study.release.decision import Act, Decision
from cohortsum.study.release.item import item_digest
from cohortsum.study.release.states import State
from cohortsum.study.sums import DIGEST_BYTES
from cohortsum.study.sums import pack as pack_sums
from cohortsum.wire.v1 import service_pb2
from tests.evidence.test_false_evidence import kept
from tests.evidence.test_file import file
from tests.fuzz import ciphertexts, texts
from tests.fuzz.definitions import submitted
from tests.fuzz.ledgers import CONSORTIUM, PEOPLE
from tests.fuzz.proofs import payloads, played
from tests.fuzz.records import BUNDLE, ITEM_STUDY, members
from tests.fuzz.target import CORPUS
from tests.fuzz.wire import SITES, WORDS, certificate
from tests.protocol.committee.played import ANSWERS, Played
from tests.protocol.consortium import Consortium, identity_key
from tests.protocol.iterations import Attempted, after, first
from tests.release.bundles import checked
from tests.report.example import document, effect_row, regression
from tests.study.definitions import SMALL, frozen

Seeds = Iterator[tuple[str, str, bytes]]
"""Target, name of the input, and the input."""
KEPT = "found-"


def every() -> Seeds:
    """Yield every seed."""
    for part in (
        _messages,
        _calls,
        _definitions,
        _records,
        _proofs,
        _ledgers,
        _logs,
        _tables,
        _machines,
        _accusations,
        _committees,
    ):
        yield from part()
    for target in texts.YAML:
        yield from ((target, f"not-{name}", data) for name, data in texts.NOT_YAML.items())
    for target in texts.JSON:
        yield from ((target, f"not-{name}", data) for name, data in texts.NOT_JSON.items())


def _rounds() -> list[Consortium]:
    plain, fit = Consortium(SITES), first(sites=3)
    plain.run()
    fit.run()
    rounds: list[Consortium] = [plain, fit]
    for ahead in (2, 0):
        rounds.append(after(cast("Attempted", rounds[-1]), ahead=ahead))
        rounds[-1].run()
    return rounds


def _committees() -> Seeds:
    run = Played().play()
    packets = [item for _, item in run.told if isinstance(item, committee.Packet)]
    packets += [*run.handed]
    for packet in packets:
        name = packet.signed.kind.name.lower()
        yield f"committee-{name}", "run", packet.signed.payload
        yield "committee-packet", name, packet_to_wire(packet).SerializeToString(deterministic=True)
    yield "committee-end", "reason", committee_encode(committee.End("no key of site1 in time"))[1]
    for kind in committee.Kind:
        yield f"committee-{kind.name.lower()}", "nothing", b""
        yield f"committee-{kind.name.lower()}", "long-length", b"\x0a\xff\xff\xff\xff\x0f"
    frame = next(item for _, item in run.told if isinstance(item, committee.Sealed))
    yield "committee-frame", "run", sealed_to_wire(frame).SerializeToString(deterministic=True)
    yield "committee-answers", "run", answers_to_bytes(ANSWERS)
    yield "committee-answers", "short", answers_to_bytes(ANSWERS)[:-1]
    piped = b"".join(Frame(kind, 1, b"body").to_bytes() for kind in FrameKind)
    yield "committee-pipe", "every-kind", piped
    yield "committee-pipe", "long", b"\x02\x00\xff\xff\xff\xff"
    key = f"{b'study'.hex()}/1"
    yield "committee-record", "valid", json.dumps({key: {"dealers": [0, 1], "times": 1}}).encode()
    yield "committee-record", "other", json.dumps({key: {"dealers": "01", "times": -1}}).encode()


def _messages() -> Seeds:
    seen: set[Kind] = set()
    for place, consortium in enumerate(_rounds()):
        for _, _, packet in consortium.log:
            kind = packet.envelope.kind
            yield f"message-{_name(kind)}", f"round-{place}", packet.envelope.payload
            if kind not in seen:
                seen.add(kind)
                yield "packet", _name(kind), packet_to_bytes(packet)
    digest = bytes(range(32))
    signer = Consortium(SITES).signers[0]
    waived = (WaivedRule("count_rounding", "off", "agreed", "ann", "2099-06-30"),)
    made: tuple[Message, ...] = (
        Approval(digest, digest, Regimen("dpuk", 10, waived), b"\x07"),
        Approval(digest, digest, Regimen("open_data"), b""),
        NotTakingPart(digest, digest),
        Abort("too few sites answered in time"),
        Complaint("R2.7", "site1"),
        Tombstone(),
        Burial(tuple(signer.sign(digest, Tombstone()) for _ in range(2))),
        EncryptionKeyOffer(digest, digest),
        Unlocked(digest, digest, digest),
    )
    for place, message in enumerate(made):
        kind, payload = encode(message)
        yield f"message-{_name(kind)}", f"made-{place}", payload
    for kind in Kind:
        yield f"message-{_name(kind)}", "nothing", b""
        yield f"message-{_name(kind)}", "long-length", b"\x0a\xff\xff\xff\xff\x0f"
        yield f"message-{_name(kind)}", "groups", b"\x0b" * 200
    yield "packet", "nothing", b""
    opening = _rounds()[0].coordinator.opening
    yield "shape", "packet", b"\0" + packet_to_bytes(Packet(opening, (b"attached", b"")))
    yield "shape", "opening", b"\1" + opening.payload
    yield "shape", "empty-parts", b"\0" + b"\x12\0" * 1500
    yield "shape", "endless-number", b"\0\x08" + b"\xff" * 20
    yield "shape", "nested", b"\4" + b"\x0a\x7e" * 60
    for place, name in enumerate(texts.PEERS):
        yield "peer", f"name-{place}", name.encode()


def _calls() -> Seeds:
    consortium = Consortium(SITES)
    consortium.run()

    def sent(kind: Kind) -> list[object]:
        held: list[Envelope] = [
            packet.envelope for _, _, packet in consortium.log if packet.envelope.kind is kind
        ]
        return [envelope_to_wire(one) for one in held]

    transcript = service_pb2.Transcript(
        opening=envelope_to_wire(consortium.coordinator.opening), survivors=range(SITES)
    )
    for name in ("adverts", "shares", "masked", "consistency"):
        kind = {"adverts": Kind.ADVERT, "shares": Kind.SHARES, "masked": Kind.MASKED}.get(
            name, Kind.CONSISTENCY
        )
        getattr(transcript, name).extend(sent(kind))
    yield "transcript-reply", "valid", transcript.SerializeToString(deterministic=True)
    decision = _decision()
    yield "decision", "valid", decision_to_json(decision)
    yield "decision-call", "valid", decision_to_wire(decision).SerializeToString(deterministic=True)
    lines = ReleaseList("review", (ItemLine("ages", "queue", bytes(32), ("a second checker",)),))
    yield "releases-reply", "valid", list_to_wire(lines).SerializeToString(deterministic=True)
    status = service_pb2.StudyStatus(
        digest=bytes(32),
        name="small",
        version=1,
        state="enrolling",
        enrolment_closes="2026-12-18T16:00:00+00:00",
        sites=[service_pb2.SiteStatus(id="site0", answer="approved", present=True, last_seen="2026-11-30T18:00:00+00:00")],
        attempts=[service_pb2.AttemptStatus(iteration=1, attempt=1, state="open", survivors=["site0"])],
        blocks=["powers"],
    )  # fmt: skip
    yield "status-reply", "valid", status.SerializeToString(deterministic=True)
    for name, moment in (
        ("no-time", "soon"),
        ("no-zone", "2026-11-30"),
        ("year-0", "0000-01-01T00:00+00:00"),
    ):
        status.enrolment_closes = moment
        yield "status-reply", name, status.SerializeToString(deterministic=True)
    taken = withdraw(bytes(32), "statistician", identity_key("statistician"))
    held = service_pb2.StudyWithdrawal(
        digest=taken.digest, statistician=taken.statistician, signature=taken.signature
    )
    yield "withdrawal-call", "valid", held.SerializeToString(deterministic=True)
    yield "upload", "valid", b"\0\xff" + bytes(255) + b"\0\xff" + bytes(255) + b"\0\x02" + bytes(2)
    yield "upload", "lie", b"\1\x08" + bytes(8)
    assert len(words_hasher(8 * WORDS).digest()) == len(bytes(32))


def _decision() -> Decision:
    at = texts.MOMENT.isoformat()
    unsigned = Decision(bytes(32), "ages", bytes(32), Act.RETURN, "too fine", "", ("sizes",), "checker", at)
    return unsigned.sign(identity_key("checker"))


def _definitions() -> Seeds:
    for name, text in (("small", SMALL), ("every-kind", texts.EVERY_KIND), ("enrols", texts.ENROLS)):
        yield "study-yaml", name, text.encode()
        yield "study-canonical", name, frozen(text).canonical
        yield "study-submitted", name, frozen(text).canonical
        yield "study-signed", name, signed_study_to_json(submitted(frozen(text).canonical))
    for place, moment in enumerate(texts.ENDS_OF_TIME):
        written = texts.ENROLS.replace(texts.UNTIL, moment)
        yield "study-yaml", f"end-of-time-{place}", written.encode()
        canonical = frozen(texts.ENROLS).canonical.replace(b"2027-01-01T11:00:00Z", moment.encode())
        yield "study-canonical", f"end-of-time-{place}", canonical
        yield "study-submitted", f"end-of-time-{place}", canonical
    yield "roster", "valid", texts.ROSTER.encode()
    yield "deny-list", "valid", write_deny_list(texts.DENY)
    yield "request", "valid", write_request("s0", "site", "Site 0", "test", identity_key("s0"))
    yield "node-settings", "valid", texts.NODE.encode()
    yield "tables-settings", "valid", texts.NODE.encode()
    yield "epoch-edit", "valid", texts.NODE.encode()
    yield "policy", "valid", texts.POLICY.encode()
    yield "coordinator-settings", "valid", texts.HUB.encode()
    for place, text in enumerate(texts.EXPRESSIONS):
        yield "expression", f"text-{place:02}", text.encode()
    for place, text in enumerate(texts.CONDITIONS):
        yield "condition", f"text-{place:02}", text.encode()
    for place, text in enumerate(texts.REMEDIES):
        yield "remedy", f"text-{place}", text.encode()
    yield "key-file", "valid", b"ab" * 32 + b"\n"
    yield "key-file", "blanks", b"ab " * 32
    yield "key-file", "odd", b"abc"
    yield "words", "valid", phrase(key_words(bytes(32))).encode()
    yield "words", "unknown", b"acorn acron"


def _records() -> Seeds:
    table = regression(effect_row("lh_bankssts_thickness", 0.2, 0.01))
    yield "result", "valid", to_json(document(table))
    first_schema = json.loads(to_json(document(table)))
    first_schema["schema"] = "cohortsum.result/1"
    del first_schema["release"], first_schema["rules"]
    yield "result", "schema-1", json.dumps(first_schema).encode()
    yield "result", "schema-1-deep", b'"cohortsum.result/1"' + b"[" * texts.DEEP
    yield "result", "schema-1-nested", b'{"schema": "cohortsum.result/1", "a": ' + b"[" * texts.DEEP
    block = TableBlock.of(table)
    item = ItemFile(
        schema="cohortsum.item/1",
        study=StudyIdentity(
            id="small", title="Small", version=1, digest=ITEM_STUDY.hex(), fingerprint="7KQ-M2X"
        ),
        profile="dpuk",
        waivers=(),
        item="thickness",
        state=State.QUEUE,
        digest=item_digest(ITEM_STUDY, block.canonical()).hex(),
        table=block,
        rules=(),
        signatures=(),
        missing=("a second checker",),
        earlier=(),
        noise="none",
    )
    yield "release-item", "valid", item_to_json(item)
    yield "result-table", "valid", b"\x01" + to_csv(table).encode()
    yield "result-table", "huge-number", b"\0variable,n,status\nage," + b"9" * 5000 + b",ok\n"
    yield "result-table", "quote", b'\0a,status\n"b'
    yield "archive", "valid", pack({"a/b.json": b"{}", "c.txt": b"text"})
    yield "archive", "empty", pack({})
    yield "archive", "long", pack({"a": b"x"})[:18] + b"\xff" * 8 + pack({"a": b"x"})[26:]
    packed = pack_sums({"people": np.array([5]), "powers": np.array([3, -3])})
    yield "sums", "valid", packed[DIGEST_BYTES:]
    for place, head in enumerate(
        (b"{}", b"[" * texts.DEEP, b"[[1, 2]]", b'[["a", -1]]', b'[["a", 1e9]]', b"[null]")
    ):
        yield "sums", f"head-{place}", len(head).to_bytes(8, "little") + head + bytes(8)
    yield "sums", "long-head", b"\xff" * 8
    yield "sums", "odd", packed[DIGEST_BYTES:] + b"\0"
    decided = [{
        "digest": "ab" * 32, "study": "small", "version": 1, "answer": "approved", "analyses": ["a"],
        "until": "2027-06-30", "by": "admin", "at": "2026-11-30T18:00:00+00:00",
    }]  # fmt: skip
    yield "node-decisions", "valid", json.dumps(decided).encode()
    line = {"digest": "ab", "name": "small", "version": 1, "state": "enrolling", "here": "waits"}
    board = {"at": "2026-11-30T18:00:00+00:00", "down_since": None, "studies": [line]}
    yield "node-state", "valid", json.dumps(board).encode()
    yield "node-snapshot", "valid", json.dumps({"epoch": "2026-11", "digest": "ab" * 32}).encode()


def _proofs() -> Seeds:
    for place, (_, data) in enumerate(kept()):
        yield "evidence", f"true-{place}", data
    round_, _ = played()
    for name, record in (("true", round_.machines[1].record), ("other", round_.machines[2].record)):
        assert record is not None
        yield "evidence-record", name, record.to_bytes()
    yield "evidence-file", "true", file()
    for name, data in payloads().items():
        yield "evidence-told", name, data
    head = number(3) + number(1) + bytes(32)
    for name, data in (("shares", head + bytes(96)), ("no-element", head + b"\xff" * 96), ("nothing", b"")):
        yield "evidence-sealed", name, data


def _ledgers() -> Seeds:
    digest = CONSORTIUM.plan.study_digest, CONSORTIUM.plan.roster_digest
    yield "answer", "valid", b"\0" + encode(Approval(*digest, Regimen("dpuk", 10), b"\x07"))[1]
    yield "answer", "too-many", b"\0" + encode(Approval(*digest, Regimen("dpuk", 10), b"\x0f"))[1]
    yield "answer", "stays-out", b"\1" + encode(NotTakingPart(*digest))[1]
    stones = tuple(one.sign(bytes(32), Tombstone()) for one in CONSORTIUM.signers.values())
    yield "burial", "valid", encode(Burial(stones))[1]
    yield "burial", "twice", encode(Burial((stones[0], *stones)))[1]
    name = next(iter(PEOPLE))
    row = ("[0, 1, 2]", "[0, 1]", json.dumps({"people": name}), "0,1", '{"0": "ab", "1": "cd"}')
    yield "ledger-row", "valid", "\0".join(row).encode()
    yield "ledger-row", "deep", b"[" * texts.DEEP
    yield "ledger-row", "unknown", b'[0]\0[0]\0{"people": "ab"}'
    yield "ledger-row", "number", b"1\0[0]\0{}"
    step = Step(bytes(32), 1, 1)
    write = Write(
        bytes(32),
        step,
        bytes(32),
        bytes(32),
        frozenset({0, 1}),
        frozenset({0}),
        ((name, PEOPLE[name]),),
        noised=False,
    )
    yield (
        "ledger-record",
        "valid",
        json.dumps(to_data(History(site=1, status=None, writes=(write,)))).encode(),
    )
    yield "proxy-answer", "valid", b"HTTP/1.1 200 Connection established\r\nVia: x\r\n\r\n"
    yield "proxy-answer", "refused", b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n"
    yield "proxy-answer", "huge-status", b"HTTP/1.1 " + b"2" * 5000 + b"\r\n\r\n"
    yield "proxy-answer", "no-http", b"220 mail\r\n\r\n"
    yield "proxy-setting", "valid", b"http://user:pass%20word@proxy.example:3128\n10.0.0.0/8, .example"
    yield "proxy-setting", "port", b"http://proxy:99999"
    yield "proxy-setting", "bracket", b"http://[::1"


def _logs() -> Seeds:
    deeds = (
        Deed(DeedKind.LOG_BEGUN),
        Deed(DeedKind.STUDY_HEARD, bytes(32), by="ann"),
        Deed(DeedKind.STARTED),
    )
    data, head = follow(Head(), deeds, texts.MOMENT)
    yield "audit-log", "valid", data
    yield "audit-log", "torn", data[:-20]
    yield "audit-log", "altered", data.replace(b"ann", b"bob")
    yield "audit-log", "renewed", follow(head.renewed(), (Deed(DeedKind.LOG_RENEWED),), texts.MOMENT)[0]
    for place, text in enumerate(data.splitlines(keepends=True)):
        yield "audit-line", f"valid-{place}", text
    yield "audit-head", "valid", head.to_text().encode()
    yield "audit-head", "negative", b"-1 " + b"00" * 32 + b" -5 1"
    yield "audit-head", "other-digits", "\u0663 ".encode() + b"00" * 32 + b" 0 1"


def _tables() -> Seeds:
    plain = b"id,age,dx\na,12.5,case\nb,NA,control\n"
    for place, (name, data) in enumerate((
        ("text", plain),
        ("any", b"lh.aparc.DKT.thickness\tlh_bankssts_thickness\n1\t2.5\n"),
        ("freesurfer", b"Measure:volume\tLeft-Hippocampus\teTIV\ns1\t4000\t1500000\n"),
        ("enigma", b"SubjID,LLatVent,ICV\ns1,7000,1500000\n"),
        ("brc", b"SubjectID T1_a\n1 0.5\n2 .\n"),
    )):  # fmt: skip
        yield "table-text", name, bytes([place]) + data
    yield "table-text", "quotes", b'\0id;"a;b"\n"x";"1"\n"y;2\n'
    yield "table-text", "line-ends", b"\0id,a\r\nx,1\ry,2\n\n , \n"
    yield "table-text", "mark", b"\0\xef\xbb\xbfid,a\nx,1\n"
    yield "table-text", "nul", b"\0id,a\nx,\0\n"
    yield "table-text", "zip", b"\0PK\x03\x04"
    yield "table-text", "other-spaces", "\0id,a\u2028b\nx\u0085,1\n".encode()
    yield "table-ids", "valid", b"a\n b \n\nc"
    yield (
        "table-sidecar",
        "valid",
        b'{"age": {"Units": "year"}, "sex": {"Levels": {"1": "f", "2": {"Description": "m"}}}}',
    )
    rows = "".join(
        f"p{row},{','.join(str((row * 7 + column * row) % 11) for column in range(12))}\n" for row in range(8)
    )
    yield (
        "scans",
        "text",
        b"\0id," + ",".join(f"f{column}" for column in range(12)).encode() + b"\n" + rows.encode(),
    )
    header = b"{'descr': '<f8', 'fortran_order': False, 'shape': (2, 3), }"
    for name, text in (
        ("array", header),
        ("array-huge", header.replace(b"(2, 3)", b"(999999999999, 9)")),
        ("array-minus", header.replace(b"(2, 3)", b"(-1, 3)")),
        ("array-object", header.replace(b"<f8", b"|O")),
        ("array-deep", b"(" * 200),
    ):
        yield "scans", name, b"\1\x93NUMPY\1\0" + len(text).to_bytes(2, "little") + text + bytes(48)


def _machines() -> Seeds:
    """Yield a packet of each change at each moment of each scene: place and change are single bytes."""
    for target in ("site-round", "coordinator-round"):
        for scene in range(4):
            for place in range(0, 8, 3):
                for change in range(10):
                    case = bytes(
                        [scene, 1 if change else 0, place, 0, 0, change, 0, place, 3, 1, 0, 5, 4, change]
                    )
                    more = hashlib.shake_256(case).digest(48)  # for the packets after the first
                    yield target, f"scene-{scene}-{place}-{change}", case + more


def _accusations() -> Seeds:
    """Yield choices for evidence that a case makes."""
    for place in range(40):
        start = bytes([place % 4, place // 4 % 2, place % 4, place, place % 3, 0, 2, place])
        yield "evidence-made", f"choices-{place:02}", start + hashlib.shake_256(start).digest(60)


def _fresh() -> Seeds:
    yield "bundle", "valid.zip", checked().archive
    yield "certificate", "valid", certificate().certificate
    for target, inputs in ciphertexts.seeds().items():
        yield from ((target, name, data) for name, data in inputs.items())
    yield "certificate", "anchor", trust_anchor("site0", identity_key("site0").public, texts.MOMENT)


def _of_bundle() -> Seeds:
    """Yield the first file of every kind as a case that replaces it with itself, and the sealed round for its own target."""
    files = unpack(BUNDLE.read_bytes(), "bundle")
    for place, name in enumerate(members()):
        if name.startswith(("approvals/", "decisions/")) and "0001" not in name:
            continue
        yield "bundle-member", name.replace("/", "-"), bytes([place]) + files[name]
    sealed = next(data for name, data in files.items() if name.startswith("sealed/"))
    yield "sealed", "valid", sealed
    yield "sealed", "short", sealed[:40]
    yield "sealed-opened", "nothing", b""
    yield "sealed-opened", "odd", bytes(range(200))


def _name(kind: Kind) -> str:
    return kind.name.lower().replace("_", "-")


def _write(seeds: Seeds) -> None:
    for target, name, data in seeds:
        home = CORPUS / target
        home.mkdir(parents=True, exist_ok=True)
        (home / name).write_bytes(data)


def main() -> None:
    """Write all seeds anew."""
    if "--fresh" in sys.argv[1:]:
        _write(_fresh())
    for path in CORPUS.glob("*/*"):
        fresh = path.parent.name in ("certificate", "encryption-key", "ciphertext") or path == BUNDLE
        if not fresh and not path.name.startswith(KEPT):
            path.unlink()
    _write(every())
    _write(_of_bundle())


if __name__ == "__main__":
    main()
