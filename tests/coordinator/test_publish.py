"""From an opened sum to files: the document names who took part, and a reader never sees half a release."""

from functools import partial
from pathlib import Path

import numpy as np
import pytest

from cohortsum.coordinator.items import first_items, with_items
from cohortsum.coordinator.publish import result_document, write_release
from cohortsum.coordinator.record import OpenedIteration
from cohortsum.protocol.context import RoundKey
from cohortsum.protocol.coordinator_states import Opened
from cohortsum.report import forest
from cohortsum.report.document import ResultDocument, from_json, release_words
from cohortsum.study.batch import Batch
from cohortsum.study.disclosure.gate import cohort_gate
from cohortsum.study.disclosure.verdict import Regime
from cohortsum.study.planning import StudyPlan, by_block, plan_study
from tests.edges.harness import People, pinned_roster, signed_study, study_with
from tests.edges.oracle import check_pooled

ROSTER = pinned_roster(5)
KEY = RoundKey(bytes(range(16)), 1, 2)
SURVIVORS = (0, 1, 3, 4)


def plan_of(text: str) -> StudyPlan:
    return plan_study(signed_study(text)[0], ROSTER)


def batch_of(index: int) -> Batch:
    people = People.of(index)
    return Batch(
        len(people.dx), {"age": people.age, "thick": people.thick}, {"dx": people.dx.astype(np.int16)}
    )


NAMES = {index: str(site) for site, index in ROSTER.sites.items()}


def site(index: int) -> list[Batch]:
    return [batch_of(index)]


def opened(plan: StudyPlan) -> Opened:
    """Return the plain sum over the survivors, as a round opens it; site 2 took part and dropped out."""
    blocks, supplied = plan.round.blocks, frozenset(plan.round.items)
    given = [plan.contribution(partial(site, index), blocks, supplied) for index in SURVIVORS]
    values = np.sum([values for _, values in given], axis=0)
    return Opened((0, 1, 2, 3, 4), SURVIVORS, sum(people for people, _ in given), blocks, values)


def document_of(plan: StudyPlan) -> ResultDocument:
    state = opened(plan)
    sums = by_block(state.blocks, state.values)
    opened_round = OpenedIteration(bytes(32), KEY, state.advertised, state.survivors, sums)
    regime = Regime("open_data")
    tables = plan.finish(sums)
    items = first_items(plan.study, tables, cohort_gate(plan, tables, sums, regime))
    return with_items(result_document(plan, ROSTER, [opened_round], regime, names=NAMES), items)


@pytest.fixture(scope="module")
def document() -> ResultDocument:
    plan = plan_of(study_with())
    return document_of(plan)


@pytest.fixture(scope="module")
def with_effect() -> ResultDocument:
    """Cohen's d of the factor is asked for."""
    plan = plan_of(study_with().replace("terms: [dx, age]", "terms: [dx, age], report: {effect: dx}"))
    return document_of(plan)


def names(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


def test_the_document_holds_the_pooled_numbers_of_the_survivors(document: ResultDocument) -> None:
    check_pooled(document, SURVIVORS)


def test_the_document_names_participants_survivors_dropouts_round_and_release(
    document: ResultDocument,
) -> None:
    assert document.sites.took_part == ("site0", "site1", "site2", "site3", "site4")
    assert document.sites.survivors == ("site0", "site1", "site3", "site4")
    assert document.sites.dropouts == ("site2",)
    assert (document.round.id, document.round.attempt) == (KEY.round_id.hex(), 2)
    assert [(item.item, item.state, item.signatures) for item in document.release] == [
        (name, "released", ()) for name in ("ages", "bands", "thickness")
    ]
    assert release_words(document) == "released, no checker"
    assert (document.profile, document.noise) == ("open_data", "none")
    assert document.roster.digest == ROSTER.digest.hex()
    assert document.roster.consortium == ROSTER.consortium
    assert document.study.digest == signed_study()[0].digest.hex()


def test_a_release_holds_the_document_and_a_table_per_analysis(
    tmp_path: Path, document: ResultDocument
) -> None:
    write_release(tmp_path / "out" / "results", document)
    written = names(tmp_path / "out" / "results")
    assert {"result.json", "results/ages.csv", "results/bands.csv", "results/thickness.csv"} <= written
    assert from_json((tmp_path / "out" / "results" / "result.json").read_bytes()) == document
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["results"]


def test_an_effect_that_is_asked_for_gets_a_figure_and_an_enigma_table(
    tmp_path: Path, with_effect: ResultDocument
) -> None:
    write_release(tmp_path / "results", with_effect)
    assert names(tmp_path / "results") == {
        "result.json",
        "report.html",
        "METHODS.md",
        "CITATION.cff",
        "read.R",
        "results/ages.csv",
        "results/bands.csv",
        "results/thickness.csv",
        "results/thickness.enigma.csv",
        "figures/bands.svg",
        "figures/thickness.svg",
        "figures/thickness.png",
    }
    assert (tmp_path / "results" / "figures" / "thickness.png").read_bytes().startswith(b"\x89PNG")


def test_tables_are_utf_8_with_unix_line_ends(tmp_path: Path, document: ResultDocument) -> None:
    write_release(tmp_path / "results", document)
    for path in (tmp_path / "results" / "results").iterdir():
        assert b"\r" not in path.read_bytes()
        assert len(path.read_text(encoding="utf-8").splitlines()) > 1


def test_an_earlier_release_is_replaced_as_a_whole(tmp_path: Path, document: ResultDocument) -> None:
    folder = tmp_path / "results"
    folder.mkdir()
    (folder / "old.csv").write_text("old")
    write_release(folder, document)
    assert "old.csv" not in names(folder)
    assert "result.json" in names(folder)


def test_a_draft_that_a_crash_left_behind_does_not_get_into_a_release(
    tmp_path: Path, document: ResultDocument
) -> None:
    draft = tmp_path / ".results.draft"
    draft.mkdir()
    (draft / "half.csv").write_text("half")
    write_release(tmp_path / "results", document)
    assert "half.csv" not in names(tmp_path / "results")
    assert not draft.exists()


def test_a_release_that_fails_leaves_the_earlier_one_untouched(
    tmp_path: Path, with_effect: ResultDocument, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "results"
    folder.mkdir()
    (folder / "old.csv").write_text("old")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(forest, "draw_forest", full)
    with pytest.raises(OSError, match="No space left"):
        write_release(folder, with_effect)
    assert names(folder) == {"old.csv"}
