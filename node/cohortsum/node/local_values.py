"""Values per person that a study computes at the site and that stay there: harmonised measures, z-scores.

One CSV file per analysis, and one per table about the site alone (its effects under ComBat), below ``local/STUDY/vVERSION``
in the node's folder, readable by its owner alone; the first column is the person as the site's tables name them. A person
outside the cohort is not in it; a value that does not exist is an empty cell.
"""

import csv
import math
import os
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from cohortsum.node.tables.reader import Tables
from cohortsum.report.tables import to_csv
from cohortsum.study.planning import Integers, StudyPlan
from cohortsum.study.statistics.interface import Local

BATCH = 4096


def write_local(
    folder: Path, plan: StudyPlan, sums: Mapping[str, Integers], tables: Tables
) -> Iterator[Path]:
    """Write what this site computes for its own people where a round ends an analysis, and yield each file once it is whole.

    Values that are there already stay as they are: a node that restarts goes through the rounds again.

    Args:
        folder: of all studies' local values; made if need be.
        plan: of the round.
        sums: of that round, as this site recomputed them.
        tables: of this site.
    """
    home = folder / plan.study.study / f"v{plan.study.version}"
    for analysis, local in plan.local(sums, tables.batches):
        if (home / f"{analysis}.csv").exists():
            continue
        home.mkdir(parents=True, exist_ok=True, mode=0o700)
        for table in local.tables:
            with _whole(path := home / f"{table.analysis}.csv") as file:
                file.write(to_csv(table))
            yield path
        with _whole(path := home / f"{analysis}.csv") as file:
            rows = csv.writer(file, lineterminator="\n")
            rows.writerow((plan.study.person, *local.columns))
            rows.writerows(_rows(plan, local, tables))
        yield path


@contextmanager
def _whole(path: Path) -> Generator[TextIO]:
    """Give a private file to write into, which takes its name once it is whole."""
    draft = path.with_name(f"{path.name}.part")
    draft.unlink(missing_ok=True)
    with os.fdopen(
        os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", newline="", encoding="utf-8"
    ) as file:
        yield file
        file.flush()
        os.fsync(file.fileno())  # a file that took its name is never written again
    draft.replace(path)


def _rows(plan: StudyPlan, local: Local, tables: Tables) -> Iterator[tuple[str, ...]]:
    for raw, ids in zip(tables.batches(BATCH), tables.ids(BATCH), strict=True):
        included = plan.cohort.included(raw)
        values = local.values(plan.cohort.prepare(raw))
        persons = (one for one, inside in zip(ids, included, strict=True) if inside)
        for person, row in zip(persons, values, strict=True):
            yield person, *("" if math.isnan(value) else float.__repr__(float(value)) for value in row)
