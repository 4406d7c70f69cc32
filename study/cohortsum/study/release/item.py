"""One item of a release, and what a signed decision does to it.

The item is a table with the figures drawn from it; its digest binds the numbers to the study. Whatever is decided is about that
digest: a table that was computed again has another one, and nothing that was signed before counts for it.

========  ===================  ==============================================================================
act       by                   effect
========  ===================  ==============================================================================
release   who the study asks   one signature; the item leaves with the last one that was missing
return    anybody entitled     out of the queue; it comes back with other content, or not at all
withhold  anybody entitled     out of the queue for good
retract   anybody entitled     no longer released; what was fetched before is beyond reach
========  ===================  ==============================================================================
"""

import datetime
from dataclasses import dataclass, replace

from cohortsum.crypto.encoding import digest
from cohortsum.crypto.errors import RefusedError
from cohortsum.protocol.roster import Identity
from cohortsum.study.release.checklist import HUMAN
from cohortsum.study.release.decision import Act, Decision
from cohortsum.study.release.panel import Panel, Signature
from cohortsum.study.release.states import State, Step, after

ITEM = "cohortsum/v1/release-item"
MAX_REASON = 2000
"""Characters of a reason, at most."""
STEPS = {Act.RETURN: Step.RETURN, Act.WITHHOLD: Step.WITHHOLD, Act.RETRACT: Step.RETRACT}


@dataclass(frozen=True, slots=True)
class Item:
    """An item as it stands.

    Attributes:
        name: the table's analysis.
        digest: of its content, 32 bytes.
        state: where it stands.
        signatures: every decision about this content, in the order in which they came.
    """

    name: str
    digest: bytes
    state: State = State.COMPUTED
    signatures: tuple[Signature, ...] = ()


def item_digest(study: bytes, content: bytes) -> bytes:
    """Return what a decision signs: the digest of a study (32 bytes) and of the canonical JSON of one of its tables."""
    return digest(ITEM, study, content)


def checked(item: Item, *, passed: bool, nobody_signs: bool) -> Item:
    """Return a computed item after its checks: withheld by the gate, in the queue, or released where nobody is asked."""
    state = after(item.state, Step.CHECK, item.name)
    state = after(state, Step.PASS if passed else Step.REFUSE, item.name)
    if passed and nobody_signs:
        state = after(state, Step.RELEASE, item.name)
    return replace(item, state=state)


def computed_again(item: Item, content: bytes) -> Item:
    """Return an item that was returned with the digest of its new content, and no signature."""
    if content == item.digest:
        raise RefusedError(f"{item.name}: nothing in it would change; give another remedy, or withhold it")
    return Item(item.name, content, after(item.state, Step.COMPUTE, item.name))


def decided(item: Item, decision: Decision, panel: Panel) -> Item:
    """Return an item after a decision; the very same item where the decision was taken before.

    Raises:
        AuthenticationError: the signature is not that of whom it names.
        RefusedError: it is about another study, item or content, nobody entitled signed it, it lacks something, or the
            item's state has no place for it.
    """
    if (decision.study, decision.item) != (panel.study, item.name):
        raise RefusedError(f"the decision is about another study or item than {item.name}")
    party = panel.parties.get(decision.by)
    if party is None:
        raise RefusedError(
            f"'{decision.by}' does not decide about this study: checkers of the newest roster and sites in the sums do, and never "
            "the statistician who signed it"
        )
    decision.check(party.key)
    if decision.digest != item.digest:
        raise RefusedError(
            f"{item.name}: the decision is about other content than the item has now; look at it again and sign that"
        )
    if any(one.decision == decision and one.key == party.key for one in item.signatures):
        return item
    _complete(decision)
    signed = (*item.signatures, Signature(decision, party.role, party.key))
    if decision.act is not Act.RELEASE:
        return replace(item, state=after(item.state, STEPS[decision.act], item.name), signatures=signed)
    released = after(item.state, Step.RELEASE, item.name)
    _once(item, decision, party, panel)
    return replace(item, state=item.state if panel.missing(signed) else released, signatures=signed)


def _complete(decision: Decision) -> None:
    """Refuse a decision that lacks what its act needs, or says more than it may."""
    act, name = decision.act, decision.item
    if act is not Act.RELEASE and not decision.reason.strip():
        raise RefusedError(f"{name}: to {act} an item needs a reason; give one")
    if len(decision.reason) > MAX_REASON:
        raise RefusedError(f"{name}: a reason has at most {MAX_REASON} characters; shorten it")
    if not all(letter.isprintable() or letter in "\n\t" for letter in decision.reason):
        raise RefusedError(
            f"{name}: a reason is for people to read; leave out characters that cannot be seen"
        )
    if bool(decision.remedy) != (act is Act.RETURN):
        raise RefusedError(f"{name}: a remedy belongs to a return, and a return needs one")
    wanted = HUMAN if act is Act.RELEASE else ()
    if lacking := sorted(set(wanted) - set(decision.confirmed)):
        raise RefusedError(
            f"{name}: not confirmed: {', '.join(lacking)}; a release needs every question answered"
        )
    if decision.confirmed != wanted:
        raise RefusedError(
            f"{name}: confirmed are questions that nobody asks; expected {', '.join(wanted) or 'none'}, sorted, each once"
        )
    try:
        offset = datetime.datetime.fromisoformat(decision.at).utcoffset()
    except ValueError:
        offset = None
    if offset != datetime.timedelta(0):
        raise RefusedError(f"{name}: at: expected a moment in UTC, as 2026-11-30T18:00:00+00:00")


def _once(item: Item, decision: Decision, party: Identity, panel: Panel) -> None:
    """Refuse a second signature of the same person or key, and that of a role whom the study does not ask."""
    if not panel.asks(party.role):
        raise RefusedError(f"{item.name}: this study asks no {party.role} to sign a release")
    if any(
        one.decision.act is Act.RELEASE and (one.decision.by == decision.by or one.key == party.key)
        for one in item.signatures
    ):
        raise RefusedError(f"{item.name}: {decision.by} has signed it already; a person counts once")
