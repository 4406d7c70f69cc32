"""The released version that a new one may build on: its survivors, and the sums that need not be opened again."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from sqlalchemy import select

from cohortsum.coordinator.roll import Roll
from cohortsum.coordinator.store import ResultRow, RoundRow, Store, StudyRow
from cohortsum.study.amendment import unchanged_blocks
from cohortsum.study.definition import parse_canonical
from cohortsum.study.planning import StudyPlan, plan_study
from cohortsum.study.sums import Integers, unpack


@dataclass(frozen=True, slots=True)
class Earlier:
    """A released earlier version of a study.

    Attributes:
        version: of the study.
        context: of the round that opened it, 32 bytes.
        survivors: site ids whose sums it holds.
        unchanged: blocks of the new version that it has.
        sums: its sums by block name.
    """

    version: int
    context: bytes
    survivors: frozenset[str]
    unchanged: frozenset[str]
    sums: Mapping[str, Integers] = field(repr=False)


def find_earlier(store: Store, plan: StudyPlan, roll: Roll) -> Earlier | None:
    """Return the newest released version before ``plan``'s, if any of its blocks still means the same."""
    study = plan.study
    query = (
        select(StudyRow.canonical, ResultRow.context, ResultRow.sums, RoundRow.survivors)
        .join(ResultRow, ResultRow.study == StudyRow.digest)
        .join(RoundRow, RoundRow.context == ResultRow.context)
        .where(StudyRow.name == study.study, StudyRow.version < study.version)
        .order_by(StudyRow.version.desc())
        .limit(1)
    )
    with store.transaction() as session:
        row = session.execute(query).first()
    if row is None:
        return None
    canonical, context, sums, survivors = row
    old = parse_canonical(canonical)
    unchanged = unchanged_blocks(plan_study(old, roll.whole(old.roster)), plan)
    if not unchanged:
        return None
    return Earlier(
        old.version, bytes.fromhex(context), frozenset(survivors.split(",")), unchanged, unpack(sums)
    )
