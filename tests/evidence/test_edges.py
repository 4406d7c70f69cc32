"""Evidence over real gRPC: a coordinator that lies to one site, and a site that signs twice; then the file, alone, in other hands."""

import asyncio
import hashlib
import stat
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import grpc
import pytest
from structlog.testing import capture_logs

from cohortsum.coordinator.attempt import Attempt
from cohortsum.coordinator.attempt_rows import Event
from cohortsum.coordinator.evidence import EvidenceBook as HubBook
from cohortsum.crypto.fingerprint import roster_words
from cohortsum.node.evidence import EvidenceBook
from cohortsum.node.joining import Site
from cohortsum.protocol.audit import DeedKind
from cohortsum.protocol.codec import decode, envelope_to_wire
from cohortsum.protocol.effects import CoordinatorEffect, Deliver
from cohortsum.protocol.messages import Advert, Kind, Packet, Survivors
from cohortsum.protocol.roster import ROSTER, roster_digest
from cohortsum.report.evidence_verdict import check_evidence_file
from cohortsum.study.release.bundle import Paper, Papers
from cohortsum.wire.v1 import round_pb2
from tests.admin.desk import run
from tests.edges.harness import Loopback, SeenRunner, roster_yaml
from tests.edges.oracle import check_pooled
from tests.evidence.test_site_lies import LIAR, another_share, lying_dealer
from tests.protocol.consortium import identity_key
from tests.protocol.lies import flip

VICTIM, SITES = 2, 5
OPERATOR = identity_key("operator")
TEXT = roster_yaml(SITES)
PAPERS = Papers(OPERATOR.public, Paper(TEXT, OPERATOR.sign(ROSTER, TEXT)))
WORDS = roster_words(OPERATOR.public, roster_digest(TEXT))


class TwoFaced(Attempt):
    """A coordinator that tells one site of a second survivor set, truly signed."""

    async def _apply(self, effects: tuple[CoordinatorEffect | Event, ...]) -> None:
        told: list[CoordinatorEffect | Event] = []
        for effect in effects:
            told.append(effect)
            if isinstance(effect, Deliver) and effect.receiver == VICTIM:
                envelope = effect.packet.envelope
                message = decode(envelope.kind, envelope.payload)
                if isinstance(message, Survivors):
                    signer = self.machine.setup.signer
                    second = signer.sign(envelope.context, Survivors(message.masked[:4]))
                    told.append(Deliver(VICTIM, Packet(second)))
        await super()._apply(tuple(told))


def keeping(folder: Path) -> Callable[[Site], Site]:
    return lambda site: replace(site, evidence=EvidenceBook(folder / "evidence", lambda _: PAPERS))


def only_file(folder: Path) -> Path:
    (path,) = (folder / "evidence").glob("*.evidence")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    return path


def test_a_coordinator_that_names_two_survivor_sets_is_shown_to_have_by_the_file_of_one_site(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SeenRunner, "kind_of_attempt", TwoFaced)

    async def play() -> None:
        async with Loopback(tmp_path, SITES, change={VICTIM: keeping(tmp_path)}) as town:
            outcome = await town.run()
            assert outcome.document is not None  # four of five answered, and the victim's input is in
            check_pooled(outcome.document, range(SITES))
            (line,) = (
                line.deed
                for line in town.sites[VICTIM].ledger.audit().lines
                if line.deed.kind is DeedKind.EVIDENCE_KEPT
            )
            path = only_file(tmp_path)
            assert (line.by, line.detail) == ("hub", "M5")
            assert line.digest == hashlib.sha256(path.read_bytes()).digest()
            (record,) = (tmp_path / "evidence").glob("*.told")
            assert record.name == f"{line.context.hex()}.told"
            assert path.name == f"{line.context.hex()}-M5-hub.evidence"
            deeds = town.sites[VICTIM].ledger.deeds(line.context)
            assert "signed" in deeds
            assert not {"answered gate", "answered data"} & set(deeds)  # it stopped the context

    asyncio.run(play())
    path = only_file(tmp_path)
    screen = run("verify", path, "--roster-fingerprint", " ".join(WORDS))
    assert screen.code == 0
    assert (
        "coordinator hub signed two different messages of the kind SURVIVORS: M5, two messages"
        in " ".join(screen.out.split())
    )
    assert "study loopback version 1, round 1, attempt 1" in " ".join(screen.out.split())
    assert "kept by site2" in " ".join(screen.out.split())
    other = tmp_path / "altered.evidence"
    for at in range(40, path.stat().st_size, 97):
        other.write_bytes(flip(path.read_bytes(), at))
        assert run("verify", other, "--roster-fingerprint", " ".join(WORDS)).code in (1, 2)


def test_a_site_that_signs_two_adverts_is_shown_to_have_by_the_file_of_the_coordinator(
    tmp_path: Path,
) -> None:
    async def play() -> None:
        book = HubBook(tmp_path / "evidence", lambda _: PAPERS)
        async with Loopback(tmp_path, SITES, evidence=book) as town:
            held = town.hold("site0", "MASKED")
            ending = town.start()
            await town.until(lambda: held.reached.is_set() and town.times("UPLOAD") == SITES - 1)
            machine, signer = town.runner.machine, town.sites[0].signer
            first = next(packet for what, packet in town.wire.packets("site0") if what == Kind.ADVERT.name)
            own = round_pb2.Packet.FromString(first).envelope
            advert = decode(Kind.ADVERT, own.payload)
            assert isinstance(advert, Advert)
            second = signer.sign(machine.fixed.context, replace(advert, counter=7))
            async with town.stub(0) as stub:
                for _ in range(2):
                    with pytest.raises(grpc.aio.AioRpcError):
                        await stub.Submit(round_pb2.Packet(envelope=envelope_to_wire(second)), timeout=20)
            held.released.set()
            outcome = await ending
            assert outcome.document is not None  # the first counts
            check_pooled(outcome.document, range(SITES))

    asyncio.run(play())
    path = only_file(tmp_path)
    verdict = check_evidence_file(path.read_bytes(), path.name, WORDS)
    assert verdict.failure is None
    assert verdict.proof is not None
    assert (verdict.proof.finding.accused, verdict.proof.finding.check, verdict.proof.by) == (
        "site0",
        "M5",
        "hub",
    )


@pytest.mark.parametrize("disk", ["sound", "refusing"])
def test_evidence_against_a_dealer_is_on_disk_before_the_complaint_leaves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, disk: str
) -> None:
    """A disk that refuses costs the evidence: the site says so, complains and leaves the attempt all the same."""
    lying_dealer(monkeypatch, another_share)
    if disk == "refusing":
        (tmp_path / "evidence").write_bytes(b"in the way")
    on_disk: list[list[str]] = []

    async def play() -> None:
        async with Loopback(tmp_path, SITES, change={1: keeping(tmp_path)}) as town:
            before = town.service.before

            async def look(site: str, what: str) -> None:
                if what == Kind.COMPLAINT.name:
                    on_disk.append([path.name[65:] for path in (tmp_path / "evidence").glob("*.evidence")])
                await before(site, what)

            town.service.before = look
            ending = town.start()
            await town.until(lambda: town.times(Kind.COMPLAINT.name) == 1)
            assert town.times("UPLOAD", "site1") == 0
            ending.cancel()

    with capture_logs() as logs:
        asyncio.run(play())
    kept = [f"R2.7-site{LIAR}.evidence"] if disk == "sound" else []
    assert on_disk == [kept]
    events = {str(line["event"]) for line in logs}
    assert ("evidence.kept" in events, "evidence.not_kept" in events) == (bool(kept), not kept)
