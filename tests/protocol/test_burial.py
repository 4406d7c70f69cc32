"""Closing an attempt: who signs a tombstone, how many close it, and what a coordinator cannot make of them."""

from dataclasses import replace

import pytest

from cohortsum.crypto.errors import RemoteProtocolError
from cohortsum.protocol.bounds import threshold
from cohortsum.protocol.burial import read_burial
from cohortsum.protocol.coordinator_states import Aborted, Agreeing, Masking, OpeningData, OpeningGate
from cohortsum.protocol.envelope import Signer
from cohortsum.protocol.ledger.tombstones import tombstone_quorum
from cohortsum.protocol.messages import Burial, Envelope, Kind, Packet, Tombstone
from tests.protocol.consortium import Consortium, identity_key, protection
from tests.protocol.lies import opened

N = 7
EVERYBODY = frozenset(range(N))


def ended_at(state: type, colluding: int = 0) -> Consortium:
    """Play until the coordinator reaches a state, abort there, and let everything that is said arrive."""
    consortium = Consortium(N, protection(max_colluding_sites=colluding))
    consortium.from_coordinator(consortium.coordinator.open())
    while consortium.queue and not isinstance(consortium.coordinator.state, state):
        where, index, packet = consortium.queue.popleft()
        if where == "site":
            consortium.at_site(index, packet)
        else:
            consortium.at_coordinator(index, packet)
    assert isinstance(consortium.coordinator.state, state)
    consortium.queue.clear()  # the step's messages are on their way and never arrive
    consortium.from_coordinator(consortium.coordinator.abort("the test ends it"))
    consortium.drain()
    return consortium


def stones(consortium: Consortium) -> set[int]:
    return {
        index
        for where, index, packet in consortium.log
        if where == "coordinator" and packet.envelope.kind is Kind.TOMBSTONE
    }


def burials(consortium: Consortium) -> list[Envelope]:
    return [
        packet.envelope
        for where, _, packet in consortium.log
        if where == "site" and packet.envelope.kind is Kind.BURIAL
    ]


@pytest.mark.parametrize("state", [Masking, Agreeing, OpeningGate])
def test_sites_that_answered_nothing_bury_the_attempt_and_everybody_is_told(state: type) -> None:
    consortium = ended_at(state)
    ended = consortium.coordinator.state
    assert isinstance(ended, Aborted)
    assert ended.closed
    assert stones(consortium) == EVERYBODY
    told = burials(consortium)
    assert len(told) == N
    for envelope in told:
        read_burial(envelope, EVERYBODY, 0, consortium.roster)


def test_a_site_whose_gate_shares_are_out_signs_no_tombstone() -> None:
    consortium = ended_at(OpeningData)
    ended = consortium.coordinator.state
    assert isinstance(ended, Aborted)
    assert not ended.closed
    answered = {
        index
        for where, index, packet in consortium.log
        if where == "coordinator" and packet.envelope.kind is Kind.GATE_SHARES
    }
    assert len(answered) >= threshold(N)
    assert stones(consortium).isdisjoint(answered)
    assert burials(consortium) == []


def burial_of(consortium: Consortium, sites: range, context: bytes | None = None) -> Envelope:
    at = consortium.coordinator.fixed.context
    signed = tuple(consortium.signers[index].sign(context or at, Tombstone()) for index in sites)
    return consortium.coordinator.setup.signer.sign(at, Burial(signed))


@pytest.mark.parametrize("colluding", [0, 1, 2])
def test_exactly_the_quorum_closes_and_one_fewer_does_not(colluding: int) -> None:
    consortium = Consortium(N)
    quorum = tombstone_quorum(N, colluding)
    assert quorum == N - threshold(N) + colluding + 1
    read_burial(burial_of(consortium, range(quorum)), EVERYBODY, colluding, consortium.roster)
    with pytest.raises(RemoteProtocolError, match="B4"):
        read_burial(burial_of(consortium, range(quorum - 1)), EVERYBODY, colluding, consortium.roster)


def test_neither_repetition_nor_strangers_nor_other_contexts_nor_forgeries_count() -> None:
    consortium = Consortium(N)
    quorum, hub = tombstone_quorum(N, 0), consortium.coordinator.setup.signer
    at = consortium.coordinator.fixed.context
    own = consortium.signers[0].sign(at, Tombstone())
    lies = {
        "B4": [
            hub.sign(at, Burial((own,) * quorum)),
            burial_of(consortium, range(quorum)),  # read by somebody whose L1 had other sites
        ],
        "M3": [burial_of(consortium, range(quorum), b"o" * 32)],
        "M1": [
            hub.sign(at, Burial((replace(own, signature=bytes(64)),) * quorum)),
            Signer(consortium.roster.identities["site1"], identity_key("site1")).sign(at, Burial((own,))),
        ],
    }
    for check, envelopes in lies.items():
        for envelope in envelopes:
            advertisers = frozenset({4, 5, 6}) if envelope == lies["B4"][1] else EVERYBODY
            with pytest.raises(RemoteProtocolError) as caught:
                read_burial(envelope, advertisers, 0, consortium.roster)
            assert caught.value.check in (check, "M2"), check


def test_a_tombstone_of_somebody_who_did_not_advertise_is_not_taken() -> None:
    consortium = Consortium(N)
    consortium.down.add(6)
    consortium.from_coordinator(consortium.coordinator.open())
    consortium.drain()
    consortium.from_coordinator(consortium.coordinator.deadline_passed("R0 advertise"))
    consortium.from_coordinator(consortium.coordinator.abort("the test ends it"))
    at = consortium.coordinator.fixed.context
    consortium.at_coordinator(6, Packet(consortium.signers[6].sign(at, Tombstone())))
    assert [audit.check for audit in consortium.audits] == ["B4"]


def test_a_tombstone_before_an_abort_is_not_taken() -> None:
    consortium = Consortium(N)
    consortium.from_coordinator(consortium.coordinator.open())
    at = consortium.coordinator.fixed.context
    consortium.at_coordinator(0, Packet(consortium.signers[0].sign(at, Tombstone())))
    assert [audit.check for audit in consortium.audits] == ["M4"]
    assert opened(Packet(consortium.signers[0].sign(at, Tombstone()))) == Tombstone()
