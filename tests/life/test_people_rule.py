"""The people rule at nodes: which follow-ups a site that sets ``set_difference`` answers, through the whole product.

Sites 3 and 4 (32 and 64 people) set k = 5; the others declared their data public without a rule.
"""

from collections.abc import Callable
from pathlib import Path

import pytest

from cohortsum.node.ledger import Ledger
from cohortsum.report.document import ResultDocument
from cohortsum.study.definition import FrozenStudy
from tests.admin import desk
from tests.edges.harness import STUDY
from tests.edges.oracle import people_of
from tests.life.test_recovery import lose, recover
from tests.life.test_studies import people, play
from tests.life.town import EPOCH, Town, study_of

RULED = (3, 4)
BANDS = next(line for line in STUDY.splitlines() if "bands:" in line) + "\n"
PLAIN = {BANDS: ""}
MORE = PLAIN | {
    "outcomes: [thick]": "outcomes: [thick, thin]",
    "  thick: {unit: mm, range: [0, 5]}": "  thick: {unit: mm, range: [0, 5]}\n  thin: {unit: mm, range: [0, 5]}",
}


def rule(town: Town) -> None:
    for index in RULED:
        path = town.folder(index) / "policy.yaml"
        path.write_text(path.read_text() + "\nthresholds: {set_difference: 5}\n")


def rewrite(
    town: Town, index: int, change: Callable[[list[str]], list[str]], epoch: str | None = None
) -> None:
    """Change the lines of a site's table, the first being its header, and take a snapshot of it."""
    path = town.folder(index) / "people.csv"
    path.write_text("\n".join(change(path.read_text().splitlines())) + "\n")
    if epoch is not None:
        desk.ok("node", "snapshot", town.folder(index), "--epoch", epoch)


def with_thin(lacking: int) -> Callable[[list[str]], list[str]]:
    """Add an outcome that the first people lack."""

    def change(lines: list[str]) -> list[str]:
        values = [f"{line},{'' if row < lacking else 2.5}" for row, line in enumerate(lines[1:])]
        return [f"{lines[0]},thin", *values]

    return change


def with_people(new: int) -> Callable[[list[str]], list[str]]:
    """Add people, alternating between the levels of dx."""

    def change(lines: list[str]) -> list[str]:
        return [*lines, *(f"new-{row},{('control', 'case')[row % 2]},41,2.5" for row in range(new))]

    return change


def n_of(document: ResultDocument, outcome: str) -> set[int]:
    table = next(block.table() for block in document.tables if block.analysis == "thickness")
    place = {name: table.columns.index(name) for name in ("outcome", "n")}
    return {int(str(row[place["n"]])) for row in table.rows if row[place["outcome"]] == outcome}


async def whole(town: Town, study: FrozenStudy) -> ResultDocument:
    for index in range(town.count):
        town.decide(index, study)
    return await town.result(study)


def test_a_new_outcome_whose_people_differ_by_a_few_from_answered_ones_is_not_supplied(
    tmp_path: Path,
) -> None:
    """At site 3 two people lack it, at site 4 twelve do, six of each level: 4 supplies it, 3 does not, and both answer everything else."""

    async def story(town: Town) -> None:
        rule(town)
        for index, lacking in enumerate((0, 0, 0, 2, 12)):
            (town.folder(index) / "ledger.db").unlink()
            rewrite(town, index, with_thin(lacking), EPOCH)
        town.start_nodes()
        first = await whole(town, await town.submit(study_of("grows", 1, PLAIN)))
        assert people(first) == people_of(range(5))
        second = await whole(town, await town.submit(study_of("grows", 2, MORE)))
        assert n_of(second, "thick") == {people_of(range(5))}
        assert n_of(second, "thin") == {people_of((0, 1, 2, 4)) - 12}

    play(tmp_path, story)


@pytest.mark.parametrize(("new", "answers"), [(3, False), (12, True)])
def test_next_year_a_site_answers_if_enough_people_have_come(tmp_path: Path, new: int, answers: bool) -> None:
    """Half of them at each level of dx: six at a level are enough, too."""

    async def story(town: Town) -> None:
        rule(town)
        town.start_nodes()
        await whole(town, await town.submit(study_of("yearly", 1, PLAIN)))
        for index in range(town.count):
            rewrite(town, index, with_people(new if index == 4 else 0), "2027-11")
        study = await town.submit(study_of("yearly", 2, PLAIN | {"epoch: 2026-11": "epoch: 2027-11"}))
        document = await whole(town, study)
        sites = document.sites.survivors
        assert ("site4" in sites) is answers
        assert people(document) == people_of(range(4)) + (people_of((4,)) + new if answers else 0)

    play(tmp_path, story)


def test_after_a_withdrawal_the_epoch_is_closed_and_the_next_waits_for_enough_changes(tmp_path: Path) -> None:
    """Site 3 loses one person: its old set may not be answered for, its new one is too near; the others go on."""

    async def story(town: Town) -> None:
        rule(town)
        town.start_nodes()
        await whole(town, await town.submit(study_of("first", 1, PLAIN)))
        gone = (town.folder(3) / "people.csv").read_text().splitlines()[1].split(",")[0]
        (town.home / "gone.txt").write_text(f"{gone}\n")
        desk.ok("node", "withdraw", town.folder(3), "--ids", town.home / "gone.txt")

        again = await town.submit(study_of("again", 1, PLAIN))
        town.decide(3, again)
        await town.hears(3, again, "stays out")
        line = town.line(3, again)
        assert line is not None
        assert "closed on 20" in line.reason
        assert "consent was withdrawn" in line.reason
        assert "make a snapshot with a new label" in line.reason
        assert town.hub.running(again.digest).enrolment.answers[3] is False  # and nothing but that

        for index in range(town.count):
            desk.ok("node", "snapshot", town.folder(index), "--epoch", "2026-12")
        new = await town.submit(study_of("new", 1, PLAIN | {"epoch: 2026-11": "epoch: 2026-12"}))
        document = await whole(town, new)
        assert document.sites.survivors == ("site0", "site1", "site2", "site4")
        line = town.line(3, new)
        assert line is not None
        assert "fewer than 5" in line.reason or line.here == "over"

    play(tmp_path, story)


def test_the_same_people_may_be_asked_again_by_another_study(tmp_path: Path) -> None:
    async def story(town: Town) -> None:
        rule(town)
        town.start_nodes()
        for name in ("one", "two"):
            document = await whole(town, await town.submit(study_of(name, 1, PLAIN)))
            assert people(document) == people_of(range(5))
        ledger = Ledger(town.folder(4) / "ledger.db")
        assert len(ledger.history(4).recorded()) == 3  # everybody, and the two levels of dx
        ledger.close()

    play(tmp_path, story)


def test_a_rebuilt_ledger_still_knows_whom_it_answered_for(tmp_path: Path) -> None:
    """Site 4 loses its ledger; after recovery three new people are still too few."""

    async def story(town: Town) -> None:
        rule(town)
        town.start_nodes()
        await whole(town, await town.submit(study_of("yearly", 1, PLAIN)))
        await town.stop_node(4)
        before = recorded(town, 4)
        lose(town, 4)
        await recover(town, 4)
        assert recorded(town, 4) == before
        for index in range(town.count):
            rewrite(town, index, with_people(3 if index == 4 else 0), "2027-11")
        town.start_nodes((4,))
        study = await town.submit(study_of("yearly", 2, PLAIN | {"epoch: 2026-11": "epoch: 2027-11"}))
        town.decide(4, study)
        await town.hears(4, study, "stays out")
        line = town.line(4, study)
        assert line is not None
        assert "fewer than 5" in line.reason

    play(tmp_path, story)


def test_a_ledger_rebuilt_without_the_data_answers_nothing_under_the_rule(tmp_path: Path) -> None:
    async def story(town: Town) -> None:
        rule(town)
        town.start_nodes()
        await whole(town, await town.submit(study_of("yearly", 1, PLAIN)))
        await town.stop_node(4)
        lose(town, 4)
        for index in range(town.count):
            rewrite(town, index, with_people(40 if index == 4 else 0), "2027-11")
        await recover(town, 4)
        town.start_nodes((4,))
        study = await town.submit(study_of("yearly", 2, PLAIN | {"epoch: 2026-11": "epoch: 2027-11"}))
        town.decide(4, study)
        await town.hears(4, study, "stays out")
        line = town.line(4, study)
        assert line is not None
        assert "does not know any more whom this site answered for" in line.reason

    play(tmp_path, story)


def recorded(town: Town, index: int) -> list[int]:
    """Return the sizes of the people sets that a site's ledger holds; the codes may have another key."""
    ledger = Ledger(town.folder(index) / "ledger.db")
    sizes = sorted(map(len, ledger.history(index).recorded()))
    ledger.close()
    return sizes
