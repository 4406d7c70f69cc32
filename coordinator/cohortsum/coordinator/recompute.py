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
from cohortsum.crypto.errors import RefusedError, StoreError
from cohortsum.report.document import ResultDocument
from cohortsum.study.disclosure.crosstabs import Earlier
from cohortsum.study.disclosure.gate import cohort_gate
from cohortsum.study.disclosure.verdict import Gated
from cohortsum.study.planning import Sites, StudyPlan
from cohortsum.study.release.remedy import apply_remedy, remedy_from_json
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


def gated_again(
    plan: StudyPlan,
    material: Material,
    remedies: Sequence[tuple[str, str]],
    linked: Sequence[Earlier] = (),
) -> Gated:
    """Return all tables of a study as they may be shown after these remedies (item and text).

    A remedy makes all tables of an analysis anew from the sums, so the latest of an analysis holds alone.

    Raises:
        ConfigurationError: a text is no remedy.
        RefusedError: the study did not finish its rounds, or a remedy does not fit.
    """
    if plan.study.protection.mode == "committee":
        raise RefusedError(
            "nobody holds the counts that a committee kept closed, so its tables cannot be computed again; withhold the item, and ask "
            "in a new version of the study"
        )
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
    latest = {analysis_of(item): (item, text) for item, text in remedies}
    for analysis, (item, text) in latest.items():
        made = apply_remedy(plan, material.sums, material.sites, item, remedy_from_json(text))
        tables = {name: table for name, table in tables.items() if analysis_of(name) != analysis}
        tables |= {table.analysis: table for table in made}
    return cohort_gate(plan, _ordered(plan, tables), material.sums, material.review.regime, linked)


def analysis_of(item: str) -> str:
    """Return the analysis that an item's table belongs to."""
    return item.partition(".")[0]


def _ordered(plan: StudyPlan, tables: Mapping[str, Table]) -> tuple[Table, ...]:
    """Return tables in the order of the study, as `StudyPlan.finish` gives them."""
    places = {name: place for place, name in enumerate(plan.study.analyses)}
    return tuple(sorted(tables.values(), key=lambda table: places[analysis_of(table.analysis)]))
