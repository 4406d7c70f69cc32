"""The rows of a study's items and of the decisions about them. Every function works inside the caller's transaction."""

import datetime
import json
from dataclasses import asdict, dataclass

from sqlalchemy import select
from sqlalchemy.orm import Session

from cohortsum.coordinator.items import DEED_OF, HeldItem, content_digest
from cohortsum.coordinator.store import DecisionRow, ItemRow, ReviewRow, note, now
from cohortsum.crypto.errors import AuthenticationError, StoreError
from cohortsum.protocol.audit import Deed, DeedKind
from cohortsum.protocol.roster import Role
from cohortsum.report.document import TableBlock
from cohortsum.study.disclosure.verdict import Outcome, Profile, Regime, RuleResult, Waiver
from cohortsum.study.release.decision import Act, Decision
from cohortsum.study.release.item import Item
from cohortsum.study.release.panel import Signature
from cohortsum.study.release.states import State
from cohortsum.study.sums import Integers, pack, unpack


@dataclass(frozen=True, slots=True)
class Review:
    """What is kept of a study whose round is over, besides its items and sums.

    Attributes:
        regime: of the sites in the sums.
        earlier: sums that an earlier version opened, by block name.
        unfinished: why no further round opened; empty where all did.
    """

    regime: Regime
    earlier: dict[str, Integers]
    unfinished: str


def add_review(session: Session, study: str, review: Review) -> None:
    """Keep a review; its results folder is not written yet."""
    waivers = [asdict(waiver) | {"until": waiver.until.isoformat()} for waiver in review.regime.waivers]
    session.merge(
        ReviewRow(
            study=study,
            profile=review.regime.profile,
            held=json.dumps(sorted(review.regime.held)),
            waivers=json.dumps(waivers),
            count=review.regime.count,
            earlier=pack(review.earlier),
            unfinished=review.unfinished,
            written=False,
        )
    )


def read_review(session: Session, study: str) -> Review | None:
    """Return a study's review; None where its round is not over, or was over before there were reviews."""
    row = session.get(ReviewRow, study)
    if row is None:
        return None
    waivers = tuple(
        Waiver(**held | {"until": datetime.date.fromisoformat(held["until"])})
        for held in json.loads(row.waivers)
    )
    profile: Profile = "open_data" if row.profile == "open_data" else "dpuk"
    regime = Regime(profile, waivers, frozenset(json.loads(row.held)), row.count)
    return Review(regime, unpack(row.earlier), row.unfinished)


def add_item(session: Session, study: str, held: HeldItem, place: int, by: str = "") -> None:
    """Keep a new content of an item, and note in the audit log where it stands."""
    item = held.item
    session.add(
        ItemRow(
            study=study,
            name=item.name,
            place=place,
            turn=held.turn,
            state=item.state.value,
            digest=item.digest.hex(),
            content=b"" if held.table is None else held.table.canonical(),
            rules=json.dumps([asdict(rule) for rule in held.rules]),
            computed=now(),
        )
    )
    note(session, _deed(study, item, by))


def move_item(session: Session, study: str, held: HeldItem, by: str) -> None:
    """Keep the state that an item came into, if it is another one, and note it in the audit log."""
    row = _row(session, study, held)
    if row.state != held.item.state.value:
        row.state = held.item.state.value
        note(session, _deed(study, held.item, by))


def add_decision(session: Session, study: str, held: HeldItem, signature: Signature) -> None:
    """Keep a decision that is taken, and note it in the audit log."""
    made = signature.decision
    session.add(
        DecisionRow(
            item=_row(session, study, held).id,
            act=made.act.value,
            by=made.by,
            role=signature.role.value,
            key=signature.key.hex(),
            reason=made.reason,
            remedy=made.remedy,
            confirmed=json.dumps(made.confirmed),
            at=made.at,
            signature=made.signature,
            taken=now(),
        )
    )
    kind, digest = DeedKind.ITEM_DECIDED, held.item.digest
    note(session, Deed(kind, bytes.fromhex(study), digest=digest, by=made.by, detail=made.act.value))


def read_items(session: Session, study: str) -> tuple[HeldItem, ...]:
    """Return the items of a study as they stand, in the order of the study."""
    newest = {held.item.name: held for held in read_turns(session, study)}
    return tuple(newest.values())


def read_turns(session: Session, study: str) -> tuple[HeldItem, ...]:
    """Return every content that the items of a study had, by item and then in time."""
    query = select(ItemRow).where(ItemRow.study == study).order_by(ItemRow.place, ItemRow.turn)
    return tuple(_held(session, row) for row in session.scalars(query).all())


def remedies(session: Session, study: str) -> tuple[tuple[str, str], ...]:
    """Return every remedy that was taken, as item and text, in time."""
    query = (
        select(ItemRow.name, DecisionRow.remedy)
        .join(DecisionRow, DecisionRow.item == ItemRow.id)
        .where(ItemRow.study == study, DecisionRow.act == Act.RETURN.value)
        .order_by(DecisionRow.id)
    )
    return tuple((name, remedy) for name, remedy in session.execute(query).all())


def _held(session: Session, row: ItemRow) -> HeldItem:
    query = select(DecisionRow).where(DecisionRow.item == row.id).order_by(DecisionRow.id)
    signatures = tuple(_signature(row, one) for one in session.scalars(query).all())
    item = Item(row.name, bytes.fromhex(row.digest), State(row.state), signatures)
    table = TableBlock.model_validate_json(row.content) if row.content else None
    if content_digest(bytes.fromhex(row.study), row.name, table) != item.digest:
        raise StoreError(
            f"the stored table of {row.name} was altered: it has another digest; restore the store"
        )
    rules = tuple(
        RuleResult(held["rule"], held["table"], Outcome(held["outcome"]), held["what"])
        for held in json.loads(row.rules)
    )
    return HeldItem(item, table, rules, row.turn)


def _signature(item: ItemRow, row: DecisionRow) -> Signature:
    decision = Decision(
        bytes.fromhex(item.study),
        item.name,
        bytes.fromhex(item.digest),
        Act(row.act),
        row.reason,
        row.remedy,
        tuple(json.loads(row.confirmed)),
        row.by,
        row.at,
        row.signature,
    )
    key = bytes.fromhex(row.key)
    try:
        decision.check(key)
    except AuthenticationError as error:
        raise StoreError(f"a stored decision was altered: {error.message}; restore the store") from error
    return Signature(decision, Role(row.role), key)


def _row(session: Session, study: str, held: HeldItem) -> ItemRow:
    query = select(ItemRow).where(
        ItemRow.study == study, ItemRow.name == held.item.name, ItemRow.turn == held.turn
    )
    return session.scalars(query).one()


def _deed(study: str, item: Item, by: str) -> Deed:
    return Deed(DEED_OF[item.state], bytes.fromhex(study), digest=item.digest, by=by, detail=item.name)
