"""Checking evidence offline: does it prove that somebody lied, and who?

Nothing is believed for being in the file. Every message is verified under the roster, and the context is derived from the opening again.

**Two messages.** A site or coordinator that follows the protocol signs one message of each of these kinds in a context, at most: states
go one way, answers are repeated from memory as the same bytes, and a restarted process has lost its context. Complaints, aborts, burials
and approvals are left out: they may be signed anew, and do no harm. What differs must be the payload; a second signature over the same one
says nothing else. An opening draws its round id at random, so two with one id, iteration and attempt are two messages in any contexts. A key that is used by two processes, or by a machine that was set back, also signs twice: the proof is about the key.
"""

from collections.abc import Callable, Mapping

from cohortsum.crypto.errors import AuthenticationError, CohortsumError, RemoteProtocolError
from cohortsum.protocol.codec import decode
from cohortsum.protocol.context import context_hash, public_inputs, slot_context
from cohortsum.protocol.envelope import authenticate, open_envelope
from cohortsum.protocol.evidence import Case, Evidence, Finding, Refusal, evidence_from_bytes
from cohortsum.protocol.evidence_dealing import bad_answer, bad_shares
from cohortsum.protocol.evidence_round import About, Broken, broken_round
from cohortsum.protocol.messages import Kind, Opening
from cohortsum.protocol.plan import RoundPlan
from cohortsum.protocol.roster import Role, Roster

ONCE: Mapping[Role, frozenset[Kind]] = {
    Role.COORDINATOR: frozenset(
        {
            Kind.OPENING,
            Kind.ADVERTS,
            Kind.DELIVERY,
            Kind.SURVIVORS,
            Kind.QUORUM,
            Kind.GATE_OPENING,
            Kind.CLOSING,
        }
    ),
    Role.SITE: frozenset(
        {
            Kind.ADVERT,
            Kind.SHARES,
            Kind.MASKED,
            Kind.CONSISTENCY,
            Kind.GATE_SHARES,
            Kind.DATA_SHARES,
        }
    ),
}
"""Kinds of which nobody signs two in one context."""
GATE_SHOWS = "how many people there were at the gate, over all survivors together"
SHARES_SHOW = "single shares that the accused held; of no use to fewer than t sites together"

Reading = Callable[[Evidence, About, Roster, RoundPlan], Broken]


def check_evidence(data: bytes, roster: Roster, plan: RoundPlan) -> Finding | Refusal:
    """Return what evidence proves, or why it proves nothing.

    Args:
        data: the evidence, from anybody.
        roster: the one that the study names, denied identities included: what they signed then is still what happened.
        plan: of the first round of the study.
    """
    try:
        evidence = evidence_from_bytes(data)
        about, broken = accused_by(evidence, roster, plan)
    except CohortsumError as error:
        return Refusal(error.message)
    if broken.check != evidence.check:
        return Refusal(f"the messages break {broken.check}, and the evidence says {evidence.check}")
    key = about.opening.key
    shown = GATE_SHOWS if evidence.holds_gate else SHARES_SHOW if evidence.holds_shares else ""
    return Finding(
        broken.accused,
        evidence.case,
        broken.check,
        broken.sentence,
        evidence.context,
        key.round_id,
        key.iteration,
        key.attempt,
        shown,
    )


def accused_by(evidence: Evidence, roster: Roster, plan: RoundPlan) -> tuple[About, Broken]:
    """Return the attempt and what its messages break, whatever check the evidence names; raises CohortsumError where nothing."""
    about = about_of(evidence, roster, plan)
    return about, _READINGS[evidence.case](evidence, about, roster, plan)


def about_of(evidence: Evidence, roster: Roster, plan: RoundPlan) -> About:
    """Return the attempt that evidence is about; raises AuthenticationError unless its context is that of this study.

    Whoever signed a message under this context had derived it from this very opening.
    """
    context = evidence.opening.context
    try:
        opening = open_envelope(evidence.opening, Opening, context, roster, Role.COORDINATOR)
    except RemoteProtocolError as error:
        raise AuthenticationError(f"the opening is not the coordinator's: {error.message}") from None
    if (opening.study_digest, opening.roster_digest) != (plan.study_digest, plan.roster_digest):
        raise AuthenticationError("the opening is of another study or roster")
    approvals = [approval.digest for approval in opening.approvals]
    batch = (opening.ahead, opening.dealt, opening.slot)
    inputs = public_inputs(opening.plan or plan.digest, approvals, opening.survivors, opening.earlier, *batch)
    if context != context_hash(
        opening.roster_digest, opening.study_digest, opening.key, opening.epoch, inputs
    ):
        raise AuthenticationError("the context does not follow from the opening and this study")
    if not opening.dealt:
        return About(opening, context, context, context)
    return About(opening, context, opening.dealt, slot_context(opening.dealt, opening.slot))


def _two_messages(evidence: Evidence, about: About, roster: Roster, _plan: RoundPlan) -> Broken:
    if len(evidence.messages) != 2 or evidence.ciphertext or evidence.key or evidence.holder:
        raise AuthenticationError("two messages are expected, and nothing else")
    first, second = evidence.messages
    identity = roster.identities.get(first.sender)
    if identity is None or first.kind not in ONCE.get(identity.role, frozenset()):
        raise AuthenticationError("the messages are of a kind that their sender may sign more than once")
    if (first.sender, first.kind) != (second.sender, second.kind):
        raise AuthenticationError("the messages are of two senders or two kinds")
    if (first.context, first.payload) >= (second.context, second.payload):
        raise AuthenticationError("the messages say the same, or are not in order")
    for message in evidence.messages:
        try:
            authenticate(message, roster, identity.role)
        except RemoteProtocolError as error:
            raise AuthenticationError(error.message) from None
    if {first.context, second.context} != {about.context} and not _one_round(evidence):
        raise AuthenticationError("a message is of another attempt than the opening")
    return Broken("M5", identity.id, f"signed two different messages of the kind {first.kind.name}")


def _one_round(evidence: Evidence) -> bool:
    """Return whether the messages are openings under one random round id: the one of the evidence, and another."""
    first, second = (decode(held.kind, held.payload) for held in evidence.messages)
    return (
        evidence.opening in evidence.messages
        and isinstance(first, Opening)
        and isinstance(second, Opening)
        and first.key == second.key
    )


_READINGS: Mapping[Case, Reading] = {
    Case.TWO_MESSAGES: _two_messages,
    Case.BROKEN_ROUND: broken_round,
    Case.BAD_SHARES: bad_shares,
    Case.BAD_ANSWER: bad_answer,
}
