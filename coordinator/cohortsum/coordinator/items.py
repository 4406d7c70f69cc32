"""The items of a study's release: what the gate made of each table, and the document that says which of them left.

Values. The store's rows are in `item_rows`, what a decision changes in `review`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from cohortsum.protocol.audit import DeedKind
from cohortsum.report.document import (
    OUT,
    SCHEMA,
    ItemBlock,
    ResultDocument,
    RuleBlock,
    SignatureBlock,
    TableBlock,
)
from cohortsum.study.definition import FrozenStudy
from cohortsum.study.disclosure.verdict import Gated, Outcome, RuleResult
from cohortsum.study.release.item import Item, checked, item_digest
from cohortsum.study.release.panel import Signature, asked, nobody_signs
from cohortsum.study.release.states import State
from cohortsum.study.results import Table

IN_REVIEW = "in review"
"""State of a study whose rounds are over and whose items wait."""
DEED_OF = {
    State.QUEUE: DeedKind.ITEM_QUEUED,
    State.RELEASED: DeedKind.ITEM_RELEASED,
    State.RETURNED: DeedKind.ITEM_RETURNED,
    State.WITHHELD: DeedKind.ITEM_WITHHELD,
    State.RETRACTED: DeedKind.ITEM_RETRACTED,
}
"""The line of the audit log for the state that an item comes into; the states before the queue are passed at once."""


@dataclass(frozen=True, slots=True)
class HeldItem:
    """An item with its content.

    Attributes:
        item: name, digest, state and signatures.
        table: as it may be shown; None where the gate let nothing through.
        rules: what the rules found in it.
        turn: which computing of it this is, from 1.
    """

    item: Item
    table: TableBlock | None
    rules: tuple[RuleResult, ...]
    turn: int = 1

    def with_item(self, item: Item) -> "HeldItem":
        """Return the same content in another state."""
        return replace(self, item=item)


def first_items(study: FrozenStudy, tables: Sequence[Table], gated: Gated) -> tuple[HeldItem, ...]:
    """Return the items of a study whose round is over, after their checks.

    Args:
        study: the study.
        tables: of all analyses, before the gate.
        gated: what the gate made of them.
    """
    names = dict.fromkeys(table.analysis for table in (*tables, *gated.tables))
    return tuple(gated_item(study, name, gated) for name in names)


def gated_item(study: FrozenStudy, name: str, gated: Gated, turn: int = 1) -> HeldItem:
    """Return one item after its checks: what the gate let through stands in the queue, or is released if nobody is asked."""
    rules = gated.of(name)
    shown = next((table for table in gated.tables if table.analysis == name), None)
    passed = shown is not None and all(rule.outcome is not Outcome.WITHHELD for rule in rules)
    table = TableBlock.of(shown) if passed and shown is not None else None
    item = Item(name, content_digest(study.digest, name, table))
    return HeldItem(
        checked(item, passed=passed, nobody_signs=nobody_signs(study.release.checkers)), table, rules, turn
    )


def content_digest(study: bytes, name: str, table: TableBlock | None) -> bytes:
    """Return the digest of an item's content; where there is none, of its name."""
    return item_digest(study, name.encode() if table is None else table.canonical())


def with_items(document: ResultDocument, items: Sequence[HeldItem]) -> ResultDocument:
    """Return a document about these items: the tables of the released ones, and of the others name and state.

    Results of rules are those about items that have left, and those that say why one is withheld.
    """
    told = [held for held in items if held.item.state in (*OUT, State.WITHHELD)]
    tables = [held.table for held in items if held.item.state is State.RELEASED and held.table is not None]
    fields = dict(document) | {
        "schema": SCHEMA,
        "rules": tuple(RuleBlock.of(rule) for held in told for rule in held.rules),
        "release": tuple(_block(held.item) for held in items),
        "tables": tuple(tables),
    }
    del fields["schema_id"]
    return ResultDocument.model_validate(fields)


def state_of(document: ResultDocument) -> str:
    """Return the state of a study whose rounds are over: in review while an item waits, then released, or ended if nothing was."""
    states = {item.state for item in document.release}
    if State.QUEUE in states:
        return IN_REVIEW
    return "released" if not states or states & set(OUT) else "ended"


def waits_for(study: FrozenStudy, document: ResultDocument) -> str:
    """Return in a sentence what the items of a study wait for, or why none was released; empty where one was."""
    count = sum(item.state is State.QUEUE for item in document.release)
    if state_of(document) == "ended":
        return "no table is released: all are withheld or were returned"
    if not count:
        return ""
    waiting = f"{count} items wait" if count > 1 else "1 item waits"
    return f"{waiting} for signatures: {asked(study.release.checkers)}"


def _block(item: Item) -> ItemBlock:
    if item.state not in OUT:
        return ItemBlock(item=item.name, state=item.state)
    signatures = tuple(map(signature_block, item.signatures))
    return ItemBlock(item=item.name, state=item.state, digest=item.digest.hex(), signatures=signatures)


def signature_block(signature: Signature) -> SignatureBlock:
    """Return a signature as documents name it."""
    made = signature.decision
    return SignatureBlock(
        by=made.by, role=signature.role.value, act=made.act.value, at=made.at, reason=made.reason
    )
