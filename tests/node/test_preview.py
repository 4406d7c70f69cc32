"""A dry run: every rule with its outcome, exactly what a round would send, and nothing sent, written or told."""

import asyncio
import stat
from pathlib import Path

from cohortsum.cli.study_files import read_version
from cohortsum.node.files import read_key
from cohortsum.node.findings import Severity
from cohortsum.node.ledger import Ledger
from cohortsum.node.preview import Preview, preview
from cohortsum.study.definition.signing import sign_study, signed_study_to_json
from tests.admin import desk
from tests.edges.harness import people_at
from tests.life.test_people_rule import PLAIN
from tests.life.town import Town, study_of

SITE = 3


def previewed(home: Path, changes: dict[str, str] | None = None, policy: str = "") -> tuple[Preview, Path]:
    """Return the preview of a study at a site of a town that nobody runs."""

    async def told() -> tuple[Preview, Path]:
        town = Town(home)
        folder = town.folder(SITE)
        path = folder / "policy.yaml"
        path.write_text(path.read_text() + policy)
        _, signed = town.signed(study_of("one", 1, PLAIN | (changes or {})))
        town.pool.shutdown()
        return preview(folder, signed), folder

    return asyncio.run(told())


def outcomes(held: Preview) -> dict[str, Severity]:
    return {finding.name: finding.status for finding in held.findings}


def test_a_study_that_may_run_passes_every_rule_but_the_decision(tmp_path: Path) -> None:
    held, folder = previewed(tmp_path)
    found = outcomes(held)
    assert found.pop("decision") is Severity.WARNING
    assert set(found.values()) == {Severity.OK}
    assert held.people == people_at(SITE)
    ledger = Ledger(folder / "ledger.db")
    assert (ledger.counter(), ledger.epochs.seen_version("one")) == (0, None)
    ledger.close()
    assert not (folder / "studies").exists()


def test_it_shows_the_very_integers_that_would_be_masked(tmp_path: Path) -> None:
    held, _ = previewed(tmp_path)
    blocks = {block.name: block for block in held.leaving}
    assert [block.name for block in held.leaving] == [block.name for block in held.plan.round.blocks]
    assert blocks["people"].values.tolist() == [people_at(SITE)]
    present = {
        name: block.values[0]
        for name, block in blocks.items()
        if name.startswith("ages/") and "people" in name
    }
    assert sum(present.values()) == people_at(SITE)
    smallest = {name: block.people for name, block in blocks.items() if name.startswith("thickness/")}
    assert smallest["thickness/thick/people"] == people_at(SITE)
    assert smallest["thickness/thick/covariates"] == people_at(SITE) // 2  # at one level of dx
    lines = held.to_csv().decode().splitlines()
    assert lines[:2] == ["block,place,supplied,value", f"people,0,yes,{people_at(SITE)}"]
    assert len(lines) == 1 + held.plan.round.length
    assert "array" not in repr(held.leaving)


def test_rules_that_fail_are_all_named_at_once(tmp_path: Path) -> None:
    held, _ = previewed(
        tmp_path,
        {"epoch: 2026-11": "epoch: 2025-01"},
        "\nthresholds: {set_difference: 40, min_participants_per_site: 1000}\nstatistics: [histogram]\n",
    )
    failed = {name for name, status in outcomes(held).items() if status is Severity.FAILURE}
    assert failed == {"policy", "snapshot", "people rule"}


def test_a_table_that_cannot_be_read_is_said_and_the_rest_is_skipped(tmp_path: Path) -> None:
    held, _ = previewed(tmp_path, {"outcomes: [thick], terms: [dx, age]": "outcomes: [thick], terms: [dx, age, size]",
                                   "  thick: {unit": "  size: {unit: mm, range: [0, 5]}\n  thick: {unit"})  # fmt: skip
    found = outcomes(held)
    assert found["tables"] is Severity.FAILURE
    assert found["people"] is Severity.SKIPPED
    assert (held.people, held.leaving) == (None, ())


def test_the_command_writes_the_integers_for_its_owner_only(tmp_path: Path) -> None:
    _, folder = previewed(tmp_path)
    signed = sign_study(read_version(tmp_path / "study.yaml"), "stat1", read_key(tmp_path / "stat1.key"))
    (tmp_path / "signed.json").write_bytes(signed_study_to_json(signed))
    values = tmp_path / "values.csv"
    screen = desk.run("node", "preview", folder, tmp_path / "signed.json", "--blocks", "--values", values)
    assert screen.code == 0
    assert "thickness/thick/covariates" in screen.out.replace("\n", "")
    assert stat.S_IMODE(values.stat().st_mode) == 0o600
    assert values.read_text().startswith("block,place,supplied,value\n")


COMMITTEE = {
    "  ages: {kind: summary, variables: [age], by: [dx]}\n": "",
    "  thickness: {kind: regression, outcomes: [thick], terms: [dx, age]}\n": "  dx: {kind: crosstab, factors: [dx]}\n",
    "  min_sites: 3\n": "  mode: committee\n  committee: [site0, site1, site3]\n  min_sites: 3\n",
}


def test_it_says_whether_the_rules_here_let_a_committee_answer(tmp_path: Path) -> None:
    held, _ = previewed(tmp_path / "a", COMMITTEE)
    found = outcomes(held)
    assert found["committee"] is found["whole study"] is Severity.OK
    held, _ = previewed(tmp_path / "b", COMMITTEE, "thresholds: {count: 20}\n")
    assert outcomes(held)["committee"] is Severity.FAILURE
    assert any("min_cell: 20" in finding.cure for finding in held.findings if finding.name == "committee")
