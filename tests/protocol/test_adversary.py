"""A hostile coordinator, sites and network: every lie ends in a typed error, none in a wrong sum.

Every message of a round is mutated, replayed into another round, shown to the wrong step and sent twice with
other bytes; what one site is shown differently (study, roster, parameters, survivors) makes the round fail
there.
"""

import hashlib
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from cohortsum.crypto.errors import LocalProtocolError, RemoteProtocolError
from cohortsum.crypto.field import PRIME
from cohortsum.protocol import codec
from cohortsum.protocol.approvals import approval_context, approve, read_approval
from cohortsum.protocol.context import context_hash, public_inputs
from cohortsum.protocol.coordinator_states import Aborted, Masking, Opened
from cohortsum.protocol.effects import Audit, ContextSpent, Contribute, RoundOver, Send, SiteEffect
from cohortsum.protocol.envelope import Signer
from cohortsum.protocol.masking import words_digest
from cohortsum.protocol.messages import (
    Advert,
    Adverts,
    Approval,
    Consistency,
    Delivery,
    Envelope,
    GateOpening,
    GateShares,
    Kind,
    MaskedInput,
    Message,
    OpenedGate,
    Opening,
    Packet,
    Quorum,
    Survivors,
)
from cohortsum.protocol.plan import PlannedBlock
from cohortsum.protocol.seeds import HeldShares
from cohortsum.protocol.site_states import Advertised, Over
from cohortsum.protocol.site_states import Masked as SiteMasked
from tests.protocol.consortium import Consortium, identity_key, plan_of, protection

Change = Callable[[Consortium, Packet], Packet]
"""What a lying coordinator makes of a packet."""

N = 5
VICTIM = 2
TO_SITES = [
    Kind.OPENING,
    Kind.ADVERTS,
    Kind.DELIVERY,
    Kind.SURVIVORS,
    Kind.QUORUM,
    Kind.GATE_OPENING,
    Kind.CLOSING,
]
TO_COORDINATOR = [
    Kind.ADVERT,
    Kind.SHARES,
    Kind.MASKED,
    Kind.CONSISTENCY,
    Kind.GATE_SHARES,
    Kind.DATA_SHARES,
]


def resign(consortium: Consortium, packet: Packet, message: Message) -> Packet:
    """Return the packet with another message, truly signed by the coordinator: the worst it can do."""
    hub = consortium.coordinator.setup.signer
    return Packet(hub.sign(packet.envelope.context, message), packet.attachments)


def opened(packet: Packet) -> Message:
    return codec.decode(packet.envelope.kind, packet.envelope.payload)


def flip(data: bytes, at: int) -> bytes:
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


def altered(envelope: Envelope, where: str) -> Envelope:
    match where:
        case "payload":
            return replace(envelope, payload=flip(envelope.payload, len(envelope.payload) // 2))
        case "signature":
            return replace(envelope, signature=flip(envelope.signature, 7))
        case _:
            return replace(envelope, context=flip(envelope.context, 3))


def play_with_victim(kind: Kind, change: Change) -> Consortium:
    """Run a round in which the victim is shown ``change(consortium, packet)`` instead of one message."""
    consortium = Consortium(N)

    def to_site(index: int, packet: Packet) -> Packet | None:
        if index == VICTIM and packet.envelope.kind is kind:
            return change(consortium, packet)
        return packet

    consortium.to_site = to_site
    consortium.run()
    return consortium


def first_errors(consortium: Consortium) -> dict[int, RemoteProtocolError]:
    """Return what stopped each site; what it hears afterwards belongs to a round it has left."""
    first: dict[int, RemoteProtocolError] = {}
    for index, error in consortium.errors:
        first.setdefault(index, error)
    return first


def victim_check(consortium: Consortium) -> str:
    """Return the check that stopped the victim; nobody else saw an error and no wrong sum opened."""
    assert {index for index, _ in consortium.errors} == {VICTIM}
    state = consortium.coordinator.state
    if isinstance(state, Opened):
        assert state.values.tolist() == consortium.expected(state.survivors)
    return consortium.errors[0][1].check


@pytest.mark.parametrize("kind", TO_SITES)
@pytest.mark.parametrize("where", ["payload", "signature", "context", "attachment"])
def test_a_message_altered_on_the_way_is_refused_and_changes_nothing(kind: Kind, where: str) -> None:
    if where == "attachment" and kind is not Kind.DELIVERY:
        pytest.skip("only deliveries carry attachments to sites")
    consortium = Consortium(N)
    caught: list[str] = []

    def to_site(index: int, packet: Packet) -> Packet:
        if index == VICTIM and packet.envelope.kind is kind:
            envelope = packet.envelope
            if where == "attachment":
                bad = Packet(envelope, (*packet.attachments[:-1], flip(packet.attachments[-1], 40)))
            else:
                bad = Packet(altered(envelope, where), packet.attachments)
            machine = consortium.machines[index]
            before = machine.state
            with pytest.raises(RemoteProtocolError) as error:
                machine.receive(bad)
            caught.append(error.value.check)
            assert machine.state is before
        return packet

    consortium.to_site = to_site
    consortium.run()
    assert caught == (["R2.4"] if where == "attachment" else ["M1"])
    assert isinstance(consortium.coordinator.state, Opened)  # the true message that followed was taken


@pytest.mark.parametrize("kind", TO_COORDINATOR)
@pytest.mark.parametrize("where", ["payload", "signature", "context"])
def test_a_site_message_altered_on_the_way_leaves_an_audit_line(kind: Kind, where: str) -> None:
    consortium = Consortium(N)
    states: list[bool] = []

    def to_coordinator(index: int, packet: Packet) -> Packet:
        if index == VICTIM and packet.envelope.kind is kind:
            envelope = packet.envelope
            before = consortium.coordinator.state
            bad = Packet(altered(envelope, where), packet.attachments)
            consortium.from_coordinator(consortium.coordinator.receive(bad))
            states.append(consortium.coordinator.state is before)
        return packet

    consortium.to_coordinator = to_coordinator
    consortium.run()
    assert states == [True]
    assert [audit.check for audit in consortium.audits] == ["M1"]
    assert isinstance(consortium.coordinator.state, Opened)


def test_every_message_replayed_into_another_round_is_refused() -> None:
    old, new = Consortium(N, seed="old"), Consortium(N, seed="new")
    old.run()
    replayed = 0
    checks: set[str] = set()

    def to_site(index: int, packet: Packet) -> Packet:
        nonlocal replayed
        machine = new.machines[index]
        for where, receiver, other in old.log:
            if where == "site" and receiver == index and type(machine.state).__name__ != "Idle":
                before = machine.state
                with pytest.raises(RemoteProtocolError) as error:
                    machine.receive(other)
                replayed += 1
                checks.add(error.value.check)
                assert machine.state is before
        return packet

    new.to_site = to_site
    new.run()
    assert replayed > 100
    assert checks <= {"M3", "M4", "M5"}
    assert isinstance(new.coordinator.state, Opened)
    for where, index, packet in old.log:
        if where == "coordinator":
            (audit,) = new.coordinator.receive(packet)
            assert isinstance(audit, Audit)
            assert audit.check == "M3"
            (audit,) = new.coordinator.receive(Packet(packet.envelope))
            assert isinstance(audit, Audit)
            assert audit.sender == f"site{index}"


def test_a_repeated_message_gets_identical_bytes_and_a_different_one_is_refused() -> None:
    consortium = Consortium(N)
    repeated = refused = 0

    def at(index: int, packet: Packet) -> Packet:
        nonlocal repeated, refused
        if index != VICTIM:
            return packet
        machine = consortium.machines[index]
        if type(machine.state).__name__ in ("Idle", "Over"):
            return packet
        for where, receiver, earlier in list(consortium.log):
            if where == "site" and receiver == index:
                once, twice = machine.receive(earlier), machine.receive(earlier)
                assert once == twice
                repeated += 1
                other = resign(consortium, earlier, opened(earlier))
                assert other.envelope == earlier.envelope  # Ed25519 signs deterministically
                with pytest.raises(RemoteProtocolError, match="M5"):
                    machine.receive(Packet(earlier.envelope, (*earlier.attachments, b"more")))
                refused += 1
        return packet

    consortium.to_site = at
    consortium.run()
    assert repeated >= 15
    assert refused == repeated
    assert isinstance(consortium.coordinator.state, Opened)


def test_a_site_that_sends_two_versions_is_held_to_the_first() -> None:
    consortium = Consortium(N)

    def twice(index: int, packet: Packet) -> Packet:
        if index == VICTIM and packet.envelope.kind is not Kind.ADVERT:
            consortium.queue.append(("coordinator", index, packet))
            signer = consortium.signers[index]
            message = opened(packet)
            if isinstance(message, GateShares):
                message = replace(message, gate={owner: share ^ 1 for owner, share in message.gate.items()})
                other = Packet(signer.sign(packet.envelope.context, message))
                consortium.queue.append(("coordinator", index, other))
        return packet

    consortium.to_coordinator = twice
    consortium.run()
    assert isinstance(consortium.coordinator.state, Opened)
    assert {audit.check for audit in consortium.audits} <= {"M5", "M4"}


# What one site is shown differently


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


# Hostile sites


@pytest.mark.parametrize("bad", [1, 2])
def test_wrong_shares_are_attributed_and_survived_up_to_the_threshold(bad: int) -> None:
    consortium = Consortium(N)

    def to_coordinator(index: int, packet: Packet) -> Packet:
        message = opened(packet)
        if index < bad and isinstance(message, GateShares):
            wrong = replace(message, gate={owner: share ^ 1 for owner, share in message.gate.items()})
            return Packet(consortium.signers[index].sign(packet.envelope.context, wrong))
        return packet

    consortium.to_coordinator = to_coordinator
    consortium.run()
    assert [(a.check, a.sender) for a in consortium.audits][:bad] == [
        ("R4.13", f"site{i}") for i in range(bad)
    ]
    assert isinstance(consortium.coordinator.state, Opened if bad == 1 else Aborted)


def test_shares_sealed_wrongly_are_found_before_anything_leaves(monkeypatch: pytest.MonkeyPatch) -> None:
    """A dealer signs one share and seals another: every holder stops at R2.7 and names it."""
    honest = HeldShares.pack

    def pack(self: HeldShares, dealer: int, holder: int, h1: bytes) -> bytes:
        wrong = HeldShares(self.mask, self.gate, self.data ^ 1) if dealer == 0 else self
        return honest(wrong, dealer, holder, h1)

    monkeypatch.setattr(HeldShares, "pack", pack)
    consortium = Consortium(N)
    consortium.run()
    first = first_errors(consortium)
    assert {error.check for error in first.values()} == {"R2.7"}
    assert len(first) == N
    assert all(error.accused == "site0" for error in first.values())
    assert ("R2.7", "site1 complains about site0 (R2.7)") in {
        (a.check, a.sentence) for a in consortium.audits
    }
    assert isinstance(consortium.coordinator.state, Aborted)
    assert not consortium.uploads


def test_a_sealed_share_outside_the_field_is_found_and_names_its_dealer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    honest = HeldShares.pack

    def pack(self: HeldShares, dealer: int, holder: int, h1: bytes) -> bytes:
        packed = honest(self, dealer, holder, h1)
        return packed[:-32] + b"\xff" * 32 if dealer == 0 else packed

    monkeypatch.setattr(HeldShares, "pack", pack)
    consortium = Consortium(N)
    consortium.run()
    first = first_errors(consortium)
    assert len(first) == N
    assert {(error.check, error.accused) for error in first.values()} == {("R2.7", "site0")}
    assert not consortium.uploads


@pytest.mark.parametrize("which", ["channel_key", "mask_key"])
@pytest.mark.parametrize("u", [0, 1, PRIME - 1])
def test_a_key_of_low_order_opens_no_wrong_sum(which: str, u: int) -> None:
    """The advert is refused when it arrives, and the others go on without site 0."""
    consortium = Consortium(N)

    def to_coordinator(index: int, packet: Packet) -> Packet:
        message = opened(packet)
        state = consortium.machines[index].state
        if index == 0 and isinstance(message, Advert) and isinstance(state, Advertised):
            message = replace(message, **{which: u.to_bytes(32, "little")})
            advert = consortium.signers[0].sign(packet.envelope.context, message)
            consortium.machines[0].state = replace(state, advert=advert)
            return Packet(advert)
        return packet

    consortium.to_coordinator = to_coordinator
    consortium.run()
    state = consortium.coordinator.state
    assert [(audit.check, audit.sender) for audit in consortium.audits][:1] == [("M2", "site0")]
    assert isinstance(state, Opened)
    assert state.survivors == (1, 2, 3, 4)
    assert state.values.tolist() == consortium.expected(state.survivors)


def test_an_upload_that_is_not_the_signed_one_makes_its_site_a_dropout() -> None:
    consortium = Consortium(N)
    spoil = consortium.at_upload

    def at_upload(index: int, effect: Send) -> None:
        if index == VICTIM and effect.words is not None:
            effect.words[:1] += np.uint64(1)
        spoil(index, effect)

    consortium.at_upload = at_upload  # type: ignore[method-assign]
    consortium.run()
    state = consortium.coordinator.state
    assert isinstance(state, Opened)
    assert VICTIM not in state.survivors
    assert state.values.tolist() == consortium.expected(state.survivors)


def test_impossible_numbers_of_a_site_publish_nothing() -> None:
    """A site that bypasses its own checks and adds 2**60 shows in a sum out of its possible range."""
    consortium = Consortium(N, blocks=(PlannedBlock("powers", 2, 2**40, "person", ()),))
    honest = consortium.machines[VICTIM].contribute

    def poisoned(people: int, values: NDArray[np.int64]) -> tuple[object, ...]:
        effects = honest(people, values)
        send = effects[1]
        assert isinstance(send, Send)
        assert send.words is not None
        send.words[1:2] += np.uint64(2**60)
        message = opened(send.packet)
        assert isinstance(message, MaskedInput)
        message = replace(message, data_digest=words_digest(send.words))
        signed = consortium.signers[VICTIM].sign(send.packet.envelope.context, message)
        state = consortium.machines[VICTIM].state
        assert isinstance(state, SiteMasked)
        consortium.machines[VICTIM].state = replace(state, masked=signed)
        return effects[0], Send(Packet(signed, send.packet.attachments), send.words)

    consortium.machines[VICTIM].contribute = poisoned  # type: ignore[method-assign, assignment]
    consortium.run()
    state = consortium.coordinator.state
    assert isinstance(state, Aborted)
    assert "impossible numbers" in state.reason


Honest = Callable[[int, NDArray[np.int64]], tuple[object, ...]]


def test_a_site_never_masks_values_that_break_its_plan() -> None:
    consortium = Consortium(N)
    for index, bad in ((0, "bound"), (1, "people"), (2, "shape"), (3, "floor")):
        machine = consortium.machines[index]
        honest = machine.contribute

        def contribute(
            people: int, values: NDArray[np.int64], bad: str = bad, honest: Honest = honest
        ) -> tuple[object, ...]:
            if bad == "bound":
                values[1] = 2**40 * people + 2
            elif bad == "people":
                values[0] += 1
            elif bad == "shape":
                values = values[:-1]
            else:
                people = 0
            with pytest.raises(LocalProtocolError):
                honest(people, values)
            return ()

        machine.contribute = contribute  # type: ignore[method-assign, assignment]
    consortium.run()
    assert isinstance(consortium.coordinator.state, Aborted)
    assert set(consortium.uploads) == {4}


def test_a_site_answers_with_one_vector_per_context() -> None:
    consortium = Consortium(N)
    consortium.run()
    contexts = [
        effect
        for _, _, packet in consortium.log
        for effect in [packet.envelope]
        if effect.kind is Kind.MASKED
    ]
    assert len({envelope.digest for envelope in contexts}) == len(contexts) == N


def test_abandoning_wipes_the_seeds_and_answers_nothing_more() -> None:
    consortium = Consortium(N)
    consortium.from_coordinator(consortium.coordinator.open())
    where, index, packet = consortium.queue.popleft()
    machine = consortium.machines[index]
    machine.receive(packet)
    assert isinstance(machine.state, Advertised)
    attempt = machine.state.attempt
    effects = machine.abandon("the admin withdrew")
    assert isinstance(effects[0], RoundOver)
    assert isinstance(machine.state, Over)
    assert machine.abandon("again") == ()
    for seed in (attempt.seeds.mask, attempt.seeds.gate, attempt.seeds.data, attempt.seeds.channel):
        with pytest.raises(ValueError, match="wiped"):
            seed.reveal()
    with pytest.raises(RemoteProtocolError, match="M4"):
        machine.receive(packet)
    assert where == "site"


# Suppliers


def test_a_block_with_too_few_suppliers_never_travels() -> None:
    blocks = (
        PlannedBlock("bmi", 2, 2**40, "person", (frozenset({"bmi"}),)),
        PlannedBlock("powers", 2, 2**40, "person", (frozenset({"age"}),)),
    )

    def supplies(index: int) -> frozenset[str]:
        return frozenset({"age", "bmi"} if index < 2 else {"age"})

    consortium = Consortium(N, blocks=blocks, items=("age", "bmi"), supplies=supplies)
    consortium.run()
    state = consortium.coordinator.state
    assert isinstance(state, Opened)
    assert [block.name for block in state.blocks] == ["people", "powers"]
    assert all(len(words) == 3 for words in consortium.uploads.values())


def first_three_supply_fiq(index: int) -> frozenset[str]:
    return frozenset({"fiq"} if index < 3 else ())


def fiq_values(index: int, length: int) -> NDArray[np.int64]:
    return np.array([10 + index, *([2**index if index < 3 else 0] * (length - 1))], dtype=np.int64)


def test_a_block_that_loses_its_suppliers_on_the_way_is_signed_by_nobody() -> None:
    blocks = (PlannedBlock("fiq", 2, 2**40, "person", (frozenset({"fiq"}),)),)
    consortium = Consortium(N, blocks=blocks, items=("fiq",), supplies=first_three_supply_fiq)
    consortium.values = fiq_values  # type: ignore[method-assign]
    consortium.before_send = lambda index, packet: not (index == 0 and packet.envelope.kind is Kind.MASKED)
    consortium.run()
    assert isinstance(consortium.coordinator.state, Aborted)
    assert not consortium.signed


def test_a_site_refuses_survivors_that_leave_a_block_too_few_suppliers() -> None:
    """The coordinator's own check is switched off; the sites' holds."""
    blocks = (PlannedBlock("fiq", 2, 2**40, "person", (frozenset({"fiq"}),)),)
    consortium = Consortium(N, blocks=blocks, items=("fiq",), supplies=first_three_supply_fiq)
    consortium.values = fiq_values  # type: ignore[method-assign]
    consortium.before_send = lambda index, packet: not (index == 0 and packet.envelope.kind is Kind.MASKED)
    lenient = consortium.coordinator.setup
    object.__setattr__(lenient, "plan", replace(lenient.plan, protection=protection(min_honest_inputs=1)))
    consortium.run()
    assert {error.check for error in first_errors(consortium).values()} == {"R3.6"}
    assert isinstance(consortium.coordinator.state, Aborted)


def test_an_approval_of_another_study_or_of_unknown_items_is_refused() -> None:
    consortium = Consortium(N)
    signer = consortium.signers[0]
    stranger = replace(plan_of(N, protection()), study_digest=hashlib.sha256(b"x").digest())
    with pytest.raises(RemoteProtocolError, match="M3"):
        read_approval(approve(signer, stranger, "open_data", frozenset()), consortium.plan, consortium.roster)
    plan = consortium.plan
    forged = Approval(plan.study_digest, plan.roster_digest, "open_data", b"\x01")
    signed = signer.sign(approval_context(plan.study_digest, plan.roster_digest), forged)
    with pytest.raises(RemoteProtocolError, match=r"R0\.1"):
        read_approval(signed, plan, consortium.roster)
    with pytest.raises(LocalProtocolError, match=r"R0\.1"):
        approve(signer, plan, "open_data", frozenset({"x"}))


def test_a_key_that_is_not_in_the_roster_signs_nothing() -> None:
    consortium = Consortium(N)
    with pytest.raises(LocalProtocolError, match="M1"):
        Signer(consortium.roster.identities["site0"], identity_key("site1"))


# Bytes


@given(kind=st.sampled_from(list(Kind)), payload=st.binary(max_size=300))
def test_arbitrary_payloads_raise_only_our_error(kind: Kind, payload: bytes) -> None:
    try:
        message = codec.decode(kind, payload)
    except RemoteProtocolError:
        return
    assert codec.encode(message) == (kind, payload)


@given(data=st.binary(max_size=400))
def test_arbitrary_packets_raise_only_our_error(data: bytes) -> None:
    try:
        packet = codec.packet_from_bytes(data)
    except RemoteProtocolError:
        return
    assert codec.packet_to_bytes(packet) == data


def test_every_message_of_a_round_survives_the_wire_and_no_truncation_or_extension_does() -> None:
    consortium = Consortium(4)
    consortium.run()
    kinds: set[Kind] = set()
    for _, _, packet in consortium.log:
        kinds.add(packet.envelope.kind)
        assert codec.packet_from_bytes(codec.packet_to_bytes(packet)) == packet
        payload = packet.envelope.payload
        assert codec.encode(codec.decode(packet.envelope.kind, payload)) == (packet.envelope.kind, payload)
        for broken in (payload[:-1], payload + b"\x00", payload + b"\xfa\x06\x01x"):
            with pytest.raises(RemoteProtocolError, match="M2"):
                codec.decode(packet.envelope.kind, broken)
    assert kinds == set(TO_SITES) | set(TO_COORDINATOR)


def test_no_share_or_seed_shows_in_a_repr() -> None:
    consortium = Consortium(4)
    consortium.run()
    shown = repr([(opened(packet), packet) for _, _, packet in consortium.log])
    for _, _, packet in consortium.log:
        message = opened(packet)
        if isinstance(message, GateShares):
            for share in message.gate.values():
                assert str(share) not in shown
    assert "MaskedInput" in shown


def test_spent_contexts_are_recorded_before_the_vector_leaves() -> None:
    consortium = Consortium(N)
    order: list[str] = []
    honest = consortium.from_site

    def from_site(index: int, effects: tuple[SiteEffect, ...]) -> None:
        if index == VICTIM:
            order.extend(type(effect).__name__ for effect in effects)
        honest(index, effects)

    consortium.from_site = from_site  # type: ignore[method-assign]
    consortium.run()
    assert order == [
        "RoundSeen", "Send", "Send", "Contribute", "ContextSpent", "Send", "SurvivorsSigned", "Send",
        "Answered", "Send", "Answered", "Send", "SetOpened", "RoundOver",
    ]  # fmt: skip
    assert Contribute.__name__ in order
    assert ContextSpent.__name__ in order


def test_a_late_upload_is_not_taken() -> None:
    consortium = Consortium(N)
    consortium.run()
    assert not isinstance(consortium.coordinator.state, Masking)
    (audit,) = consortium.coordinator.uploaded(0, bytes(32))
    assert isinstance(audit, Audit)
    assert audit.check == "R2"


def test_an_envelope_is_the_same_only_if_all_its_bytes_are() -> None:
    envelope = Envelope(bytes(32), Kind.ADVERT, "site0", b"payload", bytes(64))
    others = [
        replace(envelope, context=bytes(31) + b"\x01"),
        replace(envelope, kind=Kind.ADVERTS),
        replace(envelope, sender="site1"),
        replace(envelope, payload=b"payloae"),
        replace(envelope, signature=bytes(63) + b"\x01"),
        replace(envelope, sender="site0p", payload=b"ayload"),
    ]
    assert len({envelope.digest, *(other.digest for other in others)}) == 7
