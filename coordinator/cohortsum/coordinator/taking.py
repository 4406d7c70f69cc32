"""What follows from a decision, inside one transaction: states, new contents, the document, the study's state, the audit log."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass

from sqlalchemy.orm import Session

from cohortsum.coordinator.item_rows import Review, add_decision, add_item, move_item, read_items
from cohortsum.coordinator.items import HeldItem, gated_item, state_of, waits_for, with_items
from cohortsum.coordinator.store import ResultRow, ReviewRow, StudyRow, note
from cohortsum.crypto.errors import RefusedError
from cohortsum.protocol.audit import Deed, DeedKind
from cohortsum.report.document import ResultDocument, to_json
from cohortsum.study.definition import FrozenStudy
from cohortsum.study.disclosure.verdict import Gated
from cohortsum.study.release.item import Item, computed_again
from cohortsum.study.release.panel import Panel
from cohortsum.study.release.states import State, Step, after


@dataclass(frozen=True, slots=True)
class Standing:
    """A study whose rounds are over, as the store and the rosters have it now.

    Attributes:
        study: which study.
        state: of the study.
        document: what has left.
        review: what is kept besides.
        items: as they stand.
        panel: who decides.
        seen: name and digest of every content that there ever was.
    """

    study: FrozenStudy
    state: str
    document: ResultDocument
    review: Review
    items: tuple[HeldItem, ...]
    panel: Panel
    seen: frozenset[tuple[str, bytes]]

    def item(self, name: str) -> HeldItem:
        """Return an item by name; raises RefusedError for one that the study does not have."""
        found = next((held for held in self.items if held.item.name == name), None)
        if found is None:
            known = ", ".join(held.item.name for held in self.items)
            raise RefusedError(f"study {self.study.study} has no item '{name}'; there are: {known}")
        return found


def take(session: Session, standing: Standing, held: HeldItem, item: Item, gated: Gated | None) -> None:
    """Keep a decision and all that follows from it.

    Args:
        session: the transaction.
        standing: before the decision.
        held: the item it is about, before.
        item: the item after it.
        gated: for a return, all tables as they would be with its remedy; else None.

    Raises:
        RefusedError: a return changes nothing, or would have to change what has left.
    """
    study, signature = standing.study.digest.hex(), item.signatures[-1]
    by = signature.decision.by
    add_decision(session, study, held, signature)
    move_item(session, study, held.with_item(item), by)
    if gated is not None:
        for place, made in _made(standing, item, gated).items():
            if place < len(standing.items):
                move_item(session, study, standing.items[place].with_item(_out(standing, place, item)), by)
            add_item(session, study, made, place, by)
    session.flush()
    items = read_items(session, study)
    document = with_items(standing.document, items)
    result = session.get_one(ResultRow, study)
    if document != standing.document:
        result.document = to_json(document)
        session.get_one(ReviewRow, study).written = False
    if document.tables != standing.document.tables:
        digest = hashlib.sha256(result.document).digest()
        note(session, Deed(DeedKind.RESULT_RELEASED, standing.study.digest, digest=digest, by=by))
    row, state = session.get_one(StudyRow, study), state_of(document)
    if row.state != state:
        note(session, Deed(DeedKind.STUDY_OVER, standing.study.digest, detail=state))
    row.state, row.reason = state, waits_for(standing.study, document)


def _out(standing: Standing, place: int, returned: Item) -> Item:
    """Return an item out of the queue, where another content takes its place."""
    item = standing.items[place].item
    if item.name == returned.name:
        return returned
    return Item(item.name, item.digest, after(item.state, Step.RETURN, item.name), item.signatures)


def _made(standing: Standing, returned: Item, gated: Gated) -> Mapping[int, HeldItem]:
    """Return the new contents by their place: of the returned item, and of what the gate changed together with it.

    Raises RefusedError where nothing would change, or a table that has left would have to.
    """
    study, made = standing.study, dict[int, HeldItem]()
    shown = {table.analysis for table in gated.tables}
    places = {held.item.name: place for place, held in enumerate(standing.items)}
    for name in dict.fromkeys((*places, *(table.analysis for table in gated.tables))):
        if name not in places:
            made[len(places) + len(made)] = gated_item(study, name, gated)
            continue
        before = standing.items[places[name]].item
        anew = gated_item(study, name, gated, standing.items[places[name]].turn + 1)
        if name == returned.name:
            if name in shown or gated.of(name):
                computed_again(returned, anew.item.digest)
                made[places[name]] = anew
        elif anew.item.digest != before.digest and before.state is State.QUEUE:
            made[places[name]] = anew
        elif anew.item.digest != before.digest and before.state is State.RELEASED:
            raise RefusedError(
                f"{returned.name}: with that remedy {name}, which is released, would have to change; retract {name} first, or "
                f"withhold {returned.name}"
            )
    for anew in made.values():
        if (anew.item.name, anew.item.digest) in standing.seen:
            raise RefusedError(
                f"{anew.item.name}: that content was looked at and returned before; withhold it"
            )
    return made
