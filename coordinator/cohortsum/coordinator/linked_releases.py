"""Crosstabs of other studies over the same people, as a new release must take them: what they showed is public, what they hid stays so.

The same people are those of the same sites at the same epoch, chosen by the same condition. Counts are the true ones, from the opened
sums; an item that still waits for a signature counts as shown, because it may be signed at any time, and so does one that was
retracted: somebody has read it. Releases under noise are left out, since none of their counts is exact.
"""

from collections.abc import Collection

from sqlalchemy import select
from sqlalchemy.orm import Session

from cohortsum.coordinator.item_rows import read_items
from cohortsum.coordinator.store import OVER, ResultRow, StudyRow
from cohortsum.report.document import from_json
from cohortsum.study.definition import CrosstabSpec, FrozenStudy, parse_canonical
from cohortsum.study.definition.expressions import render
from cohortsum.study.disclosure.crosstabs import Earlier
from cohortsum.study.release.states import State
from cohortsum.study.results import Absent
from cohortsum.study.statistics.crossing import Crossing
from cohortsum.study.statistics.interface import set_name
from cohortsum.study.sums import Integers, unpack

SEEN = (State.QUEUE, State.RELEASED, State.RETRACTED)
"""States in which somebody reads a table, or may soon."""
Shown = set[tuple[str, tuple[str, ...]]]


def linked_releases(session: Session, study: FrozenStudy, survivors: Collection[str]) -> tuple[Earlier, ...]:
    """Return the crosstabs of all other studies over the same people, the oldest first.

    Args:
        session: the caller's transaction.
        study: the one that is released now.
        survivors: ids of the sites in its sum.
    """
    if not any(isinstance(spec, CrosstabSpec) for spec in study.analyses.values()):
        return ()
    query = (
        select(StudyRow.digest, StudyRow.canonical, ResultRow.document, ResultRow.sums)
        .join(ResultRow, ResultRow.study == StudyRow.digest)
        .where(StudyRow.state.in_(OVER), StudyRow.digest != study.digest.hex())
        .order_by(ResultRow.released)
    )
    found: list[Earlier] = []
    for digest, canonical, document, sums in session.execute(query).all():
        other = parse_canonical(canonical)
        same = _people(other) == _people(study) and other.privacy.noise == "none"
        if same and set(from_json(document).sites.survivors) == set(survivors):
            found.append(_earlier(session, digest, other, unpack(sums)))
    return tuple(found)


def _people(study: FrozenStudy) -> tuple[str, str]:
    """Return what the people of a study are chosen by."""
    return study.epoch, "" if study.include is None else render(study.include)


def _earlier(session: Session, digest: str, study: FrozenStudy, sums: dict[str, Integers]) -> Earlier:
    specs = {name: spec for name, spec in study.analyses.items() if isinstance(spec, CrosstabSpec)}
    counts: dict[tuple[str, tuple[str, ...]], int] = {}
    for name, spec in specs.items():
        crossing = Crossing(tuple(study.factors[factor] for factor in spec.factors))
        for cell in crossing.cells:
            opened = sums.get(set_name(name, *crossing.level_names(cell)))
            if opened is not None:
                counts[name, cell] = int(opened[0])
    shown: Shown = set()
    for held in read_items(session, digest):
        if held.item.name in specs and held.item.state in SEEN and held.table is not None:
            table = held.table.table()
            end = table.columns.index("count")
            shown |= {
                (held.item.name, tuple(map(str, row[:end])))
                for row in table.rows
                if not isinstance(row[end], Absent)
            }
    return Earlier(
        f"{study.study}@{study.version}", study.factors, specs, counts, frozenset(shown & counts.keys())
    )
