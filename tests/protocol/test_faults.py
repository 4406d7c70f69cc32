"""What a network may do to a round without anybody lying: repeat, delay, reorder, cut off some sites, and let them come back.

One case for every message of the round. The sum is that of the survivors, or there is none.
"""

from dataclasses import replace

import pytest

from cohortsum.crypto.errors import RemoteProtocolError
from cohortsum.protocol.coordinator_states import Aborted, Opened
from cohortsum.protocol.effects import Audit, MessageTaken, Proven, Send
from cohortsum.protocol.evidence import Evidence, Finding
from cohortsum.protocol.evidence_check import check_evidence
from cohortsum.protocol.masking import words_digest
from cohortsum.protocol.messages import (
    Abort,
    Advert,
    Adverts,
    Closing,
    Consistency,
    DataShares,
    Delivery,
    GateOpening,
    GateShares,
    Kind,
    MaskedInput,
    Message,
    OpenedGate,
    Packet,
    Quorum,
    Shares,
    Survivors,
    Tombstone,
)
from tests.protocol.consortium import Consortium, protection
from tests.protocol.lies import TO_COORDINATOR, TO_SITES, VICTIM, N, flip, opened, resign

ZERO = bytes(32)
EVERY_KIND = pytest.mark.parametrize("kind", TO_COORDINATOR, ids=lambda kind: kind.name)
COLLECTING = (Kind.ADVERT, Kind.SHARES, Kind.MASKED)
"""Steps that want everybody; of the others a threshold suffices."""


def check_sum(consortium: Consortium, survivors: tuple[int, ...]) -> None:
    """Fail unless the sum of exactly these sites was opened."""
    state = consortium.coordinator.state
    assert isinstance(state, Opened), state
    assert state.survivors == survivors
    assert state.values.tolist() == consortium.expected(survivors)


def check_accuses(consortium: Consortium, evidence: Evidence, accused: str) -> None:
    """Fail unless evidence shows a stranger that somebody signed two messages where one is allowed."""
    found = check_evidence(evidence.to_bytes(), consortium.roster, consortium.plan)
    assert isinstance(found, Finding), found
    assert (found.accused, found.check) == (accused, "M5")


def other_than(message: Message) -> Message:
    """Return another message of the same kind that its sender could have signed."""
    match message:
        case Advert():
            return replace(message, counter=9)
        case Shares():
            return replace(message, adverts_digest=ZERO)
        case MaskedInput():
            return replace(message, data_digest=ZERO)
        case Consistency():
            return Consistency(ZERO)
        case GateShares():
            return replace(message, gate={owner: share ^ 1 for owner, share in message.gate.items()})
        case DataShares():
            return replace(message, data={owner: share ^ 1 for owner, share in message.data.items()})
        case Adverts():
            return replace(message, adverts=message.adverts[:-1])
        case Delivery():
            return replace(message, shares=message.shares[:-1])
        case Survivors():
            return replace(message, masked=message.masked[:-1])
        case Quorum():
            return replace(message, signatures=message.signatures[:-1])
        case GateOpening():
            owner, held = next(iter(message.survivors.items()))
            lie = OpenedGate(flip(held.words, 0), held.seed)
            return replace(message, survivors={**message.survivors, owner: lie})
        case Closing():
            return replace(message, result_digest=ZERO)
        case _:
            raise AssertionError(type(message).__name__)


@EVERY_KIND
def test_the_same_bytes_again_have_no_second_effect_at_once_or_late(kind: Kind) -> None:
    consortium = Consortium(N)
    again: list[Packet] = []

    def to_coordinator(index: int, packet: Packet) -> Packet:
        machine = consortium.coordinator
        if index == VICTIM and packet.envelope.kind is kind:
            consortium.from_coordinator(machine.receive(packet))
            before = machine.state
            assert machine.receive(packet) == ()
            assert machine.state is before
            again.append(packet)
        for earlier in again:
            before = machine.state
            assert machine.receive(earlier) == ()
            assert machine.state is before
        return packet

    consortium.to_coordinator = to_coordinator
    consortium.run()
    assert len(again) == 1
    check_sum(consortium, tuple(range(N)))


def test_an_upload_again_is_added_once() -> None:
    consortium = Consortium(N)
    upload = consortium.drain_uploads
    again: list[int] = []

    def twice(index: int) -> None:
        upload(index)
        machine = consortium.coordinator
        before, digest = machine.state, words_digest(consortium.uploads[index])
        assert machine.uploaded(index, digest) == ()
        assert machine.state is before or machine.state == before
        again.append(index)

    consortium.drain_uploads = twice  # type: ignore[method-assign]
    consortium.run()
    assert sorted(again) == list(range(N))
    check_sum(consortium, tuple(range(N)))


@EVERY_KIND
def test_other_bytes_under_the_same_key_are_refused_and_the_first_kept(kind: Kind) -> None:
    consortium = Consortium(N)
    refused: list[str] = []

    def to_coordinator(index: int, packet: Packet) -> Packet:
        machine = consortium.coordinator
        if index == VICTIM and packet.envelope.kind is kind:
            consortium.from_coordinator(machine.receive(packet))
            before, message = machine.state, other_than(opened(packet))
            other = consortium.signers[index].sign(packet.envelope.context, message)
            proven, audit = machine.receive(Packet(other, packet.attachments))
            assert isinstance(audit, Audit)
            assert isinstance(proven, Proven)
            check_accuses(consortium, proven.evidence, f"site{VICTIM}")
            assert machine.state is before
            refused.append(audit.check)
        return packet

    consortium.to_coordinator = to_coordinator
    consortium.run()
    assert refused == ["M5"]
    check_sum(consortium, tuple(range(N)))


@pytest.mark.parametrize(
    "kind",
    [kind for kind in TO_SITES if kind not in (Kind.OPENING, Kind.CLOSING)],
    ids=lambda kind: kind.name,
)
def test_a_site_that_is_shown_other_bytes_under_the_same_key_keeps_to_the_first(kind: Kind) -> None:
    """An opening has no second: its bytes are what the context is derived from. A closing ends the context; see below."""
    consortium = Consortium(N)
    refused: list[str] = []

    def to_site(index: int, packet: Packet) -> Packet | None:
        machine = consortium.machines[index]
        if index == VICTIM and packet.envelope.kind is kind and not refused:
            consortium.from_site(index, machine.receive(packet))
            before = machine.state
            other = resign(consortium, packet, other_than(opened(packet)))
            with pytest.raises(RemoteProtocolError) as error:
                machine.receive(other)
            (evidence,) = machine.prove(other, consortium.roster)
            check_accuses(consortium, evidence, "hub")
            assert machine.state is before
            refused.append(error.value.check)
            return None
        return packet

    consortium.to_site = to_site
    consortium.run()
    assert refused == ["M5"]
    check_sum(consortium, tuple(range(N)))


@pytest.mark.parametrize("other", [False, True], ids=["same", "other"])
def test_a_closing_again_or_another_one_finds_the_context_over(other: bool) -> None:
    consortium = Consortium(N)
    consortium.run()
    closing = next(
        packet
        for where, index, packet in consortium.log
        if (where, index) == ("site", VICTIM) and packet.envelope.kind is Kind.CLOSING
    )
    machine = consortium.machines[VICTIM]
    before = machine.state
    packet = resign(consortium, closing, other_than(opened(closing))) if other else closing
    with pytest.raises(RemoteProtocolError, match="M4"):
        machine.receive(packet)
    assert machine.state is before
    check_sum(consortium, tuple(range(N)))


@EVERY_KIND
def test_a_message_that_comes_after_its_step_changes_nothing(kind: Kind) -> None:
    """Of a collecting step its site is a dropout; the answers of the others sufficed for a later step, and it counts all the same."""
    consortium = Consortium(N)
    late: list[Packet] = []

    def to_coordinator(index: int, packet: Packet) -> Packet | None:
        if index == VICTIM and packet.envelope.kind is kind:
            late.append(packet)
            return None
        return packet

    consortium.to_coordinator = to_coordinator
    consortium.from_coordinator(consortium.coordinator.open())
    consortium.drain()
    if kind in COLLECTING:
        step = consortium.coordinator.step
        assert step is not None
        consortium.from_coordinator(consortium.coordinator.deadline_passed(step))
    machine = consortium.coordinator
    before = machine.state
    effects = machine.receive(late[0])
    assert machine.state is before
    if kind in COLLECTING:
        assert [type(effect) for effect in effects] == [Audit]
    else:
        assert [type(effect) for effect in effects] == [MessageTaken]
    consortium.to_coordinator = lambda _, packet: packet
    finish(consortium)
    everybody = tuple(range(N))
    check_sum(consortium, tuple(set(everybody) - {VICTIM}) if kind in COLLECTING else everybody)
    assert all(isinstance(effect, Audit) for effect in machine.receive(late[0]))


def finish(consortium: Consortium) -> None:
    """Play on to the end, with every deadline final."""
    while True:
        consortium.drain()
        step = consortium.coordinator.step
        if step is None:
            return
        consortium.from_coordinator(consortium.coordinator.deadline_passed(step))


DUMMIES: dict[Kind, Message] = {
    Kind.MASKED: MaskedInput(ZERO, ZERO, ZERO, ZERO),
    Kind.CONSISTENCY: Consistency(ZERO),
    Kind.GATE_SHARES: GateShares(ZERO, {}, {}),
    Kind.DATA_SHARES: DataShares(ZERO, {}),
    Kind.TOMBSTONE: Tombstone(),
}


@EVERY_KIND
def test_messages_of_later_steps_are_refused_while_a_step_waits(kind: Kind) -> None:
    consortium = Consortium(N)
    refused: list[str] = []

    def to_coordinator(index: int, packet: Packet) -> Packet:
        machine = consortium.coordinator
        if index == VICTIM and packet.envelope.kind is kind:
            for later, message in DUMMIES.items():
                if later is kind or (later in TO_COORDINATOR and later < kind):
                    continue
                before = machine.state
                (audit,) = machine.receive(
                    Packet(consortium.signers[index].sign(packet.envelope.context, message))
                )
                assert isinstance(audit, Audit)
                assert machine.state is before
                refused.append(audit.check)
        return packet

    consortium.to_coordinator = to_coordinator
    consortium.run()
    assert refused
    check_sum(consortium, tuple(range(N)))


FEW, MANY = (2,), (2, 4)
"""One of five may be missing; with two missing, three are left where four are needed."""


class Cut:
    """Sites that are cut off from the first message of a kind on; what they send is on its way until the line is back."""

    def __init__(self, consortium: Consortium, sites: tuple[int, ...], kind: Kind) -> None:
        self._consortium, self._sites, self._kind = consortium, sites, kind
        self._cut: set[int] = set()
        self._held: list[tuple[str, int, Packet]] = []
        consortium.to_coordinator, consortium.to_site = self._to_coordinator, self._to_site
        self.felt = False

    def _to_coordinator(self, index: int, packet: Packet) -> Packet | None:
        if index in self._sites and packet.envelope.kind is self._kind:
            self._cut.add(index)
        return self._through("coordinator", index, packet)

    def _to_site(self, index: int, packet: Packet) -> Packet | None:
        return self._through("site", index, packet)

    def _through(self, where: str, index: int, packet: Packet) -> Packet | None:
        if index not in self._cut:
            return packet
        self.felt = True
        self._held.append((where, index, packet))
        return None

    def heal(self) -> None:
        """Let everything through, first what is on its way; a node repeats its calls, and uploads with them."""
        consortium, held = self._consortium, self._held
        self._sites, self._cut, self._held = (), set(), []
        for where, index, packet in held:
            consortium.queue.append((where, index, packet))
            consortium.drain()
            if packet.envelope.kind is Kind.MASKED and where == "coordinator":
                consortium.at_upload(index, Send(packet, consortium.made[index]))


def cut_off(sites: tuple[int, ...], kind: Kind) -> tuple[Consortium, Cut]:
    """Play until nothing moves without these sites, who had reached a step."""
    consortium = Consortium(N, protection=protection(min_sites=4))
    cut = Cut(consortium, sites, kind)
    consortium.from_coordinator(consortium.coordinator.open())
    consortium.drain()
    assert cut.felt
    return consortium, cut


@EVERY_KIND
@pytest.mark.parametrize("sites", [FEW, MANY], ids=["few", "many"])
def test_sites_that_come_back_before_the_deadline_are_in_the_sum(kind: Kind, sites: tuple[int, ...]) -> None:
    consortium, cut = cut_off(sites, kind)
    cut.heal()
    finish(consortium)
    check_sum(consortium, tuple(range(N)))
    assert consortium.errors == []


@EVERY_KIND
def test_a_few_that_stay_away_are_dropouts_or_not_needed_any_more(kind: Kind) -> None:
    consortium, cut = cut_off(FEW, kind)
    finish(consortium)
    left = tuple(index for index in range(N) if index not in FEW)
    check_sum(consortium, left if kind in COLLECTING else tuple(range(N)))
    cut.heal()  # what comes now is refused and changes nothing
    check_sum(consortium, left if kind in COLLECTING else tuple(range(N)))


@EVERY_KIND
def test_too_many_that_stay_away_end_the_attempt_and_what_comes_then_opens_nothing(kind: Kind) -> None:
    consortium, cut = cut_off(MANY, kind)
    finish(consortium)
    assert isinstance(consortium.coordinator.state, Aborted)
    cut.heal()
    assert isinstance(consortium.coordinator.state, Aborted)
    spent = {index for _, index, packet in consortium.log if packet.envelope.kind is Kind.MASKED}
    assert bool(spent) is (kind not in (Kind.ADVERT, Kind.SHARES))  # before the masked input an abort is free
    abort = [packet for _, _, packet in consortium.log if packet.envelope.kind is Kind.ABORT]
    assert isinstance(opened(abort[0]), Abort)


@pytest.mark.parametrize(
    "kind", [kind for kind in TO_COORDINATOR if kind not in COLLECTING], ids=lambda kind: kind.name
)
def test_named_survivors_are_waited_for_beyond_a_soft_deadline(kind: Kind) -> None:
    """The same set opens as soon as enough of them are back."""
    consortium, cut = cut_off(MANY, kind)
    step = consortium.coordinator.step
    assert step is not None
    assert consortium.coordinator.deadline_passed(step, final=False) == ()
    assert consortium.coordinator.step == step
    cut.heal()
    consortium.drain()
    check_sum(consortium, tuple(range(N)))
