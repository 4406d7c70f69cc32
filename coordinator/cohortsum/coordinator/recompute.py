"""The tables of a study computed again from its stored sums, with the remedies that were decided: no new round.

A remedy concerns one item; the gate then looks at all tables together again, because what one of them hides may follow from
another. The plan of the last round is derived from the sums of the rounds before it, as every party derived it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from sqlalchemy import select
from sqlalchemy.orm import Session

from cohortsum.coordinator.item_rows import Review
from cohortsum.coordinator.store import IterationRow, ResultRow, RoundRow
from cohortsum.crypto.errors import RefusedError, StoreError, refuse
from cohortsum.report.document import ResultDocument
from cohortsum.study.disclosure.gate import cohort_gate
from cohortsum.study.disclosure.verdict import Gated
from cohortsum.study.planning import Sites, StudyPlan
from cohortsum.study.results import Table
from cohortsum.study.sums import Integers, unpack

Sums = Mapping[str, Integers]


@dataclass(frozen=True, slots=True)
class Material:
    """What the tables of a study are computed from.

    Attributes:
        before: complete sums of the rounds before the last one.
        sums: of the last round.
        sites: of the last round.
        review: what is kept besides.
    """

    before: tuple[Sums, ...] = field(repr=False)
    sums: Sums = field(repr=False)
    sites: Sites
    review: Review


def read_material(session: Session, study: str, review: Review, document: ResultDocument) -> Material:
    """Return what the store holds of a study's sums.

    Args:
        session: the caller's transaction.
        study: its digest in hexadecimal.
        review: of the study.
        document: of the study; it names the sites of a single round.
    """
    query = (
        select(IterationRow)
        .join(RoundRow, RoundRow.context == IterationRow.context)
        .where(RoundRow.study == study)
        .order_by(RoundRow.iteration)
    )
    rows = session.scalars(query).all()
    if not rows:
        sites = Sites(len(document.sites.took_part), len(document.sites.survivors))
        return Material((), unpack(session.get_one(ResultRow, study).sums), sites, review)
    opened: list[Sums] = [unpack(row.sums) for row in rows]
    opened[0] = {**review.earlier, **opened[0]}
    sites = Sites(len(rows[-1].advertised.split(",")), len(rows[-1].survivors.split(",")))
    return Material(tuple(opened[:-1]), opened[-1], sites, review)


def gated_again(plan: StudyPlan, material: Material, remedies: Sequence[tuple[str, str]]) -> Gated:
    """Return all tables of a study as they may be shown after these remedies (item and text), the latest of an item alone.

    Raises:
        RefusedError: the study did not finish its rounds, or a remedy does not fit.
    """
    if material.review.unfinished:
        raise RefusedError(
            "the study's last round did not open, so its tables cannot be computed again; withhold the item"
        )
    for sums in material.before:
        following = plan.advance(sums)
        if following is None:
            raise StoreError("the stored rounds of the study do not follow each other; restore the store")
        plan = following
    tables = {table.analysis: table for table in plan.finish(material.sums, material.sites)}
    for item, text in dict(remedies).items():
        made = remedied(plan, material.sums, material.sites, item, text)
        names = [table.analysis for table in made]
        tables = {name: table for name, table in tables.items() if name != item or name in names}
        tables |= {table.analysis: table for table in made}
    return cohort_gate(plan, tuple(tables.values()), material.sums, material.review.regime)


def remedied(plan: StudyPlan, sums: Sums, sites: Sites, item: str, text: str) -> tuple[Table, ...]:
    """Return the tables that take the place of an item; none where it is dropped.

    Args:
        plan: of the last round.
        sums: of that round.
        sites: of that round.
        item: name of the item.
        text: the remedy, canonical JSON.

    Raises:
        RefusedError: the remedy does not fit the item.
    """
    refuse(f"another form of {item}", "withhold it, and ask the statistician for a new version of the study")
