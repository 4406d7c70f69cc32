"""A hostile network: every message altered, replayed or doubled ends in a typed error and changes nothing."""

from dataclasses import replace

import pytest

from cohortsum.crypto.errors import RemoteProtocolError
from cohortsum.protocol.coordinator_states import Opened
from cohortsum.protocol.effects import Audit
from cohortsum.protocol.messages import (
    GateShares,
    Kind,
    Packet,
)
from tests.protocol.consortium import Consortium
from tests.protocol.lies import (
    TO_COORDINATOR,
    TO_SITES,
    VICTIM,
    N,
    altered,
    flip,
    opened,
    resign,
)


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
