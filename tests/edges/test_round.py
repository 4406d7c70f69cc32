"""Whole studies over gRPC: the result is that of the pooled rows of the survivors, or there is none."""

import asyncio
import shutil
from pathlib import Path

import pytest
from sqlalchemy import func, select

from cohortsum.coordinator.runner import Outcome
from cohortsum.coordinator.store import MessageRow, RoundRow, Store, StudyRow, sqlite_url
from cohortsum.protocol.bounds import threshold
from cohortsum.report.document import from_json
from tests.edges.harness import Loopback, study_with
from tests.edges.oracle import check_pooled, people_of

STEP = study_with(step="2s")


def played(folder: Path, sites: int, study: str, leavers: dict[int, str], gather_s: float = 3) -> Outcome:
    """Run a study whose leavers vanish as soon as the coordinator has taken something of them."""

    async def play() -> Outcome:
        async with Loopback(folder, sites, study, gather_s=gather_s) as town:
            for index, what in leavers.items():
                town.leave_after(f"site{index}", what)
            outcome = await town.run()
            assert all(town.tasks[f"site{index}"].cancelled() for index in leavers)
            return outcome

    return asyncio.run(play())


def attempts(folder: Path) -> list[tuple[int, str, str, str]]:
    """Return attempt, state, reason and survivors of every round in the store."""
    store = Store(sqlite_url(folder / "coordinator.db"))
    with store.transaction() as session:
        held = session.scalars(select(RoundRow).order_by(RoundRow.attempt)).all()
        found = [(row.attempt, row.state, row.reason, row.survivors) for row in held]
    store.close()
    return found


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Outcome]:
    """A study in which everybody stays."""
    folder = tmp_path_factory.mktemp("whole")
    return folder, played(folder, 5, study_with(step="20s"), {})


def test_the_result_is_that_of_all_rows_with_nobody_counted_twice(whole: tuple[Path, Outcome]) -> None:
    document = whole[1].document
    assert document is not None
    check_pooled(document, range(5))
    assert document.sites.survivors == tuple(f"site{index}" for index in range(5))
    assert document.sites.dropouts == ()


def test_summary_histogram_and_regression_take_one_round(whole: tuple[Path, Outcome]) -> None:
    assert attempts(whole[0]) == [(1, "opened", "", "site0,site1,site2,site3,site4")]


def test_every_message_of_a_site_is_stored_once(whole: tuple[Path, Outcome]) -> None:
    store = Store(sqlite_url(whole[0] / "coordinator.db"))
    with store.transaction() as session:
        counted = session.execute(
            select(
                MessageRow.kind, func.count(MessageRow.sender), func.count(MessageRow.sender.distinct())
            ).group_by(MessageRow.kind)
        )
        kinds = {kind: (number, senders) for kind, number, senders in counted}
        (state,) = session.scalars(select(StudyRow.state))
    store.close()
    assert all(number == senders for number, senders in kinds.values())
    for step in ("ADVERT", "SHARES", "MASKED", "CONSISTENCY"):
        assert kinds[step] == (5, 5)
    for step in (
        "GATE_SHARES",
        "DATA_SHARES",
    ):  # a threshold is enough; a later answer may find the round closed
        assert kinds[step][0] >= threshold(5)
    assert state == "released"


def test_the_released_file_the_stored_row_and_the_outcome_are_one_document(
    whole: tuple[Path, Outcome],
) -> None:
    folder, outcome = whole
    assert outcome.document is not None
    written = (folder / "results" / "result.json").read_bytes()
    store = Store(sqlite_url(folder / "coordinator.db"))
    stored = store.result(outcome.document.study.digest)
    store.close()
    assert written == stored
    assert from_json(written) == outcome.document


def test_nothing_of_the_uploads_is_left_on_disk(whole: tuple[Path, Outcome]) -> None:
    assert list((whole[0] / "spool").iterdir()) == []


@pytest.mark.parametrize(
    ("leavers", "counted"),
    [
        ({1: "SHARES", 2: "UPLOAD"}, {0, 2, 3, 4, 5, 6}),
        ({6: "ADVERT", 5: "MASKED"}, {0, 1, 2, 3, 4}),
        ({4: "CONSISTENCY", 3: "GATE_SHARES"}, {0, 1, 2, 3, 4, 5, 6}),
    ],
    ids=["after shares and after upload", "after advert and before upload", "while opening"],
)
def test_the_result_is_that_of_the_survivors(
    tmp_path: Path, leavers: dict[int, str], counted: set[int]
) -> None:
    outcome = played(tmp_path, 7, STEP, leavers)
    assert outcome.document is not None, outcome.reason
    assert outcome.document.sites.survivors == tuple(f"site{index}" for index in sorted(counted))
    assert sum(row_n for row_n in counts(outcome)) == people_of(counted)
    check_pooled(outcome.document, sorted(counted))


def counts(outcome: Outcome) -> list[int]:
    assert outcome.document is not None
    table = next(block.table() for block in outcome.document.tables if block.analysis == "ages")
    place = table.columns.index("n")
    return [int(str(row[place])) for row in table.rows]


TOO_FEW = "4 sites sent their masked vectors, 5 are required"


def test_too_few_masked_vectors_give_no_result_no_files_and_a_public_reason(tmp_path: Path) -> None:
    five = STEP.replace("min_sites: 3", "min_sites: 5")
    outcome = played(tmp_path, 7, five, dict.fromkeys((1, 2, 3), "SHARES"))
    assert outcome == Outcome(None, "4 sites are present, 5 are required")
    assert attempts(tmp_path) == [(1, "aborted", TOO_FEW, "")]
    assert not (tmp_path / "results").exists()
    assert list((tmp_path / "spool").iterdir()) == []


@pytest.mark.parametrize("what", ["SHARES", "UPLOAD"])
def test_an_attempt_that_the_sites_bury_binds_nobody_and_the_others_go_on(tmp_path: Path, what: str) -> None:
    """Four of seven are left, one fewer than the threshold: they sign tombstones, and a round of four opens."""
    outcome = played(tmp_path, 7, STEP, dict.fromkeys((1, 2, 3), what))
    assert outcome.document is not None, outcome.reason
    check_pooled(outcome.document, (0, 4, 5, 6))
    assert [(number, state, survivors) for number, state, _, survivors in attempts(tmp_path)] == [
        (1, "aborted", ""),
        (2, "opened", "site0,site4,site5,site6"),
    ]


def test_an_attempt_in_which_nobody_dealt_is_free_and_the_next_one_follows(tmp_path: Path) -> None:
    """Three of five adverts are late: with two sites there is no round. Nobody has anything to bury."""

    async def play() -> Outcome:
        async with Loopback(tmp_path, 5, STEP) as town:
            holds = [town.hold(f"site{index}", "ADVERT") for index in (1, 2, 3)]
            ending = town.start()
            while [state for _, state, _, _ in attempts(tmp_path)] != ["aborted"]:
                await asyncio.sleep(0.05)
            for held in holds:
                held.released.set()
            async with asyncio.timeout(30):
                return await ending

    outcome = asyncio.run(play())
    assert outcome.document is not None, outcome.reason
    check_pooled(outcome.document, range(5))
    assert [(number, state) for number, state, _, _ in attempts(tmp_path)] == [(1, "aborted"), (2, "opened")]


def test_survivors_whose_gate_shares_are_out_bind_a_retry_and_without_them_there_is_none(
    tmp_path: Path,
) -> None:
    outcome = played(tmp_path, 7, STEP, dict.fromkeys((1, 2, 3), "GATE_SHARES"))
    everybody = ",".join(f"site{index}" for index in range(7))
    assert outcome.document is None
    assert outcome.reason == "a retry needs every survivor, and absent is site1,site2,site3"
    assert [(number, state, survivors) for number, state, _, survivors in attempts(tmp_path)] == [
        (1, "aborted", everybody)
    ]
    assert not (tmp_path / "results").exists()


@pytest.mark.parametrize("what", ["UPLOAD", "GATE_SHARES"])
def test_sites_that_come_back_take_part_in_the_retry_and_count_once(tmp_path: Path, what: str) -> None:
    async def play() -> Outcome:
        async with Loopback(tmp_path, 7, STEP) as town:
            for index in (1, 2, 3):
                town.leave_after(f"site{index}", what)
            ending = town.start()
            await town.until(lambda: all(town.times(what, f"site{index}") for index in (1, 2, 3)))
            await asyncio.gather(*(town.tasks[f"site{index}"] for index in (1, 2, 3)), return_exceptions=True)
            for index in (1, 2, 3):
                town.join(index)
            async with asyncio.timeout(30):
                return await ending

    outcome = asyncio.run(play())
    assert outcome.document is not None, outcome.reason
    assert outcome.document.round.attempt == 2
    check_pooled(outcome.document, range(7))
    assert [state for _, state, _, _ in attempts(tmp_path)] == ["aborted", "opened"]


def test_a_restarted_coordinator_keeps_to_the_named_survivors_and_then_to_the_result(tmp_path: Path) -> None:
    """Seven survivors were named and three of them left; after a restart with all seven the same set opens."""
    assert played(tmp_path, 7, STEP, dict.fromkeys((1, 2, 3), "GATE_SHARES")).document is None

    async def again() -> Outcome:
        async with Loopback(tmp_path, 7, STEP) as town:
            return await town.run()

    outcome = asyncio.run(again())
    assert outcome.document is not None, outcome.reason
    check_pooled(outcome.document, range(7))
    everybody = ",".join(f"site{index}" for index in range(7))
    assert [(number, state, survivors) for number, state, _, survivors in attempts(tmp_path)] == [
        (1, "aborted", everybody),
        (2, "opened", everybody),
    ]
    assert asyncio.run(again()) == outcome
    assert len(attempts(tmp_path)) == 2


def test_a_coordinator_that_stopped_between_result_and_files_writes_them_without_asking_any_site(
    tmp_path: Path,
) -> None:
    outcome = played(tmp_path, 5, STEP, {})
    assert outcome.document is not None, outcome.reason
    written = (tmp_path / "results" / "result.json").read_bytes()
    shutil.rmtree(tmp_path / "results")

    async def alone() -> Outcome:
        async with Loopback(tmp_path, 5, STEP) as town:
            return await town.run(nodes=())

    assert asyncio.run(alone()) == outcome
    assert (tmp_path / "results" / "result.json").read_bytes() == written
