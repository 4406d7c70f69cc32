"""Decisions from the store: every step across a restart, what each party may see, remedies, replays, crashes, the audit log."""

import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import select, update

from cohortsum.coordinator import recompute, review, taking
from cohortsum.coordinator.store import DecisionRow, ItemRow, ResultRow, ReviewRow, StudyRow
from cohortsum.crypto.errors import AuthenticationError, RefusedError, StoreError
from cohortsum.protocol.audit import DeedKind
from cohortsum.report.document import from_json
from cohortsum.report.item_file import item_from_json, item_to_json, queue_item
from cohortsum.study.definition import FrozenStudy
from cohortsum.study.disclosure.crosstabs import Earlier
from cohortsum.study.disclosure.gate import cohort_gate
from cohortsum.study.disclosure.verdict import Gated, Regime
from cohortsum.study.planning import StudyPlan, Sums
from cohortsum.study.release.checklist import HUMAN
from cohortsum.study.release.decision import Act, Decision
from cohortsum.study.results import Table
from tests.edges.harness import signed_study
from tests.edges.oracle import check_pooled
from tests.protocol.consortium import identity_key
from tests.release.world import AT, COARSER, ITEMS, SURVIVORS, World, asking, play

STUDY = signed_study(asking())[0]
QUEUED = dict.fromkeys(ITEMS, "queue")


async def begin(world: World) -> None:
    world.over(asking())


def test_a_restart_between_every_two_steps_loses_nothing(tmp_path: Path) -> None:
    async def checker(world: World) -> None:
        assert world.states(STUDY) == QUEUED
        for item in ITEMS:
            await world.decide("chk1", STUDY, item, Act.RELEASE)
        assert world.written(STUDY).tables == ()

    async def site(world: World) -> None:
        assert world.states(STUDY) == QUEUED
        lines = world.hub.review.lines(STUDY.digest, world.identity("chk1")).items
        assert {line.missing for line in lines} == {("the signature of a site",)}
        for item in ITEMS[:2]:
            await world.decide("site3", STUDY, item, Act.RELEASE)
        assert world.hub.status(STUDY.digest).state == "in review"
        assert [block.analysis for block in world.written(STUDY).tables] == ["ages", "bands"]

    async def last(world: World) -> None:
        assert world.states(STUDY) == {"ages": "released", "bands": "released", "thickness": "queue"}
        await world.decide("site0", STUDY, "thickness", Act.RELEASE)
        assert world.hub.status(STUDY.digest).state == "released"
        check_pooled(world.written(STUDY), SURVIVORS)

    async def retract(world: World) -> None:
        await world.decide("chk2", STUDY, "ages", Act.RETRACT)
        assert from_json(world.hub.document(STUDY.digest, "statistician")) == world.written(STUDY)
        assert [block.analysis for block in world.written(STUDY).tables] == ["bands", "thickness"]

    async def after(world: World) -> None:
        assert world.states(STUDY) == {"ages": "retracted", "bands": "released", "thickness": "released"}
        with pytest.raises(RefusedError, match="ages is retracted; retract is for an item that is released"):
            await world.decide("site1", STUDY, "ages", Act.RETRACT)
        assert world.hub.status(STUDY.digest).state == "released"
        item = [deed.kind for deed in world.deeds() if deed.detail == "ages"]
        assert item == [DeedKind.ITEM_QUEUED, DeedKind.ITEM_RELEASED, DeedKind.ITEM_RETRACTED]
        decided = [(deed.by, deed.detail) for deed in world.deeds() if deed.kind is DeedKind.ITEM_DECIDED]
        assert decided == [
            *[("chk1", "release")] * 3,
            *[("site3", "release")] * 2,
            ("site0", "release"),
            ("chk2", "retract"),
        ]
        with world.store.transaction() as session:
            signed = session.scalars(select(DecisionRow.signature)).all()
        assert len(signed) == len(set(signed)) == 7

    play(tmp_path, begin, checker, site, last, retract, after)


def test_who_may_see_values_and_who_only_states(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        study, desk = world.over(asking()), world.hub.review
        for name in ("chk1", "chk2", "site0", "site1", "site3", "aud1"):
            reader = world.identity(name)
            file = desk.file(study.digest, "ages", reader)
            assert item_from_json(item_to_json(file), study.digest, "ages") == file
            assert all(line.digest for line in desk.lines(study.digest, reader).items)
        # a statistician, a site that dropped out, a checker under another key
        stranger = replace(world.identity("chk1"), key=identity_key("somebody").public)
        for reader in (
            world.identity("statistician"),
            world.identity("stat2"),
            world.identity("site2"),
            stranger,
        ):
            with pytest.raises(AuthenticationError):
                desk.file(study.digest, "ages", reader)
            lines = desk.lines(study.digest, reader).items
            assert [(line.item, line.state, line.digest) for line in lines] == [
                (name, "queue", b"") for name in ITEMS
            ]
        with pytest.raises(RefusedError, match="in review; nothing of it is released yet"):
            world.hub.document(study.digest, "statistician")
        read = [(deed.by, deed.detail) for deed in world.deeds() if deed.kind is DeedKind.ITEM_READ]
        assert read == [(name, "ages") for name in ("chk1", "chk2", "site0", "site1", "site3", "aud1")]

    play(tmp_path, story)


def test_what_was_refused_changes_nothing(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        study = world.over(asking())
        before = (world.states(study), world.deeds())
        made = world.decision("chk1", study, "ages", Act.RELEASE)
        for forged in (
            replace(made, signature=bytes(64)),
            replace(made, by="chk2"),
            replace(made, digest=b"x" * 32).sign(identity_key("chk1")),
            replace(made, item="elsewhere").sign(identity_key("chk1")),
            replace(made, study=b"x" * 32).sign(identity_key("chk1")),
            replace(made, by="statistician").sign(identity_key("statistician")),
            replace(made, by="stat2").sign(identity_key("stat2")),
            replace(made, by="aud1").sign(identity_key("aud1")),
            replace(made, by="site2").sign(identity_key("site2")),
            replace(made, confirmed=HUMAN[1:]).sign(identity_key("chk1")),
        ):
            with pytest.raises((AuthenticationError, RefusedError)):
                await world.hub.decide(forged)
        world.denied.append("chk1")
        with pytest.raises(RefusedError, match="'chk1' does not decide"):
            await world.hub.decide(made)
        assert (world.states(study), world.deeds()) == before
        world.denied.clear()
        await world.hub.decide(made)
        after = world.deeds()
        await world.hub.decide(made)  # the very same one again
        assert world.deeds() == after
        with pytest.raises(RefusedError, match="a person counts once"):
            await world.hub.decide(replace(made, reason="again").sign(identity_key("chk1")))

    play(tmp_path, story)


def test_a_checker_who_is_denied_after_signing_does_not_count(tmp_path: Path) -> None:
    async def sign(world: World) -> None:
        await world.decide("chk1", STUDY, "ages", Act.RELEASE)

    async def deny(world: World) -> None:
        world.denied.append("chk1")
        await world.decide("site0", STUDY, "ages", Act.RELEASE)
        assert world.states(STUDY)["ages"] == "queue"
        await world.decide("chk2", STUDY, "ages", Act.RELEASE)
        assert world.states(STUDY)["ages"] == "released"

    play(tmp_path, begin, sign, deny)


def test_a_returned_table_comes_back_coarser_from_stored_sums_and_old_signatures_are_void(
    tmp_path: Path,
) -> None:
    kept = list[Decision]()

    async def sign(world: World) -> None:
        kept.append(await world.decide("chk1", STUDY, "bands", Act.RELEASE))
        kept.append(world.decision("site0", STUDY, "bands", Act.RELEASE))  # signed, and not handed in yet

    async def give_back(world: World) -> None:
        before = world.hub.review.file(STUDY.digest, "bands", world.identity("chk2"))
        await world.decide("chk2", STUDY, "bands", Act.RETURN, COARSER)
        assert world.states(STUDY) == QUEUED
        file = world.hub.review.file(STUDY.digest, "bands", world.identity("chk2"))
        assert file.digest != before.digest
        assert file.signatures == ()
        old, new = before.table.table(), file.table.table()
        count = old.columns.index("count")
        assert [row[new.columns.index("count")] for row in new.rows] == [
            int(str(old.rows[place][count])) + int(str(old.rows[place + 1][count])) for place in (0, 2)
        ]
        assert {change.since for change in queue_item(file).changes} == {"turn 1, returned"}

    async def replay(world: World) -> None:
        for made in kept:
            with pytest.raises(RefusedError, match="other content than the item has now"):
                await world.hub.decide(made)
        assert world.states(STUDY) == QUEUED
        for by in ("chk1", "site0"):
            await world.decide(by, STUDY, "bands", Act.RELEASE)
        (block,) = world.written(STUDY).tables
        assert (block.analysis, len(block.rows)) == ("bands", 2)
        kinds = [deed.kind for deed in world.deeds() if deed.detail == "bands"]
        assert (
            kinds
            == [
                DeedKind.ITEM_QUEUED,
                DeedKind.ITEM_RETURNED,
                DeedKind.ITEM_QUEUED,
                DeedKind.ITEM_READ,
                DeedKind.ITEM_RELEASED,
            ]
            or DeedKind.ITEM_READ in kinds
        )

    play(tmp_path, begin, sign, give_back, replay)


@pytest.mark.parametrize(
    ("remedy", "sentence"),
    [
        ("{", "not JSON"),
        ('{"actions": [{"do": "merge_bins", "variable": "age", "keep_edges": [0, 33, 100]}]}', "33"),
    ],
    ids=["no JSON", "an edge that is not there"],
)
def test_a_remedy_that_does_not_fit_leaves_the_item_in_the_queue(
    tmp_path: Path, remedy: str, sentence: str
) -> None:
    async def story(world: World) -> None:
        study = world.over(asking())
        before = world.deeds()
        with pytest.raises(RefusedError, match=sentence):
            await world.decide("chk1", study, "bands", Act.RETURN, remedy)
        assert (world.states(study), world.deeds()) == (QUEUED, before)

    play(tmp_path, story)


FITTED = asking(1, "none").replace(
    "  thickness:",
    "  halves: {kind: quantiles, variables: [age], probabilities: [0.5], edges: [0, 50, 100], refine: 1}\n"
    "  odds: {kind: glm, family: binomial, outcomes: [dx], event: case, terms: [age, thick]}\n  thickness:",
)


def test_a_study_of_several_rounds_is_computed_again_from_all_of_them(tmp_path: Path) -> None:
    """Every other table comes out as it was, digest by digest: the rounds were followed exactly."""

    async def begin_fit(world: World) -> None:
        study = world.over(FITTED)
        assert world.written(study).round.iterations > 2

    async def give_back(world: World) -> None:
        study = signed_study(FITTED)[0]
        before = world.hub.review.standing(study.digest).items
        await world.decide("chk1", study, "bands", Act.RETURN, COARSER)
        after = world.hub.review.standing(study.digest).items
        assert [held.item.name for held in after] == [held.item.name for held in before]
        assert {
            held.item.name
            for held, old in zip(after, before, strict=True)
            if held.item.digest != old.item.digest
        } == {"bands"}
        assert [held.turn for held in after if held.item.name == "bands"] == [2]
        assert {held.item.state for held in after} == {"queue"}

    play(tmp_path, begin_fit, give_back)


def test_a_table_that_left_is_not_changed_by_the_return_of_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rules see all tables together: what hides a cell of one may have to show in another that has left."""

    def linked(
        plan: StudyPlan, tables: Sequence[Table], sums: Sums, regime: Regime, earlier: Sequence[Earlier]
    ) -> Gated:
        coarse = any(len(table.rows) == 2 for table in tables if table.analysis == "bands")
        notes = ("Rounded with bands.",) if coarse else ()
        return Gated(
            tuple(
                replace(table, notes=(*table.notes, *notes)) if table.analysis == "ages" else table
                for table in tables
            )
        )

    async def story(world: World) -> None:
        study = world.over(asking(1, "none"))
        monkeypatch.setattr(recompute, "cohort_gate", linked)
        before = world.hub.review.standing(study.digest)
        # both wait: both come back
        await world.decide("chk1", study, "bands", Act.RETURN, COARSER)
        after = world.hub.review.standing(study.digest)
        for name, changed in (("ages", True), ("bands", True), ("thickness", False)):
            assert (after.item(name).item.digest != before.item(name).item.digest) is changed
            assert after.item(name).turn == 1 + changed
        assert world.states(study) == QUEUED
        monkeypatch.setattr(recompute, "cohort_gate", cohort_gate)
        # released: the return is refused, and nothing is changed
        await world.decide("chk1", study, "ages", Act.RELEASE)
        deeds = world.deeds()
        three = COARSER.replace("[0, 50, 100]", "[0, 25, 50, 100]")
        with pytest.raises(
            RefusedError, match="ages, which is released, would have to change; retract ages first"
        ):
            await world.decide("chk2", study, "bands", Act.RETURN, three)
        assert world.deeds() == deeds
        assert world.states(study) == {"ages": "released", "bands": "queue", "thickness": "queue"}

    play(tmp_path, story)


def test_a_dropped_table_stays_returned_and_the_study_is_released_without_it(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        study = world.over(asking(1, "none"))
        await world.decide("site1", study, "bands", Act.RETURN, '{"actions": [{"do": "drop_table"}]}')
        await world.decide("site1", study, "ages", Act.WITHHOLD)
        assert world.hub.status(study.digest).state == "in review"
        await world.decide("chk1", study, "thickness", Act.RELEASE)
        assert world.states(study) == {"ages": "withheld", "bands": "returned", "thickness": "released"}
        assert world.hub.status(study.digest).state == "released"
        assert [block.analysis for block in world.written(study).tables] == ["thickness"]
        # of what never left there is a name and a state
        for entry in world.written(study).release:
            assert (entry.digest is None, entry.signatures == ()) == (entry.item != "thickness",) * 2

    play(tmp_path, story)


def test_a_study_of_which_nothing_is_released_ends_so(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        study = world.over(asking())
        for item in ITEMS:
            await world.decide("site1", study, item, Act.WITHHOLD)
        status = world.hub.status(study.digest)
        assert status.state == "ended"
        assert status.reason == "no table is released: all are withheld or were returned"
        assert world.written(study).tables == ()

    play(tmp_path, story)


def test_an_earlier_version_is_compared_cell_by_cell(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        first = world.over(asking(0, "none"))
        assert world.hub.status(first.digest).state == "in review"  # as `over` writes it
        second = world.over(asking(version=2), (0, 1, 2, 3))
        held = queue_item(world.hub.review.file(second.digest, "ages", world.identity("chk1")))
        assert {change.since for change in held.changes} == {"version 1"}
        differs = {(change.row, change.column) for change in held.changes if change.column == "n"}
        assert len(differs) == 2  # both levels of dx have the people of one site more

    play(tmp_path, story)


def test_where_nobody_is_asked_every_table_leaves_at_once_and_can_be_retracted(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        study = world.over(asking(0, "none"))
        assert world.states(study) == dict.fromkeys(ITEMS, "released")
        check_pooled(world.written(study), SURVIVORS)
        with pytest.raises(RefusedError, match="ages is released; release is for"):
            await world.decide("chk1", study, "ages", Act.RELEASE)
        await world.decide("site0", study, "ages", Act.RETRACT)
        assert world.states(study)["ages"] == "retracted"

    play(tmp_path, story)


def test_a_crash_between_store_and_folder_is_made_good_by_the_next_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was retracted must leave the folder, too."""

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    async def release(world: World) -> None:
        for by in ("chk1", "site0"):
            await world.decide(by, STUDY, "ages", Act.RELEASE)
        assert world.written(STUDY).tables != ()
        monkeypatch.setattr(review, "write_release", full)
        made = world.decision("site0", STUDY, "ages", Act.RETRACT)
        with pytest.raises(OSError, match="No space left"):
            await world.hub.decide(made)
        assert world.states(STUDY)["ages"] == "retracted"
        assert world.written(STUDY).tables != ()  # still there, and known to be wrong
        assert from_json(world.hub.document(STUDY.digest, "statistician")).tables == ()

    async def still_full(world: World) -> None:
        assert world.written(STUDY).tables != ()  # the coordinator runs, and has said so in its log
        monkeypatch.undo()

    async def again(world: World) -> None:
        assert world.written(STUDY).tables == ()

    play(tmp_path, begin, release, still_full, again)


def test_a_transaction_that_fails_takes_no_part_of_a_decision(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story(world: World) -> None:
        study = world.over(asking(1, "none"))
        before = (world.states(study), world.deeds(), world.hub.document)

        def broken(*_: object) -> None:
            raise StoreError("the disk is gone")

        monkeypatch.setattr(taking, "with_items", broken)
        with pytest.raises(StoreError):
            await world.decide("chk1", study, "ages", Act.RELEASE)
        monkeypatch.undo()
        assert (world.states(study), world.deeds()) == before[:2]
        with world.store.transaction() as session:
            assert session.scalars(select(DecisionRow)).all() == []
        await world.decide("chk1", study, "ages", Act.RELEASE)
        assert world.states(study)["ages"] == "released"

    play(tmp_path, story)


def test_a_table_that_was_altered_in_the_store_is_not_released(tmp_path: Path) -> None:
    """Signed is a digest: whatever else lies in the database under it never leaves."""

    async def story(world: World) -> None:
        study = world.over(asking(1, "none"))
        made = world.decision("chk1", study, "ages", Act.RELEASE)
        with world.store.transaction() as session:
            row = session.scalars(select(ItemRow).where(ItemRow.name == "ages")).one()
            other = session.scalars(select(ItemRow).where(ItemRow.name == "bands")).one()
            row.content = other.content.replace(b'"bands"', b'"ages"')
        with pytest.raises(StoreError, match="the stored table of ages was altered"):
            await world.hub.decide(made)

    play(tmp_path, story)


def test_a_decision_that_was_written_into_the_store_does_not_count(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        study = world.over(asking(2, "none"))
        made = world.decision("chk1", study, "ages", Act.RELEASE)
        await world.decide("chk2", study, "ages", Act.RELEASE)
        with world.store.transaction() as session:
            row = session.scalars(select(DecisionRow)).one()
            row.reason = "another one"
        with pytest.raises(StoreError, match="a stored decision was altered"):
            await world.hub.decide(made)

    play(tmp_path, story)


def test_a_study_that_was_released_before_there_were_items_stays_as_it_is(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        study = world.over(asking(0, "none"))
        with world.store.transaction() as session:
            for row in session.scalars(select(ItemRow)).all():
                session.delete(row)
            session.delete(session.get_one(ReviewRow, study.digest.hex()))
            session.execute(update(StudyRow).values(state="released"))
        assert from_json(world.hub.document(study.digest, "statistician")).tables
        with pytest.raises(RefusedError, match="there are no items to decide about"):
            world.hub.review.standing(study.digest)

    async def after(world: World) -> None:
        study: FrozenStudy = signed_study(asking(0, "none"))[0]
        shutil.rmtree(world.results)
        assert from_json(world.hub.document(study.digest, "statistician")).tables

    play(tmp_path, story, after)


def test_the_document_in_the_store_is_the_one_in_the_folder(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        study = world.over(asking(1, "none"))
        for item in ITEMS:
            await world.decide("chk1", study, item, Act.RELEASE)
            with world.store.transaction() as session:
                held = session.get_one(ResultRow, study.digest.hex()).document
            assert from_json(held) == world.written(study)
        signature = world.written(study).release[0].signatures[0]
        assert (signature.by, signature.role, signature.act, signature.at) == (
            "chk1",
            "checker",
            "release",
            AT,
        )

    play(tmp_path, story)
