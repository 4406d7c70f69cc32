"""Protected sites through the whole product: opened once, together or not at all.

Sites 3 to 6 are protected, three of them must appear together (h_min + c = 3); sites 0 to 2 are derivable.
"""

from pathlib import Path

from tests.edges.oracle import people_of
from tests.life.test_people_rule import PLAIN, rewrite, whole
from tests.life.test_studies import people, play
from tests.life.town import EPOCH, Town, study_of

SITES = 7
PROTECTED = range(3, SITES)


def protect(town: Town) -> None:
    for index in PROTECTED:
        path = town.folder(index) / "policy.yaml"
        path.write_text(path.read_text() + "\nthresholds: {site_totals: protected}\n")


def reason(town: Town, index: int, study: object) -> str:
    line = town.line(index, study)  # type: ignore[arg-type]
    assert line is not None
    return line.reason


def test_they_are_opened_once_and_the_next_study_goes_on_without_them(tmp_path: Path) -> None:
    async def story(town: Town) -> None:
        protect(town)
        town.start_nodes()
        first = await whole(town, await town.submit(study_of("first", 1, PLAIN)))
        assert people(first) == people_of(range(SITES))
        study = await town.submit(study_of("second", 1, PLAIN))
        for index in PROTECTED:
            town.decide(index, study)
            await town.hears(index, study, "stays out")
            assert "this protected site was opened" in reason(town, index, study)
        for index in range(3):
            town.decide(index, study)
        second = await town.result(study)
        assert people(second) == people_of(range(3))

    play(tmp_path, story, SITES)


def test_too_few_of_them_are_left_out_and_may_come_another_time(tmp_path: Path) -> None:
    async def story(town: Town) -> None:
        protect(town)
        town.start_nodes()
        study = await town.submit(study_of("first", 1, PLAIN))
        for index in range(SITES):
            town.decide(index, study, approved=index < 5)
        assert people(await town.result(study)) == people_of(range(3))
        again = await whole(town, await town.submit(study_of("again", 1, PLAIN)))
        assert people(again) == people_of(range(SITES))

    play(tmp_path, story, SITES)


def test_one_with_a_missing_value_stays_out_and_says_why_at_home(tmp_path: Path) -> None:
    """Its people sets overlap in another way than everybody's: a difference would be about it alone."""

    def without_a_value(lines: list[str]) -> list[str]:
        head, first, *others = lines
        return [head, first.rpartition(",")[0] + ",", *others]

    async def story(town: Town) -> None:
        protect(town)
        (town.folder(4) / "ledger.db").unlink()
        rewrite(town, 4, without_a_value, EPOCH)
        town.start_nodes()
        study = await town.submit(study_of("first", 1, PLAIN))
        town.decide(4, study)
        await town.hears(4, study, "stays out")
        assert "overlap in another way" in reason(town, 4, study)
        for index in set(range(SITES)) - {4}:
            town.decide(index, study)
        assert people(await town.result(study)) == people_of(set(range(SITES)) - {4})

    play(tmp_path, story, SITES)


def test_what_a_site_is_stays_fixed(tmp_path: Path) -> None:
    async def story(town: Town) -> None:
        protect(town)
        town.start_nodes()
        await whole(town, await town.submit(study_of("first", 1, PLAIN)))
        path = town.folder(5) / "policy.yaml"
        path.write_text(path.read_text().replace("site_totals: protected", "site_totals: derivable"))
        study = await town.submit(study_of("second", 1, PLAIN))
        town.decide(5, study)
        await town.hears(5, study, "stays out")
        assert "has been protected since" in reason(town, 5, study)

    play(tmp_path, story, SITES)
