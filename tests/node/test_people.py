"""From a site's tables to the people sets of a study: whose codes, under which names, and what nobody sees."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from cohortsum.crypto.secret import SecretBytes
from cohortsum.node.config import TablesConfig
from cohortsum.node.people import people_sets
from cohortsum.node.tables.mapping import Needs
from cohortsum.node.tables.reader import Tables, open_tables
from cohortsum.protocol.ledger.people import CODE_BYTES, PeopleSet
from cohortsum.study.planning import StudyPlan, plan_study
from tests.protocol.consortium import roster_of
from tests.study.definitions import frozen

KEY = b"k" * 32
STUDY = """\
study: people
title: People
version: 1
roster: 1
expires: 2099-12-31
person: id
variables:
  dx: {levels: [control, autism]}
  age: {unit: years, range: [5, 65]}
  thick: {unit: mm, range: [0, 5]}
  volume: {unit: mm3, range: [0, 100]}
cohort: {include: "age >= 10", epoch: 2026-11}
analyses:
  ages: {kind: summary, variables: [age], by: [dx]}
  bands: {kind: histogram, variables: [age], edges: [10, 30, 60]}
  models: {kind: regression, outcomes: [thick, volume], terms: [dx, age]}
protection:
  {min_sites: 3, min_participants: 3, max_participants: 1000, min_participants_per_site: 2, max_colluding_sites: 0}
privacy: {noise: none}
"""
PLAN = plan_study(frozen(STUDY), roster_of(4))
COVARIATES = (
    "id,age,dx\n003,40,autism\n001,9,autism\nø x,20,control\n1,30,NA\n7351946,60,control\n002,20,control\n"
)
THICK = "id,thick\n003,2\n001,2\nø x,2.5\n1,3\n7351946,\n"
SETS = {
    "people": "003,ø x,1,7351946,002",
    "ages/age/dx[control]": "ø x,7351946,002",
    "ages/age/dx[autism]": "003",
    "bands/age/[10.0, 30.0)": "ø x,002",
    "bands/age/[30.0, 60.0]": "003,1,7351946",
    "models/thick": "003,ø x",
    "models/thick/dx[control]": "ø x",
    "models/thick/dx[autism]": "003",
}


def site(folder: Path, files: Mapping[str, str], **settings: object) -> TablesConfig:
    folder.mkdir(exist_ok=True)
    for name, content in files.items():
        (folder / f"{name}.csv").write_text(content, encoding="utf-8")
    tables = {name: {"path": folder / f"{name}.csv", "id": "id"} for name in files}
    return TablesConfig.model_validate({"tables": tables, **settings})


def opened(config: TablesConfig, plan: StudyPlan = PLAN) -> Tables:
    cohort = plan.cohort
    return open_tables(config, Needs(plan.study.variables, cohort.required, cohort.reads - cohort.required))


def sets_of(config: TablesConfig, key: bytes = KEY) -> Mapping[str, PeopleSet]:
    with opened(config) as tables:
        _, supplied = PLAN.supply(tables.batches(), 1)
        return people_sets(PLAN, tables, supplied, SecretBytes(key, "code key"))


def named(sets: Mapping[str, str]) -> dict[str, PeopleSet]:
    return {name: PeopleSet.of(ids.split(","), KEY) for name, ids in sets.items()}


def test_each_set_holds_the_codes_of_its_people(tmp_path: Path) -> None:
    sets = sets_of(site(tmp_path, {"cov": COVARIATES, "t": THICK}))
    assert sets == named(SETS)
    assert len(sets) == len(SETS)
    assert all(len(code) == CODE_BYTES for people in sets.values() for code in people.codes)


def test_people_who_withdrew_are_in_no_set(tmp_path: Path) -> None:
    (tmp_path / "withdrawn.txt").write_text("ø x\n001\n", encoding="utf-8")
    sets = sets_of(site(tmp_path, {"cov": COVARIATES, "t": THICK}, exclude=tmp_path / "withdrawn.txt"))
    left = {name: [one for one in ids.split(",") if one != "ø x"] for name, ids in SETS.items()}
    assert sets == {name: PeopleSet.of(ids, KEY) for name, ids in left.items() if ids}
    assert "models/thick/dx[control]" not in sets  # nobody is left there


def test_sets_of_what_the_site_does_not_supply_are_left_out(tmp_path: Path) -> None:
    config = site(tmp_path, {"cov": COVARIATES, "t": THICK})
    with opened(config) as tables:
        _, supplied = PLAN.supply(tables.batches(), 1)
        key = SecretBytes(KEY, "code key")
        lacking = people_sets(PLAN, tables, supplied - {"thick", "dx[autism]"}, key)
        nothing = people_sets(PLAN, tables, frozenset(), key)
    kept = SETS.keys() - {"ages/age/dx[autism]"}
    assert lacking.keys() == {name for name in kept if not name.startswith("models")}
    assert nothing == named({"people": SETS["people"]})


def big(order: int) -> dict[str, str]:
    """Return tables of 41 people with holes, the rows shuffled by ``order``."""
    rng = np.random.default_rng(5)
    rows = [
        (
            f"p{person}",
            rng.integers(5, 66),
            rng.choice(["control", "autism", "NA"]),
            rng.choice(["1.5", "NA"]),
        )
        for person in range(41)
    ]
    cov, thick = [
        [f"{one},{age},{dx}" for one, age, dx, _ in rows],
        [f"{one},{mm}" for one, _, _, mm in rows],
    ]
    shuffled = np.random.default_rng(order)
    for lines in (cov, thick) if order else ():
        shuffled.shuffle(lines)
    return {"cov": "\n".join(["id,age,dx", *cov]), "t": "\n".join(["id,thick", *thick])}


@pytest.mark.parametrize("batch", [8, 16, 40])
def test_batches_and_the_order_of_rows_change_no_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, batch: int
) -> None:
    whole = dict(sets_of(site(tmp_path / "a", big(0))))
    monkeypatch.setattr("cohortsum.node.people.BATCH", batch)
    assert dict(sets_of(site(tmp_path / "b", big(batch)))) == whole
    assert len(whole) >= len(SETS)


def test_the_counts_sent_are_those_of_the_sets(tmp_path: Path) -> None:
    with opened(site(tmp_path, big(0))) as tables:
        people, supplied = PLAN.supply(tables.batches(), 1)
        sets = people_sets(PLAN, tables, supplied, SecretBytes(KEY, "code key"))
        blocks = [
            block for block in PLAN.round.blocks if block.name in ("bands/age/people", "models/thick/people")
        ]
        _, sent = PLAN.contribution(tables.batches, blocks, supplied)
    assert len(sets["people"]) == people < 41
    assert sent.tolist() == [
        0,  # nobody below 10 years is in the cohort
        len(sets["bands/age/[10.0, 30.0)"]),
        len(sets["bands/age/[30.0, 60.0]"]),
        len(sets["bands/age/(60.0, 65.0]"]),
        0,  # and nobody lacks an age
        len(sets["models/thick"]),
    ]


def test_a_code_depends_on_the_key_and_on_nothing_else(tmp_path: Path) -> None:
    files = {"cov": COVARIATES, "t": THICK}
    sets, other = sets_of(site(tmp_path / "a", files)), sets_of(site(tmp_path / "a", files), b"other" * 8)
    assert {name: len(people) for name, people in sets.items()} == {
        name: len(people) for name, people in other.items()
    }
    assert not sets["people"].codes & other["people"].codes
    grown = sets_of(site(tmp_path / "b", {"cov": COVARIATES + "new,20,autism\n", "t": THICK + "new,3\n"}))
    assert grown["people"].codes - sets["people"].codes == PeopleSet.of(["new"], KEY).codes


def test_names_of_the_same_people_share_one_set(tmp_path: Path) -> None:
    sets = sets_of(site(tmp_path, {"cov": COVARIATES, "t": THICK}))
    assert sets["ages/age/dx[autism]"] is sets["models/thick/dx[autism]"]


@pytest.mark.parametrize("size", [1, 2, 3, 5, 100])
def test_ids_line_up_with_the_batches(tmp_path: Path, size: int) -> None:
    ages = {'"a, b"': 10, "a": 20, "  c": 30, "\u2028d": 40, "é\x0b": 50, "sub-01": 60}
    table = "id,age,dx\n" + "".join(f"{one},{age},control\n" for one, age in ages.items())
    with opened(site(tmp_path, {"cov": table})) as tables:
        paired = [
            (one, age)
            for ids, batch in zip(tables.ids(size), tables.batches(size), strict=True)
            for one, age in zip(ids, batch.numbers["age"].tolist(), strict=True)
        ]
    assert dict(paired) == {one.strip('"'): age for one, age in ages.items()}
    assert len(paired) == len(ages)


def test_ids_and_codes_show_nowhere_and_stay_in_the_private_copy(tmp_path: Path) -> None:
    config = site(tmp_path, {"cov": COVARIATES, "t": THICK})
    with opened(config) as tables:
        _, supplied = PLAN.supply(tables.batches(), 1)
        sets = people_sets(PLAN, tables, supplied, SecretBytes(KEY, "code key"))
        batch = next(tables.batches())
        shown = repr(tables) + repr(sets) + repr(sets["people"]) + repr(batch) + "".join(tables.report)
    assert "7351946" not in shown
    assert not any(repr(code) in shown for code in sets["people"].codes)
    assert repr(sets) == f"<{len(SETS)} people sets>"
    with pytest.raises(FileNotFoundError):
        next(tables.ids())
