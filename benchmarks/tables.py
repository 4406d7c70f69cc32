"""Reading a wide table and adding it up: ``python benchmarks/tables.py [--quick] [--json FILE]``.

A synthetic IDPs.txt with all 5607 columns of the BRC pipeline, joined with a table of covariates, as a node reads them for a
study that asks for every column: headers, rows, hash, join, values; then a summary of every column and a regression of
every column on diagnosis, age and sex. Every size runs in a process of its own, so that its peak of resident memory is its
own. Two sizes ten times apart show whether memory grows with the number of people.

Every value that is read is compared with the one that was written, and every mean with one that is computed from them
directly; a difference ends the run.
"""

import argparse
import hashlib
import multiprocessing
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.measure import Report, Row
from benchmarks.resident import high_water_mib, reset_high_water_mib
from cohortsum.crypto.secret import SecretBytes
from cohortsum.crypto.signing import IdentityKey
from cohortsum.node.config import TablesConfig
from cohortsum.node.tables import brc
from cohortsum.node.tables.mapping import Needs
from cohortsum.node.tables.reader import BATCH_CELLS, BATCH_PEOPLE, Tables, open_tables
from cohortsum.protocol.roster import Roster
from cohortsum.study.definition import freeze, load_roster, load_study
from cohortsum.study.planning import StudyPlan, by_block, plan_study

FIELDS = 5607
CELLS, QUICK = ((2_000, FIELDS), (20_000, FIELDS)), ((600, 868), (6_000, 868))
MISSING = "NaN"
POOL = 4096
SEED = 20261130
TOLERANCE = 1e-9
"""Greatest relative difference of a mean from the one computed directly, against the width of the range."""

STUDY = """
study: wide
title: Every image-derived phenotype
version: 1
roster: 1
expires: 2099-12-31
person: SubjectID
variables:
  dx: {{levels: [control, case]}}
  sex: {{levels: [female, male]}}
  age: {{unit: years, range: [0, 100]}}
{outcomes}
cohort: {{epoch: bench}}
analyses:
  each: {{kind: summary, variables: [{names}]}}
  model: {{kind: regression, outcomes: [{names}], terms: [dx, age, sex], site_effect: within}}
protection:
  mode: masking
  min_sites: 3
  min_participants: 60
  max_participants: 1000000
  min_participants_per_site: 10
  max_colluding_sites: 1
  min_honest_inputs: 3
privacy: {{noise: none}}
release: {{checkers: {{consortium: 0, sites: none}}}}
"""


def measure(people: int, fields: int) -> tuple[Row, Row]:
    """Return times and memory of one size, measured in a process of its own."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=context) as fresh:
        return fresh.submit(_measure, people, fields).result()


def _measure(people: int, fields: int) -> tuple[Row, Row]:
    names = brc.layout([" ".join(["x"] * fields)], "IDPs.txt").names
    outcomes = {place: name for place, name in enumerate(names) if place and names.count(name) == 1}
    plan = _plan(tuple(outcomes.values()))
    with tempfile.TemporaryDirectory() as folder:
        config = _written(Path(folder), people, fields)
        size = sum(path.stat().st_size for path in Path(folder).iterdir())
        cohort = plan.cohort
        needs = Needs(plan.study.variables, cohort.required, cohort.reads - cohort.required)
        took: dict[str, float] = {}
        peak: dict[str, float | None] = {}
        base = reset_high_water_mib()

        def lap(part: str, start: float) -> None:
            took[part] = time.process_time() - start
            high = high_water_mib()
            peak[part] = None if high is None or base is None else high - base
            reset_high_water_mib()

        start = time.process_time()
        with open_tables(config, needs, Path(folder)) as tables:
            lap("read", start)
            assert tables.people == people, "not everybody was read"
            start = time.process_time()
            _, supplied = plan.supply(tables.batches(), 10)
            lap("supply", start)
            start = time.process_time()
            counted, values = plan.contribution(tables.batches, plan.round.blocks, supplied)
            lap("add up", start)
            assert counted == people, "not everybody was counted"
            error = _check(plan, tables, outcomes, fields, values)
    shape: Row = {"people": people, "columns": fields, "MiB": size / 2**20, "numbers": len(values)}
    batch = min(BATCH_PEOPLE, max(1, BATCH_CELLS // len(plan.study.variables)))
    times: Row = {
        **shape,
        **took,
        "cells/s": people * fields / took["read"],
        "greatest error": f"{error:.1e}",
        "exact": "yes",
    }
    memory: Row = {**shape, "batch, people": batch, "batch MiB": batch * fields * 8 / 2**20, **peak}
    return times, memory


def _check(
    plan: StudyPlan, tables: Tables, outcomes: dict[int, str], fields: int, values: NDArray[np.int64]
) -> float:
    """Return the greatest error of a mean, relative to the variable's range; raises AssertionError for a wrong value."""
    texts, numbers = _pool()
    n = np.zeros(fields, dtype=np.int64)
    sums = np.zeros(fields)
    person = 0
    for batch in tables.batches():
        drawn = np.stack([_drawn(person + place, fields) for place in range(batch.people)])
        person += batch.people
        written = numbers[drawn]
        for place, name in outcomes.items():
            assert np.array_equal(batch.numbers[name], written[:, place], equal_nan=True), (
                "a value was read wrongly"
            )
        n += np.count_nonzero(~np.isnan(written), axis=0)
        sums += np.nansum(written, axis=0)
    assert len(texts) == len(numbers)
    summary, regression = plan.finish(by_block(plan.round.blocks, values))
    assert len(regression.rows) == 3 * len(outcomes), "the regression has not every outcome"
    greatest = 0.0
    for (place, name), row in zip(outcomes.items(), summary.rows, strict=True):
        assert row[:2] == (name, int(n[place])), "people were not counted right"
        if n[place]:
            mean = row[summary.columns.index("mean")]
            assert isinstance(mean, float), "a mean is missing"
            greatest = max(greatest, abs(mean - sums[place] / n[place]) / 200.0)
    assert greatest < TOLERANCE, "a mean is wrong"
    return greatest


def _plan(names: tuple[str, ...]) -> StudyPlan:
    units = brc.units()
    lines = [f"  {name!r}: {{unit: {units.get(name) or 'any'}, range: [-100, 100]}}" for name in names]
    listed = ", ".join(repr(name) for name in names)
    study = freeze(load_study(STUDY.format(outcomes="\n".join(lines), names=listed).encode(), "study.yaml"))
    return plan_study(study, _roster())


def _roster() -> Roster:
    """Return a roster of five sites; a plan needs one, though nobody meets here."""
    roles = {"hub": "coordinator"} | {f"site{index}": f"site, index: {index}" for index in range(5)}
    lines = ["consortium: bench", "roster: 1", "identities:"]
    for name, role in roles.items():
        key = IdentityKey(SecretBytes(hashlib.sha256(name.encode()).digest(), "identity seed")).public.hex()
        lines.append(
            f"  - {{id: {name}, role: {role}, name: {name}, organisation: bench, key: 'ed25519:{key}'}}"
        )
    return load_roster("\n".join(lines).encode(), "consortium.yaml")


def _pool() -> tuple[list[str], NDArray[np.float64]]:
    """Return the texts that stand in the table, and their values: plain, scientific, and without a leading zero."""
    draw = np.random.default_rng(SEED)
    plain = [f"{value:.6g}" for value in draw.normal(0, 20, POOL // 2)]
    small = [f"{value:.4f}".replace("0.", ".") for value in draw.uniform(-1, 1, POOL // 4)]
    large = [f"{value:.5e}" for value in draw.lognormal(0, 1, POOL - len(plain) - len(small) - 1)]
    texts = [*plain, *small, *large, MISSING]
    return texts, np.array([float(text) for text in texts])


def _drawn(person: int, fields: int) -> NDArray[np.int64]:
    """Return which text of the pool stands in every field of a person's line; one block in ten is missing."""
    draw = np.random.default_rng((SEED, person))
    drawn = draw.integers(0, POOL - 1, fields)
    start = int(draw.integers(1, fields)) if draw.random() < 0.5 else fields
    drawn[start : start + fields // 5] = POOL - 1
    return drawn


def _written(folder: Path, people: int, fields: int) -> TablesConfig:
    """Write both tables, a person at a time, and return the settings that name them."""
    texts, _ = _pool()
    draw = np.random.default_rng(SEED)
    with (folder / "IDPs.txt").open("w") as idps, (folder / "covariates.tsv").open("w") as covariates:
        covariates.write("SubjectID\tage\tsex\tdx\n")
        for person in range(people):
            name = f"sub-{person:06}"
            cells = [texts[index] for index in _drawn(person, fields).tolist()]
            idps.write(" ".join([name, *cells[1:]]) + "\n")
            sex, dx = draw.choice(["female", "male"]), draw.choice(["control", "case"])
            covariates.write(f"{name}\t{draw.uniform(20, 90):.2f}\t{sex}\t{dx}\n")
    lesions = {"T2_FLAIR_WMH_volume": {"unit": "voxels", "voxel_mm3": 1.0}}
    return TablesConfig.model_validate(
        {
            "tables": {
                "covariates": {"path": folder / "covariates.tsv", "id": "SubjectID"},
                "idps": {"path": folder / "IDPs.txt", "format": "brc"},
            },
            "variables": lesions,
        }
    )


def main(arguments: list[str] | None = None) -> Report:
    """Parse the command line, measure, print, and return the tables."""
    parser = argparse.ArgumentParser(description="Measure the reading of a wide table.")
    parser.add_argument("--quick", action="store_true", help="small tables: does it run, and is it right")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the tables here as well")
    asked = parser.parse_args(arguments)
    report, memory = Report(), list[Row]()

    def rows() -> Iterator[Row]:
        for people, fields in QUICK if asked.quick else CELLS:
            times, used = measure(people, fields)
            memory.append(used)
            yield times

    report.table(
        "A site's tables: seconds of processor time",
        rows(),
        "read = headers, rows, hash, join, values; supply = who has what; add up = summary and regression of every column",
    )
    report.table(
        "A site's tables: growth of resident memory, in MiB, at the peak of every part",
        iter(memory),
        "MiB = both files; batch = what the statistics take at once",
    )
    report.write(asked.json)
    return report


if __name__ == "__main__":
    main()
