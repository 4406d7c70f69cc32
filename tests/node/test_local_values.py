"""What a study computes for a site's own people is written there, privately, with the site's own tables beside it."""

import csv
import stat
from pathlib import Path

import numpy as np

from cohortsum.node.local_values import write_local
from cohortsum.node.tables.mapping import Needs
from cohortsum.node.tables.reader import open_tables
from cohortsum.report.tables import from_csv
from cohortsum.study.planning import by_block, plan_study
from tests.node.test_tables_reader import site
from tests.protocol.consortium import roster_of
from tests.study.definitions import frozen

STUDY = """\
study: local
title: Local
version: 1
roster: 1
expires: 2099-12-31
person: id
variables:
  age: {unit: years, range: [5, 65]}
  y0: {unit: mm, range: [0, 5]}
  y1: {unit: mm, range: [0, 5]}
cohort: {epoch: 2026-11, include: age >= 10}
analyses:
  h: {kind: combat, outcomes: [y0, y1], keep: [age]}
protection:
  {min_sites: 3, min_participants: 3, max_participants: 1000, min_participants_per_site: 2, max_colluding_sites: 0}
privacy: {noise: none}
"""


def test_harmonised_values_and_the_sites_effects_are_private_files_of_the_site(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    lines = [
        f"p{person:02},{rng.uniform(12, 60):.3f},{rng.uniform(1, 4):.4f},{rng.uniform(1, 4):.4f}"
        for person in range(30)
    ]
    text = "\n".join(["id,age,y0,y1", *lines, "young,5,2,2"]) + "\n"
    plan = plan_study(frozen(STUDY), roster_of(3))
    variables = frozenset({"age", "y0", "y1"})
    needs = Needs(dict(plan.study.variables), frozenset({"age"}), variables - {"age"})
    with open_tables(site(tmp_path, {"t": text}), needs) as tables:
        _, supplied = plan.supply(tables.batches(), 1)
        _, values = plan.contribution(tables.batches, plan.round.blocks, supplied)
        sums = by_block(plan.round.blocks, values)
        *beside, own = written = list(write_local(tmp_path / "local", plan, sums, tables))
        assert list(write_local(tmp_path / "local", plan, sums, tables)) == []  # what is there stays as it is
    assert own == tmp_path / "local/local/v1/h.csv"
    assert beside == [tmp_path / "local/local/v1/h.site.csv"]
    assert {stat.S_IMODE(path.stat().st_mode) for path in written} == {0o600}
    assert {path.name for path in written[0].parent.iterdir()} == {"h.csv", "h.site.csv"}
    header, *rows = csv.reader(own.read_text().splitlines())
    assert header == ["id", "y0", "y1"]
    assert [row[0] for row in rows] == [f"p{person:02}" for person in range(30)]
    assert all(0 < float(cell) < 5 for row in rows for cell in row[1:])
    table = from_csv(beside[0].read_text(), "h.site", "combat")
    assert [row[0] for row in table.rows] == ["y0", "y1"]
    assert [row[table.columns.index("n")] for row in table.rows] == [30, 30]
