"""What a transcript proves: all of an honest one, and never more than that of one that its keeper meddled with.

Seven sites advertise and deal; one sends no masked vector. Whoever keeps the messages may alter, drop, double or replace any
of them, also by true ones of another round or of another content that a corrupt sender signed in this one.
"""

from collections.abc import Iterator
from dataclasses import replace
from functools import cache

import pytest

from cohortsum.crypto.errors import RemoteProtocolError
from cohortsum.protocol import codec
from cohortsum.protocol.bounds import threshold
from cohortsum.protocol.coordinator_states import Opened
from cohortsum.protocol.messages import (
    Advert,
    Consistency,
    Envelope,
    Kind,
    MaskedInput,
    Message,
    Opening,
    Packet,
    Shares,
)
from cohortsum.protocol.proof import ProvenRound, Transcript, read_transcript
from tests.protocol.consortium import Consortium, identity_key
from tests.protocol.lies import altered, flip

N, READER, DROPOUT = 7, 2, 5
SURVIVORS = tuple(index for index in range(N) if index != DROPOUT)
LISTS = ("adverts", "shares", "masked", "consistency")
REFUSALS = {"M1", "M2", "M3", "M4", "T1"}
T = threshold(N)


@cache
def played(seed: str) -> Consortium:
    """Return a round that opened over everybody but the dropout; every survivor signed."""
    consortium = Consortium(N, seed=seed)

    def before_send(index: int, packet: Packet) -> bool:
        return (index, packet.envelope.kind) != (DROPOUT, Kind.MASKED)

    consortium.before_send = before_send
    consortium.run()
    state = consortium.coordinator.state
    assert isinstance(state, Opened)
    assert state.survivors == SURVIVORS
    return consortium


@cache
def kept(seed: str = "round") -> Transcript:
    """Return the transcript of a round as an honest coordinator keeps it."""
    log = played(seed).log

    def of(kind: Kind) -> tuple[Envelope, ...]:
        held = {index: packet.envelope for _, index, packet in log if packet.envelope.kind is kind}
        return tuple(envelope for _, envelope in sorted(held.items()))

    return Transcript(
        of(Kind.OPENING)[0],
        of(Kind.ADVERT),
        of(Kind.SHARES),
        of(Kind.MASKED),
        SURVIVORS,
        of(Kind.CONSISTENCY),
    )


def read(transcript: Transcript, own: int = READER) -> ProvenRound:
    consortium = played("round")
    return read_transcript(transcript, own, consortium.plan, consortium.roster)


def refused(transcript: Transcript, own: int = READER) -> str:
    """Return the check that refuses a transcript, or nothing for one that is read."""
    try:
        read(transcript, own)
    except RemoteProtocolError as error:
        return error.check
    return ""


def envelopes(transcript: Transcript, name: str) -> tuple[Envelope, ...]:
    held: tuple[Envelope, ...] = getattr(transcript, name)
    return held


def with_list(transcript: Transcript, name: str, held: tuple[Envelope, ...]) -> Transcript:
    match name:
        case "adverts":
            return replace(transcript, adverts=held)
        case "shares":
            return replace(transcript, shares=held)
        case "masked":
            return replace(transcript, masked=held)
        case _:
            return replace(transcript, consistency=held)


def resigned(envelope: Envelope, message: Message) -> Envelope:
    """Return another message that the sender truly signed in the same round."""
    kind, _ = codec.encode(message)
    assert kind is envelope.kind
    return played("round").signers[played("round").index_of(envelope)].sign(envelope.context, message)


def other_content(envelope: Envelope) -> Envelope:
    """Return what a corrupt sender signs in the place of its message."""
    message = codec.decode(envelope.kind, envelope.payload)
    match message:
        case Advert():
            return resigned(envelope, replace(message, counter=message.counter + 1))
        case Shares():
            return resigned(envelope, replace(message, gate_commitments=flip(message.gate_commitments, 0)))
        case MaskedInput():
            return resigned(envelope, replace(message, data_digest=flip(message.data_digest, 0)))
        case Consistency():
            return resigned(envelope, replace(message, statement=flip(message.statement, 0)))
        case _:
            raise AssertionError(envelope.kind)


def replacements(name: str, place: int) -> Iterator[tuple[str, tuple[Envelope, ...]]]:
    """Yield everything that may stand in the place of one envelope."""
    held, foreign = envelopes(kept(), name), envelopes(kept("other"), name)
    envelope = held[place]
    for where in ("payload", "signature", "context"):
        yield f"altered {where}", (altered(envelope, where),)
    yield "another sender", (replace(envelope, sender=f"site{(place + 1) % N}"),)
    yield "dropped", ()
    yield "doubled", (envelope, envelope)
    yield "of another round", (foreign[place],)
    yield "of another round beside it", (envelope, foreign[place])
    for other in LISTS:
        if other != name:
            yield f"of {other}", (envelopes(kept(), other)[0],)
    if not (name == "masked" and envelope.sender == f"site{READER}"):  # its own second vector it never signed
        yield "of other content", (other_content(envelope),)
        yield "of other content beside it", (envelope, other_content(envelope))


def meddled() -> Iterator[tuple[str, Transcript]]:
    """Yield every transcript with a single envelope altered, dropped, doubled or replaced."""
    for name in LISTS:
        held = envelopes(kept(), name)
        for place in range(len(held)):
            for what, instead in replacements(name, place):
                changed = (*held[:place], *instead, *held[place + 1 :])
                yield f"{name} {place} {what}", with_list(kept(), name, changed)


def check_proves_no_more(found: ProvenRound, what: str) -> None:
    honest = read(kept())
    same = ("key", "context", "masked", "h1", "h2", "counters", "delivered")
    for name in same:
        assert getattr(found, name) == getattr(honest, name), (what, name)
    assert found.survivors in ((), honest.survivors), what
    assert set(found.signatures) <= set(honest.signatures), what
    assert not found.signatures or len(found.signatures) >= T, what
    assert not found.signed or found.survivors == honest.survivors, what
    if not found.signed:
        assert (not found.survivors) or len(found.signatures) >= T, what


def test_an_honest_transcript_proves_survivors_and_signatures() -> None:
    consortium = played("round")
    found = read(kept())
    assert found.key == consortium.coordinator_key
    assert found.context == consortium.coordinator.fixed.context
    assert found.survivors == SURVIVORS
    assert found.delivered == frozenset(range(N))
    assert found.counters == dict.fromkeys(range(N), 0)
    assert found.signed
    assert [index for index, _ in found.signatures] == list(SURVIVORS)
    own = next(envelope for envelope in kept().masked if envelope.sender == f"site{READER}")
    assert found.masked == own.digest
    for index, signature in found.signatures:
        envelope = next(held for held in kept().consistency if held.sender == f"site{index}")
        assert signature == envelope.signature
    message = codec.decode(Kind.CONSISTENCY, kept().consistency[0].payload)
    assert message == Consistency(found.statement)


def test_every_survivor_reads_the_same_round_and_a_dropout_none() -> None:
    views = [read(kept(), index) for index in SURVIVORS]
    assert len({view.masked for view in views}) == len(SURVIVORS)
    assert all(replace(view, masked=b"") == replace(views[0], masked=b"") for view in views)
    assert refused(kept(), DROPOUT) == "T1"


def test_no_single_change_to_an_envelope_proves_more() -> None:
    """Adverts and shares are in what the reader signed: any change is refused. Others are refused or prove less."""
    looked_at, checks, less = 0, set[str](), 0
    honest = read(kept())
    for what, transcript in meddled():
        looked_at += 1
        try:
            found = read(transcript)
        except RemoteProtocolError as error:
            checks.add(error.check)
            continue
        assert what.startswith(("masked", "consistency")), what
        check_proves_no_more(found, what)
        less += found != honest
    assert looked_at == 13 * (7 + 7 + 6 + 6) - 2
    assert checks <= REFUSALS
    assert {"M1", "M3", "M4", "T1"} <= checks
    assert less > 20


@pytest.mark.parametrize("name", LISTS)
@pytest.mark.parametrize("where", ["payload", "signature", "context"])
def test_an_altered_envelope_is_m1(name: str, where: str) -> None:
    for place, envelope in enumerate(held := envelopes(kept(), name)):
        changed = (*held[:place], altered(envelope, where), *held[place + 1 :])
        assert refused(with_list(kept(), name, changed)) == "M1"


@pytest.mark.parametrize("name", ["adverts", "shares"])
def test_a_list_that_the_reader_signed_is_complete_in_order_and_once_each(name: str) -> None:
    held = envelopes(kept(), name)
    for changed in (held[1:], held[:-1], (), held[::-1], (*held, held[-1]), (*held[:2], held[1], *held[2:])):
        assert refused(with_list(kept(), name, changed)) == "T1"


def test_the_opening_is_the_coordinator_s_own_and_of_this_study() -> None:
    hub, opening = played("round").coordinator.setup.signer, kept().opening
    message = codec.decode(opening.kind, opening.payload)
    assert isinstance(message, Opening)
    for where in ("payload", "signature", "context"):
        assert refused(replace(kept(), opening=altered(opening, where))) == "M1"
    assert refused(replace(kept(), opening=kept("other").opening)) == "M3"
    assert refused(replace(kept(), opening=kept().adverts[0])) == "M1"
    assert refused(replace(kept(), opening=hub.sign(opening.context, Consistency(bytes(32))))) == "M4"
    lies = (
        replace(message, key=replace(message.key, attempt=2)),
        replace(message, survivors=SURVIVORS),
        replace(message, approvals=message.approvals[:-1]),
        replace(message, earlier=bytes(32)),
    )
    for lie in lies:
        assert refused(replace(kept(), opening=hub.sign(opening.context, lie))) == "M3"


def test_a_plan_of_another_study_is_m3() -> None:
    consortium = played("round")
    plan = replace(consortium.plan, epoch="2026-12")
    with pytest.raises(RemoteProtocolError, match=r"^M3"):
        read_transcript(kept(), READER, plan, consortium.roster)


def test_without_the_reader_s_own_vector_nothing_is_proven() -> None:
    others = tuple(envelope for envelope in kept().masked if envelope.sender != f"site{READER}")
    assert refused(replace(kept(), masked=others)) == "T1"
    assert refused(replace(kept(), masked=())) == "T1"


def without(*sites: int) -> tuple[Envelope, ...]:
    """Return the R3 signatures without those of some sites."""
    return tuple(held for held in kept().consistency if held.sender not in {f"site{site}" for site in sites})


def test_t_signatures_name_the_survivors_and_one_fewer_does_not() -> None:
    """The reader's own signature is among those that are withheld, so that only the quorum counts."""
    enough = read(replace(kept(), consistency=without(READER)))
    assert len(enough.signatures) == len(SURVIVORS) - 1 == T
    assert (enough.survivors, enough.signed) == (SURVIVORS, True)
    for site in set(SURVIVORS) - {READER}:
        fewer = read(replace(kept(), consistency=without(READER, site)))
        assert (fewer.survivors, fewer.signed, fewer.signatures) == ((), False, ())


def test_a_signature_that_is_doubled_counts_once() -> None:
    few = without(READER, 0)
    assert len(few) == T - 1
    found = read(replace(kept(), consistency=(*few, few[0], few[0])))
    assert (found.survivors, found.signatures) == ((), ())


def test_a_signature_over_another_statement_or_of_a_dropout_does_not_count() -> None:
    few = without(READER, 0)
    statement = read(kept()).statement
    signer = played("round").signers[DROPOUT]
    strange = (
        other_content(kept().consistency[0]),
        signer.sign(kept().opening.context, Consistency(statement)),
    )
    for envelope in strange:
        found = read(replace(kept(), consistency=(*few, envelope)))
        assert (found.survivors, found.signatures) == ((), ())


def test_the_reader_s_own_signature_binds_it_to_survivors_that_too_few_named() -> None:
    own = tuple(held for held in kept().consistency if held.sender == f"site{READER}")
    found = read(replace(kept(), consistency=own))
    assert (found.survivors, found.signed, found.signatures) == (SURVIVORS, True, ())


def test_other_survivors_than_the_ones_that_were_signed_are_none() -> None:
    lists = (
        (),
        SURVIVORS[1:],
        SURVIVORS[:-1],
        SURVIVORS[::-1],
        tuple(range(N)),
        (*SURVIVORS, SURVIVORS[-1]),
        (*SURVIVORS, 99),
        (READER,),
        (DROPOUT,),
    )
    for survivors in lists:
        found = read(replace(kept(), survivors=survivors))
        assert (found.survivors, found.signed, found.signatures) == ((), False, ()), survivors


def test_survivors_whose_vectors_are_withheld_are_not_proven() -> None:
    for place, envelope in enumerate(kept().masked):
        if envelope.sender == f"site{READER}":
            continue
        fewer = (*kept().masked[:place], *kept().masked[place + 1 :])
        found = read(replace(kept(), masked=fewer))
        assert (found.survivors, found.signed, found.signatures) == ((), False, ())


@pytest.mark.parametrize("name", LISTS)
@pytest.mark.parametrize("sender", ["stranger", "hub"])
def test_an_envelope_of_nobody_who_is_a_site_is_m1(name: str, sender: str) -> None:
    envelope = envelopes(kept(), name)[0]
    message = codec.decode(envelope.kind, envelope.payload)
    identity = replace(played("round").roster.coordinator, id=sender, key=identity_key(sender).public)
    strange = type(played("round").coordinator.setup.signer)(identity, identity_key(sender)).sign(
        envelope.context, message
    )
    changed = (*envelopes(kept(), name), strange)
    assert refused(with_list(kept(), name, changed)) == "M1"
