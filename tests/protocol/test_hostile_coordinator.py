"""A hostile coordinator: what one site is shown differently makes the round fail there, by name, and opens no wrong sum."""

import hashlib
from dataclasses import replace

import pytest

from cohortsum.crypto.errors import RemoteProtocolError
from cohortsum.protocol import codec
from cohortsum.protocol.context import context_hash, public_inputs
from cohortsum.protocol.coordinator_states import Opened
from cohortsum.protocol.messages import (
    Adverts,
    Consistency,
    Delivery,
    GateOpening,
    GateShares,
    Kind,
    MaskedInput,
    OpenedGate,
    Opening,
    Packet,
    Quorum,
    Survivors,
)
from tests.protocol.consortium import Consortium
from tests.protocol.lies import (
    VICTIM,
    Change,
    N,
    opened,
    play_with_victim,
    resign,
    victim_check,
)


def opening_with(**changes: object) -> Change:
    def change(consortium: Consortium, packet: Packet) -> Packet:
        return resign(consortium, packet, replace(opened(packet), **changes))  # type: ignore[arg-type]

    return change


def test_an_altered_study_roster_epoch_or_parameter_is_refused_by_the_site_that_is_shown_it() -> None:
    other = hashlib.sha256(b"other").digest()
    assert victim_check(play_with_victim(Kind.OPENING, opening_with(study_digest=other))) == "R0.1"
    assert victim_check(play_with_victim(Kind.OPENING, opening_with(roster_digest=other))) == "R0.2"
    assert victim_check(play_with_victim(Kind.OPENING, opening_with(epoch="2027-01"))) == "R0.7"
    assert victim_check(play_with_victim(Kind.OPENING, opening_with(survivors=(0, 1, 2)))) == "M3"

    def fewer_approvals(consortium: Consortium, packet: Packet) -> Packet:
        message = opened(packet)
        assert isinstance(message, Opening)
        kept = tuple(envelope for envelope in message.approvals if envelope.sender != "site4")
        return resign(consortium, packet, replace(message, approvals=kept))

    assert victim_check(play_with_victim(Kind.OPENING, fewer_approvals)) == "M3"

    def without_own(consortium: Consortium, packet: Packet) -> Packet:
        message = opened(packet)
        assert isinstance(message, Opening)
        kept = tuple(envelope for envelope in message.approvals if envelope.sender != f"site{VICTIM}")
        return resign(consortium, packet, replace(message, approvals=kept))

    assert victim_check(play_with_victim(Kind.OPENING, without_own)) == "R0.1"


def test_a_coordinator_that_hides_the_altered_opening_behind_its_context_gets_masks_that_do_not_cancel() -> (
    None
):
    """The victim is led through a context of its own: its advert belongs to no round of the others."""

    def lie(consortium: Consortium, packet: Packet) -> Packet:
        message = opened(packet)
        assert isinstance(message, Opening)
        kept = tuple(envelope for envelope in message.approvals if envelope.sender != "site4")
        inputs = public_inputs(consortium.plan.digest, [held.digest for held in kept], ())
        plan = consortium.plan
        context = context_hash(plan.roster_digest, plan.study_digest, message.key, plan.epoch, inputs)
        hub = consortium.coordinator.setup.signer
        return Packet(hub.sign(context, replace(message, approvals=kept)))

    consortium = play_with_victim(Kind.OPENING, lie)
    assert [audit.check for audit in consortium.audits] == ["M3"]
    state = consortium.coordinator.state
    assert isinstance(state, Opened)
    assert VICTIM not in state.survivors
    assert state.values.tolist() == consortium.expected(state.survivors)


def test_a_seen_round_is_refused() -> None:
    consortium = Consortium(N)
    consortium.run()
    key = consortium.seen[VICTIM]
    again = Consortium(N)
    again.machines[VICTIM] = again.site(
        VICTIM, seen_rounds=frozenset({(key.round_id, key.iteration, key.attempt)})
    )
    again.run()
    assert victim_check(again) == "R0.3"


def test_altered_adverts_are_refused() -> None:
    def drop_own(consortium: Consortium, packet: Packet) -> Packet:
        message = opened(packet)
        assert isinstance(message, Adverts)
        kept = tuple(envelope for envelope in message.adverts if envelope.sender != f"site{VICTIM}")
        return resign(consortium, packet, Adverts(kept))

    def repeat_one(consortium: Consortium, packet: Packet) -> Packet:
        message = opened(packet)
        assert isinstance(message, Adverts)
        return resign(consortium, packet, Adverts((message.adverts[0], *message.adverts)))

    def too_few(consortium: Consortium, packet: Packet) -> Packet:
        message = opened(packet)
        assert isinstance(message, Adverts)
        return resign(consortium, packet, Adverts(message.adverts[VICTIM : VICTIM + 2]))

    def invented_site(consortium: Consortium, packet: Packet) -> Packet:
        message = opened(packet)
        assert isinstance(message, Adverts)
        envelope = message.adverts[0]
        return resign(consortium, packet, Adverts((replace(envelope, sender="site9"), *message.adverts[1:])))

    def same_keys(consortium: Consortium, packet: Packet) -> Packet:
        message = opened(packet)
        assert isinstance(message, Adverts)
        copied = codec.decode(Kind.ADVERT, message.adverts[VICTIM].payload)
        forged = consortium.signers[0].sign(packet.envelope.context, copied)
        return resign(consortium, packet, Adverts((forged, *message.adverts[1:])))

    assert victim_check(play_with_victim(Kind.ADVERTS, drop_own)) == "R1.1"
    assert victim_check(play_with_victim(Kind.ADVERTS, repeat_one)) == "R1.2"
    assert victim_check(play_with_victim(Kind.ADVERTS, too_few)) in {"R1.6", "R1.7"}
    assert victim_check(play_with_victim(Kind.ADVERTS, invented_site)) == "M1"
    assert victim_check(play_with_victim(Kind.ADVERTS, same_keys)) == "R1.5"


def test_a_different_l1_for_one_site_ends_with_its_shares_refused() -> None:
    """Equivocation of U1: the victim's h1 differs, so nobody takes its shares and it takes nobody's."""

    def without_site4(consortium: Consortium, packet: Packet) -> Packet:
        message = opened(packet)
        assert isinstance(message, Adverts)
        return resign(consortium, packet, Adverts(message.adverts[:4]))

    consortium = play_with_victim(Kind.ADVERTS, without_site4)
    assert {audit.check for audit in consortium.audits} == {"R1.8"}
    state = consortium.coordinator.state
    assert isinstance(state, Opened)
    assert state.survivors == (0, 1, 3, 4)
    assert state.values.tolist() == consortium.expected(state.survivors)


@pytest.mark.parametrize("missing", [0, VICTIM, 4])
def test_a_different_u2_for_one_site_stops_it_or_its_masks(missing: int) -> None:
    def fewer(consortium: Consortium, packet: Packet) -> Packet:
        message = opened(packet)
        assert isinstance(message, Delivery)
        shares = [held for i, held in enumerate(message.shares) if i != missing]
        attached = [held for i, held in enumerate(packet.attachments) if i != missing]
        hub = consortium.coordinator.setup.signer
        envelope = hub.sign(packet.envelope.context, replace(message, shares=tuple(shares)))
        return Packet(envelope, tuple(attached))

    consortium = play_with_victim(Kind.DELIVERY, fewer)
    state = consortium.coordinator.state
    assert isinstance(state, Opened)
    assert VICTIM not in state.survivors
    assert state.values.tolist() == consortium.expected(state.survivors)
    if missing == VICTIM:
        assert consortium.errors[0][1].check == "R2.2"
    else:
        assert "R2" in {audit.check for audit in consortium.audits}  # masked under another transcript


def test_altered_survivors_are_refused() -> None:
    def without_victim(consortium: Consortium, packet: Packet) -> Packet:
        message = opened(packet)
        assert isinstance(message, Survivors)
        return resign(
            consortium, packet, Survivors(tuple(e for e in message.masked if e.sender != f"site{VICTIM}"))
        )

    def too_few(consortium: Consortium, packet: Packet) -> Packet:
        message = opened(packet)
        assert isinstance(message, Survivors)
        return resign(consortium, packet, Survivors(message.masked[VICTIM:]))

    def forged_digest(consortium: Consortium, packet: Packet) -> Packet:
        message = opened(packet)
        assert isinstance(message, Survivors)
        honest = codec.decode(Kind.MASKED, message.masked[0].payload)
        assert isinstance(honest, MaskedInput)
        _, payload = codec.encode(replace(honest, gate_digest=bytes(32)))
        return resign(
            consortium, packet, Survivors((replace(message.masked[0], payload=payload), *message.masked[1:]))
        )

    assert victim_check(play_with_victim(Kind.SURVIVORS, without_victim)) == "R3.2"
    assert victim_check(play_with_victim(Kind.SURVIVORS, too_few)) == "R3.3"
    assert victim_check(play_with_victim(Kind.SURVIVORS, forged_digest)) == "M1"


def test_another_survivor_set_shown_to_one_site_reaches_no_quorum() -> None:
    """Four of five is a legal survivor set, so the victim signs it; its signature belongs to no quorum."""

    def four(consortium: Consortium, packet: Packet) -> Packet:
        message = opened(packet)
        assert isinstance(message, Survivors)
        return resign(consortium, packet, Survivors(message.masked[:4]))

    consortium = play_with_victim(Kind.SURVIVORS, four)
    assert "R3" in {audit.check for audit in consortium.audits}
    assert victim_check(consortium) == "R4.4"


def test_no_two_statements_can_be_signed_in_one_context() -> None:
    consortium = Consortium(N)

    def second_set(index: int, packet: Packet) -> Packet:
        if index == VICTIM and packet.envelope.kind is Kind.QUORUM:
            survivors = next(
                p
                for w, i, p in consortium.log
                if (w, i) == ("site", index) and p.envelope.kind is Kind.SURVIVORS
            )
            message = opened(survivors)
            assert isinstance(message, Survivors)
            with pytest.raises(RemoteProtocolError, match="M5"):
                consortium.machines[index].receive(
                    resign(consortium, survivors, Survivors(message.masked[:4]))
                )
        return packet

    consortium.to_site = second_set
    consortium.run()
    assert isinstance(consortium.coordinator.state, Opened)


def test_a_quorum_that_is_too_small_repeated_or_foreign_opens_nothing() -> None:
    def first(count: int) -> Change:
        def change(consortium: Consortium, packet: Packet) -> Packet:
            message = opened(packet)
            assert isinstance(message, Quorum)
            return resign(consortium, packet, Quorum(message.signatures[:count]))

        return change

    def repeated(consortium: Consortium, packet: Packet) -> Packet:
        message = opened(packet)
        assert isinstance(message, Quorum)
        return resign(consortium, packet, Quorum((message.signatures[0],) * 5))

    def other_statement(consortium: Consortium, packet: Packet) -> Packet:
        forged = consortium.signers[0].sign(packet.envelope.context, Consistency(bytes(32)))
        message = opened(packet)
        assert isinstance(message, Quorum)
        return resign(consortium, packet, Quorum((forged, *message.signatures[1:])))

    assert victim_check(play_with_victim(Kind.QUORUM, first(3))) == "R4.3"
    assert victim_check(play_with_victim(Kind.QUORUM, repeated)) == "R4.1"
    assert victim_check(play_with_victim(Kind.QUORUM, other_statement)) == "R4.4"


def test_a_lie_about_the_opened_gate_is_refused() -> None:
    def changed(what: str) -> Change:
        def change(consortium: Consortium, packet: Packet) -> Packet:
            message = opened(packet)
            assert isinstance(message, GateOpening)
            survivors = dict(message.survivors)
            first = survivors[0]
            if what == "words":  # adds a million people
                words = (int.from_bytes(first.words, "little") + 10**6) % 2**64
                survivors[0] = OpenedGate(words.to_bytes(8, "little"), first.seed)
            elif what == "seed":
                survivors[0] = OpenedGate(first.words, first.seed ^ 1)
            else:
                del survivors[0]
            return resign(consortium, packet, GateOpening(survivors, message.dropped))

        return change

    assert victim_check(play_with_victim(Kind.GATE_OPENING, changed("words"))) == "R4.5"
    assert victim_check(play_with_victim(Kind.GATE_OPENING, changed("seed"))) == "R4.6"
    assert victim_check(play_with_victim(Kind.GATE_OPENING, changed("survivor"))) == "R4.5"


def test_a_wrong_mask_seed_of_a_dropout_is_refused() -> None:
    consortium = Consortium(N)
    consortium.before_send = lambda index, packet: not (index == 4 and packet.envelope.kind is Kind.MASKED)

    def to_site(index: int, packet: Packet) -> Packet:
        if index == VICTIM and packet.envelope.kind is Kind.GATE_OPENING:
            message = opened(packet)
            assert isinstance(message, GateOpening)
            assert set(message.dropped) == {4}
            return resign(consortium, packet, GateOpening(message.survivors, {4: message.dropped[4] ^ 1}))
        return packet

    consortium.to_site = to_site
    consortium.run()
    assert victim_check(consortium) == "R4.7"


def test_a_site_with_a_stricter_floor_stops_where_the_study_would_go_on() -> None:
    for changes, check in (({"min_sites": 6}, "R1.6"), ({"min_participants": 61}, "R4.8")):
        consortium = Consortium(N)
        consortium.machines[VICTIM] = consortium.site(VICTIM, **changes)
        consortium.run()
        assert victim_check(consortium) == check


def test_a_site_is_asked_for_one_kind_of_share_per_peer_only() -> None:
    """Survivors and dropouts are a partition that the site computes; no message can name a peer in both."""
    consortium = Consortium(N)
    consortium.before_send = lambda index, packet: not (index == 4 and packet.envelope.kind is Kind.MASKED)
    consortium.run()
    answers = 0
    for where, _, packet in consortium.log:
        message = opened(packet)
        if where == "coordinator" and isinstance(message, GateShares):
            answers += 1
            assert set(message.gate) == {0, 1, 2, 3}
            assert set(message.mask) == {4}
    assert answers == 4
