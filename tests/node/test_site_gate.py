"""The site gate on real tables of one site: what stands out is kept back, patterns pool, and nothing is asked of public data."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from cohortsum.crypto.secret import SecretBytes
from cohortsum.node.config import PolicyConfig
from cohortsum.node.people import people_sets
from cohortsum.node.policy import limits_of
from cohortsum.node.site_gate import Screened, screen
from cohortsum.node.tables.mapping import Needs
from cohortsum.node.tables.reader import open_tables
from cohortsum.study.planning import StudyPlan, plan_study
from tests.node.reading import settings
from tests.protocol.consortium import roster_of
from tests.study.definitions import frozen

STUDY = """\
study: gate
title: Gate
version: 1
roster: 1
expires: 2099-12-31
person: id
variables:
  dx: {levels: [control, autism]}
  age: {unit: years, range: [0, 100]}
  income: {unit: pounds, range: [0, 1000000]}
  iq: {unit: points, range: [40, 160]}
cohort: {epoch: 2026-11}
analyses:
%s
protection:
  {min_sites: 3, min_participants: 3, max_participants: 1000, min_participants_per_site: 2, max_colluding_sites: 0}
privacy: {noise: none}
"""
ONCE = PolicyConfig()
OPEN = PolicyConfig(profile="open_data")
PEOPLE = 200
Cell = float | str | None


def plan_of(*analyses: str) -> StudyPlan:
    return plan_study(frozen(STUDY % "\n".join(f"  {one}" for one in analyses)), roster_of(4))


def people() -> dict[str, Sequence[Cell]]:
    """Return the columns of an unremarkable site: nobody stands out, nothing is missing."""
    chance = np.random.default_rng(1)
    return {
        "dx": ["control", "autism"] * (PEOPLE // 2),
        "age": list(chance.uniform(20, 80, PEOPLE).round(1)),
        "income": list(chance.uniform(20_000, 60_000, PEOPLE).round()),
        "iq": list(chance.normal(100, 12, PEOPLE).round()),
    }


@contextmanager
def screened(
    folder: Path, plan: StudyPlan, columns: dict[str, Sequence[Cell]], policy: PolicyConfig = ONCE
) -> Iterator[Screened]:
    rows = [",".join(("id", *columns))]
    for place, row in enumerate(zip(*columns.values(), strict=True)):
        rows.append(",".join((f"p{place:04d}", *("" if cell is None else str(cell) for cell in row))))
    (folder / "data.csv").write_text("\n".join(rows) + "\n")
    config = settings({"data": {"path": folder / "data.csv", "id": "id"}})
    cohort = plan.cohort
    with open_tables(
        config, Needs(plan.study.variables, cohort.required, cohort.reads - cohort.required)
    ) as tables:
        yield screen(plan, policy, tables, 2)


SUMMARY = "means: {kind: summary, variables: [age, income, iq]}"
MODEL = "model: {kind: regression, outcomes: [iq], terms: [dx, age]}"


def test_an_unremarkable_site_supplies_everything(tmp_path: Path) -> None:
    plan = plan_of(SUMMARY, MODEL)
    with screened(tmp_path, plan, people()) as found:
        assert (found.people, found.left_out, found.dropped) == (PEOPLE, {}, (0, 0))
        assert {"age", "income", "iq", "analysis:model"} <= found.supplied


@pytest.mark.parametrize(("policy", "kept"), [(ONCE, True), (OPEN, False)])
def test_a_mean_that_is_one_persons_income_is_kept_back(
    tmp_path: Path, policy: PolicyConfig, kept: bool
) -> None:
    columns = people()
    columns["income"] = [0.0] * (PEOPLE - 1) + [900_000.0]
    with screened(tmp_path, plan_of(SUMMARY), columns, policy) as found:
        assert ("income" in found.left_out) is kept
        assert ("income" in found.supplied) is not kept
        if kept:
            assert "dominance_nk" in found.left_out["income"]
            assert "900000" not in "".join(found.left_out.values())


def test_a_waived_rule_keeps_nothing_back(tmp_path: Path) -> None:
    columns = people()
    columns["income"] = [0.0] * (PEOPLE - 1) + [900_000.0]
    waiver = {"value": "off", "reason": "incomes are public here", "by": "ann", "until": "2099-01-01"}
    policy = PolicyConfig.model_validate(
        {"waivers": [{"rule": rule, **waiver} for rule in ("dominance_nk", "dominance_p")]}
    )
    with screened(tmp_path, plan_of(SUMMARY), columns, policy) as found:
        assert found.left_out == {}


def test_a_model_that_rests_on_one_person_is_kept_back(tmp_path: Path) -> None:
    columns = people()
    columns["age"] = [40.0] * (PEOPLE - 1) + [95.0]
    with screened(tmp_path, plan_of(MODEL), columns) as found:
        assert set(found.left_out) == {"iq"}
        assert "high_leverage" in found.left_out["iq"]


def test_a_matrix_of_too_many_variables_for_its_people_is_kept_back(tmp_path: Path) -> None:
    """Thirteen people with all three values: 10 are enough for a pair, and three variables are a quarter of 12."""
    plan = plan_of("pairs: {kind: correlation, variables: [age, income, iq]}")
    for having, kept in ((PEOPLE, False), (11, True)):
        columns = people()
        columns["iq"] = [*columns["iq"][:having], *([None] * (PEOPLE - having))]
        with screened(tmp_path, plan, columns) as found:
            assert ("analysis:pairs" in found.left_out or "iq" in found.left_out) is kept


def lacking(columns: dict[str, Sequence[Cell]], **missing: Sequence[int]) -> dict[str, Sequence[Cell]]:
    for name, places in missing.items():
        columns[name] = [None if place in places else cell for place, cell in enumerate(columns[name])]
    return columns


def test_people_who_lack_one_value_leave_the_study_here_so_that_nobody_is_told_apart(tmp_path: Path) -> None:
    plan = plan_of(SUMMARY)
    columns = lacking(people(), age=range(3), iq=range(2, 6))
    with screened(tmp_path, plan, columns) as found:
        assert found.people == PEOPLE - 6
        assert found.dropped[0] == 6
        assert {"age", "iq", "income"} <= found.supplied
        sets = people_sets(plan, found.tables, found.supplied, SecretBytes(b"k" * 32, "key"))
        assert {len(sets[name].codes) for name in sets} == {PEOPLE - 6}
        _, values = plan.contribution(found.tables.batches, plan.round.blocks, found.supplied)
        assert values[0] == PEOPLE - 6


def test_two_outcomes_that_many_lack_stay_apart(tmp_path: Path) -> None:
    columns = lacking(people(), age=range(30), iq=range(40, 80))
    with screened(tmp_path, plan_of(SUMMARY), columns) as found:
        assert (found.people, found.dropped) == (PEOPLE, (0, 0))


def test_where_too_many_would_have_to_leave_the_cohort_stays_and_outcomes_are_left_out(
    tmp_path: Path,
) -> None:
    """Fifty people each lack one of eight values of their own: all of them together would be a quarter of the site."""
    names = [f"v{place}" for place in range(8)]
    declared = "\n".join(f"  {name}: {{unit: a, range: [0, 9]}}" for name in names)
    text = STUDY.replace("cohort:", f"{declared}\ncohort:") % (
        f"  means: {{kind: summary, variables: [{', '.join(names)}]}}"
    )
    plan = plan_study(frozen(text), roster_of(4))
    columns: dict[str, Sequence[Cell]] = {
        name: [float(place % 7 + 1) for place in range(PEOPLE)] for name in names
    }
    columns = lacking(columns, **{name: range(6 * place, 6 * place + 6) for place, name in enumerate(names)})
    with screened(tmp_path, plan, columns) as found:
        assert found.people == PEOPLE


@pytest.mark.parametrize(
    ("policy", "k"),
    [
        (ONCE, 10),
        (PolicyConfig.model_validate({"thresholds": {"set_difference": 4}}), 10),
        (PolicyConfig.model_validate({"thresholds": {"set_difference": 30}}), 30),
        (OPEN, None),
    ],
)
def test_under_dpuk_the_people_rule_needs_no_setting_and_can_only_be_tightened(
    policy: PolicyConfig, k: int | None
) -> None:
    limits = limits_of(plan_of(SUMMARY).study, policy)
    assert (None if limits is None else limits.k) == k


def test_freesurfer_measures_set_the_people_rule_to_fifty() -> None:
    text = STUDY.replace("  iq:", "  lh_cuneus_thickness: {catalogue: freesurfer.thickness}\n  iq:")
    study = frozen(text % "  a: {kind: summary, variables: [lh_cuneus_thickness]}")
    limits = limits_of(study, ONCE)
    assert limits is not None
    assert limits.k == 50
