"""Hostile sites: bad shares, keys, uploads and numbers are attributed and cost their sender, or publish nothing."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from cohortsum.crypto.errors import LocalProtocolError, RemoteProtocolError
from cohortsum.crypto.field import PRIME
from cohortsum.protocol import site
from cohortsum.protocol.coordinator_states import Aborted, Opened
from cohortsum.protocol.effects import RoundOver, Send
from cohortsum.protocol.masking import words_digest
from cohortsum.protocol.messages import (
    Advert,
    GateShares,
    Kind,
    MaskedInput,
    Packet,
)
from cohortsum.protocol.plan import PlannedBlock
from cohortsum.protocol.seeds import HeldShares, pack_shares
from cohortsum.protocol.site_states import Advertised, Over
from cohortsum.protocol.site_states import Masked as SiteMasked
from tests.protocol.consortium import Consortium
from tests.protocol.lies import (
    VICTIM,
    N,
    first_errors,
    opened,
)


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

    def pack(held: Sequence[HeldShares], dealer: int, holder: int, h1: bytes) -> bytes:
        wrong = [HeldShares(one.mask, one.gate, one.data ^ 1) if dealer == 0 else one for one in held]
        return pack_shares(wrong, dealer, holder, h1)

    monkeypatch.setattr(site, "pack_shares", pack)
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
    def pack(held: Sequence[HeldShares], dealer: int, holder: int, h1: bytes) -> bytes:
        packed = pack_shares(held, dealer, holder, h1)
        return packed[:-32] + b"\xff" * 32 if dealer == 0 else packed

    monkeypatch.setattr(site, "pack_shares", pack)
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
            changed: dict[str, Any] = {which: u.to_bytes(32, "little")}
            message = replace(message, **changed)
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
    own = machine.state.own
    effects = machine.abandon("the admin withdrew")
    assert isinstance(effects[0], RoundOver)
    assert isinstance(machine.state, Over)
    assert machine.abandon("again") == ()
    for seed in (own.mask, own.gate, own.data, own.channel):
        with pytest.raises(ValueError, match="wiped"):
            seed.reveal()
    with pytest.raises(RemoteProtocolError, match="M4"):
        machine.receive(packet)
    assert where == "site"
