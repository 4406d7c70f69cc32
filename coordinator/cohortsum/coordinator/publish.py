"""From an opened sum to the files a consortium reads: the typed document, its page, tables and figures.

The document knows who took part and under which rules; which tables are in it is said by the items (`items`). Files are written
into a temporary folder that takes the place of the results folder at the end, so that a reader never sees half a release, and
written anew whenever an item's state changes: a retracted table leaves the folder.
"""

import shutil
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path

from cohortsum.coordinator.record import OpenedIteration
from cohortsum.protocol.roster import Roster
from cohortsum.report.base_document import base_document
from cohortsum.report.document import ResultDocument
from cohortsum.report.release import release_files
from cohortsum.study.definition import FrozenStudy
from cohortsum.study.disclosure.verdict import Regime
from cohortsum.study.planning import StudyPlan


def result_document(
    plan: StudyPlan,
    roster: Roster,
    rounds: Sequence[OpenedIteration],
    regime: Regime,
    *,
    names: Mapping[int, str],
    builds_on: int | None = None,
) -> ResultDocument:
    """Return the typed document of a study whose rounds opened, without any item.

    Args:
        plan: of the study.
        roster: in force when the rounds opened.
        rounds: that opened, at least one.
        regime: of the sites in the sums.
        names: ids of sites by roster index, those denied since included.
        builds_on: number of an earlier version that opened blocks which did not travel again; None where there is none.
    """
    software = f"cohortsum {version('cohortsum')}"
    return base_document(plan, roster, rounds, regime, names=names, builds_on=builds_on, software=software)


def release_folder(results: Path, study: FrozenStudy) -> Path:
    """Return the folder below ``results`` that a study's release goes to."""
    return results / study.study / f"v{study.version}"


def write_release(folder: Path, document: ResultDocument) -> None:
    """Write every file of the release into ``folder``, whole or not at all."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    draft = folder.with_name(f".{folder.name}.draft")
    if draft.exists():
        shutil.rmtree(draft)
    for name, content in release_files(document):
        path = draft / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    if folder.exists():
        shutil.rmtree(folder)
    draft.rename(folder)
