"""A proof bundle from the commands that make a consortium to the command that verifies it, over real gRPC with TLS."""

import asyncio
from pathlib import Path

import pytest

from cohortsum.coordinator.bundle import bundle_path
from cohortsum.coordinator.sealing import sealed_folder
from cohortsum.crypto.errors import RefusedError
from cohortsum.crypto.fingerprint import phrase, roster_words
from cohortsum.node.files import read_public
from cohortsum.protocol.roster import roster_digest
from cohortsum.report.bundle_check import check_bundle
from cohortsum.study.release.archive import pack, unpack
from cohortsum.study.release.decision import Act
from tests.admin import desk
from tests.life.test_amendment import MORE, two_versions
from tests.life.test_studies import play
from tests.life.town import STATISTICIAN, Town, study_of
from tests.release.test_end_to_end import CHECKED, ITEMS, CheckedTown


class AuditedTown(CheckedTown):
    """A town with an auditor who has a sealing key, in a roster that every site pinned, and a checker who came later."""

    def __init__(self, home: Path, sites: int) -> None:
        super().__init__(home, sites)
        assert "x25519:" in desk.ok("key", "seal", home / "aud2.seal").out
        self._admit("aud2", "auditor", "--seal", home / "aud2.seal")
        for name in self.names:
            desk.pin(self.consortium, home / name)
        self.pinned = int((self.consortium / "consortium.yaml").read_text().split("roster: ")[1].split()[0])
        self._admit("chk2", "checker")

    def _admit(self, name: str, role: str, *more: str | Path) -> None:
        desk.ok("key", "new", self.home / f"{name}.key")
        desk.ok(
            *("key", "request", self.home / f"{name}.key", "--id", name, "--role", role, *more),
            *("--name", "A", "--organisation", "U", "--out", self.home / f"{name}.yaml"),
        )
        desk.ok("coordinator", "admit", self.consortium, self.home / f"{name}.yaml", "--role", role)

    def words(self, version: int) -> str:
        text = (self.consortium / "rosters" / f"{version}.yaml").read_bytes()
        return phrase(roster_words(read_public(self.consortium / "operator.pub"), roster_digest(text)))


def test_a_bundle_from_the_commands_to_the_verdict(tmp_path: Path) -> None:
    async def made() -> AuditedTown:
        async with AuditedTown(tmp_path, 4) as town:
            town.start_nodes()
            study = await town.submit(study_of("proven", changes=CHECKED, roster=town.pinned))
            for index in range(town.count):
                await town.hears(index, study, "waits for a decision")
                town.decide(index, study)
            await asyncio.wait_for(town.hub.ended(study.digest), 60)
            results = town.consortium / "results"
            beside = bundle_path(results, "proven", 1)
            async with town.desk() as statistician:
                with pytest.raises(RefusedError, match="nothing of study proven is released yet"):
                    await statistician.bundle(study.digest)
            assert not beside.exists()
            (sealed,) = sealed_folder(results / "proven" / "v1").iterdir()
            assert sealed.suffix == ".sealed"
            await town.stop_hub()
            await town.start_hub()
            await town.decide_item("chk2", await town.look("chk2", study, ITEMS[0]), Act.RELEASE)
            assert not beside.exists()
            await town.decide_item("site1", await town.look("site1", study, ITEMS[0]), Act.RELEASE)
            async with town.desk(STATISTICIAN, town.key_of(STATISTICIAN)) as held:
                first = await held.bundle(study.digest)
            assert beside.read_bytes() == first
            for who in ("chk1", "site2"):
                await town.decide_item(who, await town.look(who, study, ITEMS[1]), Act.RELEASE)
            assert beside.read_bytes() != first
            sealed.unlink()  # what would not hold is not handed out; the result is
            async with town.desk() as held:
                with pytest.raises(
                    RefusedError, match=r"the bundle does not hold \(sealed part\): sealed/0001"
                ):
                    await held.bundle(study.digest)
                assert len((await held.result(study.digest)).tables) == 2
            return town

    town = asyncio.run(made())
    bundle = bundle_path(town.consortium / "results", "proven", 1)
    words, newest = town.words(town.pinned), town.words(town.pinned + 1)
    for fingerprint in (words, newest, f"loopback roster 7\n{words.replace('/', '')}", words.upper()):
        screen = desk.run("verify", bundle, "--roster-fingerprint", fingerprint)
        assert screen.code == 0, screen
        assert "2 of 3 items left, 4 decisions" in " ".join(screen.out.split())
        assert "everything in the bundle holds" in screen.said
    held = unpack(bundle.read_bytes(), "bundle")
    assert {"roster/newest.yaml", "roster/newest.sig", "sealed/0001.sealed"} <= held.keys()
    check_fingerprints(town, bundle)
    check_auditor(town, bundle, words)
    check_exit_codes(tmp_path, bundle, words)


def check_fingerprints(town: AuditedTown, bundle: Path) -> None:
    assert "nothing in a file is trusted" in desk.refused("verify", bundle)
    assert "expected 12 words" in desk.refused("verify", bundle, "--roster-fingerprint", "acorn admiral")
    screen = desk.run("verify", bundle, "--roster-fingerprint", town.words(town.pinned - 1))
    assert screen.code == 1
    assert "another fingerprint than the one given" in " ".join(screen.out.split())


def check_auditor(town: AuditedTown, bundle: Path, words: str) -> None:
    told = ("verify", bundle, "--roster-fingerprint", words)
    screen = desk.run(*told, "--key", town.home / "aud2.seal", "--id", "aud2")
    assert screen.code == 0, screen
    assert "1 sums added up again from what 4 sites signed; 60 people" in screen.out
    assert "tables that follow from the sums: ages, bands" in screen.out
    assert "belong together" in desk.refused(*told, "--id", "aud2")
    assert "not the private half" in desk.refused(*told, "--key", town.home / "chk1.key", "--id", "aud2")
    assert "no auditor with a sealing key" in desk.refused(
        *told, "--key", town.home / "aud2.seal", "--id", "aud1"
    )


def check_exit_codes(folder: Path, bundle: Path, words: str) -> None:
    files = dict(unpack(bundle.read_bytes(), "bundle"))
    other = folder / "other.zip"
    for archive, code, sentence in (
        (
            pack({**files, "result.json": files["result.json"] + b" "}),
            1,
            "result.json: not the file that the manifest names",
        ),
        (b"PK", 2, "not an archive that cohortsum wrote"),
        (bundle.read_bytes()[:-1], 2, "its directory does not follow"),
    ):
        other.write_bytes(archive)
        screen = desk.run("verify", other, "--roster-fingerprint", words)
        assert screen.code == code, screen
        assert sentence in " ".join(screen.out.split())
    assert "cannot be read" in desk.refused("verify", folder / "nowhere.zip", "--roster-fingerprint", words)


def test_a_version_that_builds_on_an_earlier_one_has_a_bundle_of_its_own(tmp_path: Path) -> None:
    async def story(town: Town) -> None:
        await two_versions(town, MORE)

    play(tmp_path, story)
    folder = tmp_path / "consortium"
    text = (folder / "rosters" / "3.yaml").read_bytes()
    words = roster_words(read_public(folder / "operator.pub"), roster_digest(text))
    for version, earlier in ((1, False), (2, True)):
        found = check_bundle(bundle_path(folder / "results", "grows", version).read_bytes(), "b", words)
        assert found.failure is None
        assert found.proven is not None
        assert bool(found.proven.rounds[0].earlier) is earlier
        assert found.proven.document.round.builds_on_version == (1 if earlier else None)
