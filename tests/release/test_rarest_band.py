"""Seven of eighty people, from the sites' tables to the proof: hidden with their complement, merged without a new round, signed, proven."""

import asyncio
import hashlib
from pathlib import Path

import pytest

from cohortsum.coordinator.bundle import bundle_path
from cohortsum.crypto.errors import RefusedError
from cohortsum.crypto.fingerprint import roster_words
from cohortsum.crypto.signing import IdentityKey
from cohortsum.node.files import read_key, read_public
from cohortsum.protocol.roster import roster_digest
from cohortsum.report.bundle_check import check_bundle
from cohortsum.report.document import ResultDocument, TableBlock
from cohortsum.report.item_file import ItemFile
from cohortsum.study.definition import FrozenStudy
from cohortsum.study.release.archive import pack, unpack
from cohortsum.study.release.checklist import HUMAN
from cohortsum.study.release.decision import Act, Decision
from cohortsum.study.results import HIDDEN, Cell
from tests.admin import desk
from tests.life.town import EPOCH
from tests.release.test_bundle_town import AuditedTown
from tests.release.test_end_to_end import AT

BANDS = ("none", "some", "many")
PEOPLE = ((13, 5, 2), (12, 6, 2), (13, 6, 1), (12, 6, 2))
"""Twenty people at each of four sites, seven with many lesions in all."""
TOTAL = (50, 23, 7)
POLICY = """\
profile: dpuk
waivers:
  - {rule: checklist_noise, value: off, reason: a test, by: ann, until: 2999-12-31}
  - {rule: group_10, value: off, reason: the counts of a site are not told, by: ann, until: 2999-12-31}
  - {rule: round_100, value: 80, reason: a test, by: ann, until: 2999-12-31}
"""
STUDY = """\
study: burden
title: Burden of lesions
version: 1
roster: %d
expires: 2999-12-31
person: person_id
variables:
  band: {levels: [none, some, many]}
cohort: {epoch: 2026-11}
analyses:
  burden: {kind: crosstab, factors: [band]}
protection:
  {min_sites: 4, min_participants: 80, max_participants: 1000, min_participants_per_site: 20, max_colluding_sites: 0}
privacy: {noise: none}
release: {checkers: {consortium: 1, sites: none}, round_to: 5}
deadlines: {step: 20s, step_max: 20s, tick: 20ms}
"""
MERGE = '{"actions":[{"do":"merge","factor":"band","levels":["some","many"],"name":"any"}]}'


class BandTown(AuditedTown):
    """A town whose sites hold to the rules, with three rules waived."""

    def make_node(self, index: int, name: str) -> None:
        folder = desk.make_site(self.home, name, self.target)
        bands = [band for band, number in zip(BANDS, PEOPLE[index], strict=True) for _ in range(number)]
        rows = [f"{name}-{place:02d},{band}" for place, band in enumerate(bands)]
        (folder / "people.csv").write_text("\n".join(("person_id,band", *rows)) + "\n", encoding="utf-8")
        (folder / "policy.yaml").write_text(POLICY)
        desk.ok("node", "snapshot", folder, "--epoch", EPOCH)

    def returned(self, file: ItemFile) -> Decision:
        about = bytes.fromhex(file.study.digest), file.item, bytes.fromhex(file.digest)
        made = Decision(*about, Act.RETURN, "merge bands", MERGE, (), "chk2", AT)
        return made.sign(self._key("chk2"))

    def released(self, file: ItemFile, digest: str) -> Decision:
        about = bytes.fromhex(file.study.digest), file.item, bytes.fromhex(digest)
        return Decision(*about, Act.RELEASE, "", "", HUMAN, "chk2", AT).sign(self._key("chk2"))

    def _key(self, name: str) -> IdentityKey:
        return read_key(self.home / self.key_of(name))


def counts(block: TableBlock) -> list[Cell]:
    table = block.table()
    return [row[table.columns.index("count")] for row in table.rows]


async def played(town: BandTown) -> tuple[FrozenStudy, ResultDocument]:
    town.start_nodes()
    study = await town.submit(STUDY % town.pinned)
    for index in range(town.count):
        await town.hears(index, study, "waits for a decision")
        town.decide(index, study)
    await asyncio.wait_for(town.hub.ended(study.digest), 60)
    rounds = dict(town.hub.attempts())
    first = await town.look("chk2", study, "burden")
    # the rarest band and the cheapest other are hidden; the rule is named, and no number of theirs stands anywhere
    assert counts(first.table) == [50, HIDDEN, HIDDEN]
    outcomes = {rule.rule: rule.outcome for rule in first.rules}
    assert (outcomes["primary_suppression"], outcomes["complement_suppression"]) == ("changed", "changed")
    assert {waiver.rule for waiver in first.waivers} == {"checklist_noise", "group_10", "round_100"}

    # returned: another table from the same sums, another digest, and the old one is signed in vain
    await town.hand_in("chk2", town.returned(first))
    again = await town.look("chk2", study, "burden")
    assert dict(town.hub.attempts()) == rounds == {"opened": 1}
    assert [row[0] for row in again.table.rows] == ["none", "any"]
    assert counts(again.table) == [50, 30]
    assert again.digest != first.digest
    with pytest.raises(RefusedError, match="other content than the item has"):
        await town.hand_in("chk2", town.released(again, first.digest))
    await town.hand_in("chk2", town.released(again, again.digest))
    document = await town.fetched(study)
    (entry,) = document.release
    assert (entry.state, entry.digest) == ("released", again.digest)

    # the same question a thousand times: the same bytes, and no further round
    async with town.desk() as held:
        seen = {
            hashlib.sha256((await held.result(study.digest)).model_dump_json().encode()).digest()
            for _ in range(20)
        }
    documents = {town.hub.document(study.digest, "stat1") for _ in range(1000)}
    assert (len(seen), len(documents)) == (1, 1)
    again_submitted = await town.submit(STUDY % town.pinned)
    assert again_submitted.digest == study.digest
    assert dict(town.hub.attempts()) == rounds
    return study, document


def test_the_rarest_band_is_hidden_merged_signed_and_proven(tmp_path: Path) -> None:
    async def made() -> tuple[BandTown, ResultDocument]:
        async with BandTown(tmp_path, 4) as town:
            _, document = await played(town)
            return town, document

    town, document = asyncio.run(made())
    bundle = bundle_path(town.consortium / "results", "burden", 1).read_bytes()
    text = (town.consortium / "rosters" / f"{town.pinned + 1}.yaml").read_bytes()
    words = roster_words(read_public(town.consortium / "operator.pub"), roster_digest(text))
    verdict = check_bundle(bundle, "bundle", words)
    assert verdict.failure is None
    assert verdict.proven is not None
    assert verdict.proven.document == document

    files = dict(unpack(bundle, "bundle"))
    for name in sorted(files):
        flipped = bytearray(files[name])
        flipped[len(flipped) // 2] ^= 1
        wrong = check_bundle(pack({**files, name: bytes(flipped)}), "bundle", words).failure
        assert wrong is not None
        assert name in wrong.sentence or name == "manifest.json", (
            "a digest in the manifest is that of the file it names"
        )

    # neither the numbers that were hidden nor what they were made of stand in what left
    (table,) = (town.consortium / "results" / "burden" / "v1" / "results").glob("*.csv")
    assert (
        table.read_text()
        == "band,count,row_percent,column_percent,status\nnone,50,100.0,62.5,ok\nany,30,100.0,37.5,ok\n"
    )
