"""A new version that adds an outcome: old rows stay byte for byte, only the new block is opened, over the same survivors."""

from contextlib import closing
from pathlib import Path

from sqlalchemy import select

from cohortsum.coordinator.store import RoundRow, Store
from cohortsum.protocol.codec import packet_from_bytes
from cohortsum.protocol.envelope import open_any
from cohortsum.protocol.messages import Opening
from cohortsum.protocol.roster import Role
from cohortsum.report.document import ResultDocument
from cohortsum.report.tables import to_csv
from cohortsum.study.definition import FrozenStudy, freeze, load_study
from cohortsum.study.definition.difference import difference
from tests.edges.oracle import check_pooled, people_of
from tests.life.test_studies import people, play
from tests.life.town import Town, study_of

OLD = {"outcomes: [thick]": "outcomes: [thick], report: {effect: dx}"}
MORE = {
    "outcomes: [thick]": "outcomes: [thick, thin], report: {effect: dx}",
    "  thick: {unit: mm, range: [0, 5]}": "  thick: {unit: mm, range: [0, 5]}\n  thin: {unit: mm, range: [0, 5]}",
}


def rows(document: ResultDocument, analysis: str) -> list[str]:
    table = next(block.table() for block in document.tables if block.analysis == analysis)
    return to_csv(table).splitlines()


def openings(town: Town, study: FrozenStudy) -> list[Opening]:
    """Return every opening of a study, as the coordinator signed it."""
    roster = town.hub.roll.whole(study.roster)
    with (
        closing(Store(f"sqlite:///{town.consortium}/coordinator.db")) as store,
        store.transaction() as session,
    ):
        held = session.scalars(
            select(RoundRow.opening).where(RoundRow.study == study.digest.hex()).order_by(RoundRow.attempt)
        ).all()
    found: list[Opening] = []
    for packet in map(packet_from_bytes, held):
        message = open_any(packet.envelope, packet.envelope.context, roster, Role.COORDINATOR)
        assert isinstance(message, Opening)
        found.append(message)
    return found


async def two_versions(town: Town, second: dict[str, str], approve: range = range(5)) -> list[ResultDocument]:
    for index in range(town.count):
        path = town.folder(index) / "people.csv"
        head, *lines = path.read_text().splitlines()
        thin = [f"{line},{1 + (7 * number + index) % 300 / 100}" for number, line in enumerate(lines)]
        path.write_text("\n".join([f"{head},thin", *thin]) + "\n")
        (town.folder(index) / "ledger.db").unlink()  # the fixture's snapshot was of the narrower table
    town.start_nodes()
    documents: list[ResultDocument] = []
    for version, changes in ((1, OLD), (2, second)):
        study = await town.submit(study_of("grows", version, changes))
        for index in range(town.count) if version == 1 else approve:
            town.decide(index, study)
        for index in set(range(town.count)) - set(approve) if version == 2 else ():
            town.decide(index, study, approved=False)
        documents.append(await town.result(study))
    return documents


def test_only_the_new_outcome_is_opened_and_old_rows_are_byte_identical(tmp_path: Path) -> None:
    async def story(town: Town) -> None:
        first, second = await two_versions(town, MORE)
        for analysis in ("ages", "bands"):
            assert rows(first, analysis) == rows(second, analysis)
        old, new = rows(first, "thickness"), rows(second, "thickness")
        assert old == [row for row in new if not row.startswith("thin,")]
        assert len(new) > len(old)
        assert first.sites == second.sites
        assert first.round.builds_on_version is None
        assert second.round.builds_on_version == 1
        check_pooled(first, range(5))
        study, _ = town.signed(study_of("grows", 2, MORE))
        (opening,) = openings(town, study)
        assert opening.earlier
        assert opening.survivors == tuple(range(5))

    play(tmp_path, story)


def test_the_difference_is_one_line() -> None:
    old, new = (
        freeze(load_study(study_of("grows", version, changes).encode(), "study.yaml"))
        for version, changes in ((1, OLD), (2, MORE))
    )
    (change,) = difference(old, new)
    assert change.sentence.startswith("analyses.thickness: outcome thin is new")


def test_with_other_sites_everything_is_opened_anew(tmp_path: Path) -> None:
    async def story(town: Town) -> None:
        _, second = await two_versions(town, MORE, range(4))
        assert second.round.builds_on_version is None
        assert second.sites.survivors == tuple(f"site{index}" for index in range(4))
        assert people(second) == people_of(range(4))

    play(tmp_path, story)


def test_a_changed_range_opens_everything_that_depends_on_it(tmp_path: Path) -> None:
    """Age enters every analysis: no block means the same, so nothing is served, and the rows are those of the new range."""

    async def story(town: Town) -> None:
        _, second = await two_versions(town, {"range: [0, 100]": "range: [0, 99]", **OLD})
        study, _ = town.signed(study_of("grows", 2, {"range: [0, 100]": "range: [0, 99]", **OLD}))
        (opening,) = openings(town, study)
        assert opening.earlier == b""
        assert opening.survivors == ()
        check_pooled(second, range(5))

    play(tmp_path, story)
