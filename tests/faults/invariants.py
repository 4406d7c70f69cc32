"""What holds after every run, whatever failed in it: looked up on the disks of a consortium that has stopped.

A site's ledger is one answer of each kind per context; what the coordinator holds of a site is what its ledger says that left, byte for
byte; whoever sent or signed is in the ledger, and charged where the study is noised; the transcript of an opened round proves to every
survivor the survivors that were named; and no person's id is on any disk but the table it stands in.
"""

import sqlite3
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path

from sqlalchemy import select

from cohortsum.coordinator.store import MessageRow, RoundRow, Store, StudyRow
from cohortsum.coordinator.trail import kept_transcript
from cohortsum.protocol.codec import decode, packet_from_bytes
from cohortsum.protocol.messages import Consistency, DataShares, GateShares, Kind
from cohortsum.protocol.proof import read_transcript
from cohortsum.protocol.roster import Roster
from cohortsum.study.definition import parse_canonical
from cohortsum.study.planning import plan_study
from cohortsum.wire.v1 import round_pb2

Deeds = dict[tuple[bytes, str], bytes]
OF_KIND = {Kind.GATE_SHARES.name: "answered gate", Kind.DATA_SHARES.name: "answered data"}
OWN = ("people.csv",)
"""Where people's ids belong."""


def deeds_of(ledger: Path) -> Deeds:
    """Return digest by context and deed, of a site that has stopped."""
    with closing(sqlite3.connect(f"file:{ledger}?mode=ro", uri=True)) as database:
        rows = database.execute("SELECT context, deed, digest FROM deeds").fetchall()
    found = {(context, deed): digest for context, deed, digest in rows}
    assert len(found) == len(rows), "a deed was done twice in one context"
    return found


def charged(ledger: Path) -> set[bytes]:
    """Return the contexts that cost this site something, refunded ones included."""
    with closing(sqlite3.connect(f"file:{ledger}?mode=ro", uri=True)) as database:
        return {context for (context,) in database.execute("SELECT context FROM charges")}


def spent(ledger: Path) -> set[bytes]:
    """Return the contexts in which this site wrote down a masked input."""
    with closing(sqlite3.connect(f"file:{ledger}?mode=ro", uri=True)) as database:
        written = {context for (context,) in database.execute("SELECT context FROM writes")}
    assert written == {context for context, deed in deeds_of(ledger) if deed == "spent"}
    return written


def check_site(ledger: Path, site: str, store: Store, whole: bool = True) -> None:
    """Fail unless what the coordinator holds of a site is what its ledger says that left.

    Args:
        ledger: of the site.
        site: its id.
        store: the coordinator's.
        whole: whether the ledger is the site's own and not an older copy.
    """
    deeds = deeds_of(ledger)
    for (context, deed), _ in deeds.items():
        if deed != "spent":
            assert (context, "spent") in deeds, f"{site}: {deed} without a masked input"
        if deed.startswith("answered"):
            assert (context, "signed") in deeds, f"{site}: {deed} without a signature"
    with store.transaction() as session:
        rows = session.scalars(select(MessageRow).where(MessageRow.sender == site)).all()
        held = [(bytes.fromhex(row.context), row.kind, bytes.fromhex(row.digest), row.packet) for row in rows]
    assert len({(context, kind) for context, kind, _, _ in held}) == len(held)
    if not whole:
        return
    for context, kind, digest, packet in held:
        match kind:
            case "MASKED":
                assert deeds[context, "spent"] == digest
            case "CONSISTENCY":
                envelope = packet_from_bytes(packet).envelope
                message = decode(envelope.kind, envelope.payload)
                assert isinstance(message, Consistency)
                assert deeds[context, "signed"] == message.statement
            case "GATE_SHARES" | "DATA_SHARES":
                assert deeds[context, OF_KIND[kind]] == digest
            case _:
                pass


def check_answers(received: Mapping[str, Sequence[tuple[str, bytes]]]) -> None:
    """Fail unless every site gave one kind of share for each peer, and the same bytes whenever it was asked again.

    Args:
        received: what the coordinator got of each site, by its id: kind and packet.
    """
    for site, packets in received.items():
        answers: dict[tuple[bytes, str], set[bytes]] = {}
        for kind, data in packets:
            if kind in OF_KIND:
                envelope = round_pb2.Packet.FromString(data).envelope
                answers.setdefault((envelope.context, kind), set()).add(data)
        assert all(len(once) == 1 for once in answers.values()), site
        for (context, kind), (data,) in answers.items():
            envelope = round_pb2.Packet.FromString(data).envelope
            message = decode(Kind(envelope.kind), envelope.payload)
            if isinstance(message, GateShares):
                assert not message.gate.keys() & message.mask.keys()
            elif isinstance(message, DataShares) and (context, Kind.GATE_SHARES.name) in answers:
                (gate,) = answers[context, Kind.GATE_SHARES.name]
                before = decode(Kind.GATE_SHARES, round_pb2.Packet.FromString(gate).envelope.payload)
                assert isinstance(before, GateShares)
                assert message.data.keys() == before.gate.keys()
            else:
                raise AssertionError(f"{site}: {kind} without gate shares before it")


def check_transcripts(store: Store, rosters: dict[int, Roster]) -> int:
    """Fail unless the transcript of every opened round proves its survivors to each of them; return how many rounds there were."""
    with store.transaction() as session:
        found = session.execute(
            select(RoundRow.context, RoundRow.survivors, StudyRow.canonical)
            .join(StudyRow, StudyRow.digest == RoundRow.study)
            .where(RoundRow.state == "opened", RoundRow.iteration == 1)
        ).all()
        rounds = [(bytes.fromhex(context), named, canonical) for context, named, canonical in found]
    for context, named, canonical in rounds:
        study = parse_canonical(canonical)
        roster = rosters[study.roster]
        plan, transcript = plan_study(study, roster).round, kept_transcript(store, context, roster)
        survivors = tuple(index for site, index in roster.sites.items() if str(site) in named.split(","))
        for own in survivors:
            assert read_transcript(transcript, own, plan, roster).survivors == tuple(sorted(survivors))
    return len(rounds)


def check_one_sum(store: Store) -> None:
    """Fail if a round of a study was opened twice."""
    with store.transaction() as session:
        opened = session.execute(
            select(RoundRow.study, RoundRow.iteration).where(RoundRow.state == "opened")
        ).all()
    assert max(Counter(map(tuple, opened)).values(), default=1) == 1


def check_no_id(home: Path, sites: int) -> None:
    """Fail if an id of a person stands in any file but the sites' tables and the private copies of nodes that were killed."""
    needles = [f"s{index}-0000".encode() for index in range(sites)]
    searched = 0
    for path in _files(home):
        data = path.read_bytes()
        assert not any(needle in data for needle in needles), path.name
        searched += 1
    assert searched > sites


def _files(home: Path) -> Iterator[Path]:
    for path in sorted(home.rglob("*")):
        private = any(part.startswith("cohortsum-") for part in path.parts)
        if path.is_file() and not private and path.name not in OWN:
            yield path
